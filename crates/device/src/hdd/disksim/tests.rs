use super::params::{millionths, read};
use super::*;
use std::fs;

/// A folder with files of this text, which goes with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("nandu-disksim-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        for (file, text) in files {
            fs::write(path.join(file), text).unwrap();
        }
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text_of(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| error.to_string())
}

#[test]
fn files_within_files_blocks_and_lists_are_read() {
    let folder = Folder::new(
        "nest",
        &[
            (
                "a.parv",
                "# a comment\nstats S { Print = 1, Inner = x { b = [ 1, 2 ] } }\nsource b.specs\ninstantiate [ d ] as D\ntopology t u [ v w [] ]\n",
            ),
            ("b.specs", "disk D {\n  Model = source c.model,\n  Long key (ms) = -0.5,\n}\n"),
            ("c.model", "model M { Zones = [ zone { slips = [ 3,\n 4 ] }, zone { slips = [] } ] }"),
        ],
    );
    let blocks = read(&folder.0.join("a.parv"), text_of).unwrap();
    assert_eq!(blocks.iter().map(|b| b.kind.as_str()).collect::<Vec<_>>(), ["stats", "disk"]);
    assert_eq!(blocks[1].millionths("Long key (ms)"), Ok(-500_000));
    let zones = blocks[1].block("Model").unwrap().list("Zones").unwrap();
    let params::Value::Block(zone) = &zones[0] else { panic!("a block") };
    assert_eq!(zone.whole_list("slips"), Ok(vec![3, 4]));
}

#[test]
fn what_is_wrong_is_said_with_its_file() {
    let folder = Folder::new(
        "wrong",
        &[
            ("open.parv", "a B { x = 1"),
            ("none.parv", "a B { x = 1 }"),
            ("lost.parv", "source nowhere.specs"),
            ("self.parv", "source self.parv"),
        ],
    );
    let error = |file: &str| super::read(&folder.0.join(file), text_of).unwrap_err().to_string();
    assert!(error("open.parv").contains("`=` is missing"), "{}", error("open.parv"));
    assert!(error("none.parv").contains("0 disks, one is needed"));
    assert!(error("lost.parv").contains("nowhere.specs"));
    assert!(error("self.parv").contains("files deep"));
}

#[test]
fn numbers_are_read_exactly() {
    for (word, value) in
        [("0.000000", 0), ("1.5", 1_500_000), ("-0.642000", -642_000), ("7", 7_000_000), (".25", 250_000)]
    {
        assert_eq!(millionths(word), Some(value), "{word}");
    }
    for word in ["", "-", "x", "1.x", "1e3", "99999999999999999"] {
        assert_eq!(millionths(word), None, "{word}");
    }
}

/// Two cylinders of two tracks with ten sectors each, two spares, and sector 3 slipped.
#[test]
fn spares_lie_where_each_scheme_has_them() {
    let zone = "zone Z { Number of spares = 2, slips = [ 3 ], defects = [], Empty space at zone front = 0 }";
    let folder = Folder::new("spares", &[("a.parv", zone)]);
    let blocks = read(&folder.0.join("a.parv"), text_of).unwrap();
    let runs = |scheme| {
        let shape = model::Shape { tracks: 4, per_track: 10, heads: 2, scheme, range: 2 };
        model::runs(&blocks[0], &shape)
    };
    let expected: &[(u64, &[(u64, u64)])] = &[
        (0, &[(0, 40)]),
        // Whole tracks slip.
        (1, &[(0, 20)]),
        (2, &[(0, 3), (4, 15), (20, 18)]),
        (3, &[(0, 3), (4, 5), (10, 8), (20, 8), (30, 8)]),
        (4, &[(0, 3), (4, 14), (20, 18)]),
        (5, &[(2, 1), (4, 16), (22, 18)]),
        (6, &[(2, 1), (4, 16), (22, 18)]),
        (7, &[(0, 3), (4, 36)]),
        (8, &[(0, 3), (4, 35)]),
        (9, &[(0, 3), (4, 35)]),
        (10, &[(0, 3), (4, 34)]),
    ];
    for &(scheme, sectors) in expected {
        assert_eq!(runs(scheme).as_deref(), Ok(sectors), "scheme {scheme}");
    }
    let error = runs(11).unwrap_err().to_string();
    assert!(error.contains("`Sparing scheme used = 11` is not from 0 to 10"), "{error}");
}

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

use super::params::{millionths, read};
use super::*;
use nandu_base::Span;
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

/// A disk with these values of keys, and 0 for all others.
fn disk(with: &[(&str, &str)]) -> Vec<params::Block> {
    let keys = [
        "Read hit over. after read",
        "Read hit over. after write",
        "Read miss over. after read",
        "Read miss over. after write",
        "Write miss over. after read",
        "Write miss over. after write",
        "Write hit over. after read",
        "Write hit over. after write",
        "Read disconnect afterread",
        "Read disconnect afterwrite",
        "First reselect overhead",
        "Data preparation overhead",
        "Read completion overhead",
        "Write completion overhead",
        "Bulk sector transfer time",
        "High (read) water mark",
        "Set watermark by reqsize",
        "Never disconnect",
        "Extra write disconnect",
        "Minimum seek delay",
        "Allow write prebuffering",
        "Preseeking level",
        "Maximum read-ahead (blks)",
        "Buffer continuous read",
        "Enable caching in buffer",
        "Number of buffer segments",
        "Read-ahead over requested",
        "Allow read hits on write data",
        "Use separate write segment",
        "Read-ahead on idle hit",
        "Allow almost read hits",
        "Read any free blocks",
        "Immediate buffer read",
        "Immediate buffer write",
        "Stop prefetch in sector",
    ];
    let value = |key: &str| with.iter().find(|(name, _)| *name == key).map_or("0", |(_, value)| value);
    let lines: Vec<String> = keys.iter().map(|key| format!("{key} = {}", value(key))).collect();
    let text = format!("disksim_disk D {{ {} }}", lines.join(",\n"));
    let name: String = with.iter().flat_map(|(key, value)| [&key[..4], value]).collect();
    let folder = Folder::new(&name.replace([' ', '/'], "_"), &[("disk.parv", &text)]);
    read(&folder.0.join("disk.parv"), text_of).unwrap()
}

/// What is read ahead may take the place of what was asked for (1), or that is gone when the request is done (-1).
#[test]
fn read_ahead_over_what_was_requested_has_three_values() {
    for (value, keeps) in [("0", true), ("1", false), ("-1", false)] {
        let blocks = disk(&[("Enable caching in buffer", "1"), ("Read-ahead over requested", value)]);
        let buffer = model::buffer(&blocks[0], 8).unwrap_or_else(|error| panic!("{value}: {error}"));
        assert_eq!(buffer.keeps_what_was_read, keeps, "{value}");
    }
}

/// A drive that never leaves the bus takes no time to leave it and to come back, and sends what it has at once.
#[test]
fn a_drive_that_never_disconnects_stays_on_the_bus() {
    let times = [
        ("Read disconnect afterread", "0.1"),
        ("Read disconnect afterwrite", "0.2"),
        ("First reselect overhead", "0.3"),
        ("Set watermark by reqsize", "1"),
        ("High (read) water mark", "0.5"),
        ("Extra write disconnect", "1"),
    ];
    for (stays, leaves) in [("0", false), ("1", true)] {
        let mut with = times.to_vec();
        with.push(("Never disconnect", stays));
        if !leaves {
            with.retain(|(key, _)| *key != "Extra write disconnect");
        }
        let blocks = disk(&with);
        let bus = model::controller(&blocks[0], &blocks).unwrap_or_else(|error| panic!("{stays}: {error}"));
        assert_eq!(bus.reselect == Span::ZERO, leaves, "{stays}");
        assert_eq!(bus.read_disconnect.read == Span::ZERO, leaves, "{stays}");
        assert_eq!(bus.read_watermark_ppm == 0, leaves, "{stays}");
        assert!(bus.extra_disconnect.is_none(), "{stays}");
    }
}

//! `nandu probe` on a stack and on a file.

mod support;

use serde_json::Value;
use support::{good, nandu};

#[test]
fn a_simulated_read_grows_with_its_size() {
    let figures: Value = serde_json::from_str(&good(&["probe", "page-map", "--json"])).unwrap();
    let medians: Vec<u64> =
        figures["sizes"].as_array().unwrap().iter().map(|s| s["p50_ns"].as_u64().unwrap()).collect();
    assert!(medians.windows(2).all(|w| w[0] <= w[1]) && medians[0] < medians[8], "{medians:?}");
    let rates: Vec<u64> =
        figures["depths"].as_array().unwrap().iter().map(|d| d["iops"].as_u64().unwrap()).collect();
    assert!(rates.windows(2).all(|w| w[0] < w[1]), "{rates:?}");
}

#[test]
fn a_file_is_read_and_not_changed() {
    // Not in the folder for temporary files: it may be in memory, where there is no direct I/O.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().join("device");
    std::fs::write(&path, vec![0x5a; 8 << 20]).expect("a file");
    let ran = nandu(&["probe", path.to_str().unwrap(), "--json"]);
    if ran.err.contains("has no direct I/O") {
        eprintln!("skipped: the folder of the build has no direct I/O");
        return;
    }
    assert_eq!(ran.code, 0, "{}", ran.err);
    let figures: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&figures["kind"], figures["sizes"].as_array().unwrap().len()), (&"device".into(), 9));
    assert!(std::fs::read(&path).unwrap().iter().all(|&b| b == 0x5a));
}

#[test]
fn what_cannot_be_probed_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let short = folder.path().join("short");
    std::fs::write(&short, [0; 4096]).expect("a file");
    for (target, says) in [(short.to_str().unwrap(), "4096 bytes"), ("/no/such/device", "No such file")] {
        let ran = nandu(&["probe", target]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""));
        // A folder without direct I/O refuses earlier.
        assert!(ran.err.contains(says) || ran.err.contains("direct I/O"), "{}", ran.err);
    }
}

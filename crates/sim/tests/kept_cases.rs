//! Seeds that failed, kept as cases: docs/how-to/testing.md says how one gets here.

use nandu_sim::verify::{Case, run_case};
use nandu_stack::builtin;
use std::fs;
use std::path::{Path, PathBuf};

/// What the case breaks, if anything.
fn broken(path: &Path, case: &Case) -> Option<String> {
    let report = run_case(case, &builtin(), false).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    report.failure.map(|failure| failure.violation.invariant.to_string())
}

/// Without its bug a case breaks nothing; with it, what it says.
#[test]
fn kept_cases_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let entries = fs::read_dir(&folder).expect("the folder of cases");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{}", folder.display());
    for path in paths {
        let text = fs::read_to_string(&path).expect("a case");
        let case = Case::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        if case.plant.is_some() {
            assert_eq!(broken(&path, &case), case.breaks, "{}, with its bug", path.display());
        }
        let sound = Case { plant: None, ..case };
        assert_eq!(broken(&path, &sound), None, "{}, without a bug", path.display());
    }
}

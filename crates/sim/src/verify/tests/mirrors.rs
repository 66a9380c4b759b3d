//! Mirrors with an operator who scrubs them, swaps their roles and replaces their legs, over power cuts.

use crate::verify::{Shape, VerifyOptions, verify};

fn options(family: &str, seeds: u64) -> VerifyOptions {
    let shape = Shape::named(family).expect("a family");
    VerifyOptions { shape, seeds, crash: true, ..VerifyOptions::default() }
}

/// A number from the environment: more seeds, or others, than a test run takes.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn mirrors_hold_while_an_operator_is_at_work() {
    let all = "mirror-of-files mirror-of-caches hetero-mirror-of-files hetero-mirror-of-unlike";
    let wanted = std::env::var("NANDU_VERIFY_FAMILIES").unwrap_or_else(|_| all.into());
    let mut chores = 0;
    for family in wanted.split(' ') {
        let first_seed = number("NANDU_VERIFY_SEED", 1);
        let options = VerifyOptions { first_seed, ..options(family, number("NANDU_VERIFY_SEEDS", 30)) };
        let report = verify(&options, |_| {}).expect("the seeds can be run");
        for f in &report.failures {
            println!("{family}, seed {}: {} after {} events\n{}", f.seed, f.violation, f.event, f.stack);
        }
        println!("{family}: {} seeds, {} cuts, {} chores", report.seeds, report.crashes, report.chores);
        assert!(report.failures.is_empty(), "{family}: seed {}", report.failures[0].seed);
        chores += report.chores;
    }
    assert!(chores > 50, "{chores} chores");
}

/// The scrub of a leg that lags finds differences that are none, and takes back what was acknowledged.
#[test]
fn a_scrub_of_a_lagging_leg_is_found() {
    let plant = Some("hetero-mirror.scrub-lagging".into());
    let options = VerifyOptions { plant, failures_max: 1, ..options("hetero-mirror-of-unlike", 1500) };
    let report = verify(&options, |_| {}).expect("the seeds can be run");
    assert!(!report.failures.is_empty());
}

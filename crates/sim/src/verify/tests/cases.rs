//! What a seed does and what the list of its steps does are the same.

use crate::replay::Go;
use crate::verify::case_text::EVENTS;
use crate::verify::run::run_case_on;
use crate::verify::{
    Case, CaseError, Family, SeedReport, Shape, ShrinkError, VerifyOptions, case_of, run_case, shrink,
};
use nandu_stack::builtin;

fn options(family: &str) -> VerifyOptions {
    let shape = Shape::named(family).expect("a family");
    VerifyOptions { shape, crash: true, ..VerifyOptions::default() }
}

/// Runs the seeds of a family as drawn and as listed.
pub(super) fn hold(family: &str, seeds: std::ops::Range<u64>) {
    let options = options(family);
    for seed in seeds {
        let (drawn, case) = case_of(&options, seed);
        let case = case.expect("it was written down");
        let read = Case::parse(&case.to_text()).unwrap_or_else(|e| panic!("{family} {seed}: {e}"));
        assert_eq!(read, case, "{family} {seed}");
        let listed = run_case(&case, &builtin(), false).unwrap_or_else(|e| panic!("{family} {seed}: {e}"));
        let what = |r: &SeedReport| {
            let broken = r.failure.as_ref().map(|f| f.violation.to_string());
            (r.digest, r.requests, r.events, r.crashes, r.peeks, r.recoveries, r.chores, r.changes, broken)
        };
        assert_eq!(what(&listed), what(&drawn), "{family}, seed {seed}");
    }
}

#[test]
fn a_listed_seed_does_what_the_drawn_one_did() {
    for (family, seeds) in [
        ("ssd", 12),
        ("ssd-dealing", 8),
        ("ssd-lending", 4),
        ("queue", 4),
        ("mirror", 8),
        ("mirror-of-files", 4),
        ("hybrid-loses-rings", 4),
        ("hybrid-writethrough", 4),
        ("parity-of-leaves", 4),
        ("cache", 4),
    ] {
        hold(family, 0..seeds);
    }
}

/// All families, with more seeds; takes minutes.
#[test]
#[ignore = "takes minutes"]
fn listed_seeds_of_every_family_do_what_the_drawn_ones_did() {
    for (family, _) in Family::ALL {
        hold(family, 0..25);
    }
}

const CASE: &str = "case = 1\nseed = \"7\"\nprecondition = \"empty\"\ndepth = 1\nrest = 0\n\
                    stack = '''\n[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n'''\n";

fn refusal(text: &str) -> String {
    let case = Case::parse(text);
    let error = case.and_then(|case| case.stack(&builtin()).map(drop)).expect_err(text);
    error.to_string()
}

#[test]
fn what_is_wrong_in_a_case_is_named() {
    Case::parse(CASE).and_then(|case| case.stack(&builtin())).expect("it is a case");
    let with = |line: &str| format!("{CASE}{line}\n");
    for (text, words) in [
        (CASE.replace("case = 1", "case = 2"), "version 2"),
        (CASE.replace("\"7\"", "\"seven\""), "`seed`"),
        (CASE.replace("depth = 1", "depth = 0"), "`depth`"),
        (CASE.replace("\"empty\"", "\"fragmented 3/2\""), "`precondition`"),
        (CASE.replace("\"memory\"", "\"paper\""), "paper"),
        (with("colour = 1"), "colour"),
        (with("steps = [{ after = 1, events = 2 }]"), "step 1: it has more than one of `after`"),
        (with("steps = [{}, { ask = { op = \"dance\" } }]"), "step 2: op `dance`"),
        (with("steps = [{ ask = { op = \"read\", len = 100 } }]"), "multiples of"),
        (with("steps = [{ ask = { op = \"read\", offset = 1048576, len = 512 } }]"), "do not fit"),
        (with("steps = [{ ask = { op = \"flush\", export = 3 } }]"), "no export 3"),
        (with("steps = [{ chore = { device = \"m\", do = \"lead\" } }]"), "`lead` is none of"),
        (with("steps = [{ deal = {} }]"), "a deal has"),
        (with("steps = [{ share = { tenant = 9, weight = 1 } }]"), "no tenant 9"),
        (with("steps = [{ share = { tenant = 1, weight = 0 } }]"), "a weight of 0"),
        (with("steps = [{ after = 9000000000000000000 }]"), "step 1: 9000000000000000000 nanoseconds"),
        (with("steps = [{ events = 60000000 }, { events = 60000000 }]"), "step 2: `events` of all steps"),
        (with("steps = [{ peek = { at = 0, drawn = 9000000000 } }]"), "step 1: `drawn` of all steps"),
        (with("close = { drawn = 9000000000, number = 1 }"), "`close`"),
        (format!("{CASE}#{}", "-".repeat(16 << 20)), "bytes"),
    ] {
        let said = refusal(&text);
        assert!(said.contains(words), "{said} does not say {words}");
    }
    assert!(matches!(Case::parse("case = "), Err(CaseError::Text(_))));
}

/// When a deal is left out, those that follow it may ask for a tenant that is not there, or of a drive that has none any more. That breaks nothing, else
/// a smaller case would break another thing than the larger one.
#[test]
fn a_deal_that_another_would_have_made_possible_does_nothing() {
    let of_memory = CASE.to_string();
    let of_drive = CASE.replace(
        "kind = \"memory\"\nsize = \"1 MiB\"\n",
        "kind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 2\nblocks_per_plane = 320\npages_per_block = 32\n\
         spare_factor = 0.5\nreclaim_unit = \"superblock\"\nisolation = { kind = \"shared-space\" }\nmax_tenants = 4\n\
         tenants = [{ name = \"a\", size = \"4 MiB\" }]\n",
    );
    assert_ne!(of_memory, of_drive);
    for (text, deals) in [(of_memory, 0), (of_drive, 1)] {
        let steps = "steps = [{ deal = { tenant = 7, size = 4096 } }, { deal = { tenant = 7 } }, { deal = { size = 8388608 } }]\n";
        let case = Case::parse(&(text + steps)).expect("a case");
        let report = run_case(&case, &builtin(), false).expect("it can be run");
        let broken = report.failure.map(|failure| failure.violation.to_string());
        assert_eq!((broken, report.changes, report.deals), (None, 3, deals));
    }
}

/// Reading back at the end counts too.
#[test]
fn a_case_that_takes_too_long_is_ended() {
    let case = Case::parse(CASE).expect("a case");
    let registry = builtin();
    let (stack, _) = case.stack(&registry).expect("a stack");
    let on = (&stack, &registry);
    let report = run_case_on(&case, on, false, EVENTS).expect("it ends");
    let enough = run_case_on(&case, on, false, report.events).expect("it ends within its own events");
    assert_eq!(enough.events, report.events);
    let ended = run_case_on(&case, on, false, report.events - 1).expect_err("it takes one more");
    assert!(matches!(ended, CaseError::TooLong(_)), "{ended}");
}

/// The first seed that a planted fault fails becomes a case of at most one in `parts` of its requests, which fails in the same way, twice the same,
/// and passes without the fault.
fn shrinks(plant: &str, family: &str, parts: usize) {
    let options = VerifyOptions { plant: Some(plant.into()), ..options(family) };
    let registry = builtin();
    let failing = (0..400).find_map(|seed| {
        let (report, case) = case_of(&options, seed);
        let failure = report.failure.filter(|failure| failure.violation.invariant != "panic")?;
        let case = case.filter(|case| case.requests() >= 150)?;
        Some((failure.violation, case))
    });
    let (violation, case) = failing.expect("the fault is found");
    let shrunk = shrink(&case, &registry, 1500, |_, _| Go::On).unwrap_or_else(|e| panic!("{plant}: {e}"));
    assert_eq!(shrunk.violation.invariant, violation.invariant, "{plant}");
    let text = shrunk.case.to_text();
    let (before, after) = (case.requests(), shrunk.case.requests());
    assert!(
        after * parts <= before,
        "{plant}: {before} requests became {after} in {} runs\n{text}",
        shrunk.runs
    );
    let read = Case::parse(&text).expect("its text is a case");
    assert_eq!(read, shrunk.case);
    let again = [(); 2].map(|()| run_case(&read, &registry, false).expect("it can be run"));
    for report in &again {
        let broken = report.failure.as_ref().map(|failure| failure.violation.to_string());
        assert_eq!(broken, Some(shrunk.violation.to_string()), "{plant}");
    }
    assert_eq!(again[0].events, again[1].events);
    let sound = Case { plant: None, ..read };
    let report = run_case(&sound, &registry, false).expect("it can be run");
    assert!(report.failure.is_none(), "without {plant}: {:?}\n{text}", report.failure);
}

#[test]
fn a_case_of_a_drive_shrinks() {
    // Collection is at work before a block is erased too early.
    shrinks("ssd.erase-too-early", "ssd", 3);
}

#[test]
fn a_case_of_a_mirror_shrinks() {
    shrinks("mirror.flush-one-leg", "mirror", 10);
}

#[test]
fn a_case_of_a_cache_shrinks() {
    shrinks("cache.stale-hit", "cache", 10);
}

#[test]
fn what_does_not_fail_does_not_shrink() {
    let case = Case::parse(CASE).expect("a case");
    let said = shrink(&case, &builtin(), 10, |_, _| Go::On).expect_err("it passes");
    assert!(matches!(said, ShrinkError::Passes), "{said}");
    let two = Case { breaks: Some("I-14".into()), ..case };
    let said = shrink(&two, &builtin(), 10, |_, _| Go::On).expect_err("it takes two runs");
    assert!(matches!(said, ShrinkError::TwoRuns), "{said}");
}

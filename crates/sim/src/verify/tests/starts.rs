//! Starts that are cut over and over: whatever a start does must leave a state from which the next one can start.

use crate::verify::draw::Shape;
use crate::verify::panics::caught;
use crate::verify::plan::{Draws, Plan};
use crate::verify::session::Session;
use nandu_base::Precondition;
use nandu_device::fixture::{SsdTable, ssd};
use nandu_stack::Stack;
use std::collections::BTreeSet;

/// Power cuts in a row after the same number of events of each start.
const TIMES: usize = 24;

/// Runs a seed on a filled stack whose first cut is followed by cuts in a row after `n` events of each start, for all `n`.
fn hold(stack: &str, seed: u64, events: u32) {
    let shape = Shape::File(stack.into());
    let registry = nandu_stack::builtin();
    let parsed = Stack::parse_with(stack, &registry).expect("a stack");
    for n in 0..events {
        let mut plan = Plan::draw(seed, &shape, true, Draws::Patterns, &registry);
        plan.precondition = Precondition::Filled;
        plan.cuts.truncate(1);
        plan.cuts[0].again = vec![n; TIMES];
        let doing = format!("seed {seed}, {TIMES} starts cut after {n} events");
        let planted = BTreeSet::new();
        let outcome = caught(doing.clone(), || {
            let mut session = Session::new(&plan, (&parsed, &registry), &planted)?;
            session.run()
        });
        if let Err(broken) = outcome.and_then(|inner| inner) {
            panic!("{doing}: {broken}");
        }
    }
}

/// Blocks are few and small and hold all that they can, so that each start clears some.
fn drive(options: &str) -> SsdTable {
    ssd("bench-2026").dies(2).blocks(25).page_size(512).spare("32/100").with(options)
}

const QUEUED: &str = "pages_per_block = 4\ngc = { kind = \"greedy\", threshold = 2, mode = \"foreground\" }\ndie_scheduler = { kind = \"out-of-order\" }";
const AT_ONCE: &str = "pages_per_block = 8\ngc = { kind = \"greedy\", threshold = 2, mode = \"foreground\" }";
const SHARED: &str = "pages_per_block = 4\ngc = { kind = \"greedy\", threshold = 2, mode = \"foreground\", separate_frontier = false }";

#[test]
fn a_drive_starts_after_any_number_of_cuts() {
    [QUEUED, AT_ONCE, SHARED].into_iter().for_each(hold_drive);
}

/// A unit may be opened while others of its group are being erased: a start finds no erased one then.
#[test]
fn a_drive_of_wide_units_starts_after_any_number_of_cuts() {
    for options in [QUEUED, AT_ONCE] {
        hold_drive(&format!("{options}\nreclaim_unit = \"superblock\""));
    }
}

fn hold_drive(options: &str) {
    let stack = drive(options).stack();
    for seed in 1..6 {
        hold(&stack, seed, 12);
    }
}

/// What stands above writes its records while it starts, so that drives clear blocks in starts too.
#[test]
fn an_array_starts_after_any_number_of_cuts() {
    let drives = [("ssd1", QUEUED), ("ssd2", AT_ONCE), ("ssd3", QUEUED)]
        .map(|(name, options)| drive(options).blocks(200).dies(3).device(name));
    let array = "[device.array]\nkind = \"parity\"\nlegs = [\"ssd1\", \"ssd2\", \"ssd3\"]\nchunk = 4096\n\
                 journal_size = 98304\ninitial_sync = \"assume-clean\"\n";
    let stack = format!("[export.data]\ndevice = \"array\"\n\n{}\n{array}", drives.join("\n"));
    for seed in 1..3 {
        hold(&stack, seed, 30);
    }
}

//! Small scenes of the paper, each a run: Fig 2, the example of equation (1), and sixteen operations at once.

use super::pair::counter;
use crate::failure::Failure;
use crate::reproduce::runner::{Load, Runner, Setup};
use crate::reproduce::{Findings, Measured};
use nandu_base::{LaneSpan, Precondition, Resource};
use std::collections::BTreeMap;

const FIGURE_2: &str = include_str!("../../../experiments/03-shared-space/figure2.toml");
const SIXTEEN: &str = include_str!("../../../experiments/03-shared-space/sixteen.toml");

/// Pages of all of A's blocks in Fig 2.
const PAGES_OF_A: u64 = 16 * 128;
/// Bytes of a unit of the drive of sixteen planes.
const UNIT: u64 = 16 * 64 * (64 << 10);

fn setup(label: &str, text: &'static str, set: &[(&str, &str)]) -> Setup {
    let set = set.iter().map(|&(path, value)| (path.to_string(), value.to_string())).collect();
    Setup { label: label.into(), text, set }
}

fn put(found: &mut Findings, id: &'static str, case: &str, value: f64, reason: String) {
    found.measured.push(Measured {
        id,
        case: case.into(),
        value: Some(value),
        reason,
        ..Measured::default()
    });
}

/// C3-5, C3-6 and C3-8.
pub fn measure(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    figure_2(runner, found)?;
    equation_1(runner, found)?;
    sixteen_at_once(runner, found)
}

/// C3-5: A writes as many pages as its blocks have, with VSSD and where B and C lend it a free block each.
fn figure_2(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    let alone = setup("vssd", FIGURE_2, &[]);
    let beta = "{ kind = \"shared-space\", contribution = \"1/16\" }";
    let lent = setup("shared", FIGURE_2, &[("device.ssd.isolation", beta)]);
    let load = Load::plain("uniform").with("space", "4 MiB").with("write", "1").cold();
    let load = Load { start: Some(Precondition::Empty), requests: Some(PAGES_OF_A), ..load };
    let results = runner.run(&[alone, lent], &load)?;
    let cleared = |name: &str| counter(&results[name], "gc_blocks_collected");
    let (vssd, shared) = (cleared("vssd"), cleared("shared"));
    let moved = |name: &str| counter(&results[name], "gc_pages_moved");
    let reason = format!(
        "A writes {PAGES_OF_A} pages, as many as its 16 blocks have: with VSSD {vssd} are cleared and {} pages moved, with lending {shared} and {}",
        moved("vssd"),
        moved("shared")
    );
    put(found, "C3-5", "block 0", vssd as f64 - shared as f64, reason);
    let borrowed = counter(&results["shared"], "tenant_1_units_borrowed");
    let reason = format!("A borrowed {borrowed} blocks; B and C contribute one each");
    put(found, "C3-5", "free blocks lent", borrowed as f64, reason);
    Ok(())
}

/// C3-6: what the drive's ledger has as contributions, with 40, 20 and 20 of 100 GB.
fn equation_1(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    let load =
        Load { start: Some(Precondition::Empty), requests: Some(100), ..Load::plain("uniform").cold() };
    let results = runner.run(&[setup("example", SIXTEEN, &[])], &load)?;
    let gib = |units: u64| units as f64 * UNIT as f64 / f64::from(1 << 30);
    let of = |what: &str| -> Vec<f64> {
        let counters = (1..=3).map(|n| counter(&results["example"], &format!("tenant_{n}_units_{what}")));
        counters.map(gib).collect()
    };
    let words = |parts: &[f64]| parts.iter().map(|p| format!("{p}")).collect::<Vec<_>>().join(", ");
    let (allocated, contributed) = (of("allocated"), of("contributed"));
    let reason = format!(
        "the drive has dealt out {} GiB of 100, and its tenants contribute {}",
        words(&allocated),
        words(&contributed)
    );
    put(found, "C3-6", "example", contributed.iter().sum(), reason);
    Ok(())
}

/// The most operations of a kind that were under way at once; one of a whole die counts for all of its planes, which are as many as the lanes of
/// dies have parts.
fn at_once(spans: &[LaneSpan], what: &str) -> u32 {
    let parts = spans.iter().filter(|span| span.resource == Resource::Die).filter_map(|span| span.part);
    let of_a_die = parts.max().map_or(1, |last| last + 1);
    let mut changes: BTreeMap<u64, i64> = BTreeMap::new();
    for span in spans.iter().filter(|span| span.resource == Resource::Die && span.what == what) {
        let planes = span.part.map_or(of_a_die, |_| 1);
        *changes.entry(span.start.0).or_default() += i64::from(planes);
        *changes.entry(span.end.0).or_default() -= i64::from(planes);
    }
    let (mut now, mut most) = (0, 0);
    for change in changes.values() {
        now += change;
        most = most.max(now);
    }
    most as u32
}

/// C3-8: requests of sixteen pages, one at a time, until units are cleared, and what the dies did meanwhile.
fn sixteen_at_once(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    let small = [
        ("device.ssd.blocks_per_plane", "64"),
        ("device.ssd.page_size", "\"4 KiB\""),
        ("device.ssd.pages_per_block", "128"),
        ("device.ssd.tenants", "[{ name = \"all\", size = \"384 MiB\" }]"),
        ("device.ssd.isolation", "{ kind = \"vssd\" }"),
    ];
    let load = Load::plain("uniform").with("space", "384 MiB").with("size", "64 KiB").cold();
    let load = Load { requests: Some(4_000), ..load };
    let lanes = runner.lanes(&setup("sixteen", SIXTEEN, &small), &load)?;
    let spans: Vec<LaneSpan> = lanes.into_iter().flat_map(|device| device.spans).collect();
    for (case, what) in [("reads", "read"), ("programs", "program"), ("erases", "erase")] {
        let many = spans.iter().filter(|span| span.what == what).count();
        let reason = format!("by the lanes of the drive, over {many} spans; 16 planes");
        put(found, "C3-8", case, f64::from(at_once(&spans, what)), reason);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{Instant, Work};

    /// The scenes do not depend on the length of other loads.
    #[test]
    fn the_examples_of_the_paper_come_out() {
        let runner = Runner::small(1_000);
        let mut found = Findings::default();
        measure(&runner, &mut found).expect("the stacks are well formed");
        let value = |id: &str, case: &str| {
            let mut all = found.measured.iter();
            all.find(|m| m.id == id && m.case == case).and_then(|m| m.value).expect("it is measured")
        };
        assert!(value("C3-5", "block 0") >= 1.0 && value("C3-5", "free blocks lent") >= 2.0);
        assert_eq!(value("C3-6", "example"), 8.0);
        for case in ["reads", "programs", "erases"] {
            assert_eq!(value("C3-8", case), 16.0, "{case}");
        }
    }

    #[test]
    fn spans_that_touch_are_not_at_once() {
        let span = |part, what, start, end| LaneSpan {
            resource: Resource::Die,
            lane: 0,
            part,
            what,
            work: Work::Read,
            start: Instant(start),
            end: Instant(end),
        };
        let spans = [
            span(Some(0), "read", 0, 10),
            span(Some(1), "read", 5, 15),
            span(Some(0), "read", 10, 20),
            span(Some(0), "program", 0, 20),
            span(None, "erase", 0, 9),
        ];
        assert_eq!((at_once(&spans, "read"), at_once(&spans, "program")), (2, 1));
        assert_eq!((at_once(&spans, "erase"), at_once(&spans, "move")), (2, 0));
        let wider = [&spans[..], &[span(Some(3), "read", 90, 91)]].concat();
        assert_eq!(at_once(&wider, "erase"), 4, "a die of four planes");
    }
}

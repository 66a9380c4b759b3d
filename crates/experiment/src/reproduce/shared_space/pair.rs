//! Two loads on every arrangement of the drive, steady, in phases, or one of them an adversary, and what collection took there.

use crate::failure::Failure;
use crate::reproduce::runner::{Load, Results, Runner, Setup};
use nandu_sim::RunResult;
use nandu_sim::victims::{self, STEPS};

const STACK: &str = include_str!("../../../experiments/03-shared-space/pair.toml");

/// The pairs of Table 4.
pub const PAIRS: [[&str; 2]; 3] =
    [["financial1", "financial2"], ["webmail", "web-vm"], ["webusers", "online"]];

/// The shares beta that are measured, in percent.
pub const BETAS: [u64; 4] = [5, 10, 20, 30];
/// The share of the paper's example.
pub const BETA: u64 = 10;
/// The shares that are set aside, in percent.
pub const POOLS: [u64; 3] = [10, 20, 30];

/// Dies of the drive.
const DIES: u64 = 20;
/// Blocks of a unit that goes over all planes, and their pages.
const PLANES: u64 = 40;
const PAGES: u64 = 128;
/// Requests of each load from which on tenants have as many units as in Table 4's first row.
const FULL: u64 = 200_000;
/// Units of a tenant where a part of them is set aside: with as many as in Table 4's first row Financial1 is through before it has used what it has
/// spare beside a pool of 20 %.
const BESIDE_POOL: u64 = 128;
/// Cycles of a busy and a quiet phase in a run, where loads come in phases: a tenant then writes about as much in a cycle as it has spare.
const CYCLES: u64 = 5;

/// What is opened and collected as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A block in every plane.
    Superblock,
    /// A block.
    Block,
}

/// Which arrangement of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// One pool of units for all, one queue.
    NoIsolation,
    /// Tenants apart, one queue.
    Ops,
    /// Tenants apart, credits at each channel.
    Vssd,
    /// Tenants apart, behind the scheduler of the proposal.
    VssdBehindCfq,
    /// The proposal with so many percent lent.
    Shared(u64),
    /// The same where lenders keep one erased unit, and have one back when they ask for it.
    Strict,
    /// The proposal with so many percent set aside, of which only what is needed is lent.
    Reserved(u64),
    /// The proposal with a share that follows its worth.
    Adaptive,
    /// Tenants apart, behind the scheduler of the proposal, and an idle drive collects.
    VssdIdle,
    /// The proposal, and an idle drive collects.
    SharedIdle,
    /// Dies of one's own, one queue.
    Dies,
    /// Channels of one's own, one queue.
    Channels,
}

/// What collection took.
#[derive(Clone, Copy, Debug)]
pub struct Collection {
    /// Units cleared.
    pub cleared: u64,
    /// Pages moved.
    pub moved: u64,
    /// Pages of a unit.
    pub pages: u64,
    /// Time of dies, in nanoseconds.
    pub die_ns: u64,
    /// Dies over which a unit goes.
    pub dies: u64,
}

impl Collection {
    /// Of a second in which dies collect, so many of what there are `n` of.
    fn per_second(&self, n: u64) -> f64 {
        n as f64 * 1e9 / self.die_ns as f64
    }

    /// Pages gained in a second.
    pub fn gained(&self) -> f64 {
        self.per_second((self.cleared * self.pages).saturating_sub(self.moved))
    }

    /// Pages moved in a second.
    pub fn moved(&self) -> f64 {
        self.per_second(self.moved)
    }

    /// Units cleared in a second.
    pub fn units(&self) -> f64 {
        self.per_second(self.cleared)
    }

    /// Time of a collection that uses all dies of its unit, in milliseconds.
    pub fn latency_ms(&self) -> f64 {
        self.die_ns as f64 / (self.cleared * self.dies) as f64 / 1e6
    }

    /// Valid pages of a unit that is cleared.
    pub fn valid(&self) -> f64 {
        self.moved as f64 / self.cleared as f64
    }
}

/// What came out for two loads.
pub struct Pair {
    /// The loads.
    pub loads: [&'static str; 2],
    results: Results,
}

fn label(unit: Unit, way: Way) -> String {
    format!("{way:?}, {unit:?}")
}

/// Whether a run is long enough for a part of the units to be set aside.
pub fn may_set_aside(runner: &Runner) -> bool {
    runner.requests >= FULL
}

/// What each tenant has.
#[derive(Clone, Copy, Debug)]
struct Given {
    /// Units, of 20 MiB each.
    units: u64,
    /// MiB that it has exported.
    mib: u64,
}

impl Given {
    /// The units of Table 4, or a quarter, and 85 % of them exported.
    fn of(runner: &Runner) -> Given {
        let units = if runner.requests < FULL { 64 } else { 256 };
        Given { units, mib: units * 17 }
    }

    /// Of what it is given so many percent hold nothing of the tenant: the others are filled to 85 %.
    fn beside_pool(percent: u64) -> Given {
        Given { units: BESIDE_POOL, mib: BESIDE_POOL * 17 * (100 - percent) / 100 }
    }
}

/// The drive with so much for each tenant.
fn setup(Given { units, mib }: Given, unit: Unit, way: Way) -> Setup {
    let size = format!("{mib} MiB");
    let text = |text: &str| format!("\"{text}\"");
    let tenant = |name: &str| format!("{{ name = \"{name}\", size = \"{size}\" }}");
    let mut set = vec![
        ("device.first.size", text(&size)),
        ("device.second.size", text(&size)),
        ("device.second.offset", text(&size)),
        ("device.ssd.blocks_per_plane", (2 * units).to_string()),
        ("device.ssd.spare_factor", text(&format!("{}/{}", units * 20 - mib, units * 20))),
        ("device.ssd.tenants", format!("[{}, {}]", tenant("first"), tenant("second"))),
    ];
    if unit == Unit::Block {
        set.push(("device.ssd.reclaim_unit", text("plane")));
    }
    let one_queue = matches!(way, Way::NoIsolation | Way::Ops | Way::Dies | Way::Channels);
    if one_queue {
        set.push(("device.queue.scheduler", "{ kind = \"noop\" }".into()));
    } else if way != Way::Vssd {
        set.push(("device.queue.scheduler", "{ kind = \"cfq\", slices = \"slo\" }".into()));
    }
    let kind = match way {
        Way::NoIsolation => Some("none"),
        Way::Ops => Some("ops"),
        Way::Dies => Some("die"),
        Way::Channels => Some("channel"),
        _ => None,
    };
    if let Some(kind) = kind {
        set.push(("device.ssd.isolation", format!("{{ kind = \"{kind}\" }}")));
    }
    if one_queue && way != Way::Ops {
        // Units are the drive's or those of whole planes: 5 % of all of them begin collection.
        set.push(("device.ssd.gc", format!("{{ threshold = {} }}", units / 10)));
        set.push(("device.ssd.tenant_gc_threshold", "0".into()));
    }
    if matches!(way, Way::VssdIdle | Way::SharedIdle) {
        // Beyond what a lender keeps there is something to lend.
        set.push(("device.ssd.gc", format!("{{ idle_free_target = {} }}", units / 8)));
    }
    if way == Way::NoIsolation {
        set.push(("device.ssd.tenants", "[]".into()));
    }
    let lending = match way {
        Way::Shared(percent) => Some(format!("contribution = \"{percent}/100\"")),
        Way::SharedIdle => Some(format!("contribution = \"{BETA}/100\"")),
        Way::Strict => {
            Some(format!("contribution = \"{BETA}/100\", reserve_min = 1, return_policy = \"on-demand\""))
        }
        Way::Reserved(percent) => Some(format!("contribution = \"{percent}/100\", pool = \"reserved\"")),
        Way::Adaptive => Some(format!("contribution = \"{BETA}/100\", contribution_max = \"30/100\"")),
        _ => None,
    };
    if let Some(beta) = lending {
        set.push(("device.ssd.isolation", format!("{{ kind = \"shared-space\", {beta} }}")));
    }
    let set = set.into_iter().map(|(path, value)| (path.to_string(), value)).collect();
    Setup { label: label(unit, way), text: STACK, set }
}

impl Pair {
    /// Runs both loads on every arrangement.
    pub fn run(runner: &Runner, loads: [&'static str; 2]) -> Result<Pair, Failure> {
        let wide = [Way::NoIsolation, Way::Ops, Way::Vssd, Way::VssdBehindCfq, Way::Strict, Way::Adaptive];
        let wide = wide.into_iter().chain(BETAS.map(Way::Shared)).map(|way| (Unit::Superblock, way));
        let single = [Way::Vssd, Way::Shared(BETA), Way::Strict, Way::Dies, Way::Channels];
        let ways: Vec<_> = wide.chain(single.map(|way| (Unit::Block, way))).collect();
        let given = Given::of(runner);
        let both = loads.map(|name| laid(given, stand_in(name)));
        Pair::on(runner, given, loads, &ways, both)
    }

    /// Runs both loads with so many percent set aside, and on the same units and data without.
    pub fn with_pool(runner: &Runner, percent: u64, loads: [&'static str; 2]) -> Result<Pair, Failure> {
        let ways = [Way::Vssd, Way::VssdBehindCfq, Way::Shared(percent), Way::Reserved(percent)];
        let given = Given::beside_pool(percent);
        let both = loads.map(|name| laid(given, stand_in(name)));
        Pair::on(runner, given, loads, &ways.map(|way| (Unit::Superblock, way)), both)
    }

    /// Runs both loads in phases, busy in turns.
    pub fn in_phases(runner: &Runner, loads: [&'static str; 2]) -> Result<Pair, Failure> {
        let steady = [Way::Vssd, Way::VssdBehindCfq, Way::Shared(BETA), Way::Adaptive];
        let ways = steady.into_iter().chain([Way::VssdIdle, Way::SharedIdle]);
        let ways: Vec<_> = ways.map(|way| (Unit::Superblock, way)).collect();
        let gap = loads.map(gap_us).into_iter().min().expect("there are two");
        let period = format!("{} us", runner.requests * gap / CYCLES);
        let given = Given::of(runner);
        let load =
            |name, offset| laid(given, stand_in(name)).with("period", period.clone()).with("offset", offset);
        let both = [load(loads[0], "0"), load(loads[1], "1/2")];
        Pair::on(runner, given, loads, &ways, both)
    }

    /// Runs a tenant that overwrites all of its space at random and never rests, beside one that is calm for three fifths of the run, and then
    /// busy for a fifth.
    pub fn adversary(runner: &Runner) -> Result<Pair, Failure> {
        let ways = [Unit::Superblock, Unit::Block]
            .map(|unit| [Way::VssdBehindCfq, Way::Shared(BETA)].map(|way| (unit, way)))
            .concat();
        let given = Given::of(runner);
        let bytes = format!("{} MiB", given.mib);
        let adversary = Load::plain("uniform").with("space", bytes).with("write", "1");
        let adversary = adversary.with("interarrival", "1 ms");
        // A request of its neighbour for four of it; a cycle is four fifths of the run, of which the busy quarter comes last.
        let other = laid(given, stand_in("webmail")).with("offset", "1/4");
        let other = other.with("period", format!("{} us", runner.requests * 800));
        let other = Load { requests: Some((runner.requests / 4).max(1)), ..other };
        Pair::on(runner, given, ["uniform", "webmail"], &ways, [adversary, other])
    }

    fn on(
        runner: &Runner,
        given: Given,
        loads: [&'static str; 2],
        ways: &[(Unit, Way)],
        [first, second]: [Load; 2],
    ) -> Result<Pair, Failure> {
        let setups: Vec<Setup> = ways.iter().map(|&(unit, way)| setup(given, unit, way)).collect();
        let results = runner.together(&setups, &[("first", first), ("second", second)])?;
        Ok(Pair { loads, results })
    }

    /// Both loads in words.
    pub fn name(&self) -> String {
        format!("{} and {}", self.loads[0], self.loads[1])
    }

    /// Of the units that both tenants have cleared, how many percent had at most so many valid pages; `None` where there was none.
    pub fn victims(&self, unit: Unit, way: Way) -> Option<[f64; STEPS]> {
        let layers = &self.result(unit, way).layers;
        let mut all = [0; STEPS];
        for units in [1, 2].into_iter().flat_map(|n| layers.iter().filter_map(move |l| victims::of(l, n))) {
            all.iter_mut().zip(units).for_each(|(all, units)| *all += units);
        }
        victims::shares(&all)
    }

    /// The result of an arrangement.
    pub fn result(&self, unit: Unit, way: Way) -> &RunResult {
        &self.results[&label(unit, way)]
    }

    /// Whether an arrangement was run.
    pub fn has(&self, unit: Unit, way: Way) -> bool {
        self.results.contains_key(&label(unit, way))
    }

    /// All results.
    pub fn results(&self) -> impl Iterator<Item = &RunResult> {
        self.results.values()
    }

    /// What collection took; `None` where there was none.
    pub fn collection(&self, unit: Unit, way: Way) -> Option<Collection> {
        let result = self.result(unit, way);
        let gc = |c: &&nandu_sim::result::Charge| c.resource == "die" && c.work == "gc";
        let charges = result.layers.iter().flat_map(|l| &l.charges);
        let (pages, dies) = match unit {
            Unit::Superblock => (PLANES * PAGES, DIES),
            Unit::Block => (PAGES, 1),
        };
        let collection = Collection {
            cleared: counter(result, "gc_blocks_collected"),
            moved: counter(result, "gc_pages_moved"),
            pages,
            die_ns: charges.filter(gc).map(|c| c.busy_ns).sum(),
            dies,
        };
        (collection.cleared > 0).then_some(collection)
    }
}

/// The stand-in of this name as the experiment takes it: Financial2 with starts that meet Table 3.
pub fn stand_in(name: &'static str) -> Load {
    match name {
        "financial2" => Load::plain(name).with("aligned", "22/25"),
        _ => Load::plain(name),
    }
}

/// Mean time between arrivals of a stand-in, in microseconds.
fn gap_us(name: &str) -> u64 {
    match name {
        "financial1" => 8_200,
        "financial2" => 11_100,
        _ => 4_000,
    }
}

/// A load over all that a tenant has exported, of which an eighth is hot.
fn laid(Given { mib, .. }: Given, load: Load) -> Load {
    load.with("space", format!("{mib} MiB")).with("hot", format!("{} KiB", mib * 128))
}

/// A figure that the drive counts.
pub fn counter(result: &RunResult, name: &str) -> u64 {
    result.layers.iter().filter_map(|l| l.counters.get(name)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_collection_follow_from_its_pages() {
        // Ten blocks of 128 pages, 28 of them moved: a read and a program each, and an erase.
        let die_ns = 10 * (28 * 860_000 + 1_500_000);
        let c = Collection { cleared: 10, moved: 280, pages: 128, die_ns, dies: 1 };
        assert!((c.latency_ms() - 25.58).abs() < 1e-9);
        assert!((c.gained() - 100.0 / 0.025_58).abs() < 1e-6);
        assert!((c.moved() - 28.0 / 0.025_58).abs() < 1e-6 && (c.valid() - 28.0).abs() < 1e-9);
        assert!((c.units() * c.latency_ms() - 1000.0).abs() < 1e-6);
    }
}

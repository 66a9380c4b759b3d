//! What a run drew, and how long its flash lasts.
//!
//! *Energy*: each device's account ([`nandu_base::energy`]) from the start of the measurement to the end of its last request,
//! by state; what is under way then counts whole. Parts without an account (links, the host, the controller of an SSD, a
//! file) are not in the sum.
//!
//! *Lifetime*: a block ends when it has been erased as often as it is made for. At the rate of the measurement a block that is worn like
//! the mean of its region lasts `endurance x blocks / erases` times its length, or as many times what the host wrote in it.
//! Three readings are given, the most careful first: until the *first block* has ended, if the most worn block of a region goes on
//! to be worn as much more than the mean as it is now (`spread`); until the *first region* has, if wear is even within it; and the
//! *mean over cells*: until the wear of all cells, as a share of their endurance, is one on the mean. A region that was not erased
//! does not end first; in the mean its cells count as unworn. With few erases a block the spread is mostly chance, and the first
//! reading too dark; it nears the second as a drive levels its wear.

use crate::decimals;
use nandu_base::{Ask, EnergyPart, Instant, WearRegion};
use nandu_stack::{Graph, Stack};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One state of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EnergyState {
    /// The state, for example `program` or `standby`.
    pub state: &'static str,
    /// What its operations were for.
    pub work: Option<&'static str>,
    /// Operations.
    pub operations: u64,
    /// Time in it, over all parts of the device.
    pub time_ns: u64,
    /// Power of one part in it.
    pub power_uw: u64,
    /// Energy.
    pub energy_nj: u64,
}

/// What the whole stack drew.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EnergyResult {
    /// All of it.
    pub total_nj: u64,
    /// For each request.
    pub per_request_nj: Option<u64>,
    /// For each GiB that the host wrote.
    pub per_written_gib_nj: Option<u64>,
    /// Mean power.
    pub mean_power_uw: Option<u64>,
    /// By state, over all devices.
    pub by_state_nj: BTreeMap<&'static str, u64>,
    /// By what operations were for, over all devices; `rest` for states that nobody asked for.
    pub by_work_nj: BTreeMap<&'static str, u64>,
}

/// How long something lasts at the rate of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Life {
    /// In thousandths of a year of 365.25 days.
    #[serde(rename = "years", serialize_with = "decimals::one")]
    pub years_thousandths: u64,
    /// In bytes that the host writes, JESD218's terabytes written.
    #[serde(rename = "tbw_bytes")]
    pub host_bytes: u64,
    /// DWPD: as often as the host may write all exports full on each of [`WARRANTY_DAYS`] until then, in thousandths; absent where they hold nothing.
    #[serde(rename = "dwpd", serialize_with = "decimals::option")]
    pub dwpd_thousandths: Option<u64>,
}

/// Five years, the warranty over which makers of drives mostly quote DWPD. JESD218 has years of 365 days in it.
pub const WARRANTY_DAYS: u64 = 5 * 365;

/// A region of flash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RegionResult {
    /// The device.
    pub device: String,
    /// The part of it.
    pub region: &'static str,
    /// Bits a cell stores.
    pub bits_per_cell: u32,
    /// Cells.
    pub cells: u64,
    /// Blocks in use.
    pub blocks: u64,
    /// Cycles a block is made for.
    pub endurance: u32,
    /// Erases in the measurement.
    pub erases: u64,
    /// The same for each block, in thousandths.
    #[serde(rename = "erases_per_block", serialize_with = "decimals::one")]
    pub erases_per_block_thousandths: u64,
    /// Erases of the most worn block over the mean, in thousandths, since the device was made; 0 when nothing was erased.
    #[serde(rename = "spread", serialize_with = "decimals::one")]
    pub spread_thousandths: u64,
    /// Whether the most worn block was erased no more often than chance has it: then its wear counts as the mean's.
    pub spread_is_chance: bool,
    /// How long it lasts if wear is even; absent when nothing was erased or nothing wears out.
    pub life: Option<Life>,
    /// How long its most worn block lasts; as long as all of it where [`spread_is_chance`](Self::spread_is_chance).
    pub most_worn: Option<Life>,
}

/// The flash of the whole stack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LifetimeResult {
    /// What the host wrote in the measurement.
    pub host_bytes_written: u64,
    /// Until the first block has ended.
    pub first_block: Option<Life>,
    /// Until the first region has ended, if wear is even within each.
    pub first_region: Option<Life>,
    /// Until the cells are worn on the mean.
    pub mean_over_cells: Option<Life>,
    /// The regions.
    pub regions: Vec<RegionResult>,
}

/// The account of a device from `from` to `to`.
pub(crate) fn states(graph: &mut Graph, node: u32, from: Instant, to: Instant) -> Vec<EnergyState> {
    let parts = graph.report(node, Ask::Energy { from, to }).energy;
    let state = |part: &EnergyPart| EnergyState {
        state: part.state,
        work: part.work.map(|work| work.name()),
        operations: part.operations,
        time_ns: u64::try_from(part.time_ns).unwrap_or(u64::MAX),
        power_uw: part.power.0,
        energy_nj: part.energy.0,
    };
    parts.iter().filter(|part| part.time_ns > 0 || part.operations > 0).map(state).collect()
}

/// The sum of all devices; `None` when none has an account.
pub(crate) fn energy<'a>(
    devices: impl Iterator<Item = &'a [EnergyState]>,
    requests: u64,
    written: u64,
    duration_ns: u64,
) -> Option<EnergyResult> {
    let mut sum = EnergyResult::default();
    for row in devices.flatten() {
        sum.total_nj += row.energy_nj;
        *sum.by_state_nj.entry(row.state).or_default() += row.energy_nj;
        *sum.by_work_nj.entry(row.work.unwrap_or("rest")).or_default() += row.energy_nj;
    }
    if sum.by_state_nj.is_empty() {
        return None;
    }
    let total = u128::from(sum.total_nj);
    let each = |factor: u128, over: u64| (total * factor).checked_div(u128::from(over)).map(|v| v as u64);
    sum.per_request_nj = each(1, requests);
    sum.per_written_gib_nj = each(1 << 30, written);
    sum.mean_power_uw = each(1_000_000, duration_ns);
    Some(sum)
}

/// The flash of all devices; `None` when there is none.
pub(crate) fn lifetime(
    graph: &mut Graph,
    stack: &Stack,
    written: u64,
    duration_ns: u64,
) -> Option<LifetimeResult> {
    let mut found: Vec<(u32, WearRegion)> = Vec::new();
    for node in 0..graph.len() as u32 {
        let regions = graph.report(node, Ask::Wear).wear;
        found.extend(regions.into_iter().map(|region| (node, region)));
    }
    let served: BTreeSet<u32> = stack.exports.iter().map(|export| export.node).collect();
    let capacity = served.iter().map(|&node| graph.limits(node).capacity.0).sum();
    let rate = Rate { written, duration_ns, capacity };
    let regions: Vec<WearRegion> = found.iter().map(|&(_, region)| region).collect();
    (!found.is_empty()).then(|| LifetimeResult {
        host_bytes_written: written,
        first_block: regions.iter().filter_map(|r| rate.most_worn(r)).min_by_key(|l| l.years_thousandths),
        first_region: regions.iter().filter_map(|r| rate.life(r)).min_by_key(|l| l.years_thousandths),
        mean_over_cells: rate.mean_life(&regions),
        regions: found.iter().map(|(node, region)| rate.result(graph.name(*node), region)).collect(),
    })
}

/// Erases a block below which it is asked whether the most worn one is so by chance.
const FEW: u64 = 2;

/// What of so few erases no chance exceeds.
const MOST: u32 = 64;

/// Whether the most worn block of few erases is worn no more than the unluckiest of as many blocks, of which each erase takes any: in one run
/// of twenty that is worn more.
fn is_chance(region: &WearRegion) -> bool {
    let few = region.erases_ever < FEW.saturating_mul(region.blocks);
    few && region.erases_ever > 0 && region.erases_most <= unluckiest(region.blocks, region.erases_ever)
}

/// The erases that the most worn of `blocks` does not exceed in nineteen runs of twenty, when each of `erases` takes any: Poisson's
/// distribution for each block. Sums and products alone, which are the same on every machine.
fn unluckiest(blocks: u64, erases: u64) -> u32 {
    let (blocks, mean) = (blocks as f64, erases as f64 / blocks as f64);
    // e^-mean of a mean below 2, by its series.
    let series = (1..40).fold((1.0, 1.0), |(sum, term): (f64, f64), k| {
        let term = -term * mean / f64::from(k);
        (sum + term, term)
    });
    let mut exactly = series.0;
    let (mut more, mut most) = (1.0 - exactly, 0);
    while more * blocks > 0.05 && most < MOST {
        most += 1;
        exactly *= mean / f64::from(most);
        more -= exactly;
    }
    most
}

/// What was written how fast.
#[derive(Clone, Copy)]
struct Rate {
    written: u64,
    duration_ns: u64,
    /// Bytes that hosts see.
    capacity: u64,
}

/// Parts of the endurance that are told apart.
const WHOLE: u128 = 1_000_000_000_000_000_000;

impl Rate {
    /// The share of its endurance that a region has used.
    fn worn(region: &WearRegion) -> Option<u128> {
        let whole = u128::from(region.endurance) * u128::from(region.blocks);
        (u128::from(region.erases) * WHOLE).checked_div(whole)
    }

    /// How long it takes from one such share to the whole.
    fn until_whole(self, worn: u128) -> Option<Life> {
        let most = u128::from(u64::MAX);
        let times = |of: u64| u128::from(of).saturating_mul(WHOLE).checked_div(worn);
        // A year has 31,557,600 s.
        let years_thousandths = times(self.duration_ns)? / 31_557_600_000_000;
        let host_bytes = times(self.written)?.min(most);
        let dwpd = (host_bytes * 1000).checked_div(u128::from(self.capacity) * u128::from(WARRANTY_DAYS));
        Some(Life {
            years_thousandths: years_thousandths.min(most) as u64,
            host_bytes: host_bytes as u64,
            dwpd_thousandths: dwpd.map(|dwpd| dwpd.min(most) as u64),
        })
    }

    fn life(self, region: &WearRegion) -> Option<Life> {
        self.until_whole(Rate::worn(region)?)
    }

    /// The life of the most worn block, which wears as much faster than the mean as it has so far; as the mean where that may be chance.
    fn most_worn(self, region: &WearRegion) -> Option<Life> {
        if is_chance(region) {
            return self.life(region);
        }
        let (most, ever) = (u128::from(region.erases_most) * u128::from(region.blocks), region.erases_ever);
        let worn = Rate::worn(region)?.saturating_mul(most.max(u128::from(ever)));
        self.until_whole(worn.checked_div(u128::from(ever))?)
    }

    fn mean_life(self, regions: &[WearRegion]) -> Option<Life> {
        let wearing = || regions.iter().filter_map(|r| Some((u128::from(r.cells), Rate::worn(r)?)));
        let cells: u128 = wearing().map(|(cells, _)| cells).sum();
        let worn: u128 = wearing().map(|(cells, worn)| cells * worn).sum();
        self.until_whole(worn.checked_div(cells)?)
    }

    fn result(self, device: &str, region: &WearRegion) -> RegionResult {
        let blocks = u128::from(region.blocks);
        let thousandths = |n: u128, of: u128| (n * 1000).checked_div(of).unwrap_or(0) as u64;
        RegionResult {
            device: device.into(),
            region: region.region,
            bits_per_cell: region.bits_per_cell,
            cells: region.cells,
            blocks: region.blocks,
            endurance: region.endurance,
            erases: region.erases,
            erases_per_block_thousandths: thousandths(region.erases.into(), blocks),
            spread_thousandths: thousandths(
                u128::from(region.erases_most) * blocks,
                region.erases_ever.into(),
            ),
            spread_is_chance: is_chance(region),
            life: self.life(region),
            most_worn: self.most_worn(region),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(bits_per_cell: u32, blocks: u64, endurance: u32, erases: u64) -> WearRegion {
        let cells = blocks * 1000;
        WearRegion {
            region: "flash",
            bits_per_cell,
            cells,
            blocks,
            endurance,
            erases,
            erases_ever: erases,
            erases_most: 3,
        }
    }

    #[test]
    fn the_two_readings_differ_when_one_region_takes_the_wear() {
        // A year in which the host writes 1 TB: SLC (50,000 cycles, 100 blocks) is erased 50,000 times, MLC (10,000 cycles,
        // 300 blocks) 30,000 times. Each alone: 100 years, 100 years.
        let rate = Rate { written: 1_000_000_000_000, duration_ns: 31_557_600_000_000_000, capacity: 0 };
        let even = [region(1, 100, 50_000, 50_000), region(2, 300, 10_000, 30_000)];
        let years =
            |life: Option<Life>| life.map(|l| (l.years_thousandths, l.host_bytes / 1_000_000_000_000));
        assert_eq!(even.map(|r| years(rate.life(&r))), [Some((100_000, 100)); 2]);
        assert_eq!(years(rate.mean_life(&even)), Some((100_000, 100)));
        // MLC rests: SLC still ends after 100 years; a quarter of the cells is worn by 1 %, so all are after 400 years.
        let one = [region(1, 100, 50_000, 50_000), region(2, 300, 10_000, 0)];
        assert_eq!(years(rate.life(&one[0])), Some((100_000, 100)));
        assert_eq!(rate.life(&one[1]), None);
        assert_eq!(years(rate.mean_life(&one)), Some((400_000, 400)));
        // What never wears out has no part in either.
        assert_eq!(rate.mean_life(&[region(1, 100, 0, 10)]), None);
    }

    /// 100 blocks of 3,000 cycles are erased 3,000 times while the host writes 1 TB: 100 times that is 100 TB. A drive of 100 GB is full a thousand
    /// times then, in 1,825 days: 0.547 times a day.
    #[test]
    fn full_writes_a_day_are_those_of_five_years() {
        let rate = |capacity| Rate { written: 1_000_000_000_000, duration_ns: 1_000_000_000, capacity };
        let worn = region(3, 100, 3000, 3000);
        let life = |capacity| rate(capacity).life(&worn).expect("it wears");
        assert_eq!((life(0).host_bytes, life(0).dwpd_thousandths), (100_000_000_000_000, None));
        assert_eq!(life(100_000_000_000).dwpd_thousandths, Some(547));
        assert_eq!(life(1_000_000_000_000).dwpd_thousandths, Some(54));
        let json = serde_json::to_value(life(100_000_000_000)).expect("it is JSON");
        assert_eq!(json["dwpd"], 0.547);
    }

    #[test]
    fn the_most_worn_block_ends_as_much_earlier_as_it_is_worn_more() {
        let rate = Rate { written: 1_000_000_000_000, duration_ns: 31_557_600_000_000_000, capacity: 0 };
        // 100 blocks were erased 200 times, one of them 8 times where 2 would be even.
        let skewed = WearRegion { erases_most: 8, ..region(1, 100, 1000, 200) };
        let years = |life: Option<Life>| life.map(|l| l.years_thousandths);
        assert_eq!(
            (years(rate.life(&skewed)), years(rate.most_worn(&skewed))),
            (Some(500_000), Some(125_000))
        );
        let even = WearRegion { erases_most: 2, ..skewed };
        assert_eq!(rate.most_worn(&even), rate.life(&even));
        assert_eq!(rate.most_worn(&WearRegion { erases: 0, ..even }), None);
        assert_eq!(rate.most_worn(&WearRegion { erases: 0, erases_ever: 0, erases_most: 0, ..even }), None);
    }

    #[test]
    fn what_few_erases_leave_to_chance_is_no_skew() {
        // The binomial tail, summed by hand for 1,000 blocks: of 200 erases P(a block has 5 or more) is 2.2e-6, P(4 or more) 5.6e-5.
        assert_eq!(unluckiest(1000, 200), 4);
        assert_eq!((unluckiest(1000, 0), unluckiest(1, 1)), (0, 3));
        assert!(unluckiest(1_000_000, 200_000) > 4 && unluckiest(1000, 1999) > 8);
        let rate = Rate { written: 1_000_000_000_000, duration_ns: 31_557_600_000_000_000, capacity: 0 };
        let few = |most| WearRegion { erases_most: most, ..region(1, 1000, 1000, 200) };
        assert!(is_chance(&few(4)) && rate.most_worn(&few(4)) == rate.life(&few(4)));
        let years = |most| rate.most_worn(&few(most)).map(|l| l.years_thousandths);
        assert!(!is_chance(&few(5)) && years(5) == Some(200_000), "{:?}", years(5));
        // Of many erases the most worn counts as it is.
        let many = WearRegion { erases_ever: 2000, ..few(4) };
        assert!(!is_chance(&many) && !is_chance(&WearRegion { erases_ever: 0, erases_most: 0, ..many }));
    }

    #[test]
    fn sums_by_state_and_by_work_are_the_total() {
        let row = |state, work, energy_nj| EnergyState {
            state,
            work,
            operations: 1,
            time_ns: 1,
            power_uw: 1,
            energy_nj,
        };
        let a = [row("read", Some("read"), 5), row("read", Some("gc"), 7), row("standby", None, 11)];
        let b = [row("seek", None, 13)];
        let sum = energy([&a[..], &b[..]].into_iter(), 4, 1 << 29, 1_000_000).unwrap();
        assert_eq!((sum.total_nj, sum.per_request_nj, sum.per_written_gib_nj), (36, Some(9), Some(72)));
        assert_eq!(sum.mean_power_uw, Some(36));
        assert_eq!(sum.by_state_nj.values().sum::<u64>(), 36);
        assert_eq!(sum.by_work_nj, BTreeMap::from([("gc", 7), ("read", 5), ("rest", 24)]));
        assert_eq!(energy(std::iter::empty(), 4, 4, 4), None);
    }
}

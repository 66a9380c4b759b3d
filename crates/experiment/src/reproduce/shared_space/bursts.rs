//! Loads that come in phases, and an adversary: what lending is for, and what it must not do (S3-3, W3-2, W3-3).
//!
//! The stand-ins send evenly over a run. What the paper shares for is a tenant that needs more than it has for a while, while another does
//! not. Here both of a pair are busy in turns: nine of ten requests arrive in a quarter of a cycle, half a cycle apart, five
//! cycles in a run. The adversary overwrites all of its space at random and never rests, so it borrows what its calm neighbour can
//! spare, until that is busy and wants it back.
//!
//! A tenant that has used up its spare units once stays at its trigger, busy or not, and has nothing to lend, unless its units are cleared
//! while nobody asks for anything. So pairs in phases also run with collection in idle time, on both sides.

use super::pair::{BETA, Collection, PAIRS, Pair, Unit, Way, counter};
use super::verdicts::{
    NOTHING_FORCED, NOTHING_LENT, PROPOSAL, against, differ, in_words, lent, more, put, sides, slowest,
    tenants,
};
use crate::failure::Failure;
use crate::reproduce::Findings;
use crate::reproduce::runner::Runner;
use nandu_sim::RunResult;

const WIDE: Unit = Unit::Superblock;

/// What was run: the pairs in phases, then the pair with the adversary.
pub struct Phased {
    /// The pairs of Table 4.
    pub pairs: Vec<Pair>,
    /// The adversary and its neighbour.
    pub adversary: [Pair; 1],
}

/// Runs and judges.
pub fn measure(runner: &Runner, found: &mut Findings) -> Result<Phased, Failure> {
    let pairs: Vec<Pair> =
        PAIRS.iter().map(|loads| Pair::in_phases(runner, *loads)).collect::<Result<_, _>>()?;
    let phased = Phased { pairs, adversary: [Pair::adversary(runner)?] };
    collection(&phased.pairs, found);
    idle(&phased.pairs, found);
    hosts("bursts, lending alone, mean", Way::VssdBehindCfq, PROPOSAL, &phased.pairs, found);
    hosts("bursts, idle collection, mean", Way::VssdIdle, Way::SharedIdle, &phased.pairs, found);
    give_back("bursts, bound", &phased.pairs, found);
    give_back("adversary, bound", &phased.adversary, found);
    neighbour("adversary, lender", WIDE, &phased.adversary, found);
    neighbour("adversary, lender, single blocks", Unit::Block, &phased.adversary, found);
    Ok(phased)
}

fn collection(pairs: &[Pair], found: &mut Findings) {
    let per_second = " pages gained in a second of a die's time";
    for (case, pairs) in [("bursts", pairs), ("bursts, last two pairs", &pairs[1..])] {
        let gained = sides(pairs, WIDE, PROPOSAL, Collection::gained);
        let reason = in_words(pairs, gained.as_deref(), 0, per_second);
        put(found, "C3-1", case, gained.as_deref().map(more), pairs, reason);
    }
    let ms = sides(pairs, WIDE, PROPOSAL, Collection::latency_ms);
    let reason = in_words(pairs, ms.as_deref(), 2, " ms");
    put(found, "C3-2", "bursts", ms.as_deref().map(|ms| -more(ms)), pairs, reason);
    let valid = sides(pairs, WIDE, PROPOSAL, Collection::valid);
    let reason = in_words(pairs, valid.as_deref(), 1, " valid pages of 5120 on the mean");
    put(found, "C3-9", "bursts", valid.as_deref().map(|v| -more(v)), pairs, reason);
    let gained = against(pairs, WIDE, Way::Shared(BETA), Way::Adaptive, Collection::gained);
    let reason = in_words(pairs, gained.as_deref(), 0, per_second);
    put(found, "W3-3", "bursts, adaptive", gained.as_deref().map(more), pairs, reason);
    let moved = differ(pairs, WIDE, Way::Shared(BETA), Way::Adaptive);
    found.moot_unless(moved, "what is lent is bounded before beta, and every figure is that of a fixed beta");

    let life = |p: &Pair| Some((per_erase(p.result(WIDE, Way::Vssd))?, per_erase(p.result(WIDE, PROPOSAL))?));
    let life: Option<Vec<_>> = pairs.iter().map(life).collect();
    let reason = in_words(pairs, life.as_deref(), 0, " KiB of the host for each erased block of 512 KiB");
    put(found, "W3-7", "bursts, life", life.as_deref().map(|l| 1.0 + more(l) / 100.0), pairs, reason);
}

/// The same where an idle drive collects.
fn idle(pairs: &[Pair], found: &mut Findings) {
    let of = |figure: fn(&Collection) -> f64| against(pairs, WIDE, Way::VssdIdle, Way::SharedIdle, figure);
    let gained = of(Collection::gained);
    let reason = in_words(pairs, gained.as_deref(), 0, " pages gained in a second of a die's time");
    put(found, "C3-1", "bursts, idle collection", gained.as_deref().map(more), pairs, reason);
    let life = |p: &Pair| {
        Some((per_erase(p.result(WIDE, Way::VssdIdle))?, per_erase(p.result(WIDE, Way::SharedIdle))?))
    };
    let life: Option<Vec<_>> = pairs.iter().map(life).collect();
    let reason = in_words(pairs, life.as_deref(), 0, " KiB of the host for each erased block of 512 KiB");
    let value = life.as_deref().map(|l| 1.0 + more(l) / 100.0);
    put(found, "W3-7", "bursts, idle collection, life", value, pairs, reason);
}

/// KiB of the host for each block that was erased; `None` where none was.
pub fn per_erase(result: &RunResult) -> Option<f64> {
    let (pages, erases) = (counter(result, "host_pages_written"), counter(result, "erase_count"));
    (erases > 0).then(|| pages as f64 * 4.0 / erases as f64)
}

fn hosts(case: &str, base: Way, way: Way, pairs: &[Pair], found: &mut Findings) {
    slowest(case, (base, way), |t| t.total.mean_ns, pairs, found);
    found.moot_unless(lent(pairs, WIDE, way) > 0, NOTHING_LENT);
}

/// How many collections were forced for each unit that was demanded back.
fn give_back(case: &str, pairs: &[Pair], found: &mut Findings) {
    let sum = |name: &str| -> u64 { pairs.iter().flat_map(Pair::results).map(|r| counter(r, name)).sum() };
    let (forced, demanded) = (sum("collections_forced_by_lenders"), sum("units_demanded"));
    let value = (demanded > 0).then(|| forced as f64 / demanded as f64);
    let reason = format!(
        "{forced} collections for {demanded} units that were demanded back, of {} lent",
        sum("units_lent")
    );
    put(found, "W3-2", case, value, pairs, reason);
    found.moot_unless(forced > 0, NOTHING_FORCED);
}

/// What the neighbour of the adversary notices.
fn neighbour(case: &str, unit: Unit, adversary: &[Pair; 1], found: &mut Findings) {
    let of = |way| tenants(adversary, unit, way).nth(1).map(|(_, tenant)| tenant.total.clone());
    let both = of(PROPOSAL).zip(of(Way::VssdBehindCfq));
    let value = both.as_ref().map(|(shared, vssd)| shared.mean_ns as f64 / vssd.mean_ns as f64);
    let reason = both.map_or_else(String::new, |(shared, vssd)| {
        let ms = |ns: u64| format!("{:.2}", ns as f64 / 1e6);
        format!(
            "mean {} ms against {}, 99th percentile {} against {}; it lent {} units",
            ms(shared.mean_ns),
            ms(vssd.mean_ns),
            ms(shared.p99_ns),
            ms(vssd.p99_ns),
            counter(adversary[0].result(unit, PROPOSAL), "tenant_1_units_borrowed")
        )
    });
    put(found, "W3-2", case, value, adversary, reason);
}

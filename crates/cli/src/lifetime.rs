//! What a run drew, how long its flash lasts and whether it was in steady state, as text.

use crate::format::{count, energy, percent, power, shares, size, thousandths, time, years};
use crate::table::Table;
use nandu_sim::RunResult;
use nandu_sim::energy::{LifetimeResult, RegionResult};
use nandu_sim::steady::{State, TOO_SHORT};
use std::collections::BTreeMap;
use std::fmt::Write;

/// One row for each state of each device, the top device first.
fn states(result: &RunResult) -> Table {
    let mut table = Table::new(["<energy", "<state", "operations", "time", "each", "energy", "share"]);
    let total = result.energy.as_ref().map_or(0, |e| e.total_nj);
    for layer in result.layers.iter().rev() {
        let mut rows: Vec<(&str, u64, u64, u64, u64)> = Vec::new();
        for row in &layer.energy {
            match rows.iter_mut().find(|(state, ..)| *state == row.state) {
                Some((_, operations, time, _, energy)) => {
                    *operations += row.operations;
                    *time += row.time_ns;
                    *energy += row.energy_nj;
                }
                None => rows.push((row.state, row.operations, row.time_ns, row.power_uw, row.energy_nj)),
            }
        }
        for (state, operations, spent, uw, nj) in rows {
            let some = |value: u64, text: String| if value > 0 { text } else { "-".into() };
            table.row([
                layer.name.clone(),
                state.into(),
                some(operations, count(operations)),
                some(spent, time(spent)),
                some(uw, power(uw)),
                energy(nj),
                percent(shares(&[nj, total.saturating_sub(nj)])[0]),
            ]);
        }
    }
    table
}

/// Erases a block, in thousandths, below which the most worn one is so by chance.
const FEW: u64 = 2000;

fn region(region: &RegionResult) -> [String; 10] {
    let cell = ["", "SLC", "MLC", "TLC", "QLC"].get(region.bits_per_cell as usize).copied().unwrap_or("-");
    let life = |of: fn(&nandu_sim::energy::Life) -> String| region.life.as_ref().map_or("-".into(), of);
    [
        format!("{} {}", region.device, region.region),
        cell.into(),
        count(region.blocks),
        count(region.endurance.into()),
        count(region.erases),
        thousandths(region.erases_per_block_thousandths),
        if region.spread_thousandths > 0 { thousandths(region.spread_thousandths) } else { "-".into() },
        region.most_worn.map_or("-".into(), |l| years(l.years_thousandths)),
        life(|l| years(l.years_thousandths)),
        life(|l| size(l.host_bytes)),
    ]
}

fn regions(lifetime: &LifetimeResult) -> Table {
    let heads = [
        "<lifetime",
        "<cell",
        "blocks",
        "P/E",
        "erases",
        "a block",
        "most/mean",
        "most worn",
        "if even",
        "host writes",
    ];
    let mut table = Table::new(heads);
    lifetime.regions.iter().for_each(|r| table.row(region(r)));
    table
}

/// By what operations were for, the most first.
fn by_work(sums: &BTreeMap<&'static str, u64>) -> String {
    let mut parts: Vec<(&str, u64)> = sums.iter().map(|(&work, &nj)| (work, nj)).collect();
    parts.sort_by_key(|&(work, nj)| (std::cmp::Reverse(nj), work));
    let text = |&(work, nj): &(&str, u64)| format!("{work} {}", energy(nj));
    parts.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Why wear may go on at another pace than in the run, and the lifetime be another; `None` where it will not.
pub fn lasting(result: &RunResult) -> Option<&'static str> {
    result.lifetime.as_ref()?.first_block?;
    let uses_up = result.steady_state.as_ref().is_some_and(|steady| steady.uses_up_spare);
    match result.state {
        _ if uses_up => {
            Some("drives use up their erased blocks: erases are still to come, and the lifetime gets shorter")
        }
        State::NotSteady => Some("not in steady state: the lifetime is that of a transition, as the WAF is"),
        State::TooShort => {
            Some("too short to show a steady state: the lifetime, as the WAF, may be another in the long run")
        }
        State::Steady | State::LoadVaries => None,
    }
}

/// Energy, lifetime and steady state; empty where there is nothing to say.
pub fn lifetime(result: &RunResult) -> String {
    let mut out = String::new();
    if let Some(sum) = &result.energy {
        let _ = write!(out, "\n{}", states(result));
        let mut facts = vec![energy(sum.total_nj)];
        facts.extend(sum.mean_power_uw.map(|uw| format!("{} on average", power(uw))));
        facts.extend(sum.per_request_nj.map(|nj| format!("{} a request", energy(nj))));
        facts.extend(sum.per_written_gib_nj.map(|nj| format!("{} a GiB written", energy(nj))));
        let _ = writeln!(out, "all {}; {}", facts.join(", "), by_work(&sum.by_work_nj));
    }
    if let Some(lifetime) = &result.lifetime {
        let _ = write!(out, "\n{}", regions(lifetime));
        let mut facts = vec![format!("host wrote {}", size(lifetime.host_bytes_written))];
        if let Some(first) = lifetime.first_block {
            let years = years(first.years_thousandths);
            facts.push(format!("the most worn block lasts {years} or {}", size(first.host_bytes)));
        }
        if let Some(first) = lifetime.first_region {
            let years = years(first.years_thousandths);
            facts.push(format!("the first region, worn evenly, {years} or {}", size(first.host_bytes)));
        }
        if let Some(mean) = lifetime.mean_over_cells {
            let years = years(mean.years_thousandths);
            facts.push(format!("all cells on the mean {years} or {}", size(mean.host_bytes)));
        }
        let _ = writeln!(out, "{}", facts.join("; "));
        if let Some(caution) = lasting(result) {
            let _ = writeln!(out, "{caution}");
        }
        let few = |r: &RegionResult| r.erases > 0 && r.erases_per_block_thousandths < FEW;
        if lifetime.regions.iter().any(few) {
            let chance = lifetime.regions.iter().filter(|r| few(r)).all(|r| r.spread_is_chance);
            let _ = writeln!(
                out,
                "fewer than two erases a block: {}",
                match chance {
                    true => "the most worn has no more than chance gives it, and wear is taken as even",
                    false => "most/mean, and what follows from it, is partly chance",
                }
            );
        }
    }
    if let Some(steady) = &result.steady_state {
        let value = |&v: &u64| if steady.metric.ends_with("ns") { time(v) } else { count(v) };
        let rounds: Vec<String> = steady.rounds.iter().map(value).collect();
        let what = steady.metric.trim_end_matches(" in ns");
        let verdict = match result.state {
            State::Steady => "steady state",
            State::LoadVaries => "the load itself varies by more than a steady state allows",
            _ if steady.uses_up_spare => "not in steady state, drives use up their erased blocks",
            _ => "not in steady state",
        };
        let _ = writeln!(
            out,
            "\n{verdict}: {what} in fifths of the run {}; range {} of at most 20 %, slope {} of at most 10 %",
            rounds.join(", "),
            percent(steady.excursion_thousandths),
            percent(steady.slope_thousandths)
        );
    } else {
        let _ = writeln!(out, "\n{TOO_SHORT}");
    }
    out
}

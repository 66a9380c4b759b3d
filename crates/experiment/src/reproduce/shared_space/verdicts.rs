//! What came out, claim by claim.

use super::pair::{BETA, BETAS, Collection, PAIRS, Pair, Unit, Way, counter, stand_in};
use crate::failure::Failure;
use crate::reproduce::runner::Runner;
use crate::reproduce::{Figure, Findings, Measured, Shape};
use nandu_base::Phase;
use nandu_device::nand::Profile;
use nandu_sim::RunResult;
use nandu_sim::result::TenantResult;
use nandu_sim::victims::STEPS;

/// The proposal as it is measured where nothing else is said.
pub const PROPOSAL: Way = Way::Shared(BETA);

/// Why a stand-in cannot contradict the table that it was made after.
const MADE_SO: &str = "the stand-in is made to have this; a recording can tell";
/// Why lending could not be noticed.
pub const NOTHING_LENT: &str = "nothing was lent";
/// Why nobody can have waited for a collection of another.
pub const NOTHING_FORCED: &str = "no unit that was demanded back took a collection";
/// How much slower a lender may be, as a share: what the bound of W3-2 allows.
const LENDER_MAY_LOSE: f64 = 0.02;
/// Why a lender could not be that much slower.
const NOTHING_TO_WAIT_FOR: &str =
    "all waits of the lender for collection together are shorter than what the bound allows";
/// Why a share of lending says nothing of its own.
const SAME_AS_BETA: &str = "what is lent is bounded before beta, and every figure is that of 10 %";

/// A figure of what collection took.
type FigureOf = fn(&Collection) -> f64;

fn origin(pairs: &[Pair]) -> String {
    let workloads = pairs.iter().filter_map(|p| p.results().next()).flat_map(|r| &r.provenance.workloads);
    let mut origins: Vec<&str> = workloads.map(|w| w.origin.as_str()).collect();
    origins.sort_unstable();
    origins.dedup();
    origins.join(", ")
}

/// Notes a figure of these pairs.
pub fn put(
    found: &mut Findings,
    id: &'static str,
    case: &str,
    value: Option<f64>,
    of: &[Pair],
    reason: String,
) {
    found.measured.push(Measured {
        id,
        case: case.into(),
        value,
        origin: origin(of),
        reason,
        ..Measured::default()
    });
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of each pair a figure of VSSD and one of another way; `None` where one of them has not collected.
pub fn sides(
    pairs: &[Pair],
    unit: Unit,
    way: Way,
    figure: impl Fn(&Collection) -> f64,
) -> Option<Vec<(f64, f64)>> {
    against(pairs, unit, Way::Vssd, way, figure)
}

/// The same of any two ways.
pub fn against(
    pairs: &[Pair],
    unit: Unit,
    base: Way,
    way: Way,
    figure: impl Fn(&Collection) -> f64,
) -> Option<Vec<(f64, f64)>> {
    let side = |p: &Pair| Some((p.collection(unit, base)?, p.collection(unit, way)?));
    let both: Option<Vec<_>> = pairs.iter().map(side).collect();
    Some(both?.iter().map(|(vssd, other)| (figure(vssd), figure(other))).collect())
}

/// Each pair's two figures in words.
pub fn in_words(pairs: &[Pair], sides: Option<&[(f64, f64)]>, digits: usize, unit: &str) -> String {
    let Some(sides) = sides else { return "a pair has not collected".into() };
    let word = |(pair, (vssd, other)): (&Pair, &(f64, f64))| {
        format!("{} {other:.digits$} against {vssd:.digits$}", pair.name())
    };
    let words: Vec<String> = pairs.iter().zip(sides).map(word).collect();
    format!("{}{unit}", words.join("; "))
}

/// By how much the other way has more than VSSD, in percent, on the mean of the pairs.
pub fn more(sides: &[(f64, f64)]) -> f64 {
    mean(&sides.iter().map(|(vssd, other)| (other / vssd - 1.0) * 100.0).collect::<Vec<_>>())
}

/// C3-1 to C3-3, C3-9: what collection gains and takes.
pub fn collection(pairs: &[Pair], found: &mut Findings) {
    let wide = Unit::Superblock;
    let definitions: [(&str, FigureOf); 3] = [
        ("pages gained", Collection::gained),
        ("pages moved", Collection::moved),
        ("units cleared", Collection::units),
    ];
    for (case, figure) in definitions {
        let sides = sides(pairs, wide, PROPOSAL, figure);
        let reason = in_words(pairs, sides.as_deref(), 3, " a second of a die's time");
        put(found, "C3-1", case, sides.as_deref().map(more), pairs, reason);
    }
    for beta in BETAS {
        let case = format!("beta {beta} %");
        if beta != BETA {
            let gained = sides(pairs, wide, Way::Shared(beta), Collection::gained);
            let reason = in_words(pairs, gained.as_deref(), 0, " pages gained in a second of a die's time");
            put(found, "C3-1", &case, gained.as_deref().map(more), pairs, reason);
            found.moot_unless(differ(pairs, wide, PROPOSAL, Way::Shared(beta)), SAME_AS_BETA);
        }
        latency(pairs, wide, Way::Shared(beta), &case, found);
        if beta != BETA {
            found.moot_unless(differ(pairs, wide, PROPOSAL, Way::Shared(beta)), SAME_AS_BETA);
        }
    }
    let single = sides(pairs, Unit::Block, PROPOSAL, Collection::gained);
    let reason = in_words(pairs, single.as_deref(), 0, " pages gained in a second of a die's time");
    put(found, "C3-1", "single blocks", single.as_deref().map(more), pairs, reason);
    latency(pairs, Unit::Block, PROPOSAL, "single blocks", found);
    for (id, case, way) in [("C3-1", "paper's reading", Way::Strict), ("W3-3", "adaptive", Way::Adaptive)] {
        let gained = sides(pairs, wide, way, Collection::gained);
        let reason = in_words(pairs, gained.as_deref(), 0, " pages gained in a second of a die's time");
        put(found, id, case, gained.as_deref().map(more), pairs, reason);
        if way == Way::Adaptive {
            found.moot_unless(differ(pairs, wide, PROPOSAL, way), SAME_AS_BETA);
        }
    }
    latency(pairs, wide, Way::Strict, "paper's reading", found);

    for (case, unit) in [("superblock", wide), ("single blocks", Unit::Block)] {
        less_time(case, pairs, unit, PROPOSAL, found);
        let valid = sides(pairs, unit, PROPOSAL, Collection::valid);
        let pages = if unit == wide { 5_120 } else { 128 };
        let reason = in_words(pairs, valid.as_deref(), 1, &format!(" valid pages of {pages} on the mean"));
        put(found, "C3-9", case, valid.as_deref().map(|v| -more(v)), pairs, reason);
    }
    less_time("paper's reading, single blocks", pairs, Unit::Block, Way::Strict, found);
    histogram(pairs, found);
    let erases = |p: &Pair, way| {
        let erased: u64 = ["tenant_1_block_erases", "tenant_2_block_erases"]
            .iter()
            .map(|name| counter(p.result(wide, way), name))
            .sum();
        p.collection(wide, way).map(|c| erased as f64 / c.cleared as f64)
    };
    let less = pairs.iter().map(|p| Some(erases(p, Way::Vssd)? - erases(p, PROPOSAL)?));
    let less: Option<Vec<f64>> = less.collect();
    let reason = "a unit is erased once for each time it is cleared, lent or not".into();
    put(found, "C3-3", "erases", less.map(|l| l.into_iter().fold(f64::MIN, f64::max)), pairs, reason);
}

/// C3-3: the most by which a collection of a pair is shorter than with VSSD.
fn less_time(case: &str, pairs: &[Pair], unit: Unit, way: Way, found: &mut Findings) {
    let ms = sides(pairs, unit, way, Collection::latency_ms);
    let most = ms.as_ref().map(|ms| ms.iter().map(|(a, b)| a - b).fold(f64::MIN, f64::max));
    let reason = in_words(pairs, ms.as_deref(), 2, " ms; a page is read and written in 0.86 ms");
    put(found, "C3-3", case, most, pairs, reason);
}

/// Whether two ways collect otherwise, by any pair's figures.
pub fn differ(pairs: &[Pair], unit: Unit, one: Way, other: Way) -> bool {
    let figures = |p: &Pair, way| p.collection(unit, way).map(|c| (c.cleared, c.moved, c.die_ns));
    pairs.iter().any(|p| figures(p, one) != figures(p, other))
}

/// Units that were lent in all pairs.
pub fn lent(pairs: &[Pair], unit: Unit, way: Way) -> u64 {
    pairs.iter().map(|p| counter(p.result(unit, way), "units_lent")).sum()
}

/// C3-9 in full: how many of the units that were cleared were how full, not only their mean.
fn histogram(pairs: &[Pair], found: &mut Findings) {
    let both = |p: &Pair| {
        let up_to = |way| p.victims(Unit::Superblock, way).map(cumulated);
        Some((up_to(Way::Vssd)?, up_to(PROPOSAL)?))
    };
    let both: Option<Vec<_>> = pairs.iter().map(both).collect();
    // By how many points more of the units are at most so full, where that is most.
    let most = |more: &[f64; STEPS], less: &[f64; STEPS]| {
        more.iter().zip(less).map(|(a, b)| a - b).fold(0.0f64, f64::max)
    };
    let reason = match &both {
        None => "a pair has not collected".into(),
        Some(both) => {
            let at =
                |up_to: &[f64; STEPS]| [1, 2, 3, 4, 9].map(|step| format!("{:.0}", up_to[step])).join("/");
            let word = |(pair, (vssd, shared)): (&Pair, &([f64; STEPS], [f64; STEPS]))| {
                format!("{} {} against {}", pair.name(), at(shared), at(vssd))
            };
            let words: Vec<String> = pairs.iter().zip(both).map(word).collect();
            format!("% of the units cleared with at most 10/15/20/25/50 % valid pages: {}", words.join("; "))
        }
    };
    let emptier = both.as_ref().map(|both| mean(&both.iter().map(|(v, s)| most(s, v)).collect::<Vec<_>>()));
    put(found, "C3-9", "histogram", emptier, pairs, reason.clone());
    let fuller = both.map(|both| both.iter().map(|(v, s)| most(v, s)).fold(0.0f64, f64::max));
    put(found, "C3-9", "nowhere fuller", fuller, pairs, reason);
}

/// Shares up to each step.
fn cumulated(shares: [f64; STEPS]) -> [f64; STEPS] {
    let mut sum = 0.0;
    shares.map(|share| {
        sum += share;
        sum
    })
}

fn latency(pairs: &[Pair], unit: Unit, way: Way, case: &str, found: &mut Findings) {
    let ms = sides(pairs, unit, way, Collection::latency_ms);
    let reason = in_words(pairs, ms.as_deref(), 2, " ms");
    put(found, "C3-2", case, ms.as_deref().map(|ms| -more(ms)), pairs, reason);
}

/// The tenants of all pairs, with their loads.
pub fn tenants(pairs: &[Pair], unit: Unit, way: Way) -> impl Iterator<Item = (&'static str, &TenantResult)> {
    pairs.iter().flat_map(move |p| {
        let tenants = &p.result(unit, way).tenants;
        p.loads.into_iter().filter_map(|load| {
            let name = if load == p.loads[0] { "first" } else { "second" };
            tenants.iter().find(|t| t.name == name).map(|t| (load, t))
        })
    })
}

/// C3-4: what the hosts notice.
pub fn hosts(pairs: &[Pair], found: &mut Findings) {
    let mean: fn(&TenantResult) -> u64 = |t| t.total.mean_ns;
    let p99: fn(&TenantResult) -> u64 = |t| t.total.p99_ns;
    for (case, way, against, figure) in [
        ("mean", PROPOSAL, Way::Vssd, mean),
        ("p99", PROPOSAL, Way::Vssd, p99),
        ("lending alone, mean", PROPOSAL, Way::VssdBehindCfq, mean),
        ("lending alone, p99", PROPOSAL, Way::VssdBehindCfq, p99),
        ("paper's reading", Way::Strict, Way::VssdBehindCfq, mean),
    ] {
        slowest(case, (against, way), figure, pairs, found);
        found.moot_unless(against == Way::Vssd || lent(pairs, Unit::Superblock, way) > 0, NOTHING_LENT);
    }
}

/// A case of C3-4: by this figure of each tenant the most that one way is slower than the other.
pub fn slowest(
    case: &str,
    (base, way): (Way, Way),
    figure: fn(&TenantResult) -> u64,
    pairs: &[Pair],
    found: &mut Findings,
) {
    let both = tenants(pairs, Unit::Superblock, way).zip(tenants(pairs, Unit::Superblock, base));
    let ratios: Vec<(&str, f64)> =
        both.map(|((load, here), (_, there))| (load, figure(here) as f64 / figure(there) as f64)).collect();
    let worst = ratios.iter().map(|r| r.1).fold(f64::MIN, f64::max);
    let words: Vec<String> = ratios.iter().map(|(load, ratio)| format!("{load} {ratio:.3}")).collect();
    put(found, "C3-4", case, Some(worst), pairs, words.join(", "));
}

/// W3-2, W3-7: who pays for it, and what it does to the drive.
pub fn lending(pairs: &[Pair], found: &mut Findings) {
    let results = || pairs.iter().flat_map(Pair::results);
    let sum = |name: &str| results().map(|r| counter(r, name)).sum::<u64>();
    let (forced, demanded) = (sum("collections_forced_by_lenders"), sum("units_demanded"));
    let value = (demanded > 0).then(|| forced as f64 / demanded as f64);
    let reason = format!(
        "{forced} collections for {demanded} units that were demanded back, of {} that were lent; the others were given back unasked or are still lent",
        sum("units_lent")
    );
    put(found, "W3-2", "bound", value, pairs, reason);
    found.moot_unless(forced > 0, NOTHING_FORCED);

    let some_lent = lent(pairs, Unit::Superblock, PROPOSAL) > 0;
    lender(pairs, found);

    let figure = |r: &RunResult| r.drive_waf_thousandths.unwrap_or(0) as f64 / 1000.0;
    let both = |figure: &dyn Fn(&RunResult) -> f64| -> Vec<(f64, f64)> {
        let of = |p: &Pair, way| figure(p.result(Unit::Superblock, way));
        pairs.iter().map(|p| (of(p, Way::Vssd), of(p, PROPOSAL))).collect()
    };
    let ratio = |sides: &[(f64, f64)]| 1.0 + more(sides) / 100.0;
    let waf = both(&figure);
    let reason = in_words(pairs, Some(&waf), 3, " pages programmed for each of the host");
    put(found, "W3-7", "pages programmed", Some(ratio(&waf)), pairs, reason);
    found.moot_unless(some_lent, NOTHING_LENT);
    let per_erase = |r: &RunResult| {
        let of = |name| {
            let both = [1, 2].map(|n| counter(r, &format!("tenant_{n}_{name}")));
            both.iter().sum::<u64>() as f64
        };
        of("host_bytes_written") / of("block_erases") / f64::from(1 << 10)
    };
    let life = both(&per_erase);
    let has_erased = life.iter().all(|(a, b)| a.is_finite() && b.is_finite());
    let reason = in_words(
        pairs,
        has_erased.then_some(&life[..]),
        0,
        " KiB of the host for each erased block of 512 KiB",
    );
    put(found, "W3-7", "life", has_erased.then(|| ratio(&life)), pairs, reason);
    found.moot_unless(some_lent, NOTHING_LENT);
}

/// W3-2: what Financial2 notices, which lends to Financial1.
///
/// A loan costs its lender time in one way: it waits for collection, its own, which comes earlier, or that of the borrower, which repays. Where its
/// waits with lending, all of them, are less than the bound allows, no figure beyond it could have come out.
fn lender(pairs: &[Pair], found: &mut Findings) {
    let of = |way| {
        let mut all = tenants(pairs, Unit::Superblock, way);
        all.find(|(load, _)| *load == "financial2").map(|(_, tenant)| &tenant.total)
    };
    let both = of(PROPOSAL).zip(of(Way::VssdBehindCfq));
    let value = both.map(|(shared, vssd)| shared.mean_ns as f64 / vssd.mean_ns as f64);
    let waits = both.map_or(0.0, |(shared, vssd)| {
        let gc = shared.latency_breakdown_ns.get(Phase::Gc.name()).copied().unwrap_or(0);
        gc as f64 / vssd.mean_ns as f64
    });
    let borrowed = |p: &Pair| {
        let units =
            |n: u32| counter(p.result(Unit::Superblock, PROPOSAL), &format!("tenant_{n}_units_borrowed"));
        format!("{} borrowed {}, {} {}", p.loads[0], units(1), p.loads[1], units(2))
    };
    let units = pairs.iter().map(borrowed).collect::<Vec<_>>().join("; ");
    let reason = format!(
        "it waits for collection for {:.2} % of its mean without lending; units: {units}",
        waits * 100.0
    );
    put(found, "W3-2", "lender", value, pairs, reason);
    found.moot_unless(waits > LENDER_MAY_LOSE, NOTHING_TO_WAIT_FOR);
}

/// C3-10: what the loads are like.
pub fn workloads(runner: &Runner, found: &mut Findings) -> Result<(), Failure> {
    for load in PAIRS.into_iter().flatten() {
        let stats = runner.describe(&stand_in(load))?;
        let rows = [
            (
                "",
                stats.write_percent,
                "; Table 3 has whole percents, those of SPC's traces cut: 76.8 and 17.7",
            ),
            (", pages", stats.pages, "; pages of 4 KiB that a request touches, in part or whole"),
            (", size", stats.end_gib, "; where the last request ends"),
        ];
        for (suffix, value, meaning) in rows {
            found.measured.push(Measured {
                id: "C3-10",
                case: format!("{load}{suffix}"),
                value: Some(value),
                origin: stats.origin.clone(),
                reason: format!("{} requests, before they are laid onto the drive{meaning}", stats.requests),
                ..Measured::default()
            });
            found.moot_unless(stats.origin != "synthetic", MADE_SO);
        }
    }
    Ok(())
}

/// Table 1: preset, read, program and erase in us, cycles.
const CELLS: [(&str, [u64; 4]); 3] = [
    ("slc-2019", [25, 200, 700, 100_000]),
    ("mlc-2019", [60, 800, 1_500, 10_000]),
    ("tlc-2019", [100, 2_400, 3_000, 1_000]),
];

/// C3-7: what needs no run.
pub fn presets(found: &mut Findings) -> Result<(), Failure> {
    let mut agree = 0;
    for (name, table) in CELLS {
        let p = Profile::named(name).map_err(|e| Failure::input(e.to_string()))?;
        let preset = [p.read.0 / 1000, p.program.0 / 1000, p.erase.0 / 1000, u64::from(p.endurance)];
        agree += preset.iter().zip(&table).filter(|(a, b)| a == b).count();
    }
    found.measured.push(Measured {
        id: "C3-7",
        case: "presets".into(),
        value: Some(agree as f64),
        reason: "slc-2019, mlc-2019 and tlc-2019".into(),
        ..Measured::default()
    });
    found.moot_unless(false, "the presets are the table");
    Ok(())
}

/// Figures 4 and 5 over beta, which the paper does not give.
pub fn figures(pairs: &[Pair], found: &mut Findings) {
    let lines = |figure: FigureOf| -> Vec<(String, Vec<(f64, f64)>)> {
        let line = |p: &Pair| {
            let vssd = p.collection(Unit::Superblock, Way::Vssd).map(|c| figure(&c));
            let at = |beta: u64| {
                let here = figure(&p.collection(Unit::Superblock, Way::Shared(beta))?);
                Some((beta as f64, here / vssd?))
            };
            let none = vssd.map(|_| (0.0, 1.0));
            let points = none.into_iter().chain(BETAS.into_iter().filter_map(at)).collect();
            (format!("{} and {}", p.loads[0], p.loads[1]), points)
        };
        pairs.iter().map(line).collect()
    };
    let mut put = |title: &str, y, lines| {
        found.figures.push(Figure { shape: Shape::Lines, title: title.into(), x: "beta, %", y, lines });
    };
    let title = "Fig 4 over beta: throughput of collection, as a part of VSSD's";
    put(title, "pages gained in a second / VSSD", lines(Collection::gained));
    let title = "Fig 5 over beta: latency of collection, as a part of VSSD's";
    put(title, "time of a collection / VSSD", lines(Collection::latency_ms));
    for pair in pairs {
        let line = |(name, way)| {
            let shares = pair.victims(Unit::Superblock, way)?;
            let at = (1..).map(|step| f64::from(step) * 100.0 / STEPS as f64);
            Some((String::from(name), at.zip(shares).collect()))
        };
        let lines = [("VSSD", Way::Vssd), ("shared", PROPOSAL)].into_iter().filter_map(line).collect();
        let title = format!("Valid pages of the units that collection cleared: {}", pair.name());
        let (x, y) = ("valid pages, % of a unit, up to", "% of the units cleared");
        found.figures.push(Figure { shape: Shape::Lines, title, x, y, lines });
    }
}

//! What came out, claim by claim.

use super::pair::{counter, Collection, Pair, Unit, Way, BETA, BETAS, PAIRS};
use crate::failure::Failure;
use crate::format::time;
use crate::reproduce::lab::Lab;
use crate::reproduce::{Figure, Findings, Measured, Shape};
use nandu_device::nand::Profile;
use nandu_sim::result::TenantResult;
use nandu_sim::RunResult;

/// The proposal as it is measured where nothing else is said.
const PROPOSAL: Way = Way::Shared(BETA);

/// A figure of what collection took.
type FigureOf = fn(&Collection) -> f64;

fn origin(pairs: &[Pair]) -> String {
    let workloads = pairs.iter().flat_map(|p| &p.result(Unit::Superblock, Way::Vssd).provenance.workloads);
    let mut origins: Vec<&str> = workloads.map(|w| w.origin.as_str()).collect();
    origins.sort_unstable();
    origins.dedup();
    origins.join(", ")
}

fn put(found: &mut Findings, id: &'static str, case: &str, value: Option<f64>, of: &[Pair], reason: String) {
    found.measured.push(Measured { id, case: case.into(), value, origin: origin(of), reason });
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Of each pair a figure of VSSD and one of another way; `None` where one of them has not collected.
fn sides(
    pairs: &[Pair],
    unit: Unit,
    way: Way,
    figure: impl Fn(&Collection) -> f64,
) -> Option<Vec<(f64, f64)>> {
    let side = |p: &Pair| Some((p.collection(unit, Way::Vssd)?, p.collection(unit, way)?));
    let both: Option<Vec<_>> = pairs.iter().map(side).collect();
    Some(both?.iter().map(|(vssd, other)| (figure(vssd), figure(other))).collect())
}

/// Each pair's two figures in words.
fn in_words(sides: Option<&[(f64, f64)]>, digits: usize, unit: &str) -> String {
    let Some(sides) = sides else { return "a pair has not collected".into() };
    let word = |(loads, (vssd, other)): (&[&str; 2], &(f64, f64))| {
        format!("{} and {} {other:.digits$} against {vssd:.digits$}", loads[0], loads[1])
    };
    let words: Vec<String> = PAIRS.iter().zip(sides).map(word).collect();
    format!("{}{unit}", words.join("; "))
}

/// By how much the other way has more than VSSD, in percent, on the mean of the pairs.
fn more(sides: &[(f64, f64)]) -> f64 {
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
        let reason = in_words(sides.as_deref(), 3, " a second of a die's time");
        put(found, "C3-1", case, sides.as_deref().map(more), pairs, reason);
    }
    for beta in BETAS {
        let case = format!("beta {beta} %");
        if beta != BETA {
            let gained = sides(pairs, wide, Way::Shared(beta), Collection::gained);
            let reason = in_words(gained.as_deref(), 0, " pages gained in a second of a die's time");
            put(found, "C3-1", &case, gained.as_deref().map(more), pairs, reason);
        }
        latency(pairs, wide, Way::Shared(beta), &case, found);
    }
    let single = sides(pairs, Unit::Block, PROPOSAL, Collection::gained);
    let reason = in_words(single.as_deref(), 0, " pages gained in a second of a die's time");
    put(found, "C3-1", "single blocks", single.as_deref().map(more), pairs, reason);
    latency(pairs, Unit::Block, PROPOSAL, "single blocks", found);
    for (id, case, way) in [("C3-1", "paper's reading", Way::Strict), ("W3-3", "adaptive", Way::Adaptive)] {
        let gained = sides(pairs, wide, way, Collection::gained);
        let reason = in_words(gained.as_deref(), 0, " pages gained in a second of a die's time");
        put(found, id, case, gained.as_deref().map(more), pairs, reason);
    }
    latency(pairs, wide, Way::Strict, "paper's reading", found);

    for (case, unit) in [("superblock", wide), ("single blocks", Unit::Block)] {
        let ms = sides(pairs, unit, PROPOSAL, Collection::latency_ms);
        let most = ms.as_ref().map(|ms| ms.iter().map(|(a, b)| a - b).fold(f64::MIN, f64::max));
        let reason = in_words(ms.as_deref(), 2, " ms; a page is read and written in 0.86 ms");
        put(found, "C3-3", case, most, pairs, reason);
        let valid = sides(pairs, unit, PROPOSAL, Collection::valid);
        let pages = if unit == wide { 5_120 } else { 128 };
        let reason = in_words(valid.as_deref(), 1, &format!(" valid pages of {pages} on the mean"));
        put(found, "C3-9", case, valid.as_deref().map(|v| -more(v)), pairs, reason);
    }
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

fn latency(pairs: &[Pair], unit: Unit, way: Way, case: &str, found: &mut Findings) {
    let ms = sides(pairs, unit, way, Collection::latency_ms);
    let reason = in_words(ms.as_deref(), 2, " ms");
    put(found, "C3-2", case, ms.as_deref().map(|ms| -more(ms)), pairs, reason);
}

fn tenants(pairs: &[Pair], unit: Unit, way: Way) -> impl Iterator<Item = (&'static str, &TenantResult)> {
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
    let mean: fn(&TenantResult) -> u64 = |t| t.all.mean_ns;
    let p99: fn(&TenantResult) -> u64 = |t| t.all.p99_ns;
    for (case, way, against, figure) in [
        ("mean", PROPOSAL, Way::Vssd, mean),
        ("p99", PROPOSAL, Way::Vssd, p99),
        ("lending alone, mean", PROPOSAL, Way::VssdBehindCfq, mean),
        ("lending alone, p99", PROPOSAL, Way::VssdBehindCfq, p99),
        ("paper's reading", Way::Strict, Way::VssdBehindCfq, mean),
    ] {
        let wide = Unit::Superblock;
        let both = tenants(pairs, wide, way).zip(tenants(pairs, wide, against));
        let ratios: Vec<(&str, f64)> = both
            .map(|((load, shared), (_, vssd))| (load, figure(shared) as f64 / figure(vssd) as f64))
            .collect();
        let worst = ratios.iter().map(|r| r.1).fold(f64::MIN, f64::max);
        let words: Vec<String> = ratios.iter().map(|(load, ratio)| format!("{load} {ratio:.3}")).collect();
        let reason = match case {
            "p99" => format!("{}; {}", words.join(", "), percentiles(pairs)),
            _ => words.join(", "),
        };
        put(found, "C3-4", case, Some(worst), pairs, reason);
    }
}

/// Host latencies of all tenants in all ways that are compared.
fn percentiles(pairs: &[Pair]) -> String {
    let ways = [
        ("shared", Unit::Superblock, PROPOSAL),
        ("VSSD behind the same scheduler", Unit::Superblock, Way::VssdBehindCfq),
        ("VSSD", Unit::Superblock, Way::Vssd),
        ("VSSD, single blocks", Unit::Block, Way::Vssd),
    ];
    let row = |t: &TenantResult| [t.all.p50_ns, t.all.p99_ns, t.all.p99_9_ns].map(time).join("/");
    let words = ways.map(|(name, unit, way)| {
        let rows: Vec<String> =
            tenants(pairs, unit, way).map(|(load, t)| format!("{load} {}", row(t))).collect();
        format!("{name}: {}", rows.join(", "))
    });
    format!("p50/p99/p99.9 {}", words.join("; "))
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

    let of = |way| {
        tenants(pairs, Unit::Superblock, way)
            .find(|(load, _)| *load == "financial2")
            .map(|(_, t)| t.all.mean_ns)
    };
    let (shared, vssd) = (of(PROPOSAL), of(Way::VssdBehindCfq));
    let value = shared.zip(vssd).map(|(s, v)| s as f64 / v as f64);
    let lent = |p: &Pair| {
        let borrowed =
            |n: u32| counter(p.result(Unit::Superblock, PROPOSAL), &format!("tenant_{n}_units_borrowed"));
        format!("{} borrowed {}, {} {}", p.loads[0], borrowed(1), p.loads[1], borrowed(2))
    };
    let reason = pairs.iter().map(lent).collect::<Vec<_>>().join("; ");
    put(found, "W3-2", "lender", value, pairs, format!("units: {reason}"));

    let figure = |r: &RunResult| r.waf_thousandths.unwrap_or(0) as f64 / 1000.0;
    let both = |figure: &dyn Fn(&RunResult) -> f64| -> Vec<(f64, f64)> {
        let of = |p: &Pair, way| figure(p.result(Unit::Superblock, way));
        pairs.iter().map(|p| (of(p, Way::Vssd), of(p, PROPOSAL))).collect()
    };
    let ratio = |sides: &[(f64, f64)]| 1.0 + more(sides) / 100.0;
    let waf = both(&figure);
    let reason = in_words(Some(&waf), 3, " pages programmed for each of the host");
    put(found, "W3-7", "pages programmed", Some(ratio(&waf)), pairs, reason);
    let per_erase = |r: &RunResult| {
        let of = |name| {
            let both = [1, 2].map(|n| counter(r, &format!("tenant_{n}_{name}")));
            both.iter().sum::<u64>() as f64
        };
        of("host_bytes_written") / of("block_erases") / f64::from(1 << 10)
    };
    let life = both(&per_erase);
    let has_erased = life.iter().all(|(a, b)| a.is_finite() && b.is_finite());
    let reason =
        in_words(has_erased.then_some(&life[..]), 0, " KiB of the host for each erased block of 512 KiB");
    put(found, "W3-7", "life", has_erased.then(|| ratio(&life)), pairs, reason);
}

/// C3-10: what the loads are like.
pub fn workloads(lab: &Lab, found: &mut Findings) -> Result<(), Failure> {
    for load in PAIRS.into_iter().flatten() {
        let stats = lab.describe(load)?;
        let rows = [("", stats.write_percent), (", pages", stats.pages), (", size", stats.end_gib)];
        for (suffix, value) in rows {
            found.measured.push(Measured {
                id: "C3-10",
                case: format!("{load}{suffix}"),
                value: Some(value),
                origin: stats.origin.clone(),
                reason: format!("{} requests, before they are laid onto the drive", stats.requests),
            });
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

/// C3-5 to C3-8, C3-11: what needs no run, and what is held elsewhere.
pub fn without_a_run(found: &mut Findings) -> Result<(), Failure> {
    let mut agree = 0;
    for (name, table) in CELLS {
        let p = Profile::named(name).map_err(|e| Failure::input(e.to_string()))?;
        let preset = [p.read.0 / 1000, p.program.0 / 1000, p.erase.0 / 1000, u64::from(p.endurance)];
        agree += preset.iter().zip(&table).filter(|(a, b)| a == b).count();
    }
    let mut put = |id, case: &str, value, reason: &str| {
        let (case, reason) = (case.into(), reason.into());
        found.measured.push(Measured { id, case, value, origin: String::new(), reason });
    };
    put("C3-7", "presets", Some(agree as f64), "slc-2019, mlc-2019 and tlc-2019");
    let held = |test: &str| format!("held by the unit test `{test}` in crates/ftl");
    put("C3-5", "block 0", None, &held("a_free_block_of_another_defers_the_collection_of_block_0"));
    put("C3-6", "example", None, &held("equation_1_gives_the_8_gb_of_the_example"));
    put("C3-8", "2x2x2x2", None, &held("the_widest_unit_keeps_sixteen_planes_busy"));
    for case in ["CFFQ", "FIOS", "FlashFQ", "OPS"] {
        put("C3-11", case, None, "schedulers are compared in docs/queue.md, without bounds set before");
    }
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
}

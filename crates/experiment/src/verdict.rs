//! In words: how a result compares to the baseline.

use crate::console::Console;
use crate::format::{count, times};
use nandu_sim::RunResult;
use nandu_sim::samples::Samples;
use nandu_sim::steady::{State, TOO_SHORT};

/// Means that differ by less are called the same.
const SAME_MEAN: f64 = 0.01;
/// Tails that differ by less are not worth a word.
const SAME_TAIL: f64 = 0.05;

/// A result and what tables call it.
#[derive(Clone, Debug)]
pub struct Row {
    /// The name.
    pub label: String,
    /// What was measured.
    pub result: RunResult,
    /// How it compares.
    pub verdict: String,
    /// The run over time; empty unless a report shows it.
    pub samples: Samples,
    /// Whether its mean latency is the shortest of the rows whose latencies are the stack's own.
    pub best: bool,
}

/// Gives every result its verdict; the first is the baseline.
pub fn rows(results: Vec<(String, RunResult)>) -> Vec<Row> {
    let best = best(&results);
    let verdicts: Vec<String> = (0..results.len()).map(|i| verdict(&results, i, best == Some(i))).collect();
    let rows = results.into_iter().zip(verdicts).enumerate();
    rows.map(|(i, ((label, result), verdict))| Row {
        label,
        result,
        verdict,
        samples: Samples::default(),
        best: best == Some(i),
    })
    .collect()
}

/// The row with the shortest mean, when there is more than one row: of those that kept up and did not fail, whose drives began
/// as those of the baseline did, and that were not found unsteady.
fn best(results: &[(String, RunResult)]) -> Option<usize> {
    let base = &results.first()?.1;
    let sound = |r: &RunResult| {
        let measured = !r.saturated && r.total.failed == 0 && r.total.requests > 0;
        measured && r.state != State::NotSteady && same_start(r, base)
    };
    let candidates = results.iter().enumerate().filter(|(_, (_, r))| sound(r));
    let best = candidates.min_by_key(|(_, (_, r))| r.total.mean_ns).map(|(i, _)| i);
    best.filter(|_| results.len() > 1)
}

/// Whether the drives of both began in the same state.
fn same_start(a: &RunResult, b: &RunResult) -> bool {
    a.provenance.precondition == b.provenance.precondition
}

fn verdict(results: &[(String, RunResult)], index: usize, best: bool) -> String {
    let (base_label, base) = &results[0];
    let mine = &results[index].1;
    let mut parts: Vec<String> = Vec::new();
    if mine.total.failed > 0 {
        parts.push(failed_words(mine));
    }
    if index == 0 {
        parts.push("baseline".into());
    }
    if best && !same_mean(results, index) {
        parts.push("best".into());
    }
    if mine.saturated {
        parts.push("saturated: latencies measure the queue".into());
    } else if index > 0 && base.saturated {
        parts.push(format!("keeps up where {base_label} is saturated"));
    } else if index > 0 {
        parts.push(against(mine, base, base_label));
    }
    if index > 0 && !same_start(mine, base) {
        parts.push(format!("not ranked: its drives began {}", mine.provenance.precondition));
    }
    if index > 0 && !same_requests(mine, base) {
        parts.push("other requests than the baseline".into());
    }
    parts.join("; ")
}

fn failed_words(result: &RunResult) -> String {
    let all = result.total.requests + result.total.failed;
    format!("{} of {} requests failed", count(result.total.failed), count(all))
}

/// Whether some other row has practically the same mean, so that "best" would say too much.
fn same_mean(results: &[(String, RunResult)], index: usize) -> bool {
    let mine = results[index].1.total.mean_ns as f64;
    let others = results.iter().enumerate().filter(|&(i, (_, r))| i != index && !r.saturated);
    others.into_iter().any(|(_, (_, r))| (r.total.mean_ns as f64 - mine).abs() <= mine * SAME_MEAN)
}

fn same_requests(a: &RunResult, b: &RunResult) -> bool {
    let hashes =
        |r: &RunResult| r.provenance.workloads.iter().map(|w| w.trace_hash.clone()).collect::<Vec<_>>();
    hashes(a) == hashes(b) && a.extended == b.extended
}

/// Mean and tail against the baseline.
fn against(mine: &RunResult, base: &RunResult, label: &str) -> String {
    if mine.total.requests == 0 || base.total.requests == 0 {
        return "nothing was measured".into();
    }
    let ratio = |mine: u64, base: u64| mine.max(1) as f64 / base.max(1) as f64;
    let (mean, tail) =
        (ratio(mine.total.mean_ns, base.total.mean_ns), ratio(mine.total.p99_ns, base.total.p99_ns));
    let same = (mean - 1.0).abs() <= SAME_MEAN;
    let same_tail = (tail - 1.0).abs() <= SAME_TAIL;
    let head = match mean {
        _ if same => format!("same mean as {label} within 1 %"),
        m if m < 1.0 => format!("{} faster mean than {label}", times(1.0 / m)),
        m => format!("{} slower mean than {label}", times(m)),
    };
    match tail {
        _ if same_tail && same => format!("{head}, same p99"),
        _ if same_tail => format!("{head}, p99 the same"),
        t if t < 1.0 => format!("{head}, p99 {} better", times(1.0 / t)),
        t => format!("{head}, p99 {} worse", times(t)),
    }
}

/// What a reader must know before believing a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caution {
    /// One sentence.
    pub text: String,
    /// Whether the figures do not mean what they seem to mean.
    pub serious: bool,
}

impl Caution {
    /// Says it, as a warning or a note.
    pub fn say(&self, console: Console) {
        match self.serious {
            true => console.warning(&self.text),
            false => console.note(&self.text),
        }
    }
}

/// What a reader must know of a run in this state; `None` where its figures are what they seem to be.
pub fn of_state(state: State) -> Option<Caution> {
    let (text, serious) = match state {
        State::NotSteady => {
            let text = "not in steady state: the figures are those of a transition; a longer load, --extend or --precondition aged \
                        come nearer to what lasts";
            (text.into(), true)
        }
        State::TooShort => (format!("{TOO_SHORT}; a longer load or --repeat says more"), false),
        State::Steady | State::LoadVaries => return None,
    };
    Some(Caution { text, serious })
}

/// The cautions of a result, serious ones first.
pub fn cautions(result: &RunResult) -> Vec<Caution> {
    let mut out = Vec::new();
    if result.saturated {
        let text = "saturated: requests came faster than the stack serves them, so latencies measure the queue and not \
                    the stack; lower the load (--time-scale 2, --rate-iops) or keep a fixed number outstanding (--iodepth 16)";
        out.push(Caution { text: text.into(), serious: true });
    }
    if result.total.failed > 0 {
        let text = format!("{}; they are in no latency and no rate", failed_words(result));
        out.push(Caution { text, serious: true });
    }
    if has_flash(result) && erases(result) == 0 && result.write.requests > 0 {
        let text = match result.provenance.precondition.as_str() {
            "empty" => {
                "the drive was new and nothing was erased yet; a drive in use is slower: see --precondition filled"
            }
            _ if has_runtime(result) => {
                "nothing was erased: the load is too short for garbage collection to show; a longer `runtime` shows more"
            }
            _ => "nothing was erased: the load is too short for garbage collection to show; see --repeat",
        };
        out.push(Caution { text: text.into(), serious: false });
    }
    out.extend(of_state(result.state));
    out.extend(few(result));
    for workload in result.provenance.workloads.iter().filter(|w| w.origin == "synthetic") {
        let text = format!("`{}` is a generated load, not a recorded trace", workload.format);
        // Several workloads of one generator are said once.
        if out.iter().all(|c: &Caution| c.text != text) {
            out.push(Caution { text, serious: false });
        }
    }
    out
}

/// Percentiles, and of how many requests one lies beyond each.
const TAILS: [(&str, u64); 5] =
    [("p90", 10), ("p95", 20), ("p99", 100), ("p99.9", 1_000), ("p99.99", 10_000)];

/// Which percentiles have no request beyond them.
fn few(result: &RunResult) -> Option<Caution> {
    let classes = [
        ("reads", &result.read),
        ("writes", &result.write),
        ("trims", &result.trim),
        ("flushes", &result.flush),
    ];
    let used: Vec<_> = classes.into_iter().filter(|(_, l)| l.requests > 0).collect();
    // Requests of one class are said once.
    let all =
        if used.len() == 1 { None } else { Some(("all", &result.total)).filter(|(_, l)| l.requests > 0) };
    let named = all.into_iter().chain(used).map(|(name, l)| (name.to_string(), l.requests));
    let tenants = result.tenants.iter().filter(|t| result.tenants.len() > 1 && t.total.requests > 0);
    let named = named.chain(tenants.map(|t| (format!("tenant {}", t.name), t.total.requests)));
    let short: Vec<String> = named
        .filter_map(|(name, requests)| {
            let at = TAILS.iter().position(|&(_, least)| requests < least)?;
            let beyond = if at + 1 < TAILS.len() { " and beyond" } else { "" };
            Some(format!("{}{beyond} of {name} ({})", TAILS[at].0, count(requests)))
        })
        .collect();
    let text =
        || format!("too few requests for {}: such a percentile is the longest latency", short.join(", "));
    (!short.is_empty()).then(|| Caution { text: text(), serious: false })
}

/// Each caution once, with the names of the rows that it is about; no names when it is about all.
pub fn all_cautions(rows: &[Row]) -> Vec<Caution> {
    let mut told: Vec<(Caution, Vec<&str>)> = Vec::new();
    for row in rows {
        for caution in cautions(&row.result) {
            match told.iter_mut().find(|t| t.0 == caution) {
                Some(t) => t.1.push(&row.label),
                None => told.push((caution, vec![&row.label])),
            }
        }
    }
    told.sort_by_key(|t| !t.0.serious);
    let named = told.into_iter().map(|(caution, labels)| match labels.len() == rows.len() {
        true => caution,
        false => Caution { text: format!("{}: {}", labels.join(", "), caution.text), ..caution },
    });
    named.collect()
}

/// A counter summed over all layers.
pub fn counter(result: &RunResult, name: &str) -> u64 {
    result.layers.iter().filter_map(|l| l.counters.get(name)).sum()
}

/// Blocks erased in all drives.
pub fn erases(result: &RunResult) -> u64 {
    counter(result, "erase_count")
}

/// Whether a runtime ends the load, which no repetition makes longer.
fn has_runtime(result: &RunResult) -> bool {
    result.provenance.workloads.iter().any(|w| w.runtime_ns.is_some())
}

/// Whether there is flash in the stack.
pub fn has_flash(result: &RunResult) -> bool {
    result.layers.iter().any(|l| l.counters.contains_key("erase_count"))
}

/// How many units of the busiest resource were busy on average, in thousandths: `("die", 3410)` is 3.41 dies.
pub fn busy(result: &RunResult) -> Option<(&'static str, u64)> {
    let mut sums: Vec<(&'static str, u64)> = Vec::new();
    for (&resource, &ns) in result.layers.iter().flat_map(|l| &l.busy_ns) {
        match sums.iter_mut().find(|s| s.0 == resource) {
            Some(sum) => sum.1 += ns,
            None => sums.push((resource, ns)),
        }
    }
    let (resource, ns) = sums.into_iter().max_by_key(|s| s.1).filter(|s| s.1 > 0)?;
    let average = (u128::from(ns) * 1000).checked_div(u128::from(result.duration_ns))?;
    Some((resource, u64::try_from(average).unwrap_or(u64::MAX)))
}

/// [`busy`] in words: `3.41 dies`.
pub fn busy_words(result: &RunResult) -> String {
    match busy(result) {
        Some((resource, 0)) => format!("<0.001 {resource}s"),
        Some((resource, average)) => format!("{} {resource}s", crate::format::three(average as f64 / 1000.0)),
        None => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_sim::result::{Latency, Provenance};

    fn result(mean: u64, p99: u64, saturated: bool) -> RunResult {
        let all = Latency { requests: 10_000, mean_ns: mean, p99_ns: p99, ..Latency::default() };
        RunResult {
            schema: nandu_sim::result::SCHEMA,
            provenance: Provenance::default(),
            duration_ns: 1_000_000,
            read: Latency::default(),
            write: Latency::default(),
            trim: Latency::default(),
            flush: Latency::default(),
            waf_thousandths: None,
            drive_waf_thousandths: None,
            saturated,
            state: State::Steady,
            steady_state: None,
            extended: 0,
            energy: None,
            lifetime: None,
            qdepth_max: 0,
            tenants: Vec::new(),
            jain_thousandths: None,
            over_time: None,
            changes: Vec::new(),
            layers: Vec::new(),
            interval_ns: 1,
            intervals: Vec::new(),
            histogram: Vec::new(),
            total: all,
        }
    }

    fn verdicts(results: &[(u64, u64, bool)]) -> Vec<String> {
        let named =
            results.iter().zip(["a", "b", "c"]).map(|(&(m, p, s), name)| (name.into(), result(m, p, s)));
        rows(named.collect()).into_iter().map(|r| r.verdict).collect()
    }

    #[test]
    fn a_verdict_says_how_much_and_which_tail() {
        assert_eq!(
            verdicts(&[(1800, 5000, false), (1000, 9000, false), (1810, 5000, false)]),
            [
                "baseline",
                "best; 1.8x faster mean than a, p99 1.8x worse",
                "same mean as a within 1 %, same p99"
            ]
        );
    }

    #[test]
    fn only_equals_are_ranked() {
        let mut new = result(100, 100, false);
        new.provenance.precondition = "empty".into();
        let unsteady = RunResult { state: State::NotSteady, ..result(300, 300, false) };
        let all = [result(1000, 1000, false), new, unsteady, result(900, 900, false)];
        let rows = rows(["a", "b", "c", "d"].map(String::from).into_iter().zip(all).collect());
        assert_eq!(rows.iter().map(|r| r.best).collect::<Vec<_>>(), [false, false, false, true]);
        assert!(rows[1].verdict.ends_with("not ranked: its drives began empty"), "{}", rows[1].verdict);
        let said = |row: &Row| {
            cautions(&row.result).iter().any(|c| c.serious && c.text.starts_with("not in steady"))
        };
        assert!(said(&rows[2]) && !said(&rows[3]));
    }

    #[test]
    fn every_row_that_is_too_short_is_named() {
        let short = || RunResult { state: State::TooShort, ..result(1000, 1000, false) };
        let named = |all: [RunResult; 2]| {
            all_cautions(&rows(["a", "b"].map(String::from).into_iter().zip(all).collect()))
        };
        let both = named([short(), short()]);
        assert!(
            both.len() == 1 && both[0].text.starts_with("too short to show") && !both[0].serious,
            "{both:?}"
        );
        let one = named([short(), result(1000, 1000, false)]);
        assert!(one.len() == 1 && one[0].text.starts_with("a: too short to show"), "{one:?}");
        let varies = RunResult { state: State::LoadVaries, ..result(1000, 1000, false) };
        assert_eq!(named([varies, result(1000, 1000, false)]), []);
    }

    #[test]
    fn percentiles_of_few_requests_are_named() {
        let of = |reads: u64, writes: u64| {
            let latency = |requests| Latency { requests, ..Latency::default() };
            let (all, reads, writes) = (latency(reads + writes), latency(reads), latency(writes));
            let result = RunResult { total: all, read: reads, write: writes, ..result(1000, 1000, false) };
            few(&result).map(|caution| (caution.text, caution.serious))
        };
        let said = |text: &str| {
            Some((format!("too few requests for {text}: such a percentile is the longest latency"), false))
        };
        assert_eq!(
            of(50, 9_000),
            said("p99.99 of all (9,050), p99 and beyond of reads (50), p99.99 of writes (9,000)")
        );
        assert_eq!(of(0, 999), said("p99.9 and beyond of writes (999)"));
        assert_eq!(of(1_000, 0), said("p99.99 of reads (1,000)"));
        assert_eq!((of(10_000, 0), of(10_000, 10_000), of(0, 0)), (None, None, None));
    }

    #[test]
    fn a_saturated_row_is_never_praised() {
        assert_eq!(
            verdicts(&[(900, 900, true), (1000, 1000, false)]),
            ["baseline; saturated: latencies measure the queue", "best; keeps up where a is saturated"]
        );
        assert_eq!(
            verdicts(&[(1000, 1000, false), (5, 5, true)])[1],
            "saturated: latencies measure the queue"
        );
    }
}

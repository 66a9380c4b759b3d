//! Figures of a run by name, as whole numbers: what bounds, goals and columns speak of.
//!
//! A figure of the whole stack has a plain name (`p99`, `energy`, `lifetime`). A figure of one device is `DEVICE.NAME`: its
//! `energy`, `lifetime`, `erases_per_block`, `mean`, `requests`, or any of the machine's own counters. Of one tenant among several there
//! are latencies, `tenant.NAME.p99`.

use crate::error::{SweepError, known};
use crate::quantity::Decimal;
use nandu_base::{Ask, Report};
use nandu_sim::RunResult;
use nandu_sim::result::{Latency, LayerResult};
use nandu_sim::steady::State;
use nandu_stack::{Built, Stack};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// What a figure measures, which fixes its unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Nanoseconds.
    Time,
    /// Nanojoules.
    Energy,
    /// Microwatts.
    Power,
    /// Thousandths of a year.
    Years,
    /// Thousandths of one.
    Factor,
    /// A number.
    Count,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    Rate,
}

impl Kind {
    /// The unit that figures are stored in.
    pub fn unit(self) -> &'static str {
        match self {
            Kind::Time => "ns",
            Kind::Energy => "nJ",
            Kind::Power => "uW",
            Kind::Years => "years/1000",
            Kind::Factor => "1/1000",
            Kind::Count => "1",
            Kind::Bytes => "B",
            Kind::Rate => "B/s",
        }
    }

    /// The unit that JSON has figures in, and people read them in: the thousandths as decimals.
    pub fn unit_of_decimals(self) -> &'static str {
        self.unit().trim_end_matches("/1000")
    }

    /// Units that may be written, with what each is in the stored one.
    fn units(self) -> &'static [(&'static str, u64)] {
        const NS: [(&str, u64); 6] = [
            ("ns", 1),
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("min", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ];
        match self {
            Kind::Time => &NS,
            Kind::Energy => &[
                ("J", 1_000_000_000),
                ("nJ", 1),
                ("uJ", 1_000),
                ("mJ", 1_000_000),
                ("kJ", 1_000_000_000_000),
                ("Wh", 3_600_000_000_000),
            ],
            Kind::Power => &[("W", 1_000_000), ("uW", 1), ("mW", 1_000)],
            Kind::Years => &[("years", 1000), ("year", 1000)],
            Kind::Factor => &[("", 1000)],
            Kind::Count => &[("", 1)],
            Kind::Bytes => &[
                ("B", 1),
                ("KiB", 1 << 10),
                ("MiB", 1 << 20),
                ("GiB", 1 << 30),
                ("TiB", 1 << 40),
                ("MB", 1_000_000),
                ("GB", 1_000_000_000),
                ("TB", 1_000_000_000_000),
            ],
            Kind::Rate => &[("MB/s", 1_000_000), ("B/s", 1), ("kB/s", 1_000), ("GB/s", 1_000_000_000)],
        }
    }

    /// Reads a figure with its unit. Err: what is wrong.
    pub fn read(self, text: &str) -> Result<u64, String> {
        let units = || self.units().iter().map(|u| u.0).collect::<Vec<_>>().join(", ");
        let Some((number, unit)) = Decimal::split(text) else {
            return Err(format!("`{}` is not a number", text.trim()));
        };
        let Some(&(_, scale)) = self.units().iter().find(|u| u.0 == unit) else {
            return Err(match (unit, self) {
                (_, Kind::Factor | Kind::Count) => format!("`{unit}` is not a unit of a plain number"),
                ("", _) => format!("`{number}` needs a unit: {}", units()),
                _ => format!("`{unit}` is none of the units {}", units()),
            });
        };
        number.times(scale).ok_or_else(|| {
            format!("`{}` is not a whole number of {}, or is negative", text.trim(), self.unit())
        })
    }
}

/// One measured figure. A figure that a run does not have is absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Figure {
    /// A lifetime of flash that was not erased in the run: longer than any other.
    Unworn,
    /// In the unit of its kind.
    #[serde(untagged)]
    Value(u64),
}

/// All figures of a run by name.
pub type Figures = BTreeMap<String, Figure>;

/// A figure that somebody asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name.
    pub name: String,
    /// What it measures.
    pub kind: Kind,
}

/// Figures of a class of requests.
type Of = fn(&Latency) -> u64;
const LATENCY: [(&str, Of); 9] = [
    ("mean", |l| l.mean_ns),
    ("stddev", |l| l.stddev_ns),
    ("p50", |l| l.p50_ns),
    ("p90", |l| l.p90_ns),
    ("p95", |l| l.p95_ns),
    ("p99", |l| l.p99_ns),
    ("p99.9", |l| l.p99_9_ns),
    ("p99.99", |l| l.p99_99_ns),
    ("max", |l| l.max_ns),
];
/// A class of requests: what its names begin with, and its figures.
type Class = (&'static str, fn(&RunResult) -> &Latency);
const CLASSES: [Class; 3] = [("", |r| &r.total), ("read_", |r| &r.read), ("write_", |r| &r.write)];

/// A figure of the whole stack.
struct Plain {
    name: &'static str,
    kind: Kind,
    summary: &'static str,
    of: fn(&RunResult) -> Option<Figure>,
}

fn value(n: u64) -> Option<Figure> {
    Some(Figure::Value(n))
}

/// The figure of a life: flash without one was not worn.
fn years(
    result: &RunResult,
    of: fn(&nandu_sim::energy::LifetimeResult) -> Option<nandu_sim::energy::Life>,
) -> Option<Figure> {
    let life = of(result.lifetime.as_ref()?);
    Some(life.map_or(Figure::Unworn, |l| Figure::Value(l.years_thousandths)))
}

const PLAIN: [Plain; 20] = [
    Plain { name: "iops", kind: Kind::Count, summary: "requests per second", of: |r| value(r.total.iops) },
    Plain {
        name: "bandwidth",
        kind: Kind::Rate,
        summary: "bytes per second",
        of: |r| value(r.total.bytes_per_second),
    },
    Plain {
        name: "duration",
        kind: Kind::Time,
        summary: "simulated time of the measurement",
        of: |r| value(r.duration_ns),
    },
    Plain {
        name: "requests",
        kind: Kind::Count,
        summary: "requests measured",
        of: |r| value(r.total.requests),
    },
    Plain {
        name: "failed",
        kind: Kind::Count,
        summary: "requests that failed",
        of: |r| value(r.total.failed),
    },
    Plain {
        name: "saturated",
        kind: Kind::Count,
        summary: "1 where requests came faster than they were served",
        of: |r| value(r.saturated.into()),
    },
    Plain {
        name: "steady",
        kind: Kind::Count,
        summary: "1 where the run was in steady state, 0 where it was not, none where that cannot be said",
        of: |r| match r.state {
            State::Steady => value(1),
            State::NotSteady => value(0),
            State::LoadVaries | State::TooShort => None,
        },
    },
    Plain {
        name: "state",
        kind: Kind::Count,
        summary: "0 steady, 1 not steady, 2 the load varies, 3 too short to say",
        of: |r| value(r.state as u64),
    },
    Plain {
        name: "extended",
        kind: Kind::Count,
        summary: "turns of the load before the one that was measured",
        of: |r| value(r.extended.into()),
    },
    Plain {
        name: "waf",
        kind: Kind::Factor,
        summary: "bytes that flash programmed for each byte the host wrote",
        of: |r| r.waf_thousandths.map(Figure::Value),
    },
    Plain { name: "erases", kind: Kind::Count, summary: "blocks erased, where there is flash", of: erases },
    Plain {
        name: "energy",
        kind: Kind::Energy,
        summary: "all devices together",
        of: |r| value(r.energy.as_ref()?.total_nj),
    },
    Plain {
        name: "power",
        kind: Kind::Power,
        summary: "the same over time",
        of: |r| r.energy.as_ref()?.mean_power_uw.map(Figure::Value),
    },
    Plain {
        name: "energy_per_request",
        kind: Kind::Energy,
        summary: "the same for each request",
        of: |r| r.energy.as_ref()?.per_request_nj.map(Figure::Value),
    },
    Plain {
        name: "energy_per_gib",
        kind: Kind::Energy,
        summary: "the same for each GiB written",
        of: |r| r.energy.as_ref()?.per_written_gib_nj.map(Figure::Value),
    },
    Plain {
        name: "lifetime",
        kind: Kind::Years,
        summary: "until the most worn block of flash is worn out, at this rate and with this skew",
        of: |r| years(r, |l| l.first_block),
    },
    Plain {
        name: "lifetime_region",
        kind: Kind::Years,
        summary: "until the first region of flash is worn out, if wear is even within it",
        of: |r| years(r, |l| l.first_region),
    },
    Plain {
        name: "lifetime_mean",
        kind: Kind::Years,
        summary: "until all cells are worn on the mean",
        of: |r| years(r, |l| l.mean_over_cells),
    },
    Plain {
        name: "wear_skew",
        kind: Kind::Factor,
        summary: "erases of the most worn block over the mean of its region, where that is largest",
        of: |r| {
            let skews = r.lifetime.as_ref()?.regions.iter().map(|r| r.spread_thousandths);
            skews.max().filter(|&skew| skew > 0).map(Figure::Value)
        },
    },
    Plain {
        name: "wear_is_chance",
        kind: Kind::Count,
        summary: "1 where blocks were erased too rarely to say which wears out first, so that `lifetime` is that of even wear",
        of: |r| value(r.lifetime.as_ref()?.regions.iter().any(|r| r.spread_is_chance).into()),
    },
];

/// Figures that every device has, with their kinds.
const DEVICE: [(&str, Kind); 5] = [
    ("energy", Kind::Energy),
    ("lifetime", Kind::Years),
    ("erases_per_block", Kind::Factor),
    ("mean", Kind::Time),
    ("requests", Kind::Count),
];

fn erases(result: &RunResult) -> Option<Figure> {
    result.lifetime.as_ref()?;
    value(result.layers.iter().filter_map(|l| l.counters.get("erase_count")).sum())
}

/// Names and summaries of the figures of a whole stack.
pub fn plain_names() -> Vec<(String, Kind, &'static str)> {
    let classes = CLASSES.iter().flat_map(|(class, _)| {
        LATENCY.iter().map(move |(name, _)| (format!("{class}{name}"), Kind::Time, "latency"))
    });
    classes.chain(PLAIN.iter().map(|p| (p.name.into(), p.kind, p.summary))).collect()
}

/// The name of a figure of one tenant.
pub fn of_tenant(tenant: &str, name: &str) -> String {
    format!("tenant.{tenant}.{name}")
}

/// Whether `name` is a latency, which tenants have of their own.
pub fn is_latency(name: &str) -> bool {
    let bare = ["read_", "write_"].iter().find_map(|class| name.strip_prefix(class)).unwrap_or(name);
    LATENCY.iter().any(|(latency, _)| *latency == bare)
}

/// All figures of `result`.
pub fn figures(result: &RunResult) -> Figures {
    let mut out = Figures::new();
    let mut put = |latency: &Latency, called: &dyn Fn(&str) -> String| {
        for (name, of) in LATENCY.iter().filter(|_| latency.requests > 0) {
            out.insert(called(name), Figure::Value(of(latency)));
        }
    };
    for (class, of_class) in CLASSES {
        put(of_class(result), &|name| format!("{class}{name}"));
    }
    for tenant in result.tenants.iter().filter(|_| result.tenants.len() > 1) {
        let classes = [&tenant.total, &tenant.read, &tenant.write];
        for ((class, _), latency) in CLASSES.iter().zip(classes) {
            put(latency, &|name| of_tenant(&tenant.name, &format!("{class}{name}")));
        }
    }
    out.extend(PLAIN.iter().filter_map(|p| Some((p.name.to_string(), (p.of)(result)?))));
    result.layers.iter().for_each(|layer| of_layer(&mut out, layer, result));
    out
}

fn of_layer(out: &mut Figures, layer: &LayerResult, result: &RunResult) {
    let mut put = |name: &str, figure| out.insert(format!("{}.{name}", layer.name), figure);
    for (name, &count) in &layer.counters {
        put(name, Figure::Value(count));
    }
    put("mean", Figure::Value(layer.latency_mean_ns));
    put("requests", Figure::Value(layer.requests.values().sum()));
    if !layer.energy.is_empty() {
        put("energy", Figure::Value(layer.energy.iter().map(|e| e.energy_nj).sum()));
    }
    let regions = || result.lifetime.iter().flat_map(|l| &l.regions).filter(|r| r.device == layer.name);
    if let Some(first) = regions().min_by_key(|r| r.most_worn.map_or(u64::MAX, |l| l.years_thousandths)) {
        put("lifetime", first.most_worn.map_or(Figure::Unworn, |l| Figure::Value(l.years_thousandths)));
        let most = regions().map(|r| r.erases_per_block_thousandths).max().unwrap_or(0);
        put("erases_per_block", Figure::Value(most));
    }
}

/// The devices of a stack and the names of what each counts, and its tenants.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Devices {
    counters: Vec<(String, Vec<Cow<'static, str>>)>,
    tenants: Vec<String>,
}

impl Devices {
    /// Those of `stack`, which was built.
    pub fn of(stack: &Stack, built: &mut Built) -> Devices {
        let counters = |part: &mut nandu_stack::BuiltPart| {
            let all = Report::of(&mut *part.machine, Ask::Counters).counters;
            (part.name.clone(), all.iter().map(|c| c.name.into()).collect())
        };
        let tenants = stack.tenants.iter().map(|tenant| tenant.name.as_str());
        Devices { counters: built.parts.iter_mut().map(counters).collect(), ..Devices::of_tenants(tenants) }
    }

    /// No device, and tenants with these names.
    pub fn of_tenants<'a>(names: impl Iterator<Item = &'a str>) -> Devices {
        Devices { counters: Vec::new(), tenants: names.map(str::to_string).collect() }
    }

    /// Adds those of another point; the order does not depend on which came first.
    pub(crate) fn join(&mut self, other: Devices) {
        for (name, counters) in other.counters {
            match self.counters.iter_mut().find(|d| d.0 == name) {
                Some(known) => known.1.extend(counters),
                None => self.counters.push((name, counters)),
            }
        }
        self.counters.sort();
        for (_, counters) in &mut self.counters {
            counters.sort_unstable();
            counters.dedup();
        }
        self.tenants.extend(other.tenants);
        self.tenants.sort_unstable();
        self.tenants.dedup();
    }
}

impl Metric {
    /// The figure called `name`, of the whole stack, of one of `devices` or of one of their tenants.
    pub fn resolve(name: &str, devices: &Devices, place: &str) -> Result<Metric, SweepError> {
        let plain = plain_names();
        if let Some((name, kind, _)) = plain.iter().find(|p| p.0 == name) {
            return Ok(Metric { name: name.clone(), kind: *kind });
        }
        let wrong = |right: String| SweepError::bad(place, format!("unknown metric `{name}`"), right);
        if let Some((tenant, rest)) = name.strip_prefix("tenant.").and_then(|rest| rest.split_once('.')) {
            return match devices.tenants.iter().any(|t| t == tenant) {
                true if is_latency(rest) => Ok(Metric { name: name.into(), kind: Kind::Time }),
                true => Err(wrong(known(rest, plain.iter().map(|p| p.0.as_str()).filter(|n| is_latency(n))))),
                false => {
                    let tenants = devices.tenants.iter().map(String::as_str);
                    Err(wrong(format!("no tenant is called `{tenant}`: {}", known(tenant, tenants))))
                }
            };
        }
        let device = name
            .split_once('.')
            .and_then(|(device, rest)| Some((devices.counters.iter().find(|d| d.0 == device)?, rest)));
        let Some(((_, counters), rest)) = device else {
            let mut names: Vec<&str> = plain.iter().map(|p| p.0.as_str()).collect();
            if name.contains('.') {
                names = devices.counters.iter().map(|d| d.0.as_str()).collect();
                let device = name.split('.').next().unwrap_or(name);
                return Err(wrong(format!("no device is called `{device}`: {}", known(device, names))));
            }
            return Err(wrong(known(name, names)));
        };
        if let Some((_, kind)) = DEVICE.iter().find(|d| d.0 == rest) {
            return Ok(Metric { name: name.into(), kind: *kind });
        }
        if counters.iter().any(|counter| counter == rest) {
            let kind = match rest {
                _ if rest.ends_with("_ns") => Kind::Time,
                _ if rest.ends_with("_nj") => Kind::Energy,
                _ => Kind::Count,
            };
            return Ok(Metric { name: name.into(), kind });
        }
        Err(wrong(known(rest, DEVICE.iter().map(|d| d.0).chain(counters.iter().map(|c| &**c)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_figures_are_read_in_their_unit() {
        let names = plain_names();
        let unique: std::collections::BTreeSet<&String> = names.iter().map(|n| &n.0).collect();
        assert_eq!(unique.len(), names.len());
        assert_eq!(Kind::Time.read("1.5 ms"), Ok(1_500_000));
        assert_eq!(Kind::Years.read("5 years"), Ok(5000));
        assert_eq!(Kind::Energy.read("0.5J"), Ok(500_000_000));
        assert_eq!(Kind::Factor.read("1.043"), Ok(1043));
        for (kind, text) in [
            (Kind::Time, "5"),
            (Kind::Time, "5 J"),
            (Kind::Count, "5 s"),
            (Kind::Count, "1.5"),
            (Kind::Bytes, "-1 B"),
            (Kind::Time, "soon"),
        ] {
            assert!(kind.read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_figure_is_a_number_or_a_word() {
        let text = |f| serde_json::to_string(&f).unwrap();
        assert_eq!((text(Figure::Value(7)), text(Figure::Unworn)), ("7".into(), "\"unworn\"".into()));
        for figure in [Figure::Value(u64::MAX), Figure::Unworn] {
            assert_eq!(serde_json::from_str::<Figure>(&text(figure)).unwrap(), figure);
        }
    }

    #[test]
    fn what_is_no_figure_says_what_is() {
        let devices = Devices {
            counters: vec![("disk".into(), vec!["spin_ups".into(), "seek_ns".into()])],
            tenants: vec!["web".into(), "db".into()],
        };
        let resolve =
            |name| Metric::resolve(name, &devices, "--bound").map(|m| m.kind).map_err(|e| e.to_string());
        assert_eq!(resolve("disk.spin_ups"), Ok(Kind::Count));
        assert_eq!(resolve("disk.seek_ns"), Ok(Kind::Time));
        assert_eq!(resolve("disk.energy"), Ok(Kind::Energy));
        assert_eq!(resolve("p99.9"), Ok(Kind::Time));
        assert_eq!(resolve("tenant.web.read_p99.9"), Ok(Kind::Time));
        assert!(
            resolve("tenant.wob.p99").unwrap_err().contains("no tenant is called `wob`: did you mean `web`?")
        );
        assert!(resolve("tenant.db.p98").unwrap_err().contains("did you mean `p9"));
        assert!(resolve("tenant.db.lifetime").is_err());
        assert_eq!(
            resolve("liftime"),
            Err("--bound: unknown metric `liftime`; did you mean `lifetime`?".into())
        );
        assert!(resolve("disk.spinups").unwrap_err().contains("did you mean `spin_ups`?"));
        assert!(
            resolve("disc.energy").unwrap_err().contains("no device is called `disc`: did you mean `disk`?")
        );
    }
}

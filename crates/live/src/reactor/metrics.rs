//! Figures for a monitoring system, in the text format of Prometheus (version 0.0.4).
//!
//! *Latency* is counted in buckets where it can be seen whole: for the requests of each export, from the moment they are read from the socket until their reply is
//! ready, by operation and with the tenant of the export; and for those of each leg, from its arrival at the leaf to its end. Layers between tell the sum and the number of
//! what they end themselves.
//!
//! All figures count from the start of the server. What a layer counts for itself has the name that `status` gives it, as a label.

use super::Reactor;
use super::legs::LegState;
use nandu_base::{Ask, ByteLen, Counter, Health, LayerStats, Op, Span, TenantId, TenantShare};
use std::fmt::Write;

/// Upper ends of the buckets, in nanoseconds; one more takes what is longer.
const BOUNDS: [u64; 20] = [
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];
/// Ways in which a device may stand.
const HEALTHS: [Health; 4] = [Health::Healthy, Health::Exposed, Health::Degraded, Health::Failed];
const LEG_STATES: [&str; 4] = ["active", "missing", "faulty", "returning"];

/// Requests of one operation.
#[derive(Clone, Debug)]
struct Ended {
    /// One for each of [`BOUNDS`], and one for what is longer.
    buckets: [u64; BOUNDS.len() + 1],
    /// Nanoseconds of all together.
    sum: u64,
    bytes: u64,
    failed: u64,
}

impl Ended {
    const NONE: Ended = Ended { buckets: [0; BOUNDS.len() + 1], sum: 0, bytes: 0, failed: 0 };

    fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// What has ended, by operation.
#[derive(Clone, Debug)]
pub(super) struct Tally([Ended; Op::ALL.len()]);

impl Tally {
    pub const NONE: Tally = Tally([Ended::NONE; Op::ALL.len()]);

    /// A request has ended.
    pub fn ended(&mut self, op: Op, bytes: ByteLen, took: Span, is_failed: bool) {
        let of = &mut self.0[op as usize];
        of.buckets[BOUNDS.partition_point(|&bound| bound < took.0)] += 1;
        of.sum = of.sum.saturating_add(took.0);
        of.bytes += bytes.0;
        of.failed += u64::from(is_failed);
    }

    /// The operations that there were.
    fn seen(&self) -> impl Iterator<Item = (Op, &Ended)> {
        Op::ALL.iter().map(|&op| (op, &self.0[op as usize])).filter(|(_, ended)| ended.count() > 0)
    }
}

/// The text under way.
struct Page(String);

impl Page {
    /// What follows are samples of this figure.
    fn figure(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP nandu_{name} {help}\n# TYPE nandu_{name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.0, "nandu_{name}");
        for (at, (key, text)) in labels.iter().enumerate() {
            let open = if at == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{open}{key}=\"{text}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{close} {value}");
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], of: &Ended) {
        let mut below = 0;
        let bucket = format!("{name}_bucket");
        for (bound, count) in BOUNDS.iter().zip(of.buckets) {
            below += count;
            let le = seconds(*bound);
            self.sample(&bucket, &[labels, &[("le", le.as_str())]].concat(), below);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), of.count());
        self.sample(&format!("{name}_sum"), labels, seconds(of.sum));
        self.sample(&format!("{name}_count"), labels, of.count());
    }
}

/// Nanoseconds as seconds, exactly.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').unwrap_or(text).into()
}

impl Reactor {
    /// How everything stands, for a monitoring system.
    pub fn metrics(&mut self) -> String {
        let mut page = Page(String::new());
        page.figure("info", "gauge", "The version of the server, as a label; always 1.");
        page.sample("info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
        let mut gauge = |name: &str, help: &str, value: u64| {
            page.figure(name, "gauge", help);
            page.sample(name, &[], value);
        };
        gauge("connections", "NBD clients that are connected.", self.clients() as u64);
        gauge("connections_max", "Most clients that may be.", self.caps.connections as u64);
        gauge(
            "requests_in_flight",
            "Requests of clients that are not answered.",
            self.host.ops.alive() as u64,
        );
        gauge("memory_used_bytes", "Memory held for clients.", self.memory.used());
        gauge("memory_max_bytes", "Most of it.", self.caps.memory.0);
        gauge("draining", "1 when the server is ending.", u64::from(self.draining));
        self.of_exports(&mut page);
        self.of_tenants(&mut page);
        self.of_devices(&mut page);
        self.of_legs(&mut page);
        page.0
    }

    fn of_exports(&self, page: &mut Page) {
        page.figure("export_size_bytes", "gauge", "Size of an export.");
        for export in self.exports.all() {
            page.sample("export_size_bytes", &[("export", &export.name)], export.size.0);
        }
        let all = || self.exports.all().iter().zip(&self.targets).zip(&self.served);
        let named = |tenant: TenantId| self.shares[usize::from(tenant.0)].name.as_str();
        type Sum = (&'static str, &'static str, fn(&Ended) -> u64);
        let sums: [Sum; 2] = [
            ("export_bytes_total", "Bytes of requests that were answered.", |ended| ended.bytes),
            ("export_errors_total", "Requests that were answered with an error.", |ended| ended.failed),
        ];
        for (name, help, of) in sums {
            page.figure(name, "counter", help);
            for ((export, _), served) in all() {
                for (op, ended) in served.seen() {
                    page.sample(name, &[("export", &export.name), ("op", op.name())], of(ended));
                }
            }
        }
        page.figure("export_latency_seconds", "histogram", "From a request's arrival to its reply.");
        for ((export, target), served) in all() {
            for (op, ended) in served.seen() {
                let labels =
                    [("export", export.name.as_str()), ("tenant", named(target.tenant)), ("op", op.name())];
                page.histogram("export_latency_seconds", &labels, ended);
            }
        }
    }

    fn of_tenants(&self, page: &mut Page) {
        type Limit = (&'static str, &'static str, fn(&TenantShare) -> Option<u64>);
        let limits: [Limit; 5] = [
            ("tenant_weight", "Weight of a tenant.", |share| Some(u64::from(share.weight))),
            ("tenant_read_bytes_limit", "Most bytes that it may read in a second.", |share| share.rbps),
            ("tenant_write_bytes_limit", "Most bytes that it may write in a second.", |share| share.wbps),
            ("tenant_read_requests_limit", "Most reads that it may ask for in a second.", |share| {
                share.riops
            }),
            ("tenant_write_requests_limit", "Most writes that it may ask for in a second.", |share| {
                share.wiops
            }),
        ];
        for (name, help, of) in limits {
            page.figure(name, "gauge", help);
            for share in &self.shares[1..] {
                if let Some(value) = of(share) {
                    page.sample(name, &[("tenant", &share.name)], value);
                }
            }
        }
    }

    fn of_devices(&mut self, page: &mut Page) {
        let counters =
            (0..self.graph.len() as u32).map(|node| self.graph.report(node, Ask::Counters).counters);
        let counters: Vec<Vec<Counter>> = counters.collect();
        let nodes = || 0..self.graph.len() as u32;
        let labels = |node: u32| [("device", self.graph.name(node)), ("kind", self.kinds[node as usize])];
        type ByOp = (&'static str, &'static str, fn(&LayerStats) -> &[u64; Op::ALL.len()]);
        let by_op: [ByOp; 2] = [
            ("device_requests_total", "Requests that reached a device.", |stats| &stats.requests),
            ("device_bytes_total", "Bytes of them.", |stats| &stats.bytes),
        ];
        for (name, help, of) in by_op {
            page.figure(name, "counter", help);
            for node in nodes() {
                for (op, &value) in Op::ALL.iter().zip(of(self.graph.stats(node))).filter(|(_, n)| **n > 0) {
                    page.sample(name, &[&labels(node)[..], &[("op", op.name())]].concat(), value);
                }
            }
        }
        page.figure("device_errors_total", "counter", "Requests that failed in a device.");
        for node in nodes() {
            page.sample("device_errors_total", &labels(node), self.graph.stats(node).failed);
        }
        page.figure("device_latency_seconds", "summary", "Of the requests that end in a device.");
        for node in nodes().filter(|&node| self.graph.stats(node).finished > 0) {
            let stats = self.graph.stats(node);
            page.sample("device_latency_seconds_sum", &labels(node), seconds(stats.latency_total.0));
            page.sample("device_latency_seconds_count", &labels(node), stats.finished);
        }
        page.figure("device_health", "gauge", "1 for the state in which a device is.");
        for node in nodes() {
            let Some(health) = self.graph.members(node).and_then(|of| of.health()) else { continue };
            for state in HEALTHS {
                let labels = [&labels(node)[..], &[("state", state.word())]].concat();
                page.sample("device_health", &labels, u64::from(state == health));
            }
        }
        page.figure(
            "device_maintenance_left_bytes",
            "gauge",
            "What a resync, a rebuild or a scrub has still to do.",
        );
        for (device, work, left, _) in self.courses() {
            page.sample("device_maintenance_left_bytes", &[("device", device), ("work", work)], left);
        }
        page.figure("device_maintenance_bytes", "gauge", "The whole of it.");
        for (device, work, _, of) in self.courses() {
            page.sample("device_maintenance_bytes", &[("device", device), ("work", work)], of);
        }
        page.figure("device_figure", "untyped", "What a device counts for itself, by name.");
        for (node, counters) in nodes().zip(&counters) {
            for counter in counters {
                let labels = [&labels(node)[..], &[("figure", counter.name)]].concat();
                page.sample("device_figure", &labels, counter.value);
            }
        }
    }

    fn of_legs(&self, page: &mut Page) {
        let legs = || {
            let nodes = (0u32..).zip(&self.host.legs);
            nodes.filter_map(|(node, leg)| Some((self.graph.name(node), leg.as_ref()?)))
        };
        page.figure("leg_state", "gauge", "1 for the state in which a leg is.");
        for (name, leg) in legs() {
            for state in LEG_STATES {
                page.sample(
                    "leg_state",
                    &[("leg", name), ("state", state)],
                    u64::from(leg.state.word() == state),
                );
            }
        }
        page.figure("leg_errno", "gauge", "The errno for which a leg was given up.");
        for (name, leg) in legs() {
            if let LegState::Faulty { errno } = leg.state {
                page.sample("leg_errno", &[("leg", name)], errno);
            }
        }
        page.figure("leg_requests_in_flight", "gauge", "Requests that a leg has not ended.");
        for (name, leg) in legs() {
            page.sample("leg_requests_in_flight", &[("leg", name)], leg.in_flight);
        }
        page.figure("leg_latency_seconds", "histogram", "Of the requests of a leg.");
        for (name, leg) in legs() {
            for (op, ended) in leg.ended.seen() {
                page.histogram("leg_latency_seconds", &[("leg", name), ("op", op.name())], ended);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_counted_in_the_bucket_that_ends_at_it_or_behind() {
        let mut tally = Tally::NONE;
        for ns in [0, 20_000, 20_001, 60_000_000_000, 60_000_000_001] {
            tally.ended(Op::Read, ByteLen(512), Span(ns), ns == 0);
        }
        let (op, ended) = tally.seen().next().expect("reads");
        assert_eq!((op, ended.count(), ended.bytes, ended.failed), (Op::Read, 5, 2560, 1));
        assert_eq!((ended.buckets[0], ended.buckets[1]), (2, 1));
        assert_eq!((ended.buckets[BOUNDS.len() - 1], ended.buckets[BOUNDS.len()]), (1, 1));
        let mut page = Page(String::new());
        page.histogram("x", &[("leg", "a\"b")], ended);
        let lines: Vec<&str> = page.0.lines().collect();
        assert_eq!(lines[0], "nandu_x_bucket{leg=\"a\\\"b\",le=\"0.00002\"} 2");
        assert_eq!(lines[BOUNDS.len() - 1], "nandu_x_bucket{leg=\"a\\\"b\",le=\"60\"} 4");
        assert_eq!(lines[BOUNDS.len()], "nandu_x_bucket{leg=\"a\\\"b\",le=\"+Inf\"} 5");
        assert_eq!(lines[BOUNDS.len() + 1], "nandu_x_sum{leg=\"a\\\"b\"} 120.000040002");
        assert_eq!(lines[BOUNDS.len() + 2], "nandu_x_count{leg=\"a\\\"b\"} 5");
    }

    #[test]
    fn bounds_rise_and_seconds_are_exact() {
        assert!(BOUNDS.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!([0, 1, 1_500_000_000, 2_000_000_000].map(seconds), ["0", "0.000000001", "1.5", "2"]);
    }
}

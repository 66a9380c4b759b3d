//! The tables of a stack file beside the devices: exports, tenants and workloads.

use nandu_base::{BadLines, ByteLen, Fit, Ratio, Span};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// `[export.NAME]`: a way into the stack.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExportTable {
    /// What it is for, in words.
    pub description: Option<String>,
    /// The device that takes its requests.
    pub device: String,
    /// The tenant whose requests they are. Default: a tenant of the export's own name.
    pub tenant: Option<String>,
    /// Whether writes are refused. Default false.
    #[serde(default)]
    pub read_only: bool,
}

/// `[tenant.NAME]`: someone whose requests are weighed, limited and accounted for apart.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TenantTable {
    /// Who it is, in words.
    pub description: Option<String>,
    /// Share of the device relative to other tenants, as in cgroup's io.weight. Default 100, from 1 to 10000.
    #[serde(default = "weight")]
    #[schemars(range(min = 1, max = 10_000))]
    pub weight: u16,
    /// Upper limits, as in cgroup's io.max. Default: none.
    #[serde(default)]
    pub max: Max,
    /// Latency that the tenant wants to stay below. Default: none.
    pub target_latency: Option<Span>,
}

impl Default for TenantTable {
    fn default() -> TenantTable {
        TenantTable { description: None, weight: weight(), max: Max::default(), target_latency: None }
    }
}

fn weight() -> u16 {
    100
}

/// Upper limits of a tenant. A limit that is not given does not apply.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Max {
    /// Bytes read per second.
    pub rbps: Option<ByteLen>,
    /// Bytes written per second.
    pub wbps: Option<ByteLen>,
    /// Reads per second, at least 1.
    #[schemars(range(min = 1))]
    pub riops: Option<u64>,
    /// Writes per second, at least 1.
    #[schemars(range(min = 1))]
    pub wiops: Option<u64>,
}

/// `[workload.NAME]`: requests that are sent to an export. Either `trace` or `generator` is given.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadTable {
    /// What it is, in words.
    pub description: Option<String>,
    /// The export that takes the requests. Default: the only one.
    pub export: Option<String>,
    /// A trace file, relative to the stack file.
    pub trace: Option<String>,
    /// Trace files: the format, as `nandu list formats` names them. Default: recognised by content.
    pub trace_format: Option<String>,
    /// Trace files in no known format, or Parquet: what their columns are, such as `time:us,op,offset:sectors,size`, or a TOML file that says
    /// so, relative to the stack file. Not with `trace_format`.
    pub columns: Option<String>,
    /// Trace files: what is done with lines that are wrong. Default `stop`.
    #[serde(default)]
    pub bad_lines: BadLines,
    /// A built-in generator: `financial1`, `websearch1`, `webmail`, `desktop`, `small-files`, `uniform`, `mixed-zipf`.
    pub generator: Option<String>,
    /// How addresses of the trace are brought onto the device. Default `error`.
    #[serde(default)]
    pub fit: Fit,
    /// Factor on the times between arrivals: 0.5 sends twice as fast. Default 1; more than 0, not with `iodepth` or `rate_iops`.
    pub time_scale: Option<Ratio>,
    /// Requests kept outstanding, whatever the arrival times (a closed loop). Default: arrival times count. From 1 to
    /// 65536.
    #[schemars(range(min = 1, max = 65_536))]
    pub iodepth: Option<u32>,
    /// Arrivals per second, instead of the trace's own. At least 1; not with `iodepth`.
    #[schemars(range(min = 1))]
    pub rate_iops: Option<u64>,
    /// Requests after which the workload ends. Default: the end of the trace, or as many as the generator makes. At least 1.
    #[schemars(range(min = 1))]
    pub number_ios: Option<u64>,
    /// Time after which no more requests come. Default: the end of the trace, which ends the workload in any case. More than 0.
    pub runtime: Option<Span>,
    /// Requests at the start of this workload that warm the stack and are not counted. What devices do counts from the first request of
    /// any workload that is counted. Default 0.
    #[serde(default)]
    pub warmup_ios: u64,
    /// Generators: share of reads, at most 1. Default: the generator's own.
    pub read_share: Option<Ratio>,
    /// Generators: length of a request. Default: the generator's own.
    pub bs: Option<ByteLen>,
    /// Generators: bytes of the export that are used, from its start. Default: all.
    pub size: Option<ByteLen>,
    /// Generators: skew of a Zipf distribution; 0 is uniform. Default: the generator's own.
    pub zipf: Option<Ratio>,
    /// Generators: any of its parameters, by the names that `nandu list generators` shows: `{ space = "128 MiB" }`. Default: its own.
    #[serde(default)]
    pub parameters: BTreeMap<String, serde_json::Value>,
    /// Generators: the seed of the requests. Default: that of the run.
    pub seed: Option<u64>,
}

impl WorkloadTable {
    /// The first key whose value cannot be, and why.
    pub(super) fn flaw(&self) -> Option<(&'static str, &'static str)> {
        let generator_only = [
            ("read_share", self.read_share.is_some()),
            ("bs", self.bs.is_some()),
            ("size", self.size.is_some()),
            ("zipf", self.zipf.is_some()),
            ("parameters", !self.parameters.is_empty()),
            ("seed", self.seed.is_some()),
        ];
        let file_only = [
            ("trace_format", self.trace_format.is_some()),
            ("columns", self.columns.is_some()),
            ("bad_lines", self.bad_lines != BadLines::default()),
        ];
        let twice = [
            ("write", self.read_share.is_some()),
            ("size", self.bs.is_some()),
            ("space", self.size.is_some()),
            ("zipf", self.zipf.is_some()),
        ];
        if twice.iter().any(|&(parameter, given)| given && self.parameters.contains_key(parameter)) {
            return Some((
                "parameters",
                "`write`, `size`, `space` and `zipf` go without `read_share`, `bs`, `size` and `zipf` beside them, which say the same",
            ));
        }
        if self.read_share.is_some_and(|share| share.num > share.den) {
            return Some(("read_share", "a share is at most 1"));
        }
        if self.time_scale.is_some_and(|scale| scale.num == 0) {
            return Some(("time_scale", "a factor on times is more than 0"));
        }
        if self.runtime == Some(Span::ZERO) {
            return Some(("runtime", "a workload runs for more than 0 s"));
        }
        if self.iodepth.is_some() && self.rate_iops.is_some() {
            return Some((
                "rate_iops",
                "a workload has either `iodepth`, and waits for the stack, or `rate_iops`",
            ));
        }
        if self.time_scale.is_some() && (self.iodepth.is_some() || self.rate_iops.is_some()) {
            return Some(("time_scale", "with `iodepth` or `rate_iops` arrival times do not count"));
        }
        if self.columns.is_some() && self.trace_format.is_some() {
            return Some(("columns", "describes a file in no known format; leave out `trace_format`"));
        }
        let given = |keys: &[(&'static str, bool)]| keys.iter().find(|key| key.1).map(|key| key.0);
        match self.trace.is_some() {
            true => given(&generator_only)
                .map(|key| (key, "says how a generator makes requests; a trace has its own")),
            false => {
                given(&file_only).map(|key| (key, "says how a trace file is read; a generator has none"))
            }
        }
    }
}

//! A fio job file as a generator: the requests that fio would send, without running it.
//!
//! One job, with the keys of `[global]` under its own:
//!
//! | key                                    | meaning here, as in fio                                                     |
//! |----------------------------------------|-----------------------------------------------------------------------------|
//! | `rw`, `readwrite`                      | read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw       |
//! | `rwmixread`, `rwmixwrite`              | per cent of reads or writes in a mixed job; 50                               |
//! | `bs`, `blocksize`                      | one length; 4k                                                               |
//! | `bssplit`                              | lengths with per cents, `4k/60:64k/40`; what has none shares the rest        |
//! | `size`, `offset`                       | where the requests lie; the device when `size` is not given                   |
//! | `io_size`, `number_ios`                | how much is asked for; `size` bytes                                           |
//! | `iodepth`                              | requests outstanding; 1, also where the engine waits for each                |
//! | `ioengine`                             | whether it waits for each; psync, which does                                 |
//! | `rate_iops`, `rate`                    | requests or bytes a second of each direction, with at most `iodepth` outstanding |
//! | `kb_base`                              | what k is; 1024                                                              |
//! | `runtime`, `time_based`                | no request begins later; the job begins again until then                      |
//! | `random_distribution`                  | random, or `zipf:THETA`                                                       |
//! | `norandommap`                          | random places are drawn each for itself; else every block comes once before one comes again |
//! | `fsync`, `fdatasync`                   | a flush after so many writes                                                  |
//!
//! *Sizes.* With the `kb_base` of 1024 that fio has by itself, k, m, g and t are powers of 1024, and KiB, MiB and so on are powers of *1000*; with
//! 1000 it is the other way round. Both are fio's.
//!
//! *Rates* are of each direction: a mixed job of `rate_iops=100` reads 100 times and writes 100 times a second, whatever its mix says, because a
//! direction that is ahead of its rate waits while the other is sent.
//!
//! Keys that say where and how fio sends them (`direct`, `filename` and the like), on which processors it runs, and what it writes down
//! (`write_lat_log`, `percentile_list` and the like) have no meaning here and are passed over; every other key is refused. Differences: random numbers are ours, from `--seed`; with `bssplit` or
//! `zipf` places are drawn each for itself, as fio does for zipf; a job that begins again sends the same requests.
//! Source: `fio(1)` of fio 3.33; `rate_ddir` and `__get_mult_bytes` of its code.

use crate::error::TraceError;
use crate::record::{MAX_END_SECTORS, MAX_LEN_SECTORS, MAX_TIME_NS, Record};
use crate::synth::zipf::{MAX_RANKS, Scatter, Zipf};
use crate::trace::{Arrival, Asked, Meta, Origin};
use nandu_base::{Op, Ratio, Rng, SECTOR, Span};

/// Most bytes a job file has.
pub const FILE_MOST: u64 = 1 << 20;

/// Keys that change nothing about the requests.
const WITHOUT_MEANING: [&str; 60] = [
    // What it writes down.
    "write_bw_log",
    "write_lat_log",
    "write_hist_log",
    "write_iops_log",
    "write_iolog",
    "log_avg_msec",
    "log_hist_msec",
    "log_hist_coarseness",
    "log_max_value",
    "log_offset",
    "log_prio",
    "log_compression",
    "log_store_compressed",
    "log_unix_epoch",
    "log_entries",
    "per_job_logs",
    "percentile_list",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "significant_figures",
    "unified_rw_reporting",
    "bwavgtime",
    "iopsavgtime",
    "disk_util",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "gtod_reduce",
    "clocksource",
    "stats",
    "eta",
    // How it runs.
    "cpus_allowed",
    "cpus_allowed_policy",
    "cpumask",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "exitall",
    "exitall_on_error",
    "fallocate",
    "allow_mounted_write",
    "allow_file_create",
    "overwrite",
    "file_service_type",
    "name",
    "description",
    "filename",
    "directory",
    "direct",
    "buffered",
    "thread",
    "group_reporting",
    "stonewall",
    "wait_for_previous",
    "invalidate",
    "randrepeat",
    "refill_buffers",
    "create_on_open",
    "unlink",
];

/// Engines that wait for each request: a depth has no effect on them.
const WAITING: [&str; 7] = ["psync", "sync", "vsync", "pvsync", "pvsync2", "mmap", "splice"];

/// Keys that are read.
const KEYS: [&str; 21] = [
    "rw",
    "readwrite",
    "rwmixread",
    "rwmixwrite",
    "bs",
    "blocksize",
    "bssplit",
    "size",
    "offset",
    "io_size",
    "number_ios",
    "iodepth",
    "ioengine",
    "rate_iops",
    "rate",
    "kb_base",
    "runtime",
    "time_based",
    "random_distribution",
    "fsync",
    "fdatasync",
];

/// One job.
#[derive(Clone, PartialEq, Debug)]
pub struct FioJob {
    name: String,
    source_name: String,
    random: bool,
    read_percent: u64,
    /// What is no read.
    other: Op,
    /// Lengths in bytes with their weights.
    sizes: Vec<(u64, u64)>,
    size: Option<u64>,
    offset: u64,
    io_size: Option<u64>,
    number_ios: Option<u64>,
    iodepth: u32,
    rate: Option<Rate>,
    runtime: Option<Span>,
    time_based: bool,
    zipf: Option<Ratio>,
    map: bool,
    flush_every: u64,
    notes: Vec<String>,
}

/// Of each direction.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Rate {
    Requests(u64),
    Bytes(u64),
}

/// Whether a file that begins so is a job file: its first line that is no comment is `[a section]`.
pub fn is_job(head: &[u8]) -> bool {
    let mut lines = head.split(|&b| b == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|l| !l.is_empty() && !l.starts_with(b"#") && !l.starts_with(b";"));
    first.is_some_and(|l| l.len() > 2 && l.starts_with(b"[") && l.ends_with(b"]"))
}

/// A key with its line.
struct Setting<'t> {
    line: u64,
    key: &'t str,
    value: &'t str,
}

struct Place<'a> {
    source_name: &'a str,
    /// What k is.
    kb_base: u64,
}

impl Place<'_> {
    fn wrong(&self, line: u64, key: &str, why: impl Into<String>) -> TraceError {
        TraceError::Job { source_name: self.source_name.into(), line, key: key.into(), why: why.into() }
    }

    fn bytes(&self, s: &Setting<'_>) -> Result<u64, TraceError> {
        let lower = s.value.to_ascii_lowercase();
        let at = lower.find(|c: char| !c.is_ascii_digit()).unwrap_or(lower.len());
        let (digits, unit) = lower.split_at(at);
        let power = |letter| ["", "k", "m", "g", "t", "p"].iter().position(|&p| p == letter);
        let (letter, base) = match unit.strip_suffix("ib") {
            // A unit of IEC 80000-13 is the other one.
            Some(letter) if !letter.is_empty() => (letter, 2024 - self.kb_base),
            _ => (unit.strip_suffix(['b', 'i']).unwrap_or(unit), self.kb_base),
        };
        let number: Option<u64> = digits.parse().ok();
        let scale = power(letter).and_then(|power| base.checked_pow(power as u32));
        number.zip(scale).and_then(|(n, scale)| n.checked_mul(scale)).ok_or_else(|| {
            self.wrong(s.line, s.key, format!("`{}` is not a size; write for example 4k, 16m or 1g", s.value))
        })
    }

    fn whole(&self, s: &Setting<'_>) -> Result<u64, TraceError> {
        s.value.parse().map_err(|_| self.wrong(s.line, s.key, format!("`{}` is not a whole number", s.value)))
    }

    fn percent(&self, s: &Setting<'_>) -> Result<u64, TraceError> {
        let n = self.whole(s)?;
        if n > 100 {
            return Err(self.wrong(s.line, s.key, format!("{n} is more than 100 per cent")));
        }
        Ok(n)
    }

    fn flag(&self, s: &Setting<'_>) -> Result<bool, TraceError> {
        match s.value {
            "" | "1" => Ok(true),
            "0" => Ok(false),
            other => Err(self.wrong(s.line, s.key, format!("`{other}`: it is 0 or 1"))),
        }
    }

    fn time(&self, s: &Setting<'_>) -> Result<Span, TraceError> {
        const UNITS: [(&str, u64); 6] = [
            ("us", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
            ("d", 86_400_000_000_000),
        ];
        let at = s.value.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.value.len());
        let (digits, unit) = s.value.split_at(at);
        let unit = if unit.is_empty() {
            Some(1_000_000_000)
        } else {
            UNITS.iter().find(|u| u.0 == unit).map(|u| u.1)
        };
        let ns = digits.parse::<u64>().ok().zip(unit).and_then(|(n, unit)| n.checked_mul(unit));
        ns.filter(|&ns| ns > 0 && ns <= MAX_TIME_NS).map(Span).ok_or_else(|| {
            self.wrong(
                s.line,
                s.key,
                format!("`{}` is not a time up to 52 days; write for example 30, 500ms or 2m", s.value),
            )
        })
    }

    fn split(&self, s: &Setting<'_>) -> Result<Vec<(u64, u64)>, TraceError> {
        let form = || {
            self.wrong(
                s.line,
                s.key,
                format!("`{}`: write lengths with per cents, such as 4k/60:64k/40", s.value),
            )
        };
        if s.value.contains(',') {
            return Err(self.wrong(
                s.line,
                s.key,
                "lengths apart for reads and writes are not read; give one list",
            ));
        }
        let mut parts = Vec::new();
        for part in s.value.split(':') {
            let (len, share) = part.split_once('/').unwrap_or((part, ""));
            let len = self.bytes(&Setting { value: len, ..*s })?;
            let share = if share.is_empty() { None } else { Some(share.parse::<u64>().map_err(|_| form())?) };
            parts.push((len, share));
        }
        let given: u64 = parts.iter().filter_map(|p| p.1).fold(0, u64::saturating_add);
        let open = parts.iter().filter(|p| p.1.is_none()).count() as u64;
        if given > 100 || open == 0 && given != 100 {
            return Err(self.wrong(s.line, s.key, format!("the shares add up to {given}, not to 100")));
        }
        // In parts of 100 times the number that shares the rest, so that they are whole.
        let each = 100 - given;
        let scale = open.max(1);
        Ok(parts
            .into_iter()
            .map(|(len, share)| (len, share.map_or(each, |s| s * scale)))
            .filter(|p| p.1 > 0)
            .collect())
    }
}

impl FioJob {
    /// The job in the text of a job file; `source_name` stands in errors.
    ///
    /// # Errors
    /// [`TraceError::Job`] with key and line.
    pub fn parse(text: &str, source_name: &str) -> Result<FioJob, TraceError> {
        let mut place = Place { source_name, kb_base: 1024 };
        let (mut global, mut own): (Vec<Setting<'_>>, Vec<Setting<'_>>) = (Vec::new(), Vec::new());
        let mut section: Option<&str> = None;
        let mut job: Option<(&str, u64)> = None;
        for (line, text) in (1u64..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with(['#', ';']) {
                continue;
            }
            if let Some(name) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) {
                section = Some(name.trim());
                if name.trim() != "global" {
                    if let Some((first, _)) = job {
                        let why = format!(
                            "a second job; one job is replayed at a time, and `{first}` comes before it"
                        );
                        return Err(place.wrong(line, name, why));
                    }
                    job = Some((name.trim(), line));
                }
                continue;
            }
            let (key, value) = text.split_once('=').map_or((text, ""), |(k, v)| (k.trim(), v.trim()));
            let setting = Setting { line, key, value };
            match section {
                None => return Err(place.wrong(line, key, "it stands before the first [section]")),
                Some("global") => global.push(setting),
                Some(_) => own.push(setting),
            }
        }
        let Some((name, _)) = job else {
            return Err(place.wrong(1, "[...]", "there is no job beside [global]"));
        };
        // It is of all sizes, wherever it stands.
        for setting in global.iter().chain(&own).filter(|s| s.key == "kb_base") {
            place.kb_base = match setting.value {
                "1000" => 1000,
                "1024" => 1024,
                other => {
                    let why = format!("`{other}`: it is 1000 or 1024");
                    return Err(place.wrong(setting.line, setting.key, why));
                }
            };
        }
        FioJob::of(name, &place, global.iter().chain(&own))
    }

    fn of<'s, 't: 's>(
        name: &str,
        place: &Place<'_>,
        settings: impl Iterator<Item = &'s Setting<'t>>,
    ) -> Result<FioJob, TraceError> {
        let mut job = FioJob {
            name: name.into(),
            source_name: place.source_name.into(),
            random: false,
            read_percent: 100,
            other: Op::Write,
            sizes: vec![(4096, 1)],
            size: None,
            offset: 0,
            io_size: None,
            number_ios: None,
            iodepth: 1,
            rate: None,
            runtime: None,
            time_based: false,
            zipf: None,
            map: true,
            flush_every: 0,
            notes: Vec::new(),
        };
        let (mut mixed, mut mix) = (false, 50);
        let mut engine = WAITING[0];
        for s in settings {
            match s.key {
                "rw" | "readwrite" => {
                    let sequence = s.value.strip_prefix("rand").unwrap_or(s.value);
                    job.random = sequence != s.value;
                    (job.read_percent, job.other) = match sequence {
                        "read" => (100, Op::Write),
                        "write" => (0, Op::Write),
                        "trim" => (0, Op::Trim),
                        "rw" | "readwrite" => (50, Op::Write),
                        _ => {
                            let known =
                                "read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw";
                            return Err(place.wrong(
                                s.line,
                                s.key,
                                format!("`{}`: it is one of {known}", s.value),
                            ));
                        }
                    };
                    mixed = matches!(sequence, "rw" | "readwrite");
                }
                "rwmixread" => mix = place.percent(s)?,
                "rwmixwrite" => mix = 100 - place.percent(s)?,
                "bs" | "blocksize" => {
                    if s.value.contains(',') {
                        let why = "lengths apart for reads and writes are not read; give one, or bssplit";
                        return Err(place.wrong(s.line, s.key, why));
                    }
                    job.sizes = vec![(place.bytes(s)?, 1)];
                    job.lengths_fit(place, s)?;
                }
                "bssplit" => {
                    job.sizes = place.split(s)?;
                    job.lengths_fit(place, s)?;
                }
                "size" | "io_size" | "offset" if s.value.ends_with('%') => {
                    let why = format!(
                        "`{}`: shares of the device are not read, since a job has to give the same requests on devices of all sizes; \
                         write bytes, such as 512m",
                        s.value
                    );
                    return Err(place.wrong(s.line, s.key, why));
                }
                "size" => job.size = Some(place.bytes(s)?),
                "offset" => job.offset = place.bytes(s)?,
                "io_size" => job.io_size = Some(place.bytes(s)?),
                "number_ios" => job.number_ios = Some(place.whole(s)?).filter(|&n| n > 0),
                "iodepth" => match place.whole(s)? {
                    n @ 1..=65_536 => job.iodepth = n as u32,
                    n => return Err(place.wrong(s.line, s.key, format!("{n} is not between 1 and 65536"))),
                },
                "rate_iops" | "rate" => {
                    if s.value.contains(',') {
                        let why =
                            "rates apart for reads and writes are not read; give one, which each of them has";
                        return Err(place.wrong(s.line, s.key, why));
                    }
                    let n = if s.key == "rate" { place.bytes(s)? } else { place.whole(s)? };
                    if n == 0 || n > 1_000_000_000_000 {
                        return Err(place.wrong(
                            s.line,
                            s.key,
                            format!("{n} is not between 1 and 10^12 a second"),
                        ));
                    }
                    job.rate = Some(if s.key == "rate" { Rate::Bytes(n) } else { Rate::Requests(n) });
                }
                "runtime" => job.runtime = Some(place.time(s)?),
                "time_based" => job.time_based = place.flag(s)?,
                "norandommap" => job.map = !place.flag(s)?,
                "random_distribution" => job.zipf = zipf_of(place, s)?,
                "fsync" | "fdatasync" => job.flush_every = place.whole(s)?,
                "ioengine" => engine = s.value,
                "kb_base" => {}
                "numjobs" => match place.whole(s)? {
                    1 => {}
                    n => {
                        let why = format!(
                            "{n} jobs at the same time are not read, one is; make each a [workload.NAME] of a stack file, or give one job \
                             the `iodepth` of all: numjobs=1"
                        );
                        return Err(place.wrong(s.line, s.key, why));
                    }
                },
                key if WITHOUT_MEANING.contains(&key) => {}
                key => {
                    let known: Vec<&str> = KEYS.into_iter().chain(["norandommap"]).collect();
                    let near = nandu_base::registry::nearest(key, known.iter().copied());
                    let hint = near.map_or_else(
                        || format!("known are {}", known.join(", ")),
                        |n| format!("did you mean `{n}`?"),
                    );
                    return Err(place.wrong(
                        s.line,
                        key,
                        format!("it has no meaning here that is known; {hint}"),
                    ));
                }
            }
        }
        if mixed {
            job.read_percent = mix;
        }
        if job.iodepth > 1 && WAITING.contains(&engine) {
            job.notes.push(format!(
                "iodepth={} has no effect, as in fio: ioengine={engine} waits for each request; one that does not is libaio",
                job.iodepth
            ));
            job.iodepth = 1;
        }
        if job.mixes()
            && let Some(rate) = job.rate
        {
            let key = if matches!(rate, Rate::Bytes(_)) { "rate" } else { "rate_iops" };
            job.notes.push(format!(
                "{key} is of reads and of writes, each, as in fio: they are as many as it says, and not in the mix"
            ));
        }
        if job.time_based && job.runtime.is_none() {
            return Err(place.wrong(1, "time_based", "it needs a `runtime`"));
        }
        Ok(job)
    }

    fn lengths_fit(&self, place: &Place<'_>, s: &Setting<'_>) -> Result<(), TraceError> {
        match self
            .sizes
            .iter()
            .find(|(len, _)| *len == 0 || len % SECTOR != 0 || len / SECTOR > MAX_LEN_SECTORS)
        {
            Some((len, _)) => {
                let iec = s.value.to_ascii_lowercase().contains("ib") && place.kb_base == 1024;
                let hint = if iec {
                    "; to fio a KiB is 1000 bytes and a k is 1024, unless kb_base=1000"
                } else {
                    ""
                };
                Err(place.wrong(
                    s.line,
                    s.key,
                    format!("{len} bytes: a request is a multiple of 512 bytes below 2 GiB{hint}"),
                ))
            }
            None => Ok(()),
        }
    }

    /// Whether it has reads and others.
    fn mixes(&self) -> bool {
        (1..100).contains(&self.read_percent)
    }

    /// Its requests on a device of `room` bytes.
    ///
    /// # Errors
    /// [`TraceError::Job`] when they do not lie on it, or none is asked for.
    pub fn requests(&self, room: Option<u64>, seed: u64) -> Result<JobRequests, TraceError> {
        let place = Place { source_name: &self.source_name, kb_base: 1024 };
        let wrong = |key: &str, why: String| Err(place.wrong(1, key, why));
        let longest = self.sizes.iter().map(|s| s.0).max().unwrap_or(0);
        let grain = self.sizes.iter().map(|s| s.0).min().unwrap_or(SECTOR);
        let room_left = room.map(|room| room.saturating_sub(self.offset));
        let Some(size) = self.size.or(room_left) else {
            return wrong("size", "it is missing, and there is no device to take it from".into());
        };
        let size = size - size % grain;
        if size < longest {
            return wrong(
                "size",
                format!("{size} bytes behind the offset do not hold a request of {longest}"),
            );
        }
        if !self.offset.is_multiple_of(SECTOR)
            || self.offset.checked_add(size).is_none_or(|end| end / SECTOR > MAX_END_SECTORS)
        {
            return wrong("offset", "a multiple of 512 bytes, and the end below 128 TiB".into());
        }
        let root = Rng::new(seed);
        let blocks = size / grain;
        let one_length = self.sizes.len() == 1;
        let zipf = match self.zipf {
            Some(_) if blocks > MAX_RANKS => {
                return wrong(
                    "random_distribution",
                    format!("zipf is drawn over {MAX_RANKS} blocks at most; {blocks} here"),
                );
            }
            theta => theta.map(|theta| Zipf::new(blocks, theta)),
        };
        // With a rate the runtime ends the times of requests, and a job that begins again goes on until then.
        let endless = self.time_based && self.rate.is_some();
        let bytes_left = if endless { u64::MAX } else { self.io_size.unwrap_or(size) };
        let left = self.number_ios.unwrap_or(u64::MAX);
        Ok(JobRequests {
            ops: root.fork(2),
            lengths: root.fork(3),
            places: root.fork(4),
            scatter: Scatter::new(blocks, &mut root.fork(5)),
            weights: self.sizes.iter().map(|s| s.1).sum(),
            mapped: self.map && one_length && zipf.is_none(),
            zipf,
            size,
            grain,
            blocks,
            bytes_left,
            left,
            drawn: 0,
            next: [0; 2],
            sent: [0; 2],
            sent_bytes: [0; 2],
            writes: 0,
            flush_now: false,
            job: self.clone(),
        })
    }

    /// What the trace says of itself.
    pub fn meta(&self, seed: u64) -> Meta {
        let again = self.time_based && self.rate.is_none();
        Meta {
            format: "fio-job".into(),
            source: format!("{} [{}], seed {seed}", self.source_name, self.name),
            compression: "plain".into(),
            origin: Origin::StandIn,
            arrival: if self.rate.is_some() { Arrival::Timestamps } else { Arrival::OrderOnly },
            asked: Some(Asked {
                outstanding: self.iodepth,
                runtime: self.runtime.filter(|_| self.rate.is_none()),
                again,
            }),
            notes: self.notes.clone(),
            ..Meta::default()
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// `a * b / c`, at most the largest number.
fn times(a: u64, b: u64, c: u64) -> u64 {
    u64::try_from(u128::from(a) * u128::from(b) / u128::from(c)).unwrap_or(u64::MAX)
}

fn zipf_of(place: &Place<'_>, s: &Setting<'_>) -> Result<Option<Ratio>, TraceError> {
    if s.value == "random" {
        return Ok(None);
    }
    let theta = s.value.strip_prefix("zipf:").and_then(|theta| nandu_base::units::parse_ratio(theta).ok());
    match theta.filter(|theta| theta.num <= 8 * theta.den) {
        Some(theta) => Ok(Some(theta)),
        None => Err(place.wrong(
            s.line,
            s.key,
            format!("`{}`: it is random, or zipf:THETA with a theta up to 8", s.value),
        )),
    }
}

/// The requests of a [`FioJob`], one by one.
#[derive(Clone, Debug)]
pub struct JobRequests {
    job: FioJob,
    ops: Rng,
    lengths: Rng,
    places: Rng,
    scatter: Scatter,
    zipf: Option<Zipf>,
    mapped: bool,
    weights: u64,
    size: u64,
    grain: u64,
    blocks: u64,
    bytes_left: u64,
    left: u64,
    /// Blocks taken from the map.
    drawn: u64,
    /// Where the next sequential read, and the next of the others, begins.
    next: [u64; 2],
    /// Reads, and others.
    sent: [u64; 2],
    sent_bytes: [u64; 2],
    writes: u64,
    flush_now: bool,
}

impl JobRequests {
    fn len(&mut self) -> u64 {
        if let [(len, _)] = self.job.sizes[..] {
            return len;
        }
        let mut at = self.lengths.below(self.weights);
        for &(len, weight) in &self.job.sizes {
            if at < weight {
                return len;
            }
            at -= weight;
        }
        unreachable!("a draw below the sum of the weights falls on one of them")
    }

    fn start(&mut self, read: bool, len: u64) -> u64 {
        let block = if !self.job.random {
            let next = &mut self.next[usize::from(!read)];
            let at = if *next + len > self.size { 0 } else { *next };
            *next = at + len;
            return at;
        } else if self.mapped {
            let place = self.scatter.place(self.drawn % self.blocks);
            self.drawn += 1;
            place
        } else if let Some(zipf) = &self.zipf {
            self.scatter.place(zipf.draw(&mut self.places))
        } else {
            self.places.below(self.blocks)
        };
        (block * self.grain).min(self.size - len)
    }

    /// Whether the next request is a read by the mix.
    fn draw(&mut self) -> bool {
        self.ops.chance(Ratio::new(self.job.read_percent, 100))
    }

    /// When the rate has the next request of a direction arrive.
    fn due_ns(&self, read: bool) -> u64 {
        let direction = usize::from(!read);
        match self.job.rate {
            None => 0,
            Some(Rate::Requests(n)) => times(self.sent[direction], 1_000_000_000, n),
            Some(Rate::Bytes(n)) => times(self.sent_bytes[direction], 1_000_000_000, n),
        }
    }

    /// Whether the next request is a read, and when it arrives. A direction that is ahead of its rate waits for the other.
    fn direction(&self, drawn: bool) -> (bool, u64) {
        let (own, other) = (self.due_ns(drawn), self.due_ns(!drawn));
        match self.job.mixes() && other < own {
            true => (!drawn, other),
            false => (drawn, own),
        }
    }
}

impl Iterator for JobRequests {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let flush = std::mem::take(&mut self.flush_now);
        // A flush comes when the next request would, whose direction is not drawn for it.
        let drawn = if flush { self.job.read_percent > 0 } else { self.draw() };
        let (read, now_ns) = self.direction(drawn);
        let over = self.job.runtime.filter(|_| self.job.rate.is_some()).is_some_and(|end| now_ns > end.0);
        // A trace ends before its times do.
        if now_ns > MAX_TIME_NS {
            return None;
        }
        if flush {
            return Record::new(now_ns, Op::Flush, false, 0, 0, 0).ok();
        }
        if over || self.left == 0 || self.bytes_left == 0 {
            return None;
        }
        let len = self.len();
        let start = self.job.offset + self.start(read, len);
        self.left -= 1;
        self.bytes_left = self.bytes_left.saturating_sub(len);
        let direction = usize::from(!read);
        self.sent[direction] += 1;
        self.sent_bytes[direction] = self.sent_bytes[direction].saturating_add(len);
        let op = if read { Op::Read } else { self.job.other };
        self.writes += u64::from(op == Op::Write);
        self.flush_now =
            op == Op::Write && self.job.flush_every > 0 && self.writes.is_multiple_of(self.job.flush_every);
        let record = Record::new(now_ns, op, false, start / SECTOR, len / SECTOR, 0);
        Some(record.expect("a checked job keeps every request in bounds"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(text: &str) -> Result<FioJob, TraceError> {
        FioJob::parse(text, "job.fio")
    }

    fn requests(text: &str) -> Vec<Record> {
        job(text).unwrap().requests(Some(1 << 30), 3).unwrap().collect()
    }

    #[test]
    fn a_random_job_takes_every_block_once_as_fio_does() {
        let all = requests(
            "; a comment\n[global]\nioengine=libaio\nbs=4k\n[a]\nrw=randread\nsize=1m\noffset=64k\n",
        );
        let mut places: Vec<u64> = all.iter().map(|r| r.offset().0).collect();
        assert!(places.windows(2).any(|w| w[1] < w[0]));
        places.sort_unstable();
        assert_eq!(places, (0..256u64).map(|n| (64 << 10) + n * 4096).collect::<Vec<_>>());
        let drawn = requests("[a]\nrw=randread\nsize=1m\nnorandommap\n");
        let distinct: std::collections::BTreeSet<u64> = drawn.iter().map(|r| r.offset().0).collect();
        assert!((130..200).contains(&distinct.len()), "1 - 1/e of 256: {}", distinct.len());
    }

    #[test]
    fn a_sequential_mix_goes_on_in_each_direction() {
        let all = requests("[a]\nrw=rw\nrwmixread=75\nbs=64k\nsize=16m\nio_size=64m\nfsync=8\n");
        let asked: Vec<&Record> = all.iter().filter(|r| r.op() != Op::Flush).collect();
        assert_eq!(asked.len(), 1024);
        let reads = asked.iter().filter(|r| r.op() == Op::Read).count();
        assert!((700..840).contains(&reads), "seed 3: {reads}");
        for op in [Op::Read, Op::Write] {
            let starts: Vec<u64> = asked.iter().filter(|r| r.op() == op).map(|r| r.offset().0).collect();
            assert!(starts.windows(2).all(|w| w[1] == (w[0] + (64 << 10)) % (16 << 20)));
        }
        assert_eq!(all.iter().filter(|r| r.op() == Op::Flush).count(), (1024 - reads) / 8);
    }

    #[test]
    fn shares_of_lengths_hold() {
        let text = "[a]\nrw=randwrite\nbssplit=4k/60:64k/:16k\nsize=64m\nnumber_ios=20000\nio_size=100g\nrate_iops=4000\n";
        let all = requests(text);
        let of = |kib: u64| all.iter().filter(|r| r.len().0 == kib << 10).count();
        assert_eq!(all.len(), 20_000);
        assert!(of(4).abs_diff(12_000) < 300 && of(64).abs_diff(4_000) < 300 && of(16).abs_diff(4_000) < 300);
        assert_eq!(all[4000].time().0, 1_000_000_000);
        let job = job(text).unwrap();
        assert_eq!((job.meta(3).arrival, job.meta(3).asked.unwrap().outstanding), (Arrival::Timestamps, 1));
        let zipf = requests("[a]\nrw=randread\nsize=16m\nio_size=64m\nrandom_distribution=zipf:1.2\n");
        let mut counts = std::collections::BTreeMap::new();
        zipf.iter().for_each(|r| *counts.entry(r.offset().0).or_insert(0u32) += 1);
        assert!(counts.values().max().unwrap() > &2000, "the first of 4,096 ranks takes over a sixth");
    }

    #[test]
    fn a_time_and_a_depth_are_asked_for() {
        let job = job(
            "[a]\nioengine=libaio\nrw=randrw\nrwmixwrite=30\niodepth=16\nruntime=2m\ntime_based\nsize=1g\n",
        )
        .unwrap();
        let asked = job.meta(1).asked.unwrap();
        assert_eq!((asked.outstanding, asked.runtime, asked.again), (16, Some(Span::from_secs(120)), true));
        assert_eq!((job.read_percent, job.meta(1).arrival), (70, Arrival::OrderOnly));
        // A runtime with a rate says how many.
        let all = requests("[a]\nrw=read\nruntime=2\ntime_based=1\nsize=64k\nrate_iops=100\n");
        assert_eq!(all.len(), 201);
    }

    #[test]
    fn a_rate_is_of_each_direction() {
        // Whatever the mix: both directions reach their rate.
        let all = requests(
            "[a]\nrw=randrw\nrwmixread=70\nsize=64m\nrate_iops=100\nruntime=10\ntime_based\nnorandommap\n",
        );
        let reads = all.iter().filter(|r| r.op() == Op::Read).count();
        assert_eq!((reads, all.len() - reads), (1001, 1001), "100 a second of each, and one at the start");
        assert!(all.windows(2).all(|w| w[0].time() <= w[1].time()));
        assert_eq!(all.last().unwrap().time().0, 10_000_000_000);
        let all = requests("[a]\nrw=rw\nbs=64k\nsize=64m\nrate=1m\nruntime=10\ntime_based\n");
        let bytes = |op| all.iter().filter(|r| r.op() == op).map(|r| r.len().0).sum::<u64>();
        assert_eq!((bytes(Op::Read) >> 16, bytes(Op::Write) >> 16), (161, 161), "1 MiB a second of each");
        let one = requests("[a]\nrw=write\nsize=1m\nrate_iops=100\nfsync=2\n");
        let times: Vec<u64> = one.iter().take(5).map(|r| r.time().0 / 10_000_000).collect();
        assert_eq!((one.len(), times), (256 + 128, vec![0, 1, 2, 2, 3]));
        let noted = |text| job(text).unwrap().meta(1).notes;
        assert!(noted("[a]\nrw=rw\nrate=1m\nsize=1m\n")[0].starts_with("rate is of reads and of writes"));
        assert_eq!(noted("[a]\nrw=read\nrate=1m\nsize=1m\n"), [""; 0]);
    }

    #[test]
    fn sizes_are_what_they_are_to_fio() {
        let size = |text: &str| job(&format!("[a]\nsize={text}\n")).unwrap().size;
        for (text, bytes) in
            [("4k", 4096), ("4K", 4096), ("4kb", 4096), ("8KiB", 8000), ("1m", 1 << 20), ("3MiB", 3_000_000)]
        {
            assert_eq!(size(text), Some(bytes), "{text}");
            // The base counts wherever it stands.
            let other = job(&format!("[global]\nsize={text}\n[a]\nkb_base=1000\n")).unwrap().size.unwrap();
            assert_ne!(other.is_multiple_of(1000), bytes.is_multiple_of(1000), "{text}: {other}");
        }
        assert_eq!((size("512"), size("2p")), (Some(512), Some(2 << 50)));
        let e = job("[a]\nbs=4KiB\n").unwrap_err().to_string();
        assert!(e.contains("job.fio:2: bs: 4000 bytes") && e.contains("to fio a KiB is 1000 bytes"), "{e}");
        assert!(job("[a]\nbs=4KiB\nkb_base=1000\n").is_ok());
    }

    #[test]
    fn a_depth_needs_an_engine_that_does_not_wait() {
        for (engine, depth, notes) in [
            ("", 1, 1),
            ("ioengine=psync\n", 1, 1),
            ("ioengine=libaio\n", 32, 0),
            ("ioengine=io_uring\n", 32, 0),
        ] {
            let meta = job(&format!("[a]\niodepth=32\n{engine}size=1m\n")).unwrap().meta(1);
            assert_eq!((meta.asked.unwrap().outstanding, meta.notes.len()), (depth, notes), "{engine}");
        }
        assert_eq!(job("[a]\nsize=1m\n").unwrap().meta(1).notes, [""; 0]);
    }

    #[test]
    fn keys_of_reports_and_processors_change_nothing() {
        let plain = "[a]\nrw=randread\nsize=1m\n";
        let more = "write_bw_log=x\nwrite_lat_log=x\nlog_avg_msec=1000\npercentile_list=50:99\nlat_percentiles=1\nfallocate=none\n\
                    unified_rw_reporting=1\ncpus_allowed=0-3\nexitall\nallow_mounted_write=1\nnumjobs=1\n";
        assert_eq!(requests(&format!("{plain}{more}")), requests(plain));
        for key in WITHOUT_MEANING {
            assert!(!KEYS.contains(&key), "{key} is read");
        }
    }

    #[test]
    fn what_is_not_known_is_refused_with_key_and_line() {
        for (text, says) in [
            ("[a]\nrw=read\nzonemode=zbd\n", "job.fio:3: zonemode: it has no meaning here"),
            (
                "[a]\niodept=4\n",
                "job.fio:2: iodept: it has no meaning here that is known; did you mean `iodepth`?",
            ),
            ("[a]\nrw=swim\n", "job.fio:2: rw: `swim`"),
            ("[a]\nbs=1000\n", "job.fio:2: bs: 1000 bytes"),
            ("[a]\nbs=4k,8k\n", "job.fio:2: bs: lengths apart"),
            ("[a]\nbssplit=4k/60:8k/60\n", "job.fio:2: bssplit: the shares add up to 120"),
            ("[a]\nrate=1m,2m\n", "job.fio:2: rate: rates apart"),
            ("[a]\nkb_base=1\n", "job.fio:2: kb_base: `1`: it is 1000 or 1024"),
            ("[a]\nsize=4kk\n", "job.fio:2: size: `4kk` is not a size"),
            ("[a]\nrate_iops=many\n", "job.fio:2: rate_iops: `many` is not a whole number"),
            ("[a]\nruntime=5y\n", "job.fio:2: runtime: `5y` is not a time"),
            ("[a]\nrandom_distribution=pareto:0.9\n", "random_distribution: `pareto:0.9`"),
            (
                "[a]\nnumjobs=4\n",
                "job.fio:2: numjobs: 4 jobs at the same time are not read, one is; make each a [workload.NAME]",
            ),
            ("[a]\nnumjobs=many\n", "job.fio:2: numjobs: `many` is not a whole number"),
            ("[a]\nsize=50%\n", "job.fio:2: size: `50%`: shares of the device are not read"),
            ("[a]\n[b]\n", "job.fio:2: b: a second job"),
            ("bs=4k\n[a]\n", "job.fio:1: bs: it stands before"),
            ("[global]\nbs=4k\n", "no job beside"),
            ("[a]\ntime_based\n", "time_based: it needs a `runtime`"),
            ("[a]\nsize=18446744073709551615t\n", "job.fio:2: size"),
        ] {
            let e = job(text).unwrap_err().to_string();
            assert!(e.contains(says), "{text}: {e}");
        }
        for (text, says) in [
            ("[a]\nsize=2k\n", "do not hold"),
            ("[a]\nsize=1t\nrandom_distribution=zipf:1\n", "16777216 blocks at most"),
        ] {
            let e = job(text).unwrap().requests(None, 1).unwrap_err().to_string();
            assert!(e.contains(says), "{text}: {e}");
        }
        assert!(is_job(b"\n# x\n[global]\n") && !is_job(b"0,1,2\n[global]\n") && !is_job(b""));
    }
}

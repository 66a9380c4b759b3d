//! What sixteen tenants cost beside one: instructions for a request, in percent.
//!
//! Both have the same drive, the same kind of requests over the same space, as many outstanding together, and each tenant its own
//! workload, export and slice. Counts are marginal by time: the same workloads for longer and for shorter, the difference divided by the
//! requests between; generated requests are as many in both, so that making them cancels. The output is the table for people: the
//! record for programs samples all machines so and so often in a run, however long it is.
//!
//! Tenants that are kept apart collect more, for each has its own open units. That is a cost of the drive and none of the
//! simulation, so the drive of one tenant has somewhat fewer units, and both write about as much; where they do not, the
//! comparison fails. Half of the tenants ask for three times as much as the others, so that there is something to lend.

use super::{DRIVE, Held, count_of, percent};
use std::path::Path;

/// A comparison.
struct Case {
    name: &'static str,
    /// The scheduler of a queue before the drive.
    scheduler: Option<&'static str>,
    /// Superblocks of a drive that keeps its tenants apart, for one tenant and for sixteen.
    units: Option<[u32; 2]>,
    /// Milliseconds of the shorter run and of the longer.
    times: [u64; 2],
    /// Requests that are made ahead, all tenants together: more than are sent.
    made: u32,
}

/// Times that let some 8,000 requests pass between the shorter run and the longer.
const fn queue(name: &'static str, scheduler: &'static str) -> Case {
    Case { name, scheduler: Some(scheduler), units: None, times: [150, 300], made: 50_000 }
}

const CASES: [Case; 5] = [
    queue("tenants-drr", "drr"),
    queue("tenants-flashfq", "flashfq"),
    queue("tenants-vssd", "vssd"),
    Case {
        name: "tenants-shared",
        scheduler: None,
        units: Some([1210, 1280]),
        times: [6_000, 9_000],
        made: 110_000,
    },
    Case {
        name: "tenants-both",
        scheduler: Some("drr"),
        units: Some([1210, 1280]),
        times: [6_000, 9_000],
        made: 110_000,
    },
];

const TENANTS: [u32; 2] = [1, 16];
/// Requests outstanding, all tenants together.
const OUTSTANDING: u32 = 64;
/// How much more or less the one may write for a page of the host's than the other, in percent.
const ALIKE_PERCENT: f64 = 12.0;

/// Counts all cases and holds them against the gates.
pub(super) fn counts(program: &Path, folder: &Path, held: &mut Held) -> Result<(), String> {
    for case in &CASES {
        let [one, many] = [0, 1].map(|which| case.count(which, program, folder));
        let (one, many) = (one?, many?);
        if case.units.is_some() {
            println!("{:<18} pages written for one of the host's: {:.2} and {:.2}", "", one.1, many.1);
            if (many.1 / one.1 - 1.0).abs() * 100.0 > ALIKE_PERCENT {
                return Err(format!("{}: one tenant and sixteen do not write alike", case.name));
            }
        }
        held.hold(case.name, percent(many.0, one.0))?;
    }
    Ok(())
}

/// What a run has done so far.
#[derive(Clone, Copy)]
struct Done {
    instructions: u64,
    requests: u64,
    host_pages: u64,
    pages: u64,
}

impl Case {
    /// Instructions for a request, and pages written for each page of the host's.
    fn count(&self, which: usize, program: &Path, folder: &Path) -> Result<(u64, f64), String> {
        let run = |time| self.run(which, time, program, folder);
        let (shorter, longer) = super::both(|| run(self.times[0]), || run(self.times[1]));
        let (shorter, longer) = (shorter?, longer?);
        let requests = longer.requests - shorter.requests;
        let host_pages = (longer.host_pages - shorter.host_pages).max(1);
        let pages = (longer.pages - shorter.pages) as f64 / host_pages as f64;
        Ok((longer.instructions.saturating_sub(shorter.instructions) / requests.max(1), pages))
    }

    fn run(&self, which: usize, time: u64, program: &Path, folder: &Path) -> Result<Done, String> {
        let path = folder.join(format!("{}-{}-{time}.toml", self.name, TENANTS[which]));
        std::fs::write(&path, self.stack(which, time)).map_err(|e| e.to_string())?;
        let precondition = if self.units.is_some() { "filled" } else { "empty" };
        let path = path.display().to_string();
        let (instructions, text) =
            count_of(program, ["--quiet", "run", &path, "--precondition", precondition, "--extend", "0"])?;
        let number = |words: Option<&str>| {
            let digits = words.map(|words| words.chars().filter(char::is_ascii_digit).collect::<String>());
            digits.and_then(|digits| digits.parse().ok()).ok_or(format!("a figure is missing in:\n{text}"))
        };
        let named = |name: &str| {
            number(text.split(name).nth(1).and_then(|rest| rest.trim_start().split([' ', '\n']).next()))
        };
        Ok(Done {
            instructions,
            requests: number(text.split(" requests,").next().and_then(|head| head.rsplit(' ').next()))?,
            host_pages: named("host pages written")?,
            pages: named("nand pages programmed")?,
        })
    }

    /// The stack with all its workloads.
    fn stack(&self, which: usize, time: u64) -> String {
        let tenants = TENANTS[which];
        let mib = if self.units.is_some() { 1024 } else { 8192 } / tenants;
        let below = if self.scheduler.is_some() { "queue" } else { "ssd" };
        let mut text = String::new();
        for n in 0..tenants {
            let share = OUTSTANDING / tenants;
            // Where they are kept apart one in two asks for more.
            let asks = match self.units {
                Some(_) if tenants > 1 => share / 2 + n % 2 * share,
                _ => share,
            };
            text += &format!(
                "[export.e{n}]\ndevice = \"s{n}\"\ntenant = \"t{n}\"\n\n[tenant.t{n}]\nweight = 100\n\n\
                 [workload.w{n}]\nexport = \"e{n}\"\ngenerator = \"uniform\"\nread_share = 0.3\nbs = \"8 KiB\"\n\
                 iodepth = {asks}\nnumber_ios = {}\nruntime = \"{time} ms\"\n\n\
                 [device.s{n}]\nkind = \"slice\"\nbelow = \"{below}\"\noffset = \"{} MiB\"\nsize = \"{mib} MiB\"\n\n",
                self.made * asks / OUTSTANDING,
                n * mib,
            );
        }
        if let Some(scheduler) = self.scheduler {
            text += &format!(
                "[device.queue]\nkind = \"queue\"\nbelow = \"ssd\"\nscheduler = {{ kind = \"{scheduler}\" }}\ndepth = 32\n\n"
            );
        }
        text += "[device.ssd]\n";
        let Some(units) = self.units else { return text + DRIVE };
        let units = units[which];
        let spare = 1.0 - 1024.05 / f64::from(units);
        let named: Vec<String> =
            (0..tenants).map(|n| format!("{{ name = \"t{n}\", size = \"{mib} MiB\" }}")).collect();
        text + &format!(
            "kind = \"ssd\"\nprofile = \"bench-2026\"\nchannels = 4\nchips = 4\nplanes = 1\nblocks = {units}\n\
             pages_per_block = 16\nspare_factor = {spare:.5}\nunit = \"superblock\"\ntenants = [{}]\n\
             isolation = {{ kind = \"shared-space\", beta = \"1/10\" }}\n",
            named.join(", ")
        )
    }
}

//! What measurements have in common: medians, the load of the machine, processor time, what fio has written.

use crate::json::{Json, parse};
use std::fmt::Display;

/// Ticks of a second in `/proc`: those of Linux, for programs.
pub const TICKS_PER_SECOND: u64 = 100;

/// The median; of an even number the middle of both.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], upper) } else { upper })
}

/// Processes that ran or wanted to in the last minute, as the kernel averages them.
pub fn load_average() -> Result<f64, String> {
    let text = std::fs::read_to_string("/proc/loadavg").map_err(|error| format!("/proc/loadavg: {error}"))?;
    text.split(' ').next().and_then(|word| word.parse().ok()).ok_or_else(|| format!("/proc/loadavg: {text}"))
}

/// Whose processor time.
#[derive(Clone, Copy)]
pub enum Of {
    /// The process and all its threads.
    Itself,
    /// Its children that have ended.
    Children,
}

/// Processor time, in ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticks {
    /// As a program.
    pub program: u64,
    /// As the kernel that works for it.
    pub kernel: u64,
}

/// Processor time of a process by its number, or of `self`.
pub fn ticks(process: impl Display, of: Of) -> Result<Ticks, String> {
    let path = format!("/proc/{process}/stat");
    let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    ticks_in(&stat, of).ok_or_else(|| format!("{path} is not as Linux writes it"))
}

fn ticks_in(stat: &str, of: Of) -> Option<Ticks> {
    // The name of the program, in brackets, may hold blanks. Behind it utime is the twelfth word, and cutime the fourteenth.
    let (_, behind) = stat.rsplit_once(')')?;
    let first = match of {
        Of::Itself => 11,
        Of::Children => 13,
    };
    let mut times = behind.split_whitespace().skip(first).map(|word| word.parse::<u64>().ok());
    Some(Ticks { program: times.next()??, kernel: times.next()?? })
}

/// The only job in what fio has written as JSON.
pub fn fio_job(text: &str) -> Result<Json, String> {
    // Warnings come before it.
    let json = parse(&text[text.find('{').unwrap_or(0)..])?;
    json.get("jobs").list().first().cloned().ok_or_else(|| "fio names no job".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn a_name_with_blanks_and_brackets_moves_no_field() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 30 4 500 60 20 0";
        let ticks = |program, kernel| Some(Ticks { program, kernel });
        assert_eq!(
            (ticks_in(stat, Of::Itself), ticks_in(stat, Of::Children)),
            (ticks(30, 4), ticks(500, 60))
        );
        assert_eq!(ticks_in("7 (a) S 1", Of::Itself), None);
    }

    #[test]
    fn a_job_stands_behind_warnings() {
        let job = fio_job("fio: a warning\n{ \"jobs\": [{ \"read\": { \"iops\": 5 } }] }");
        assert_eq!(job.map(|job| job.get("read").get("iops").number()), Ok(Some(5.0)));
        assert!(fio_job("{ \"jobs\": [] }").is_err() && fio_job("none").is_err());
    }
}

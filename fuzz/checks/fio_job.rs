//! Any bytes as a fio job file: requests on the device that there is, or an error that names key and line.

use nandu_trace::fio_job::{FioJob, is_job};

/// What the device has when the job names no size.
const ROOM: u64 = 1 << 26;

/// The bytes are a text with a job in it, or not. A Zipf table may take 128 MiB, so jobs with one are small here.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let is_large = |word: &str| word.len() > 7 || word.ends_with(['g', 'G', 't', 'T', 'p', 'P']);
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    if text.contains("zipf") && words.filter(|w| w.starts_with(|c: char| c.is_ascii_digit())).any(is_large) {
        return;
    }
    let _ = is_job(input);
    let Ok(job) = FioJob::parse(text, "job") else { return };
    let Ok(requests) = job.requests(Some(ROOM), 1) else { return };
    let mut last = 0;
    for record in requests.take(300) {
        assert!(record.time().0 >= last, "times fall");
        last = record.time().0;
    }
}

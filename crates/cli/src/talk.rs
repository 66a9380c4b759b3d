//! What is said on stderr: notes, warnings, and how far long work is: a bar on a terminal, else a line now and then.

use crate::format::{count, time, visible};
use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nandu_sim::replay::Progress;
use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Work shorter than this shows no bar on a terminal.
const SILENT: Duration = Duration::from_millis(1000);
/// Off a terminal the first line comes after this time,
const FIRST_LINE: Duration = Duration::from_secs(2);
/// and further ones after each of these.
const NEXT_LINE: Duration = Duration::from_secs(10);

/// Whether to talk.
#[derive(Clone, Copy, Debug)]
pub struct Talk {
    quiet: bool,
}

impl Talk {
    /// Says nothing when `quiet`.
    pub fn new(quiet: bool) -> Talk {
        Talk { quiet }
    }

    /// News of something that goes on.
    pub fn say(self, text: impl std::fmt::Display) {
        if !self.quiet {
            output::say(format_args!("{}", visible(&text.to_string())));
        }
    }

    /// Something worth knowing.
    pub fn note(self, text: impl std::fmt::Display) {
        if !self.quiet {
            output::say(format_args!("note: {}", visible(&text.to_string())));
        }
    }

    /// Something that changes what a result means.
    pub fn warning(self, text: impl std::fmt::Display) {
        if !self.quiet {
            output::say(format_args!("warning: {}", visible(&text.to_string())));
        }
    }

    /// Progress over `total` of `what`, shown once the work takes a while.
    pub fn bar(self, total: u64, what: &str) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template =
            format!("{{bar:40}} {{percent:>3}} %  {{human_pos}} of {{human_len}} {what}, {{eta}} left");
        bar.set_style(ProgressStyle::with_template(&template).expect("the template is well formed"));
        let shown = match (self.quiet, std::io::stderr().is_terminal()) {
            (true, _) => Shown::Never,
            (false, true) => Shown::BarFrom(SILENT),
            (false, false) => Shown::LineFrom(FIRST_LINE),
        };
        Bar { bar, what: what.into(), started: Instant::now(), shown: Mutex::new(shown) }
    }

    /// Says every now and then that `what` still goes on, until the result is dropped: for work that does not tell how far it is.
    pub fn waiting(self, what: impl std::fmt::Display) -> Waiting {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let thread = (!self.quiet).then(|| {
            let (over, what, started) = (Arc::clone(&over), what.to_string(), Instant::now());
            std::thread::spawn(move || {
                let (lock, ended) = &*over;
                let mut over = lock.lock().expect("no holder of this lock panics");
                let mut pause = FIRST_LINE;
                while !*over {
                    let waited = ended.wait_timeout(over, pause).expect("no holder of this lock panics");
                    over = waited.0;
                    if waited.1.timed_out() && !*over {
                        let seconds = time(started.elapsed().as_secs() * 1_000_000_000);
                        output::say(format_args!("progress: {}, for {seconds}", visible(&what)));
                        pause = NEXT_LINE;
                    }
                }
            })
        });
        Waiting { over, thread }
    }
}

/// Ends its lines when it is dropped.
pub struct Waiting {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *self.over.0.lock().expect("no holder of this lock panics") = true;
        self.over.1.notify_all();
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// How progress is shown.
enum Shown {
    /// Not at all, or the bar draws itself.
    Never,
    /// A bar, from this long after the start.
    BarFrom(Duration),
    /// A line, this long after the start.
    LineFrom(Duration),
}

/// Progress that several runs may make together.
pub struct Bar {
    bar: ProgressBar,
    what: String,
    started: Instant,
    shown: Mutex<Shown>,
}

impl Bar {
    /// `more` are done.
    pub fn add(&self, more: u64) {
        self.bar.inc(more);
        let elapsed = self.started.elapsed();
        if elapsed < SILENT {
            return;
        }
        let mut shown = self.shown.lock().expect("no holder of this lock panics");
        match *shown {
            Shown::BarFrom(from) if elapsed >= from => {
                *shown = Shown::Never;
                self.bar.set_draw_target(ProgressDrawTarget::stderr());
            }
            Shown::LineFrom(from) if elapsed >= from => {
                *shown = Shown::LineFrom(elapsed + NEXT_LINE);
                let done = self.bar.position();
                // A load that begins again may be ahead of what is known of it.
                let all = self.bar.length().unwrap_or(0).max(done);
                let left = elapsed.as_secs_f64() * all.saturating_sub(done) as f64 / done.max(1) as f64;
                let left = time((left * 1e9) as u64);
                output::say(format_args!(
                    "progress: {} of {} {}, {left} left",
                    count(done),
                    count(all),
                    self.what
                ));
            }
            _ => {}
        }
    }

    /// Hears of the progress of one run, and adds it.
    pub fn follow(&self) -> impl FnMut(Progress) + '_ {
        let (mut told, mut total) = (0, None);
        move |progress| {
            // A load that begins again has more requests than were known at first.
            let known = *total.get_or_insert(progress.total);
            if progress.total > known {
                self.bar.inc_length(progress.total - known);
                total = Some(progress.total);
            }
            self.add(progress.issued - std::mem::replace(&mut told, progress.issued));
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

//! What is said on stderr: notes, warnings, and a progress bar when a person watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Work shorter than this shows no bar.
const SILENT: Duration = Duration::from_millis(1000);

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

    /// Something worth knowing.
    pub fn note(self, text: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("note: {text}");
        }
    }

    /// Something that changes what a result means.
    pub fn warning(self, text: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("warning: {text}");
        }
    }

    /// A bar over `total` requests, shown once the work has taken a second and stderr is a terminal.
    pub fn bar(self, total: u64) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(
            "{bar:40} {percent:>3} %  {human_pos} of {human_len} requests, {eta} left",
        );
        bar.set_style(style.expect("the template is well formed"));
        Bar {
            bar,
            started: Instant::now(),
            shown: Mutex::new(self.quiet || !std::io::stderr().is_terminal()),
        }
    }
}

/// A progress bar that several runs may move.
pub struct Bar {
    bar: ProgressBar,
    started: Instant,
    /// Whether the target is set: shown, or never to be shown.
    shown: Mutex<bool>,
}

impl Bar {
    /// `requests` more are done.
    pub fn add(&self, requests: u64) {
        self.bar.inc(requests);
        if self.started.elapsed() < SILENT {
            return;
        }
        let mut shown = self.shown.lock().expect("no holder of this lock panics");
        if !*shown {
            *shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

//! What is said on stderr: notes, warnings, and a progress bar when a person watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nandu_sim::replay::Progress;
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

    /// News of something that goes on.
    pub fn say(self, text: impl std::fmt::Display) {
        if !self.quiet {
            eprintln!("{text}");
        }
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

    /// A bar over `total` of `what`, shown once the work has taken a second and stderr is a terminal.
    pub fn bar(self, total: u64, what: &str) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template =
            format!("{{bar:40}} {{percent:>3}} %  {{human_pos}} of {{human_len}} {what}, {{eta}} left");
        bar.set_style(ProgressStyle::with_template(&template).expect("the template is well formed"));
        let never = self.quiet || !std::io::stderr().is_terminal();
        Bar { bar, started: Instant::now(), shown: Mutex::new(never) }
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

    /// Hears of the progress of one run, and adds it.
    pub fn follow(&self) -> impl FnMut(Progress) + '_ {
        let mut told = 0;
        move |progress| self.add(progress.issued - std::mem::replace(&mut told, progress.issued))
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

//! What is said on stderr: notes, warnings, and how far long work is: a bar on a terminal, else a line now and then.

use crate::format::{count, time};
use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use nandu_experiment::console::{Listener, Work};
use std::io::IsTerminal;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

pub use nandu_experiment::console::{Bar, Console};

/// Work shorter than this shows no bar on a terminal.
const SILENT: Duration = Duration::from_millis(1000);
/// Off a terminal the first line comes after this time,
const FIRST_LINE: Duration = Duration::from_secs(2);
/// and further ones after each of these.
const NEXT_LINE: Duration = Duration::from_secs(10);

/// The way to stderr; nothing is said when `quiet`.
pub fn console(quiet: bool) -> Console<'static> {
    if quiet { Console::SILENT } else { Console::to(&Stderr) }
}

/// Stderr.
struct Stderr;

impl Listener for Stderr {
    fn note(&self, text: &str) {
        output::say(format_args!("note: {}", text));
    }

    fn warning(&self, text: &str) {
        output::say(format_args!("warning: {}", text));
    }

    fn begins(&self, total: Option<u64>, what: &str) -> Box<dyn Work> {
        match total {
            Some(total) => Box::new(Meter::new(total, what)),
            None => Box::new(Waiting::new(what)),
        }
    }
}

/// Says every now and then that something still goes on.
struct Waiting {
    over: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

impl Waiting {
    fn new(what: &str) -> Waiting {
        let over = Arc::new((Mutex::new(false), Condvar::new()));
        let thread = {
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
                        output::say(format_args!("progress: {}, for {seconds}", what));
                        pause = NEXT_LINE;
                    }
                }
            })
        };
        Waiting { over, thread: Mutex::new(Some(thread)) }
    }
}

impl Work for Waiting {
    fn done(&self, _: u64) {}

    fn grows(&self, _: u64) {}

    fn ends(&self) {
        *self.over.0.lock().expect("no holder of this lock panics") = true;
        self.over.1.notify_all();
        let thread = self.thread.lock().expect("no holder of this lock panics").take();
        let _ = thread.map(std::thread::JoinHandle::join);
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
struct Meter {
    bar: ProgressBar,
    what: String,
    started: Instant,
    shown: Mutex<Shown>,
}

impl Meter {
    fn new(total: u64, what: &str) -> Meter {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
        let template =
            format!("{{bar:40}} {{percent:>3}} %  {{human_pos}} of {{human_len}} {what}, {{eta}} left");
        bar.set_style(ProgressStyle::with_template(&template).expect("the template is well formed"));
        let shown = match std::io::stderr().is_terminal() {
            true => Shown::BarFrom(SILENT),
            false => Shown::LineFrom(FIRST_LINE),
        };
        Meter { bar, what: what.into(), started: Instant::now(), shown: Mutex::new(shown) }
    }
}

impl Work for Meter {
    fn done(&self, more: u64) {
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

    fn grows(&self, more: u64) {
        self.bar.inc_length(more);
    }

    fn ends(&self) {
        self.bar.finish_and_clear();
    }
}

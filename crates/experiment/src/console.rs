//! What is said while work goes on: notes, warnings, and how far it is. Who listens decides how that looks, and can call the work off.

use nandu_sim::replay::{Go, Length, Progress};
use std::fmt;

/// Hears what is said.
pub trait Listener: Sync {
    /// Something worth knowing.
    fn note(&self, text: &str);
    /// Something that changes what a result means.
    fn warning(&self, text: &str);
    /// Work over `total` of `what` begins; of unknown length where nothing is given. It is over when what is returned is dropped.
    fn begins(&self, total: Option<u64>, what: &str) -> Box<dyn Work>;
    /// Whether runs are called off. It is asked now and then while they go on.
    fn stops(&self) -> bool {
        false
    }
}

/// Hears how far work is.
pub trait Work: Send + Sync {
    /// `more` are done.
    fn done(&self, more: u64);
    /// There are `more` to do than was known.
    fn grows(&self, more: u64);
    /// It is over: nothing is to be seen of it from now on.
    fn ends(&self);
}

/// Hears nothing.
struct Nobody;

impl Listener for Nobody {
    fn note(&self, _: &str) {}
    fn warning(&self, _: &str) {}
    fn begins(&self, _: Option<u64>, _: &str) -> Box<dyn Work> {
        Box::new(Nobody)
    }
}

impl Work for Nobody {
    fn done(&self, _: u64) {}
    fn grows(&self, _: u64) {}
    fn ends(&self) {}
}

/// The way to a listener.
#[derive(Clone, Copy)]
pub struct Console<'a>(&'a dyn Listener);

impl fmt::Debug for Console<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Console")
    }
}

impl<'a> Console<'a> {
    /// Nobody listens.
    pub const SILENT: Console<'static> = Console(&Nobody);

    /// To `listener`.
    pub fn to(listener: &'a dyn Listener) -> Console<'a> {
        Console(listener)
    }

    /// Something worth knowing.
    pub fn note(self, text: impl fmt::Display) {
        self.0.note(&text.to_string());
    }

    /// Something that changes what a result means.
    pub fn warning(self, text: impl fmt::Display) {
        self.0.warning(&text.to_string());
    }

    /// Progress over `total` of `what`.
    pub fn bar(self, total: u64, what: &str) -> Bar<'a> {
        Bar { work: self.0.begins(Some(total), what), listener: self.0 }
    }

    /// Progress of runs, each as long as it says. Runs that count differently are added up as they are.
    pub fn runs(self, lengths: impl IntoIterator<Item = Length>) -> Bar<'a> {
        let (mut total, mut units) = (0u64, Vec::new());
        for length in lengths {
            total = total.saturating_add(length.amount());
            if !units.contains(&length.unit()) {
                units.push(length.unit());
            }
        }
        self.bar(total, &units.join(" and "))
    }

    /// `what` goes on until the result is dropped: for work that does not tell how far it is.
    pub fn waiting(self, what: impl fmt::Display) -> Bar<'a> {
        Bar { work: self.0.begins(None, &what.to_string()), listener: self.0 }
    }
}

/// Progress that several runs may make together.
pub struct Bar<'a> {
    work: Box<dyn Work>,
    listener: &'a dyn Listener,
}

impl Drop for Bar<'_> {
    fn drop(&mut self) {
        self.work.ends();
    }
}

impl Bar<'_> {
    /// `more` are done. Says whether to go on.
    pub fn add(&self, more: u64) -> Go {
        self.work.done(more);
        if self.is_over() { Go::Stop } else { Go::On }
    }

    /// Hears of the progress of one run, and adds it.
    pub fn follow(&self) -> impl FnMut(Progress) -> Go + '_ {
        let (mut told, mut total) = (0, None);
        move |progress| {
            // A load that begins again has more requests than were known at first.
            let known = *total.get_or_insert(progress.total);
            if progress.total > known {
                self.work.grows(progress.total - known);
                total = Some(progress.total);
            }
            self.add(progress.done - std::mem::replace(&mut told, progress.done))
        }
    }

    /// Whether the work is called off.
    pub fn is_over(&self) -> bool {
        self.listener.stops()
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.work.ends();
    }
}

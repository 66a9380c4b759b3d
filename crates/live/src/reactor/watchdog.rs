//! Who holds the reactor: a thread that says so when one event takes too long.
//!
//! The reactor is one thread, so one machine that computes without end, or one system call that does not return, stops all
//! clients. It cannot say so itself. It leaves a mark whenever it calls a machine or hands a request to the files of a leaf, and
//! when it begins and ends to wait. The watchdog compares the marks four times in its bound: one that stands for the whole
//! of it is reported once, and once more when it is over.
//!
//! The same thread tells a service manager that the server lives, as long as it does.
//!
//! Cost: two stores to a cache line of its own for each call of a machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The place of a reactor that is in no machine.
const NOWHERE: u32 = u32::MAX;
/// Set where a request is handed to the files of a leaf.
const FILES: u32 = 1 << 31;

/// The marks of a reactor.
#[derive(Debug)]
pub struct Beat {
    count: AtomicU64,
    place: AtomicU32,
    waits: AtomicBool,
}

impl Default for Beat {
    fn default() -> Beat {
        Beat { count: AtomicU64::new(0), place: AtomicU32::new(NOWHERE), waits: AtomicBool::new(true) }
    }
}

impl Beat {
    #[inline]
    fn mark(&self, place: u32) {
        // The reactor alone writes.
        self.count.store(self.count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.place.store(place, Ordering::Relaxed);
    }

    /// Machine `node` is called.
    #[inline]
    pub(super) fn enter(&self, node: u32) {
        self.mark(node);
    }

    /// A request is handed to the files of leaf `node`.
    #[inline]
    pub(super) fn hand_over(&self, node: u32) {
        self.mark(node | FILES);
    }

    /// No machine is called for now.
    #[inline]
    pub(super) fn leave(&self) {
        self.mark(NOWHERE);
    }

    /// The reactor begins to wait (true) or goes on.
    #[inline]
    pub(super) fn wait(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
        self.mark(NOWHERE);
    }

    fn seen(&self) -> (u64, bool) {
        (self.count.load(Ordering::Relaxed), self.waits.load(Ordering::Relaxed))
    }
}

/// Where a reactor stands still.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// In a machine, by its name.
    Machine(String),
    /// In an operation on the files of a leaf, by its name.
    Files(String),
    /// In none of them: with clients.
    Elsewhere,
}

/// What a watchdog says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bark {
    /// One event has held the reactor for the whole bound, and still does.
    Stands(Held, Duration),
    /// It goes on, after so long.
    GoesOn(Held, Duration),
    /// The reactor lives; said as often as was asked.
    Lives,
}

/// The thread; it ends when this is dropped.
pub struct Watchdog {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `beat` with `bound`; `names` are those of the machines, `say` hears what is to be said, and every `lives` that
    /// the reactor lives.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(
        beat: Arc<Beat>,
        bound: Duration,
        lives: Option<Duration>,
        names: Vec<String>,
        say: Box<dyn Fn(Bark) + Send>,
    ) -> std::io::Result<Watchdog> {
        let (stop, stopped) = channel();
        let watch = Watch { beat, bound, lives, names, say };
        let thread = std::thread::Builder::new().name("nandu-watchdog".into());
        let thread = thread.spawn(move || watch.run(&stopped))?;
        Ok(Watchdog { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // a panic of it has been printed
        }
    }
}

struct Watch {
    beat: Arc<Beat>,
    bound: Duration,
    lives: Option<Duration>,
    names: Vec<String>,
    say: Box<dyn Fn(Bark) + Send>,
}

impl Watch {
    fn run(&self, stopped: &Receiver<()>) {
        let pause = (self.bound / 4).min(self.lives.unwrap_or(self.bound)).max(Duration::from_millis(1));
        let (mut seen, mut since) = (self.beat.seen(), Instant::now());
        let mut said: Option<Held> = None;
        let mut told = since;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let (now, sight) = (Instant::now(), self.beat.seen());
            if sight != seen || sight.1 {
                if let Some(held) = said.take() {
                    (self.say)(Bark::GoesOn(held, now - since));
                }
                (seen, since) = (sight, now);
            } else if said.is_none() && now - since >= self.bound {
                let held = self.held();
                (self.say)(Bark::Stands(held.clone(), now - since));
                said = Some(held);
            }
            if said.is_none() && self.lives.is_some_and(|every| now - told >= every) {
                told = now;
                (self.say)(Bark::Lives);
            }
        }
    }

    fn held(&self) -> Held {
        let place = self.beat.place.load(Ordering::Relaxed);
        let name = |node: u32| {
            self.names.get(node as usize).cloned().unwrap_or_else(|| "a leg that was added".into())
        };
        match place {
            NOWHERE => Held::Elsewhere,
            place if place & FILES != 0 => Held::Files(name(place & !FILES)),
            node => Held::Machine(name(node)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn whoever_holds_the_reactor_is_named_once_and_again_when_it_is_over() {
        let beat = Arc::new(Beat::default());
        let (sender, barks) = channel();
        let say = Box::new(move |bark| drop(sender.send(bark)));
        let names = vec!["leg".into(), "cache".into()];
        let bound = Duration::from_millis(20);
        let _watchdog = Watchdog::start(Arc::clone(&beat), bound, None, names, say).expect("a thread");
        // It only waits, however long: nothing is said. Then a machine is called and does not return.
        for (place, held) in [
            (1, Held::Machine("cache".into())),
            (FILES, Held::Files("leg".into())),
            (NOWHERE, Held::Elsewhere),
        ] {
            beat.wait(false);
            beat.mark(place);
            let Ok(Bark::Stands(who, span)) = barks.recv_timeout(PATIENCE) else { panic!("it stands still") };
            assert!(who == held && span >= bound, "{who:?} for {span:?}");
            beat.wait(true);
            let Ok(Bark::GoesOn(who, whole)) = barks.recv_timeout(PATIENCE) else { panic!("it goes on") };
            assert!(who == held && whole >= span);
        }
        assert!(barks.try_recv().is_err());
    }

    #[test]
    fn a_reactor_that_stands_still_is_not_said_to_live() {
        let beat = Arc::new(Beat::default());
        let (sender, barks) = channel();
        let say = Box::new(move |bark| drop(sender.send(bark)));
        let (bound, lives) = (Duration::from_millis(20), Some(Duration::from_millis(5)));
        let watchdog =
            Watchdog::start(Arc::clone(&beat), bound, lives, vec!["m".into()], say).expect("a thread");
        assert_eq!(barks.recv_timeout(PATIENCE), Ok(Bark::Lives));
        beat.wait(false);
        beat.enter(0);
        let stands = |bark: &Bark| matches!(bark, Bark::Stands(..));
        while !stands(&barks.recv_timeout(PATIENCE).expect("it says something")) {}
        drop(watchdog);
        assert_eq!(barks.try_recv().ok(), None, "nothing lives behind it");
    }
}

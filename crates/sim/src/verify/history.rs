//! What one sector may hold: its versions, and which of them a read may return.
//!
//! **Order.** Time is counted in *ends*: the number of changes that have ended (acknowledged or failed) so far. A change
//! that came when `n` had ended comes after exactly the first `n`. So "W was acknowledged before X came" is `W.end <=
//! X.after`, and "before the read came" is `W.end <= came`.
//!
//! **Reads.** A read may return version V unless another version W has taken effect, was acknowledged before the read
//! came, and comes after V. V may still be under way.
//!
//! **What a read settles.** When several versions are possible although all of them have ended (concurrent writes, a
//! failed write, a power cut), the first read that finds exactly one of them decides: it comes after all others that
//! ended before that read came, and so does everything that comes after it.
//!
//! **Power cuts.** A version is durable when a flush was acknowledged that came after the version's acknowledgement, or
//! when it was written with FUA. A cut may bring back any version that no durable one comes after. They become
//! *candidates*: none comes after another. The first read decides among them, for ever: what a read has found after a
//! cut counts as durable, for the host has seen that it survived. Candidates that nobody has read stay possible, also
//! over a flush and over the next cut. When only a device below was cut and the stack runs on, the first read decides as
//! well, but durable is what it found only after the next flush.
//!
//! **Failed writes** may have taken effect or not. A later write that is acknowledged ends the doubt, and so does a read.
//! A read's verdict on a failed write does not outlive a cut unless it found the failed write's own data.

use nandu_base::Stamp;

/// The end of a change that is under way.
pub(super) const OPEN: u32 = u32::MAX;

/// How a change went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is under way.
    Open,
    /// It was acknowledged, or it was found after a power cut.
    Done,
    /// It failed: nobody knows whether it took effect.
    Failed,
}

/// One version of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Version {
    /// Number of the change; 0 for what was there before the first.
    pub serial: u32,
    /// Changes that had ended when it came.
    pub came: u32,
    /// It comes after all that ended up to here.
    pub after: u32,
    /// Its own end, by count.
    pub end: u32,
    /// From here on it is known to have taken effect: its end, or for a failed change the read that found it.
    pub known: u32,
    pub fate: Fate,
    /// It reads as zeros.
    pub zeros: bool,
    /// It survives a power cut whatever is flushed.
    pub durable: bool,
    /// It was there after a power cut: the first read of it makes it durable.
    pub survivor: bool,
    /// A device below was cut and the stack ran on: only reads that came before may still return it.
    pub gone: u32,
}

impl Version {
    /// What a sector holds that was never written.
    pub const BLANK: Version = Version {
        serial: 0,
        came: 0,
        after: 0,
        end: 0,
        known: 0,
        fate: Fate::Done,
        zeros: true,
        durable: true,
        survivor: true,
        gone: OPEN,
    };

    /// Change `serial`, which comes when `now` changes have ended.
    pub fn new(serial: u32, zeros: bool, now: u32) -> Version {
        Version {
            serial,
            came: now,
            after: now,
            end: OPEN,
            known: OPEN,
            fate: Fate::Open,
            zeros,
            durable: false,
            survivor: false,
            gone: OPEN,
        }
    }

    fn value(&self, sector: u64) -> Stamp {
        if self.zeros { Stamp::ZERO } else { Stamp::new(self.serial, sector) }
    }

    fn is_durable(&self, flushed: u32) -> bool {
        self.fate == Fate::Done && (self.durable || self.known <= flushed)
    }

    /// Whether this version hides `older` from a read that came when `came` changes had ended.
    fn hides(&self, older: &Version, came: u32) -> bool {
        self.fate == Fate::Done && self.known <= came && older.end <= self.after && older.end <= came
    }

    /// Whether this version keeps `older` from coming back after a power cut.
    fn buries(&self, older: &Version, flushed: u32) -> bool {
        let after = if older.fate == Fate::Failed { self.came } else { self.after };
        self.is_durable(flushed) && older.end <= after
    }
}

/// The versions of one sector that still matter, in the order in which they came.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct History(Vec<Version>);

/// How much an oracle forgets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Horizon {
    /// Changes that had ended when the oldest request under way came.
    pub oldest: u32,
    /// Changes up to here are flushed; `None` when no power cut will come.
    pub flushed: Option<u32>,
}

impl History {
    pub fn versions(&self) -> &[Version] {
        &self.0
    }

    /// A change has come.
    pub fn push(&mut self, version: Version) {
        if self.0.is_empty() {
            self.0.push(Version::BLANK);
        }
        self.0.push(version);
    }

    /// Starts over with one version.
    pub fn restart(&mut self, version: Version) {
        self.0.clear();
        self.0.push(version);
    }

    /// Change `serial` has ended as number `end`.
    pub fn end(&mut self, serial: u32, end: u32, fate: Fate, durable: bool) {
        let version = self.0.iter_mut().rev().find(|v| v.serial == serial && v.fate == Fate::Open);
        if let Some(version) = version {
            (version.end, version.known, version.fate, version.durable) = (end, end, fate, durable);
        }
    }

    /// Forgets what can neither be read nor come back. What a forgotten version hid is hidden by what hid that one: the
    /// order is kept complete by [`settle`](History::settle).
    pub fn forget(&mut self, horizon: Horizon) {
        if self.0.len() > 1 {
            self.0.retain(|v| v.gone > horizon.oldest);
        }
        if !self.0.iter().skip(1).any(|v| horizon.flushed.is_none_or(|f| v.is_durable(f))) {
            return;
        }
        let mut at = 0;
        while self.0.len() > 1 && at < self.0.len() {
            let old = self.0[at];
            let hides = |v: &Version| *v != old && v.hides(&old, horizon.oldest);
            let buries = |v: &Version| *v != old && horizon.flushed.is_none_or(|f| v.buries(&old, f));
            if !(self.0.iter().any(hides) && self.0.iter().any(buries)) {
                at += 1;
                continue;
            }
            self.0.remove(at);
        }
    }

    fn may_be_read(&self, version: &Version, came: u32) -> bool {
        came < version.gone && !self.0.iter().any(|v| v != version && v.hides(version, came))
    }

    /// A read that came when `came` changes had ended has found `value`; `now` have ended. False when it may not.
    pub fn observe(&mut self, value: Stamp, sector: u64, came: u32, now: u32) -> bool {
        if self.0.is_empty() {
            return value == Stamp::ZERO;
        }
        let mut found = (0..self.0.len())
            .filter(|&at| self.0[at].value(sector) == value && self.may_be_read(&self.0[at], came));
        let Some(first) = found.next() else { return false };
        let only = found.next().is_none();
        if only && self.0[first].end <= came {
            self.settle(first, came, now);
        }
        true
    }

    /// The version at `at` comes after all that had ended, and so do those that come after it.
    fn settle(&mut self, at: usize, came: u32, now: u32) {
        let v = &mut self.0[at];
        v.after = v.after.max(came);
        v.durable |= v.survivor;
        if v.fate == Fate::Failed {
            (v.fate, v.known) = (Fate::Done, now);
        }
        let (end, after) = (v.end, v.after);
        for later in self.0.iter_mut().filter(|w| end <= w.after) {
            later.after = later.after.max(after);
        }
    }

    /// The power is cut, as event number `end`. With `machines_die`, what is under way ends; otherwise it goes on.
    pub fn cut(&mut self, flushed: u32, end: u32, machines_die: bool) {
        let all = std::mem::take(&mut self.0);
        let lost = |old: &Version| old.gone < OPEN || all.iter().any(|v| v != old && v.buries(old, flushed));
        for &version in &all {
            if lost(&version) {
                // A read under way may have found it before.
                if !machines_die {
                    let hides = |w: &&Version| {
                        w.fate == Fate::Done && w.serial != version.serial && version.end <= w.after
                    };
                    let hidden = all.iter().filter(hides).map(|w| w.known.max(version.end)).min();
                    let gone = version.gone.min(hidden.unwrap_or(end)).min(end);
                    self.0.push(Version { gone, ..version });
                }
                continue;
            }
            if version.fate == Fate::Open && !machines_die {
                self.0.push(Version { after: version.came, ..version });
                continue;
            }
            let survivor = version.survivor || machines_die;
            let same = |v: &Version| {
                v.fate == Fate::Done && v.zeros && version.zeros && v.gone == OPEN && v.survivor == survivor
            };
            if !self.0.iter().any(same) {
                let lost = Version {
                    came: 0,
                    after: 0,
                    end,
                    known: end,
                    fate: Fate::Done,
                    durable: false,
                    survivor,
                    ..version
                };
                self.0.push(lost);
            }
        }
    }

    /// The possible values in words.
    pub fn describe(&self, came: u32) -> String {
        if self.0.is_empty() {
            return "zeros".into();
        }
        let one = |v: &Version| match (v.zeros, v.fate) {
            (true, Fate::Open) => format!("zeros of change {} under way", v.serial),
            (true, _) => "zeros".into(),
            (false, Fate::Open) => format!("change {} under way", v.serial),
            (false, Fate::Done) => format!("change {}", v.serial),
            (false, Fate::Failed) => format!("change {} that failed", v.serial),
        };
        let mut allowed: Vec<String> = self.0.iter().filter(|v| self.may_be_read(v, came)).map(one).collect();
        allowed.sort();
        allowed.dedup();
        allowed.join(" or ")
    }
}

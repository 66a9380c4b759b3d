//! What the scrubs of all arrays share: the pass over a device, its pace, and its figures.
//!
//! A pass goes from the front to the end, one chunk at a time, at most `rate` bytes a second. It begins by command, or
//! `interval` after the last one began. A chunk that was given up [`PATIENCE`] times, for a client wanted it, is left out. What a
//! chunk is compared with, and what is done about a difference, is the array's own.

use nandu_base::{AdminError, ByteLen, Instant, Maintenance, MaintenanceKind, Report, Span, options};

/// How often a chunk is begun before it is left out of a pass.
pub(crate) const PATIENCE: u32 = 4;

/// What a scrub does where the legs differ and nothing says why.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnMismatch {
    /// It repairs: the leader's data go to the follower of a mirror, as after a crash; parity is made anew from the data.
    Repair,
    /// It checks: the difference is counted and reported.
    #[default]
    Check,
}

/// The comparison of all legs.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScrubConfig {
    /// From the beginning of a comparison to that of the next.
    #[option(default = Span::ZERO, off = "only by command", range = Span::from_ms(1)..=Span::from_secs(366 * 86_400))]
    pub interval: Span,
    /// Bytes of each leg that are compared in a second at most.
    #[option(default = ByteLen::mib(32), off = "no limit", range = ByteLen::kib(4)..)]
    pub rate: ByteLen,
    /// What is done where the legs differ, when no command says it.
    #[option(default)]
    pub on_mismatch: OnMismatch,
}

/// A pass over the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// The next byte to compare.
    pub(crate) at: u64,
    pub(crate) mends: bool,
    /// How often the chunk there was given up.
    pub(crate) given_up: u32,
    pub(crate) differing: u64,
    pub(crate) unreadable: u64,
}

/// Where the scrub of a device stands.
#[derive(Debug, Default)]
pub(crate) struct Course {
    pub(crate) pass: Option<Pass>,
    /// When the last pass began.
    began: Option<Instant>,
    /// The next chunk is not begun before.
    not_before: Instant,
    armed: Option<Instant>,
}

impl Course {
    /// How far a pass over `of` bytes is, if one is under way.
    pub(crate) fn maintenance(&self, of: ByteLen) -> Option<Maintenance> {
        let left = |pass: Pass| ByteLen(of.0.saturating_sub(pass.at));
        self.pass.map(|pass| Maintenance { kind: MaintenanceKind::Scrub, left: left(pass), of })
    }

    /// Begins a pass, or changes what the one under way does.
    pub(crate) fn begin(&mut self, mends: bool, now: Instant) {
        self.began = Some(now);
        let fresh = Pass { at: 0, mends, given_up: 0, differing: 0, unreadable: 0 };
        self.pass = Some(Pass { mends, ..self.pass.unwrap_or(fresh) });
    }

    /// Ends the pass under way; a chunk that is being compared is the last.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn stop(&mut self) -> Result<(), AdminError> {
        let (why, remedy) = ("no scrub is under way".into(), "start one with `scrub`");
        self.pass.take().map(drop).ok_or(AdminError::Refused { why, remedy })
    }

    /// When the pass after the last one begins by itself.
    pub(crate) fn due(&mut self, every: Span, now: Instant) -> Option<Instant> {
        (every > Span::ZERO).then(|| *self.began.get_or_insert(now) + every)
    }

    /// When the pace allows the next chunk, unless it does now.
    pub(crate) fn rests_until(&self, now: Instant) -> Option<Instant> {
        (now < self.not_before).then_some(self.not_before)
    }

    /// A chunk of so many bytes is begun.
    pub(crate) fn pay(&mut self, bytes: u64, rate: u64, now: Instant) {
        if rate > 0 {
            let span = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate));
            self.not_before = now + Span(span as u64);
        }
    }

    /// Whether a timer for `at` is to be set.
    pub(crate) fn arms(&mut self, at: Instant) -> bool {
        let sooner = self.armed.is_none_or(|armed| at < armed);
        if sooner {
            self.armed = Some(at);
        }
        sooner
    }

    /// Whether the timer is due at `now`, and has not come. On a real clock it may come later than it was set for.
    pub(crate) fn is_awaited(&self, now: Instant) -> bool {
        self.armed.is_some_and(|at| at <= now)
    }

    /// The timer has come.
    pub(crate) fn woke(&mut self) {
        self.armed = None;
    }

    /// The device begins anew, and its timer was cancelled: the pass goes on where it was.
    pub(crate) fn forget(&mut self) {
        *self = Course { pass: self.pass, began: self.began, ..Course::default() };
    }

    /// The chunk up to `end` is done with.
    pub(crate) fn passed(&mut self, end: u64) {
        if let Some(pass) = &mut self.pass {
            (pass.at, pass.given_up) = (end, 0);
        }
    }

    /// The chunk under way was given up.
    pub(crate) fn gave_up(&mut self) {
        if let Some(pass) = &mut self.pass {
            pass.given_up += 1;
        }
    }

    /// So many blocks were found to differ, and so many could not be read.
    pub(crate) fn found(&mut self, differing: u64, unreadable: u64) {
        if let Some(pass) = &mut self.pass {
            pass.differing += differing;
            pass.unreadable += unreadable;
        }
    }
}

/// What scrubs have done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrubbed {
    pub(crate) passes: u64,
    pub(crate) bytes: u64,
    /// Blocks of 4 KiB.
    pub(crate) differing: u64,
    pub(crate) unreadable: u64,
    pub(crate) mended_bytes: u64,
    pub(crate) skipped_bytes: u64,
}

impl Scrubbed {
    /// The figures, in a stated order.
    pub(crate) fn report(&mut self, course: &Course, report: &mut Report) {
        report.put("scrub_is_active", u64::from(course.pass.is_some()));
        report.count("scrub_passes", &mut self.passes);
        report.count("scrubbed_bytes", &mut self.bytes);
        report.count("scrub_skipped_bytes", &mut self.skipped_bytes);
        report.count("scrub_differing_blocks", &mut self.differing);
        report.count("scrub_unreadable_blocks", &mut self.unreadable);
        report.count("scrub_repaired_bytes", &mut self.mended_bytes);
    }
}

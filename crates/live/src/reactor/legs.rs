//! The legs of a stack: its leaves with a block medium, and what becomes of them.

use super::departures::Failed;
use super::metrics::Tally;
use crate::backend::{BlockBackend, LegError};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::SystemTime;

/// Where a leg stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LegState {
    /// In use.
    Active,
    /// Its file was missing at the start.
    Missing,
    /// Given up, by an administrator (errno 0) or by an error.
    Faulty {
        /// The `errno` that said so.
        errno: i32,
    },
    /// To be opened again as soon as its last old request has ended.
    Returning,
}

impl LegState {
    /// mdadm's word for it.
    pub fn word(self) -> &'static str {
        match self {
            LegState::Active => "active",
            LegState::Missing => "missing",
            LegState::Faulty { .. } => "faulty",
            LegState::Returning => "returning",
        }
    }
}

/// One leg.
pub(crate) struct Leg {
    pub backend: Box<dyn BlockBackend>,
    pub state: LegState,
    /// Requests that the backend has not ended.
    pub in_flight: u32,
    /// The machine models the device; the backend is only its link and its store.
    pub is_emulated: bool,
    /// When it came into its state, if it is not in use.
    pub since: Option<SystemTime>,
    /// The last request that it failed since it was opened.
    pub last_failure: Option<Failed>,
    /// What has ended.
    pub ended: Tally,
    /// Bytes a second that a move of it to another file copies at most; 0 for no limit.
    pub replace_rate: Arc<AtomicU64>,
}

impl Leg {
    pub fn new(backend: Box<dyn BlockBackend>, state: LegState, is_emulated: bool) -> Leg {
        let since = (state != LegState::Active).then(SystemTime::now);
        let (in_flight, last_failure, ended) = (0, None, Tally::NONE);
        Leg {
            backend,
            state,
            in_flight,
            is_emulated,
            since,
            last_failure,
            ended,
            replace_rate: Arc::default(),
        }
    }

    /// Gives the leg up. False when it was not in use.
    pub fn give_up(&mut self, errno: i32) -> bool {
        let was = self.state;
        if matches!(was, LegState::Active | LegState::Returning) {
            self.state = LegState::Faulty { errno };
            self.since = Some(SystemTime::now());
            self.backend.give_up();
        }
        was == LegState::Active
    }

    /// Opens a leg that is to return and whose old requests have all ended: a straggler can no longer overwrite
    /// anything. `None` while one is still under way.
    pub fn try_return(&mut self) -> Option<Result<(), LegError>> {
        if self.state != LegState::Returning || self.in_flight > 0 {
            return None;
        }
        let opened = self.backend.reopen();
        self.state = match &opened {
            Ok(()) => LegState::Active,
            Err(error) if error.missing => LegState::Missing,
            Err(_) => LegState::Faulty { errno: 0 },
        };
        if opened.is_ok() {
            (self.since, self.last_failure) = (None, None);
        }
        Some(opened)
    }
}

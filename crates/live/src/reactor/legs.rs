//! The legs of a stack: its leaves with a block medium, and what becomes of them.

use crate::backend::{BlockBackend, LegError};

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
}

impl Leg {
    pub fn new(backend: Box<dyn BlockBackend>, state: LegState, is_emulated: bool) -> Leg {
        Leg { backend, state, in_flight: 0, is_emulated }
    }

    /// Gives the leg up. False when it was not in use.
    pub fn give_up(&mut self, errno: i32) -> bool {
        let was = self.state;
        if matches!(was, LegState::Active | LegState::Returning) {
            self.state = LegState::Faulty { errno };
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
        Some(opened)
    }
}

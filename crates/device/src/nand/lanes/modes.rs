//! Lanes of a drive whose blocks may be in SLC mode: two sets of times, and an account of operations for each.
//!
//! The times of the mode are exchanged around an operation of such a block, so that drives without the mode are asked nothing.

use super::{Lanes, Operations, Timing};

/// What a mode of blocks has for itself.
#[derive(Clone, Debug)]
pub(super) struct Mode {
    timing: Timing,
    pub(super) operations: Operations,
}

/// Added to a page's position where its block is in SLC mode: pages of different modes share no operation.
pub const SLC_POSITION: u32 = 1 << 28;

impl Lanes {
    /// The same, with blocks that may be in SLC mode and then take these times.
    pub fn with_slc(self, timing: Timing) -> Lanes {
        Lanes { other: Some(Box::new(Mode { timing, operations: Operations::default() })), ..self }
    }

    /// From here on operations are of the other mode: SLC mode, or the chip's own again.
    pub fn switch_mode(&mut self) {
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut self.timing, &mut other.timing);
            std::mem::swap(&mut self.operations, &mut other.operations);
            self.is_slc = !self.is_slc;
        }
    }

    /// The operation times of SLC mode, where there is one, between operations.
    pub fn slc_timing(&self) -> Option<&Timing> {
        self.other.as_ref().map(|mode| &mode.timing)
    }

    pub(super) fn slc(&self) -> Option<(&Operations, &Timing)> {
        self.other.as_ref().map(|mode| (&mode.operations, &mode.timing))
    }

    /// The name of an operation in the mode that is on.
    pub(super) fn named(&self, what: &'static str) -> &'static str {
        match what {
            "read" if self.is_slc => "read in SLC mode",
            "program" if self.is_slc => "program in SLC mode",
            "erase" if self.is_slc => "erase of a block in SLC mode",
            other => other,
        }
    }
}

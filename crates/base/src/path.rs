//! Where a request's time went: the critical path.
//!
//! A completion carries one span for each [`Phase`]. They are the phases of the slowest branch, never a sum over
//! branches, so that they add up exactly to the latency. [`CriticalPath::extend_by`] is how a machine takes over the
//! path of the child it waited for.

use crate::units::Span;

/// What a request was waiting for or being served by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Waiting for a busy resource (die, channel, head, queue slot).
    Queue = 0,
    /// Held back by a layer: order of writes, metadata that must be durable first, a frozen or absent leg.
    Hold,
    /// Fetching or storing address-translation data.
    Map,
    /// Sensing a flash page.
    FlashRead,
    /// Programming a flash page.
    Program,
    /// Moving data over a channel or link.
    Bus,
    /// Waiting for garbage collection.
    Gc,
    /// Moving the heads of a disk.
    Seek,
    /// Waiting for the sector to come round.
    Rotation,
    /// Reading or writing under the head.
    Transfer,
    /// Waiting for a stopped disk to reach its speed.
    SpinUp,
    /// Inside a device that gives no further detail: a file, memory, a remote server.
    Device,
}

impl Phase {
    /// Number of phases.
    pub const COUNT: usize = 12;
    /// Every phase in order.
    pub const ALL: [Phase; Phase::COUNT] = [
        Phase::Queue,
        Phase::Hold,
        Phase::Map,
        Phase::FlashRead,
        Phase::Program,
        Phase::Bus,
        Phase::Gc,
        Phase::Seek,
        Phase::Rotation,
        Phase::Transfer,
        Phase::SpinUp,
        Phase::Device,
    ];

    /// The name used in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Queue => "queue",
            Phase::Hold => "layer_wait",
            Phase::Map => "translation",
            Phase::FlashRead => "nand_read",
            Phase::Program => "program",
            Phase::Bus => "channel",
            Phase::Gc => "gc",
            Phase::Seek => "seek",
            Phase::Rotation => "rotation",
            Phase::Transfer => "transfer",
            Phase::SpinUp => "spin_up",
            Phase::Device => "device",
        }
    }
}

/// Nanoseconds by phase along the slowest branch. The sum is kept beside the phases: the driver asks for it at every
/// step of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CriticalPath {
    phases: [u64; Phase::COUNT],
    total: u64,
}

impl CriticalPath {
    /// Nothing yet.
    pub const EMPTY: CriticalPath = CriticalPath { phases: [0; Phase::COUNT], total: 0 };

    /// Adds `span` to `phase`.
    #[inline]
    pub fn add(&mut self, phase: Phase, span: Span) {
        self.phases[phase as usize] += span.0;
        self.total += span.0;
    }

    /// The span of one phase.
    #[inline]
    pub fn get(&self, phase: Phase) -> Span {
        Span(self.phases[phase as usize])
    }

    /// The sum of all phases: the latency once the request is complete.
    #[inline]
    pub fn total(&self) -> Span {
        Span(self.total)
    }

    /// Appends `other`, of which the first `overlap` lies before the end of this path and is left out. What is left
    /// out is taken from the phases in their order, waits first.
    pub fn extend_by(&mut self, other: &CriticalPath, overlap: Span) {
        let mut skip = overlap.0;
        for (mine, &theirs) in self.phases.iter_mut().zip(&other.phases) {
            let cut = skip.min(theirs);
            skip -= cut;
            *mine += theirs - cut;
        }
        self.total += other.total - (overlap.0 - skip);
    }

    /// Adds every phase of `other`; for totals over many requests.
    #[inline]
    pub fn accumulate(&mut self, other: &CriticalPath) {
        for (mine, theirs) in self.phases.iter_mut().zip(&other.phases) {
            *mine += theirs;
        }
        self.total += other.total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlap_is_cut_from_the_waits_first() {
        let mut parent = CriticalPath::EMPTY;
        parent.add(Phase::Hold, Span(10));
        let mut child = CriticalPath::EMPTY;
        child.add(Phase::Queue, Span(4));
        child.add(Phase::Program, Span(6));
        parent.extend_by(&child, Span(5));
        assert_eq!(parent.total(), Span(15));
        assert_eq!(parent.get(Phase::Queue), Span(0));
        assert_eq!(parent.get(Phase::Program), Span(5));
    }
}

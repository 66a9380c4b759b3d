//! Regions are declared ahead of a sequential writer, so that its first touch of a region costs nothing.
//!
//! A write that begins where one of the last [`STREAMS`] streams ended makes that stream longer. From its second write on the
//! next `mark_ahead` regions behind it get D on the leader (and L on the follower, as for any write) before anybody writes
//! there. They take places among the active regions as idle ones, are cleared like any other after `bitmap_delay`, and are not
//! declared when places are scarce: they never make another region lose its mark. While a leg is out nothing is declared.
//!
//! What it costs: up to `mark_ahead` regions more are copied after a crash. RAM: 192 B. Work: a look at eight streams for each
//! write, and a few for each region that is declared.

use super::Mirror;
use super::region_map::D;
use super::work::Ready;
use nandu_base::Cx;

/// Streams told apart.
const STREAMS: usize = 8;

/// A sequential writer.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Where its next write begins; 0 when there is none.
    next: u64,
    /// Regions below this one are declared.
    upto: u32,
}

/// The streams that wrote last.
#[derive(Clone, Debug, Default)]
pub(super) struct MarkAhead {
    streams: [Stream; STREAMS],
    /// Whose place the next new stream takes.
    turn: usize,
}

impl MarkAhead {
    /// A write of `start..end` comes. The stream it belongs to, when it is not the first one there.
    fn note(&mut self, start: u64, end: u64) -> Option<usize> {
        if let Some(at) = self.streams.iter().position(|s| s.next == start && start > 0) {
            self.streams[at].next = end;
            return Some(at);
        }
        self.streams[self.turn] = Stream { next: end, upto: 0 };
        self.turn = (self.turn + 1) % STREAMS;
        None
    }
}

impl Mirror {
    /// A client's write of this extent comes.
    pub(super) fn declare_ahead(&mut self, start: u64, end: u64, cx: &mut Cx<'_>) {
        let Some(at) = self.ahead.note(start, end) else { return };
        if !self.is_whole() || self.proc.is_any() {
            return;
        }
        let here = ((end - 1) >> self.shift) as u32;
        let most = (here + 1).saturating_add(self.maintenance.mark_ahead).min(self.region_count);
        let mut region = self.ahead.streams[at].upto.max(here + 1);
        let spare = self.piece_regions as u32 + 1; // for a write that comes meanwhile, and for a resync
        while region < most && self.regions.room() > spare {
            if self.regions.find(region).is_none() && !self.is_stale(region) {
                self.regions.enter(region, self.version);
                self.legs[self.leader].map.set(region, D);
                self.list_on_follower(region..=region);
                self.exit_region(region, cx);
                self.count.predeclared += 1;
                self.work.add(Ready::Records);
            }
            region += 1;
        }
        self.ahead.streams[at].upto = region;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interleaved_streams_are_told_apart_and_random_writes_are_none() {
        let mut ahead = MarkAhead::default();
        for round in 0..4u64 {
            for stream in 1..=STREAMS as u64 {
                let start = (stream << 30) + round * 4096;
                assert_eq!(ahead.note(start, start + 4096).is_some(), round > 0, "{stream} {round}");
            }
        }
        let mut rng = nandu_base::Rng::new(3);
        for _ in 0..1000 {
            let start = (1 << 40) + rng.below(1 << 30) * 8192;
            assert_eq!(ahead.note(start, start + 4096), None);
        }
    }
}

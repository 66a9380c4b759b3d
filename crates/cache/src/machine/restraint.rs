//! What is not brought ahead: when the device is busy, and where it would cost a read of its own.

use super::Cache;
use nandu_base::{ByteLen, ByteOffset, Cx};

impl Cache {
    /// Whether a read ahead is refused.
    pub(super) fn refuses(&mut self, wanted: u64, cx: &Cx<'_>) -> bool {
        let full = self.ahead_under_way >= self.config.prefetch_depth;
        let refused = full || (self.config.drop_when_busy && cx.peek.is_busy(0));
        if refused {
            self.refuse(wanted);
        }
        refused
    }

    pub(super) fn refuse(&mut self, wanted: u64) {
        self.tally.refused += 1;
        self.tally.refused_blocks += u64::from(wanted.count_ones());
    }

    /// Of the wanted blocks those that lie in a physical unit with one asked for, or on a lane of their own. Without an
    /// asked block the first one stands for it. Everything where the device does not know.
    pub(super) fn colocated(&mut self, first: u64, asked: u64, wanted: u64, cx: &Cx<'_>) -> u64 {
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        let place = |bit: u32| {
            let offset = ByteOffset((first + u64::from(bit)) << self.block_bits);
            cx.peek.locate(0, offset, ByteLen(self.block))
        };
        let anchor = if asked == 0 { wanted & wanted.wrapping_neg() } else { asked };
        let mut keep = 0;
        for from in [anchor, wanted & !anchor] {
            let mut left = from;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                let Some(place) = place(bit) else {
                    keep |= 1 << bit;
                    continue;
                };
                let shares = taken.contains(&(place.lane, place.unit));
                let free = taken.iter().all(|t| t.0 != place.lane);
                if from == anchor || shares || free {
                    keep |= 1 << bit;
                    taken.push((place.lane, place.unit));
                }
            }
        }
        self.taken = taken;
        keep
    }
}

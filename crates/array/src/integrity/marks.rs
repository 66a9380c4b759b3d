//! The marks: one bit for each region whose tags on the device may be out of date.
//!
//! The bits are changed in memory and written in pieces of one unit. Every change of a piece has a number; a write takes all
//! changes up to now, with FUA, and a change is durable once a write that took it is done. One write of a piece is under way
//! at a time.

use super::layout::Layout;
use std::collections::VecDeque;

#[derive(Clone, Copy, Default, Debug)]
struct Piece {
    changed: u64,
    /// What the write under way takes; 0 for none.
    writing: u64,
    durable: u64,
    queued: bool,
}

/// The marks, and what of them is durable.
#[derive(Debug)]
pub(super) struct Marks {
    bits: Vec<u64>,
    pieces: Vec<Piece>,
    queue: VecDeque<u32>,
    writes: u32,
}

impl Marks {
    pub(super) fn new(layout: &Layout) -> Marks {
        Marks {
            bits: vec![0; layout.regions.div_ceil(64) as usize],
            pieces: vec![Piece::default(); layout.mark_pieces() as usize],
            queue: VecDeque::new(),
            writes: 0,
        }
    }

    /// No region is marked, and nothing is to be written.
    pub(super) fn clear_all(&mut self) {
        self.bits.fill(0);
        self.pieces.fill(Piece::default());
        self.queue.clear();
        self.writes = 0;
    }

    pub(super) fn has(&self, region: u64) -> bool {
        self.bits.get((region / 64) as usize).is_some_and(|word| word >> (region % 64) & 1 != 0)
    }

    /// A mark that was found on the device.
    pub(super) fn found(&mut self, region: u64) {
        if let Some(word) = self.bits.get_mut((region / 64) as usize) {
            *word |= 1 << (region % 64);
        }
    }

    /// The first marked region from `from` on.
    pub(super) fn next(&self, from: u64, regions: u64) -> Option<u64> {
        let mut at = from;
        while at < regions {
            match self.bits[(at / 64) as usize] >> (at % 64) {
                0 => at = (at / 64 + 1) * 64,
                word => {
                    return Some(at + u64::from(word.trailing_zeros())).filter(|&region| region < regions);
                }
            }
        }
        None
    }

    /// Changes the mark of a region in `piece`; the number of the change. It is written soon.
    pub(super) fn put(&mut self, region: u32, piece: usize, on: bool) -> u64 {
        let (word, bit) = (region as usize / 64, 1 << (region % 64));
        if on {
            self.bits[word] |= bit;
        } else {
            self.bits[word] &= !bit;
        }
        self.pieces[piece].changed += 1;
        self.ask(piece);
        self.pieces[piece].changed
    }

    /// What is not durable of a piece is to be written.
    pub(super) fn ask(&mut self, piece: usize) {
        let p = &mut self.pieces[piece];
        if p.writing == 0 && p.durable < p.changed && !p.queued {
            p.queued = true;
            self.queue.push_back(piece as u32);
        }
    }

    pub(super) fn is_durable(&self, piece: usize, change: u64) -> bool {
        self.pieces[piece].durable >= change
    }

    /// The next piece to write; its write takes all changes up to now.
    pub(super) fn next_write(&mut self) -> Option<u32> {
        let piece = self.queue.pop_front()?;
        let p = &mut self.pieces[piece as usize];
        p.queued = false;
        p.writing = p.changed;
        self.writes += 1;
        Some(piece)
    }

    /// The write of a piece is back.
    pub(super) fn written(&mut self, piece: u32, well: bool) {
        let p = &mut self.pieces[piece as usize];
        let took = std::mem::take(&mut p.writing);
        self.writes -= 1;
        if well {
            p.durable = took;
            self.ask(piece as usize);
        }
    }

    /// Whether nothing is being written nor is to be.
    pub(super) fn is_idle(&self) -> bool {
        self.writes == 0 && self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::ByteLen;

    #[test]
    fn a_change_is_durable_when_a_write_that_took_it_is() {
        let layout = Layout::new(ByteLen::gib(8), 512, 512).expect("it has room");
        let mut marks = Marks::new(&layout);
        let (first, second) = (marks.put(3, 0, true), marks.put(9, 0, true));
        assert_eq!(marks.next_write(), Some(0));
        assert_eq!(marks.next_write(), None);
        let third = marks.put(3, 0, false);
        assert_eq!(marks.next_write(), None, "one write of a piece at a time");
        marks.written(0, true);
        assert!(marks.is_durable(0, first) && marks.is_durable(0, second) && !marks.is_durable(0, third));
        assert_eq!(marks.next_write(), Some(0));
        marks.written(0, false);
        assert!(!marks.is_durable(0, third) && marks.is_idle());
        marks.ask(0);
        assert_eq!(marks.next_write(), Some(0));
        marks.written(0, true);
        assert!(marks.is_durable(0, third) && marks.is_idle());
        assert_eq!(marks.next(0, layout.regions), Some(9));
    }
}

//! What capacitors save of the buffer when the power is cut.
//!
//! A drive with power-loss protection copies its buffer to flash that is kept for it while the capacitors last. Here the copy
//! is always there: each slot has a unit of the medium of its own, behind those of the flash, that holds what the slot holds from
//! the instant at which a write is taken in until the page is programmed. A start finds what a copy would have saved, in the order
//! in which it came, and programs it. Time and wear of the copy are left out; runs without contents pay nothing for it.
//!
//! A unit is the first page of a block of its own, for it is erased by itself.

use super::Ssd;
use crate::write_buffer::Held;
use nandu_base::{ByteLen, Cx, Instant, Oob, Overlay, Program, SECTOR, UnitState, Window};
use nandu_ftl::mapping::Mapping;

/// The out-of-band key of a slot: the page, the first sector that is held and the number of them. In a log-block drive a bit says of
/// a record that it is the drive's own.
#[derive(Clone, Copy)]
struct Key {
    own: u64,
    shift: u32,
}

const PLAIN: Key = Key { own: 0, shift: 32 };
const OF_LOG_BLOCKS: Key = Key { own: 1 << 33, shift: 40 };

impl Key {
    fn encode(self, lpn: u32, first: u32, count: u32) -> u64 {
        u64::from(lpn) | self.own | u64::from(first) << self.shift | u64::from(count) << (self.shift + 8)
    }

    fn decode(self, key: u64) -> (u32, u32, u32) {
        let byte = |shift| (key >> shift) as u32 & 0xFF;
        (key as u32, byte(self.shift), byte(self.shift + 8))
    }
}

impl<M: Mapping> Ssd<M> {
    fn dump_unit(&mut self, at: u32) -> Option<u64> {
        let (base, stride) = self.buffer().plan.dump?;
        Some(base + u64::from(at) * u64::from(stride))
    }

    fn dump_key(&self) -> Key {
        if self.plan.map.log_blocks().is_some() { OF_LOG_BLOCKS } else { PLAIN }
    }

    /// Saves what is in a slot now.
    pub(super) fn dump(&mut self, at: u32, cx: &mut Cx<'_>) {
        let Some(unit) = self.dump_unit(at) else { return };
        let slot = *self.buffer().slots.slot(at);
        if self.buffer().plan.planted.not_dumped && slot.ticket.is_multiple_of(8) {
            return;
        }
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let Some(Overlay { first, count, payload }) = slot.held.overlay() else { return };
        let window = Window { start: cx.now, end: cx.now };
        medium.erase(unit, 1, window);
        let overlay = Some(Overlay { first: 0, count, payload });
        let oob = Oob { key: self.dump_key().encode(slot.lpn, first, count), seq: slot.ticket };
        medium.program(cx.pool, &Program { unit, base: None, overlay, oob, window });
    }

    /// What is in a slot need not be saved any more from `end` on.
    pub(super) fn forget_dump(&mut self, at: u32, end: Instant, cx: &mut Cx<'_>) {
        if let (Some(unit), Some(medium)) = (self.dump_unit(at), cx.medium.as_deref_mut()) {
            medium.erase(unit, 1, Window { start: end, end });
        }
    }

    /// After a start: programs what was saved, in the order in which it came.
    pub(in super::super) fn restore_buffer(&mut self, cx: &mut Cx<'_>) {
        if self.buffer.is_none() {
            return;
        }
        let mut saved = Vec::new();
        for at in 0..self.buffer().slots.capacity() {
            let Some(unit) = self.dump_unit(at) else { return };
            let medium = cx.medium.as_deref_mut().expect("a start reads the medium");
            if let UnitState::Programmed(Oob { key, seq }) = medium.state(unit) {
                saved.push((seq, at, unit, key));
            }
        }
        saved.sort_unstable();
        for (ticket, at, unit, key) in saved {
            let (lpn, first, count) = self.dump_key().decode(key);
            if !self.plan.is_somebodys(lpn, lpn + 1) {
                // It was given up before its program was complete.
                self.forget_dump(at, cx.now, cx);
                continue;
            }
            let payload = cx.pool.allocate(ByteLen(u64::from(count) * SECTOR));
            let medium = cx.medium.as_deref_mut().expect("a start reads the medium");
            let readable = medium.read(cx.pool, unit, 0, count, payload);
            assert!(readable, "a unit that is programmed is readable");
            let held = Held::keep(cx.pool, payload, first, count);
            cx.pool.release(payload);
            let lane = self.lane_of(lpn);
            self.buffer().slots.restore(at, ticket, lpn, lane, held, cx.now);
            self.plan.exec.begin_group();
            self.program_slot(at, cx);
        }
        if self.plan.exec.queue.holds_back() {
            self.serve(cx);
        }
    }
}

//! Reading the records of a leg, at open and when it rejoins.

use super::WINDOW;
use crate::member::set::Set;
use crate::mirror::layout::{PAGE, Superblock, read_lost};
use crate::mirror::work::Ready;
use crate::mirror::{Mirror, Tag};
use nandu_base::{ByteLen, ByteOffset, Cx, ErrorKind, Op, OpenError, ReqId};

impl Mirror {
    /// Reads both superblock slots of a leg; done when `loading` is zero.
    pub(in crate::mirror) fn load_sb(&mut self, leg: usize, cx: &mut Cx<'_>) {
        self.legs[leg].sb_slots.forget();
        for slot in 0..2 {
            self.legs[leg].loading += 1;
            let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
            let at = ByteOffset(self.layouts[leg].slots[slot as usize]);
            self.record(leg, Op::Read, at, payload, Tag::SbRead.cookie(leg, slot), cx);
        }
    }

    /// Reads the map and the lost list of a leg; done when `loading` is zero.
    pub(in crate::mirror) fn load_maps(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let l = &mut self.legs[leg];
        l.map.clear();
        (l.lost_newest, l.lost_unreadable, l.lost_writes) = (None, false, 0);
        l.lost_found.clear();
        l.load_next = 0;
        l.load_end = l.map.pages() * 2 + 2;
        for _ in 0..WINDOW {
            self.load_one(leg, cx);
        }
    }

    fn load_one(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let l = &mut self.legs[leg];
        if l.load_next == l.load_end {
            return;
        }
        let at = ByteOffset(self.layouts[leg].map + u64::from(l.load_next) * PAGE);
        let at = if l.load_next < l.load_end - 2 {
            at
        } else {
            self.layouts[leg].lost_slot((l.load_next + 2 - l.load_end) as u8)
        };
        let cookie = Tag::MapRead.cookie(leg, l.load_next);
        l.load_next += 1;
        l.loading += 1;
        let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
        self.record(leg, Op::Read, at, payload, cookie, cx);
    }

    /// A slot was read or not.
    pub(in crate::mirror) fn record_read(
        &mut self,
        id: ReqId,
        leg: usize,
        sb: bool,
        index: u32,
        cx: &mut Cx<'_>,
    ) {
        self.work.add(Ready::Records);
        let l = &mut self.legs[leg];
        if !l.is_in() {
            return;
        }
        l.loading -= 1;
        let error = cx.requests[id].error;
        if error.is_some_and(|e| e.kind == ErrorKind::Gone) {
            self.leave(leg, cx);
            return;
        }
        let bytes = error.is_none().then(|| cx.pool.bytes(cx.requests[id].payload, ByteLen(PAGE)));
        if sb {
            self.count.records_mended += u64::from(l.sb_slots.saw(index as usize, bytes));
            return;
        }
        let tag = l.sb.set[0];
        let (page, slot) = (index / 2, (index % 2) as u8);
        match bytes {
            Some(bytes) if page < l.map.pages() => {
                self.count.records_mended += u64::from(l.map.offer(page, slot, tag, bytes));
            }
            None if page < l.map.pages() => {
                l.map.offer_nothing(page, slot);
                if self.planted.unreadable_slot_forgotten {
                    l.map.forget_one_unreadable(page);
                }
            }
            Some(bytes) => {
                if let Some(((seq, extents), is_mended)) = read_lost(tag, bytes) {
                    self.count.records_mended += u64::from(is_mended);
                    if l.lost_newest.is_none_or(|(newest, _)| seq > newest) {
                        (l.lost_newest, l.lost_found) = (Some((seq, slot)), extents);
                    }
                }
            }
            None => l.lost_unreadable = true,
        }
        self.load_one(leg, cx);
    }

    /// Refuses a leg whose record does not fit what the stack file says.
    pub(in crate::mirror) fn check_geometry(&self, leg: usize, sb: &Superblock) -> Result<(), OpenError> {
        let layout = &self.layouts[leg];
        let name = &self.roster[leg].name;
        let refuse = |why: String, remedy: &str| Err(OpenError::Refused { why, remedy: remedy.into() });
        if sb.region_shift != self.shift {
            let why = format!("leg `{name}` has regions of {}", ByteLen(1 << sb.region_shift));
            return refuse(why, "set `region_size` to that size");
        }
        if sb.leg_bytes != layout.leg.0 || sb.map != layout.map || sb.lost != layout.lost {
            let why = format!("leg `{name}` had {} when it was made", ByteLen(sb.leg_bytes));
            return refuse(why, "give it that size again");
        }
        if !sb.strict && !self.policy.lists_lost {
            return refuse(format!("leg `{name}` belongs to a hetero-mirror"), "open it as that kind");
        }
        Ok(())
    }
}

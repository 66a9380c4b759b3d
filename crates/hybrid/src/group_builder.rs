//! Putting a group together: what goes into it, and where its pages go.

use crate::append::{From, Group, Want};
use crate::dram::{Order, Walk};
use crate::host::{HostOp, Stage};
use crate::machine::{Hybrid, Phase};
use crate::map::Where;
use crate::record::{Entry, capacity};
use nandu_base::{ByteLen, Cx, Payload};

impl Hybrid {
    /// Puts a group together and sends it.
    pub(crate) fn gather(&mut self, r: usize, want: Want, cx: &mut Cx<'_>) {
        let ring = &self.rings[r];
        let unit = ring.newest();
        let at = ring.units[unit as usize].filled;
        let most = ring.shape.group_max.min(ring.room() - 1);
        let mut group = std::mem::take(&mut self.writers[r].group);
        group.header.entries.clear();
        group.from.clear();
        (group.oldest, group.moves_of, group.failed, group.tries) = (None, None, false, 0);
        group.is_proof = want == Want::Proof;
        let room = capacity(self.page as usize);
        match want {
            Want::Proof => {}
            Want::Marks => self.gather_marks(room, &mut group),
            Want::Moves(from) => self.gather_moves(from, r, most, room, &mut group, cx),
            Want::Frames => self.gather_frames(most, &mut group, cx),
        }
        if group.from.is_empty() && want != Want::Proof {
            self.writers[r].group = group;
            match want {
                Want::Moves(from) => self.chunk_appended(from, cx),
                Want::Marks => self.made_progress = true, // all of them were void
                Want::Proof | Want::Frames => {}
            }
            return;
        }
        let set = self.set_of(r);
        let ring = &mut self.rings[r];
        let h = &mut group.header;
        (h.set, h.group, h.unit, h.at) = (set, ring.next_group, unit, at);
        ring.next_group += 1;
        if !group.is_proof {
            (ring.last_content, ring.witnesses) = (group.header.group, 0);
        }
        self.count.headers[r] += 1;
        self.count.appended[r] += u64::from(group.header.pages());
        self.place(r, &mut group);
        self.writers[r].group = group;
        self.send_group(r, cx);
    }

    fn gather_marks(&mut self, room: usize, group: &mut Group) {
        while group.from.len() < room {
            let Some(page) = self.marks.take() else { break };
            if self.map.find(page) == Where::Wanted {
                group.header.entries.push(Entry { page, version: self.next_version(), gone: true });
                group.from.push(From::Mark);
                self.count.marks += 1;
            }
        }
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version - 1
    }

    /// Frames that are appended by use: half of what may wait stays, unless frames are wanted or the host pauses.
    fn too_many(&self, cx: &Cx<'_>) -> u32 {
        let all = self.dram.waiting;
        let goes_all = !self.wait_frames.is_empty() || self.pauses(cx);
        if goes_all { all } else { all.saturating_sub(self.policy.flush_pages / 2).max(1) }
    }

    /// Takes frames that are complete; of others the rest is read.
    fn gather_frames(&mut self, most: u32, group: &mut Group, cx: &mut Cx<'_>) {
        let full = self.dram.full;
        let order =
            if self.has_drainers() || self.phase == Phase::Closing { Order::Oldest } else { self.dram.order };
        let most = if order == Order::Lru { most.min(self.too_many(cx)) } else { most };
        let most = most.min(self.room_for_dirty());
        let mut taken = Vec::new();
        let mut lacking = Vec::new();
        let marks_late = self.planted.marks_late;
        let (regions, ops) = (&mut self.regions, &self.ops);
        let mut may_be_dirty =
            |page| regions.as_mut().is_none_or(|regions| regions.may_be_dirty(page) || marks_late);
        let is_mapped = self.policy.is_mapped;
        let is_bypassed = |page| {
            let meets = |op: &HostOp| (op.middle.0..op.middle.1).contains(&u64::from(page));
            ops.iter().any(|op| op.stage == Stage::Bypassing && meets(op))
        };
        self.dram.walk(order, |f, at| {
            if taken.len() as u32 == most {
                return Walk::Enough;
            }
            if f.is_written || f.loading {
                return Walk::Kept;
            }
            if f.valid != full {
                lacking.push(at);
                return Walk::Kept;
            }
            let may = if f.dirty != 0 { may_be_dirty(f.page) } else { !is_mapped || !is_bypassed(f.page) };
            if !may {
                return Walk::Kept;
            }
            group.oldest.get_or_insert(f.since);
            taken.push(at);
            Walk::Taken
        });
        for at in lacking {
            self.complete_frame(at, crate::load::NO_OP, cx);
        }
        if taken.is_empty() {
            return;
        }
        group.data.0 = cx.pool.allocate(ByteLen(taken.len() as u64 * self.page));
        self.count.frames_appended += taken.len() as u64;
        for (k, &at) in (0..).zip(&taken) {
            let f = &mut self.dram.frames[at as usize];
            let to = group.data.0.slice(ByteLen(k * self.page));
            cx.pool.copy(f.data, to, ByteLen(self.page));
            (f.writing, f.dirty, f.is_written) = (f.dirty, 0, true);
            self.count.promoted += u64::from(f.writing == 0);
            f.promote = false;
            let page = f.page;
            self.dram.settle(at);
            group.header.entries.push(Entry { page, version: self.next_version(), gone: false });
            group.from.push(From::Frame(at));
        }
    }

    /// Takes what is still live of a chunk that a collection has read.
    fn gather_moves(
        &mut self,
        from: usize,
        r: usize,
        most: u32,
        room: usize,
        group: &mut Group,
        cx: &mut Cx<'_>,
    ) {
        group.moves_of = Some(from);
        while group.from.len() < room {
            let Some((page, unit)) = self.collectors[from].take_mark() else { break };
            if self.map.find(page) == Where::Marked(unit) {
                group.header.entries.push(Entry { page, version: self.next_version(), gone: true });
                group.from.push(From::Moved(unit));
            }
        }
        if !self.collectors[from].has_pages() || most == 0 {
            return;
        }
        group.data.0 = cx.pool.allocate(ByteLen(u64::from(most) * self.page));
        let mut taken = 0;
        while taken < u64::from(most) && group.from.len() < room {
            let Some((slot, data)) = self.collectors[from].take_page(self.page) else { break };
            if !self.map.is_live(slot) {
                continue;
            }
            cx.pool.copy(data, group.data.0.slice(ByteLen(taken * self.page)), ByteLen(self.page));
            taken += 1;
            let (page, version) = (self.map.page(slot), self.map.version(slot));
            group.header.entries.push(Entry { page, version, gone: false });
            group.from.push(From::Slot(slot));
            if from == r {
                self.count.rewritten[r] += 1;
            } else {
                self.count.demoted += 1;
            }
        }
        if taken == 0 {
            cx.pool.release(std::mem::replace(&mut group.data.0, Payload::NONE));
        }
    }

    /// Gives the group its place in the open unit, and its pages their slots.
    fn place(&mut self, r: usize, group: &mut Group) {
        let ring = &mut self.rings[r];
        let h = &mut group.header;
        let unit = &mut ring.units[h.unit as usize];
        unit.filled += 1 + h.pages();
        (h.use_number, h.first, h.durable) = (unit.use_number, unit.first, ring.durable);
        if self.planted.proof_before_flush {
            h.durable = h.group - 1;
        }
        h.next_version = self.version;
        let mut slot = ring.shape.slot(h.unit, h.at + 1);
        for (entry, from) in group.header.entries.iter().zip(&group.from) {
            match *from {
                From::Frame(at) => {
                    let f = &self.dram.frames[at as usize];
                    let (is_same, dirty) = (f.writing == 0, f.writing != 0 || f.promote_dirty);
                    let before = self.map.find(entry.page);
                    self.map.fill(slot, entry.page, entry.version, dirty);
                    if let Where::Slot(old) = before {
                        self.map.set_uses(slot, self.demotion.overwritten(self.map.uses(old)));
                    }
                    self.remember_below(slot, before, is_same);
                    self.map.put(entry.page, Where::Slot(slot));
                }
                From::Slot(old) => {
                    self.map.fill(slot, entry.page, entry.version, self.map.is_dirty(old));
                    if self.ring_of_slot(old) == r {
                        self.map.set_uses(slot, self.demotion.inherited(self.map.uses(old)));
                    }
                    self.carry_below(old, slot);
                }
                From::Mark | From::Moved(_) => continue,
            }
            slot += 1;
        }
    }
}

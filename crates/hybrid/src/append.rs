//! Appending to a ring: one group at a time.
//!
//! A group is a header and the pages that it describes, one after the other in one unit. What it holds comes from DRAM (the
//! top ring), from a collection, or is nothing at all (a proof). A page from DRAM gets a new version and is mapped to its
//! slot at once: its frame answers until the group is complete. A page that moves keeps its version and is mapped when the
//! group is complete, unless newer data has come meanwhile.
//!
//! A group that fails is written again into the next unit; the rest of its unit is given up.

use crate::dram::Walk;
use crate::gc::Stage as Collecting;
use crate::machine::{Hybrid, Tag};
use crate::map::Where;
use crate::record::{capacity, Entry, Header};
use nandu_base::{ByteLen, Cx, ErrorKind, Op, Payload, PayloadPool};

/// Attempts to write a group or to prepare a unit before the machine gives up.
const TRIES: u8 = 6;
/// Units that are kept for what must never wait: proofs, and the marks that a commit needs so that a collection can go on.
pub(crate) const KEPT: u32 = 2;

/// Where an entry of a group comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum From {
    Frame(u32),
    Slot(u32),
    Mark,
    /// A mark that was in this unit of the ring above.
    Moved(u32),
}

/// A group under way.
#[derive(Debug, Default)]
struct Group {
    header: Header,
    from: Vec<From>,
    data: Pages,
    /// Since when the longest waiting of its frames waited.
    oldest: Option<u64>,
    is_proof: bool,
    moves_of: Option<usize>,
    left: u8,
    failed: bool,
    tries: u8,
}

/// The pages of a group; none at first.
#[derive(Debug)]
struct Pages(Payload);

impl Default for Pages {
    fn default() -> Pages {
        Pages(Payload::NONE)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Idle,
    /// The next unit is being erased.
    Preparing,
    /// The group is on its way.
    Writing,
    /// The group must be written again.
    Again,
}

/// What is under way at the head of a ring.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    state: State,
    resume: bool,
    group: Group,
    prepare_tries: u8,
    /// A commit wants nothing new here for now.
    pub hold: bool,
}

impl Writer {
    /// Since when the longest waiting frame of the group under way waited.
    pub fn oldest_since(&self) -> Option<u64> {
        self.group.oldest
    }

    pub fn is_idle(&self) -> bool {
        self.state == State::Idle
    }

    /// Forgets what is under way.
    pub fn abandon(&mut self, pool: &mut PayloadPool) {
        pool.release(self.group.data.0);
        *self = Writer::default();
    }
}

/// What would be appended next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Want {
    Proof,
    Marks,
    /// The chunk of the collection on this ring.
    Moves(usize),
    Frames,
}

impl Hybrid {
    /// Begins the next group of a ring, if there is something to write and room.
    pub(crate) fn pump_writer(&mut self, r: usize, cx: &mut Cx<'_>) {
        if self.writers[r].state == State::Again {
            return self.write_again(r, cx);
        }
        if self.writers[r].state != State::Idle {
            return;
        }
        if let Some((want, begins)) = self.wanted(r, cx) {
            if !begins || self.begin_unit(r, cx) {
                self.gather(r, want, cx);
            }
        }
    }

    /// The first thing that wants to be appended and finds room, and whether that is in a new unit. What finds none does
    /// not hold up the rest: a collection that goes on makes room.
    fn wanted(&mut self, r: usize, cx: &mut Cx<'_>) -> Option<(Want, bool)> {
        if self.commit.wants_proof(r) {
            let begins = self.finds_room(r, 1, 0);
            if begins.is_none() {
                // Units that failed have used the ring up. A start finds what is proven, and collects.
                self.fail(ErrorKind::WriteFailed, cx);
            }
            return begins.map(|begins| (Want::Proof, begins));
        }
        if self.writers[r].hold {
            return None;
        }
        if r == 0 && self.marks.taken < self.marks.ready {
            // A collection waits for the commit that waits for them.
            let must = self.collectors.iter().any(|c| c.stage == Collecting::Commit);
            if let Some(begins) = self.finds_room(r, 1, if must { 0 } else { KEPT }) {
                return Some((Want::Marks, begins));
            }
        }
        // A ring's own collection goes first: that of the ring above may wait for it.
        for from in (0..=r).rev() {
            if !self.collectors[from].appends_to(r) {
                continue;
            }
            let pages = if self.collectors[from].has_pages() { 2 } else { 1 };
            match self.finds_room(r, pages, KEPT) {
                Some(begins) => return Some((Want::Moves(from), begins)),
                None if from == r => {
                    self.collectors[r].give_up_rewriting(cx.pool);
                    self.stir = true;
                }
                None => {}
            }
        }
        let wants_frames = r == 0 && self.flushing && self.dram.waiting > 0;
        let begins = if wants_frames { self.finds_room(r, 2, KEPT) } else { None };
        begins.map(|begins| (Want::Frames, begins))
    }

    /// Whether a group of at least so many pages finds room when `kept` units stay free, and whether in a new unit.
    fn finds_room(&self, r: usize, pages: u32, kept: u32) -> Option<bool> {
        let begins = self.rings[r].room() < pages;
        (self.rings[r].free() >= kept + u32::from(begins)).then_some(begins)
    }

    /// Begins the next unit; false when it must be erased first.
    fn begin_unit(&mut self, r: usize, cx: &mut Cx<'_>) -> bool {
        let ring = &mut self.rings[r];
        assert!(ring.free() > 0, "I-12: the ring runs into its start");
        let at = ring.next_unit();
        if ring.units[at as usize].erased {
            ring.begin();
            return true;
        }
        let (child, offset, len) = (ring.shape.child, ring.shape.offset(at, 0), ring.shape.unit_bytes());
        self.writers[r].resume = self.writers[r].state == State::Again;
        self.writers[r].state = State::Preparing;
        self.send_own(child, Op::Reset, offset, len, Payload::NONE, Tag::Prepare, r as u32, cx);
        false
    }

    /// The next unit is erased, or could not be.
    pub(crate) fn unit_prepared(&mut self, r: usize, failed: bool, cx: &mut Cx<'_>) {
        let writer = &mut self.writers[r];
        writer.state = if writer.resume { State::Again } else { State::Idle };
        writer.prepare_tries = if failed { writer.prepare_tries + 1 } else { 0 };
        if writer.prepare_tries > TRIES {
            return self.fail(ErrorKind::WriteFailed, cx);
        }
        if !failed {
            let at = self.rings[r].next_unit();
            self.rings[r].units[at as usize].erased = true;
        }
    }

    /// Puts a group together and sends it.
    fn gather(&mut self, r: usize, want: Want, cx: &mut Cx<'_>) {
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
                Want::Marks => self.stir = true, // all of them were void
                Want::Proof | Want::Frames => {}
            }
            return;
        }
        let ring = &mut self.rings[r];
        let h = &mut group.header;
        (h.set, h.group, h.unit, h.at) = (self.set, ring.next_group, unit, at);
        ring.next_group += 1;
        if !group.is_proof {
            ring.last_content = group.header.group;
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

    /// Takes frames that are complete; of others the rest is read.
    fn gather_frames(&mut self, most: u32, group: &mut Group, cx: &mut Cx<'_>) {
        let full = self.dram.full;
        let mut taken = Vec::new();
        let mut lacking = Vec::new();
        self.dram.walk(|f, at| {
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
        for (entry, from) in h.entries.iter().zip(&mut group.from) {
            let dirty = match *from {
                From::Frame(at) => {
                    let f = &self.dram.frames[at as usize];
                    f.writing != 0 || f.promote_dirty
                }
                From::Slot(old) => self.map.is_dirty(old),
                From::Mark | From::Moved(_) => continue,
            };
            self.map.fill(slot, entry.page, entry.version, dirty);
            if matches!(from, From::Frame(_)) {
                self.map.put(entry.page, Where::Slot(slot));
            }
            slot += 1;
        }
    }

    fn send_group(&mut self, r: usize, cx: &mut Cx<'_>) {
        let shape = self.rings[r].shape;
        let page = cx.pool.allocate_metadata(ByteLen(self.page));
        let writer = &mut self.writers[r];
        let header = &writer.group.header;
        header.encode(cx.pool.bytes_mut(page, ByteLen(self.page)));
        let offset = shape.offset(header.unit, header.at);
        writer.state = State::Writing;
        writer.group.failed = false;
        writer.group.left = if header.pages() > 0 { 2 } else { 1 };
        let both = header.pages() > 0 && !shape.ordered;
        self.send_own(shape.child, Op::Write, offset, self.page, page, Tag::Header, r as u32, cx);
        cx.pool.release(page);
        if both {
            self.send_pages(r, cx);
        }
    }

    fn send_pages(&mut self, r: usize, cx: &mut Cx<'_>) {
        let shape = self.rings[r].shape;
        let group = &self.writers[r].group;
        let (offset, len) = (
            shape.offset(group.header.unit, group.header.at + 1),
            u64::from(group.header.pages()) * self.page,
        );
        self.send_own(shape.child, Op::Write, offset, len, group.data.0, Tag::Data, r as u32, cx);
    }

    /// The header or the pages of a group are written.
    pub(crate) fn group_part_done(&mut self, r: usize, tag: Tag, failed: bool, cx: &mut Cx<'_>) {
        let ordered = self.rings[r].shape.ordered;
        let group = &mut self.writers[r].group;
        group.left -= 1;
        group.failed |= failed;
        if ordered && tag == Tag::Header && group.left == 1 {
            if !failed {
                return self.send_pages(r, cx);
            }
            group.left = 0;
        }
        if group.left > 0 {
            return;
        }
        if group.failed {
            group.tries += 1;
            if group.tries > TRIES {
                return self.fail(ErrorKind::WriteFailed, cx);
            }
            self.writers[r].state = State::Again;
            self.rings[r].is_open = false;
            return;
        }
        self.group_done(r, cx);
    }

    /// Writes a group that failed into a fresh unit.
    fn write_again(&mut self, r: usize, cx: &mut Cx<'_>) {
        if !self.rings[r].is_open {
            if self.rings[r].free() == 0 {
                return self.fail(ErrorKind::WriteFailed, cx);
            }
            if !self.begin_unit(r, cx) {
                return;
            }
        }
        let mut group = std::mem::take(&mut self.writers[r].group);
        let shape = self.rings[r].shape;
        let old = shape.slot(group.header.unit, group.header.at + 1);
        let unit = self.rings[r].newest();
        self.rings[r].units[unit as usize].first = group.header.group;
        (group.header.unit, group.header.at) = (unit, 0);
        let new = shape.slot(unit, 1);
        let flags: Vec<(u32, u64, bool, bool)> = (0..group.header.pages())
            .map(|k| {
                let slot = old + k;
                (self.map.page(slot), self.map.version(slot), self.map.is_dirty(slot), self.map.is_live(slot))
            })
            .collect();
        self.place_again(r, &mut group);
        for (slot, (page, version, dirty, live)) in (new..).zip(flags) {
            self.map.fill(slot, page, version, dirty);
            if live {
                self.map.put(page, Where::Slot(slot));
            }
        }
        self.writers[r].group = group;
        self.send_group(r, cx);
    }

    fn place_again(&mut self, r: usize, group: &mut Group) {
        let ring = &mut self.rings[r];
        let h = &mut group.header;
        let unit = &mut ring.units[h.unit as usize];
        unit.filled = 1 + h.pages();
        (h.use_number, h.first, h.durable) = (unit.use_number, unit.first, ring.durable);
    }

    /// A group is written.
    fn group_done(&mut self, r: usize, cx: &mut Cx<'_>) {
        let mut group = std::mem::take(&mut self.writers[r].group);
        self.writers[r].state = State::Idle;
        cx.pool.release(std::mem::replace(&mut group.data.0, Payload::NONE));
        let shape = self.rings[r].shape;
        let unit = group.header.unit;
        let mut slot = shape.slot(unit, group.header.at + 1);
        for (entry, &from) in group.header.entries.iter().zip(&group.from) {
            match from {
                From::Frame(at) => {
                    let f = &mut self.dram.frames[at as usize];
                    (f.is_written, f.writing) = (false, 0);
                    self.dram.settle(at);
                }
                From::Slot(old) if self.map.find(entry.page) == Where::Slot(old) => {
                    self.map.put(entry.page, Where::Slot(slot));
                }
                From::Slot(_) => {}
                From::Mark | From::Moved(_) => {
                    let wanted = match from {
                        From::Moved(old) => Where::Marked(old),
                        _ => Where::Wanted,
                    };
                    if self.map.find(entry.page) == wanted {
                        self.map.put(entry.page, Where::Marked(shape.unit_base + unit));
                        self.rings[r].units[unit as usize].marks.push(entry.page);
                    }
                }
            }
            slot += u32::from(!entry.gone);
        }
        if !shape.volatile {
            let ring = &mut self.rings[r];
            ring.durable = group.header.group;
            ring.proven = ring.proven.max(group.header.group - 1);
        }
        group.oldest = None;
        let (is_proof, moves_of, number) = (group.is_proof, group.moves_of, group.header.group);
        self.writers[r].group = group;
        if is_proof {
            self.proof_written(r, number);
            self.flush_proof(cx);
        }
        if let Some(from) = moves_of {
            if self.collectors[from].stage == Collecting::Append {
                self.chunk_appended(from, cx);
            }
        }
    }
}

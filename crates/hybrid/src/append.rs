//! Appending to a ring: one group at a time.
//!
//! A group is a header and the pages that it describes, one after the other in one unit. What it holds comes from DRAM (the
//! top ring), from a collection, or is nothing at all (a proof). A page from DRAM gets a new version and is mapped to its
//! slot at once: its frame answers until the group is complete. A page that moves keeps its version and is mapped when the
//! group is complete, unless newer data has come meanwhile.
//!
//! A group that fails is written again into the next unit; the rest of its unit is given up.

use crate::gc::Stage as Collecting;
use crate::machine::{Hybrid, Tag};
use crate::map::Where;
use crate::record::Header;
use nandu_base::{ByteLen, Cx, Op, Payload, PayloadPool};

/// Attempts to write a group or to prepare a unit before the machine gives up.
const TRIES: u8 = 6;
/// Units that are kept for what must never wait: proofs, and the marks that a commit needs so that a collection can go on.
pub(crate) const KEPT: u32 = 2;

/// Where an entry of a group comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    Frame(u32),
    Slot(u32),
    Mark,
    /// A mark that was in this unit of the ring above.
    Moved(u32),
}

/// A group under way.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub header: Header,
    pub from: Vec<From>,
    pub data: Pages,
    /// Since when the longest waiting of its frames waited.
    pub oldest: Option<u64>,
    pub is_proof: bool,
    pub moves_of: Option<usize>,
    left: u8,
    pub failed: bool,
    pub tries: u8,
}

/// The pages of a group; none at first.
#[derive(Debug)]
pub(crate) struct Pages(pub Payload);

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
    pub group: Group,
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
pub(crate) enum Want {
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
        if let Some((want, begins)) = self.wanted(r, cx)
            && (!begins || self.begin_unit(r, cx))
        {
            self.gather(r, want, cx);
        }
    }

    /// The first thing that wants to be appended and finds room, and whether that is in a new unit. What finds none does
    /// not hold up the rest: a collection that goes on makes room.
    fn wanted(&mut self, r: usize, cx: &mut Cx<'_>) -> Option<(Want, bool)> {
        if self.commit.wants_proof(r) {
            let begins = self.finds_room(r, 1, 0);
            if begins.is_none() {
                // Units that failed have used the ring up. A start finds what is proven, and collects.
                self.ring_failed(r, cx);
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
                    self.made_progress = true;
                }
                None => {}
            }
        }
        let wants_frames = r == 0 && self.flushing && self.dram.waiting > 0 && self.room_for_dirty() > 0;
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
            return self.ring_failed(r, cx);
        }
        if !failed {
            let at = self.rings[r].next_unit();
            self.rings[r].units[at as usize].erased = true;
        }
    }

    pub(crate) fn send_group(&mut self, r: usize, cx: &mut Cx<'_>) {
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
                return self.ring_failed(r, cx);
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
                return self.ring_failed(r, cx);
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
        self.place_again(r, &mut group);
        for (from, to) in (old..old + group.header.pages()).zip(new..) {
            let (page, is_live) = (self.map.page(from), self.map.is_live(from));
            self.map.fill(to, page, self.map.version(from), self.map.is_dirty(from));
            self.map.set_uses(to, self.map.uses(from));
            self.carry_below(from, to);
            if is_live {
                self.map.put(page, Where::Slot(to));
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
                    // The disk may have got part of something else meanwhile.
                    if self.map.is_dirty(old) {
                        self.map.soil(slot);
                    }
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
        let ring = &mut self.rings[r];
        ring.witnesses += u32::from(group.header.durable >= ring.last_content);
        let (is_proof, moves_of, number) = (group.is_proof, group.moves_of, group.header.group);
        self.writers[r].group = group;
        if is_proof {
            self.proof_written(r, number);
            self.flush_proof(cx);
        }
        if let Some(from) = moves_of
            && self.collectors[from].stage == Collecting::Append
        {
            self.chunk_appended(from, cx);
        }
    }
}

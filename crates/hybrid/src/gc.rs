//! Collection of a ring (S4-11 to S4-15): when current reaches end, the valid pages of the cold zone move, and its units are
//! erased.
//!
//! A cold zone is collected in batches of units from the start. For each batch: pages that were read since they were written
//! go to the head of the same ring, as far as half of the reserve takes them (O4-1, `policy::demotion`); all others go down. Above another
//! ring they are appended there, and with them the marks. Above the disk the dirty ones are written in the order of the
//! disk, rows of them as one request; clean ones are dropped, and marks vanish (O4-3). Then a commit of everything, and
//! then the units are erased in their order, each durably before the next.
//!
//! A batch above another ring is at most a quarter of that ring, and that ring erases nothing meanwhile that was written
//! since the batch began: so a page and the older copies of it that still lie in the upper ring never part (O4-13).

use crate::append::KEPT;
use crate::machine::{Hybrid, Phase, Tag};
use crate::map::Where;
use nandu_base::{ByteLen, ByteOffset, Cx, Op, Payload, PayloadPool};

/// Attempts before the machine gives up.
const TRIES: u8 = 8;
/// Most pages in a row that goes to the disk as one request.
pub(crate) const ROW_MAX: usize = 64;

/// Where a collection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Idle,
    /// Looks for pages to move.
    Gather,
    /// They are read.
    Read,
    /// A ring appends them.
    Append,
    /// They wait until nothing else of their extent is on its way to the disk.
    DiskWait,
    Disk,
    /// The disk is flushed.
    DiskFlush,
    Commit,
    /// The oldest unit is unmapped and waits for its reads.
    Retire,
    Erase,
    EraseFlush,
}

/// Which pages of a batch are looked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug, Default)]
pub(crate) enum Pass {
    #[default]
    Rewrite,
    Marks,
    Down,
}

/// The collection of one ring.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub stage: Stage,
    pub pass: Pass,
    /// Units of the cold zone, and of them those of this batch, that are not erased yet.
    pub zone_left: u32,
    pub batch: u32,
    /// The next slot of the batch to look at, by count.
    pub at: u32,
    /// Pages that may yet be rewritten, and the fewest uses of one that is.
    pub budget: u32,
    pub least: u8,
    /// Of the lower ring: units begun from this use on are not erased.
    pub floor: u64,
    /// Dirty pages and their slots in the order of the disk, and how far they are.
    pub list: Vec<(u32, u32)>,
    pub list_at: usize,
    /// Marks of the batch and their units.
    pub marks: Vec<(u32, u32)>,
    /// The ring that takes the chunk; none for the disk.
    target: Option<usize>,
    pub slots: Vec<u32>,
    taken: usize,
    data: Option<Payload>,
    left: u32,
    failed: bool,
    tries: u8,
    /// The commit that it waits for.
    pub ticket: u64,
}

impl Collector {
    pub fn appends_to(&self, ring: usize) -> bool {
        self.stage == Stage::Append && self.target == Some(ring)
    }

    pub fn has_pages(&self) -> bool {
        self.taken < self.slots.len()
    }

    /// Whether pages are unmapped whose unit is not erased, or not durably.
    pub fn is_erasing(&self) -> bool {
        matches!(self.stage, Stage::Retire | Stage::Erase | Stage::EraseFlush)
    }

    /// Pages on their way to the disk.
    pub fn on_disk(&self) -> (u64, u64) {
        match (self.stage, self.list.get(self.list_at)) {
            (Stage::Disk, Some(&(page, _))) => (u64::from(page), u64::from(page) + self.slots.len() as u64),
            _ => (0, 0),
        }
    }

    /// The lower ring keeps units from this use on.
    pub fn lower_floor(&mut self, use_number: u64) {
        self.floor = self.floor.min(use_number);
    }

    pub fn take_mark(&mut self) -> Option<(u32, u32)> {
        self.marks.pop()
    }

    /// The next page of the chunk: its slot and its data.
    pub fn take_page(&mut self, page: u64) -> Option<(u32, Payload)> {
        let slot = *self.slots.get(self.taken)?;
        let data = self.data?.slice(ByteLen(self.taken as u64 * page));
        self.taken += 1;
        Some((slot, data))
    }

    fn drop_chunk(&mut self, pool: &mut PayloadPool) {
        if let Some(data) = self.data.take() {
            pool.release(data);
        }
        self.slots.clear();
        self.taken = 0;
    }

    /// There is no room to rewrite: what is left goes down.
    pub fn give_up_rewriting(&mut self, pool: &mut PayloadPool) {
        self.drop_chunk(pool);
        (self.budget, self.stage) = (0, Stage::Gather);
    }

    /// Forgets what is under way.
    pub fn abandon(&mut self, pool: &mut PayloadPool) {
        self.drop_chunk(pool);
        *self = Collector::default();
    }
}

impl Hybrid {
    /// Takes the collection of a ring as far as it goes now.
    pub(crate) fn pump_collector(&mut self, r: usize, cx: &mut Cx<'_>) {
        // Of a collection that has begun to erase, the commit at the end waits for the rest of its batch.
        let may_stop = self.phase == Phase::Closing && self.collectors[r].stage != Stage::Retire;
        if self.is_parked() || (may_stop && self.has_room_to_close()) {
            return;
        }
        match self.collectors[r].stage {
            Stage::Idle if self.should_collect(r) => self.begin_zone(r),
            Stage::Gather => self.gather_chunk(r, cx),
            Stage::DiskWait => self.send_row(r, cx),
            Stage::Commit if self.commit.done >= self.collectors[r].ticket => {
                self.collectors[r].stage = Stage::Retire;
                self.retire(r, cx);
            }
            Stage::Retire => self.retire(r, cx),
            _ => {}
        }
    }

    /// Whether what waits in DRAM finds room without a collection.
    fn has_room_to_close(&self) -> bool {
        let pages = self.dram.waiting.div_ceil(self.rings[0].shape.unit_pages - 1);
        self.rings[0].free() > KEPT + pages && self.rings.iter().all(|ring| ring.free() > KEPT)
    }

    /// Looks for the next pages to move; asks for a commit when there are none.
    fn gather_chunk(&mut self, r: usize, cx: &mut Cx<'_>) {
        let is_lowest = self.is_lowest(r);
        if self.collectors[r].pass == Pass::Rewrite {
            if self.find_slots(r, true) {
                return self.read_chunk(r, Some(r), cx);
            }
            let c = &mut self.collectors[r];
            (c.pass, c.at) = (if is_lowest { Pass::Down } else { Pass::Marks }, 0);
            if is_lowest {
                self.list_dirty(r);
            }
        }
        if self.collectors[r].pass == Pass::Marks {
            self.collectors[r].pass = Pass::Down;
            if self.find_marks(r) {
                let c = &mut self.collectors[r];
                (c.target, c.stage) = (Some(r + 1), Stage::Append);
                self.made_progress = true;
                return;
            }
        }
        if is_lowest {
            if self.find_row(r) {
                return self.read_chunk(r, None, cx);
            }
        } else if self.find_slots(r, false) {
            return self.read_chunk(r, Some(r + 1), cx);
        }
        self.settle_batch(r, cx);
    }

    /// Reads the slots of the chunk, neighbours at once.
    fn read_chunk(&mut self, r: usize, target: Option<usize>, cx: &mut Cx<'_>) {
        let shape = self.rings[r].shape;
        let slots = std::mem::take(&mut self.collectors[r].slots);
        let data = cx.pool.allocate(ByteLen(slots.len() as u64 * self.page));
        let mut left = 0;
        let mut at = 0;
        while at < slots.len() {
            let first = slots[at];
            let follows = |k: &usize| {
                let slot = first + (k - at) as u32;
                slots.get(*k) == Some(&slot) && shape.unit_of(slot) == shape.unit_of(first)
            };
            let count = (at..at + shape.group_max.max(1) as usize).take_while(follows).count();
            let len = count as u64 * self.page;
            let part = data.slice(ByteLen(at as u64 * self.page));
            self.send_own(
                shape.child,
                Op::Read,
                shape.offset_of(first),
                len,
                part,
                Tag::Collect,
                r as u32,
                cx,
            );
            left += 1;
            at += count;
        }
        let c = &mut self.collectors[r];
        (c.slots, c.taken, c.data, c.target) = (slots, 0, Some(data), target);
        (c.left, c.failed, c.stage) = (left, false, Stage::Read);
    }

    /// Part of a chunk is read.
    pub(crate) fn collect_read(&mut self, r: usize, failed: bool, cx: &mut Cx<'_>) {
        let c = &mut self.collectors[r];
        c.left -= 1;
        c.failed |= failed;
        if c.left > 0 {
            return;
        }
        if c.failed {
            if self.may_try_again(r, cx) {
                let c = &mut self.collectors[r];
                let target = c.target;
                if let Some(data) = c.data.take() {
                    cx.pool.release(data);
                }
                self.read_chunk(r, target, cx);
            }
            return;
        }
        c.tries = 0;
        c.stage = if c.target.is_some() { Stage::Append } else { Stage::DiskWait };
    }

    /// Counts a failure; gives the machine up when there were too many in a row.
    fn may_try_again(&mut self, r: usize, cx: &mut Cx<'_>) -> bool {
        let c = &mut self.collectors[r];
        c.tries += 1;
        if c.tries > TRIES {
            self.ring_failed(r, cx);
            return false;
        }
        true
    }

    /// The ring has appended from the chunk.
    pub(crate) fn chunk_appended(&mut self, r: usize, cx: &mut Cx<'_>) {
        let c = &mut self.collectors[r];
        if c.marks.is_empty() && !c.has_pages() {
            c.drop_chunk(cx.pool);
            c.stage = Stage::Gather;
        }
        self.made_progress = true;
    }

    /// Sends what is still live of a row to the disk.
    fn send_row(&mut self, r: usize, cx: &mut Cx<'_>) {
        let c = &self.collectors[r];
        let (first, count) = (c.list[c.list_at].0, c.slots.len() as u32);
        let (from, to) = (u64::from(first), u64::from(first + count));
        if self.is_bypassed(from, to) || self.destages(from, to) {
            return;
        }
        let Some(data) = c.data else { unreachable!("a row that was read has its data") };
        let is_live: Vec<bool> = c.slots.iter().map(|&slot| self.map.is_live(slot)).collect();
        let (mut left, mut at) = (0, 0);
        while at < is_live.len() {
            let count = is_live[at..].iter().take_while(|&&live| live).count();
            if count > 0 {
                let offset = ByteOffset((u64::from(first) + at as u64) * self.page);
                let part = data.slice(ByteLen(at as u64 * self.page));
                let len = count as u64 * self.page;
                self.send_own(self.disk, Op::Write, offset, len, part, Tag::Demote, r as u32, cx);
                self.count.demoted_to_disk += count as u64;
                left += 1;
            }
            at += count.max(1);
        }
        let c = &mut self.collectors[r];
        (c.left, c.failed, c.stage) = (left, false, Stage::Disk);
        if left == 0 {
            self.row_is_down(r, cx);
        }
    }

    /// Part of a row is on the disk.
    pub(crate) fn demoted(&mut self, r: usize, failed: bool, cx: &mut Cx<'_>) {
        self.demoted_unflushed = true;
        let c = &mut self.collectors[r];
        c.left -= 1;
        c.failed |= failed;
        if c.left > 0 {
            return;
        }
        if c.failed {
            if self.may_try_again(r, cx) {
                self.collectors[r].stage = Stage::DiskWait;
            }
            return;
        }
        c.tries = 0;
        self.row_is_down(r, cx);
    }

    fn row_is_down(&mut self, r: usize, cx: &mut Cx<'_>) {
        let c = &mut self.collectors[r];
        c.list_at += c.slots.len();
        c.drop_chunk(cx.pool);
        c.stage = Stage::Gather;
        self.made_progress = true;
    }

    /// Unmaps what is left of the oldest unit and erases it, once nothing of it is being read.
    fn retire(&mut self, r: usize, cx: &mut Cx<'_>) {
        let (is_lowest, ring) = (self.is_lowest(r), &self.rings[r]);
        let (shape, unit) = (ring.shape, ring.start);
        if !self.planted.forgets_to_unmap {
            for slot in shape.slot(unit, 0)..shape.slot(unit, 0) + shape.unit_pages {
                if self.map.is_live(slot) {
                    let moved = is_lowest || self.planted.erase_before_proof;
                    assert!(moved, "I-12: page {} is in a unit that is erased", self.map.page(slot));
                    self.map.put(self.map.page(slot), Where::Disk);
                    self.count.dropped_clean += u64::from(!self.map.is_dirty(slot));
                }
                self.map.empty(slot);
            }
            for &page in &self.rings[r].units[unit as usize].marks {
                if self.map.find(page) == Where::Marked(shape.unit_base + unit) {
                    self.map.put(page, Where::Disk);
                }
            }
        }
        if self.rings[r].units[unit as usize].pins > 0 {
            return;
        }
        self.collectors[r].stage = Stage::Erase;
        self.erase(r, cx);
    }

    /// `reset` where there is an erase unit; elsewhere the first page becomes zeros.
    fn erase(&mut self, r: usize, cx: &mut Cx<'_>) {
        let shape = self.rings[r].shape;
        let offset = shape.offset(self.rings[r].start, 0);
        if shape.resets {
            let len = shape.unit_bytes();
            return self.send_own(
                shape.child,
                Op::Reset,
                offset,
                len,
                Payload::NONE,
                Tag::Erase,
                r as u32,
                cx,
            );
        }
        let zeros = cx.pool.allocate_metadata(ByteLen(self.page));
        self.send_own(shape.child, Op::Write, offset, self.page, zeros, Tag::Erase, r as u32, cx);
        cx.pool.release(zeros);
    }

    /// The unit is erased, or that is durable.
    pub(crate) fn erased(&mut self, r: usize, is_flush: bool, failed: bool, cx: &mut Cx<'_>) {
        if failed {
            if is_flush {
                return self.ring_failed(r, cx);
            }
            if self.may_try_again(r, cx) {
                self.erase(r, cx);
            }
            return;
        }
        let shape = self.rings[r].shape;
        if shape.volatile && !is_flush {
            self.collectors[r].stage = Stage::EraseFlush;
            let child = shape.child;
            return self.send_own(
                child,
                Op::Flush,
                ByteOffset::ZERO,
                0,
                Payload::NONE,
                Tag::EraseFlush,
                r as u32,
                cx,
            );
        }
        self.rings[r].retire();
        self.count.erases[r] += 1;
        let c = &mut self.collectors[r];
        c.tries = 0;
        c.batch -= 1;
        c.zone_left -= 1;
        if c.batch > 0 {
            c.stage = Stage::Retire;
        } else if c.zone_left > 0 {
            self.begin_batch(r);
        } else {
            c.stage = Stage::Idle;
            self.count.collections[r] += 1;
        }
    }
}

//! Taking checkpoints of a map on the flash; see [`crate::checkpoint`] for what they are.
//!
//! A checkpoint is due when so many pages were programmed since the last one, and is taken before the next request. Pending
//! trims go on record first, so what it says is what a scan of everything would find. It waits for everything that was
//! issued before.
//!
//! Which entries differ from their translation pages is found among those that changed since the last checkpoint and those
//! that differed then. They are at most as many as the cache holds; should they not fit, the map is written back first.

use super::flash::{After, Erasing, Job, Pieces, Programming};
use super::pages::put_words;
use super::{Flash, Planner};
use crate::checkpoint::{Anchors, Checkpoint};
use crate::mapping::{MapShape, Mapping, Tp};
use crate::trim_journal::TrimJournal;
use crate::{BlockId, Layout, Lpn, Ppn};
use nandu_base::{Cx, Oob, TenantId, Work};

/// Keys from here on name the pages of a checkpoint, in order.
pub(super) const CHECKPOINT_KEY: u64 = 1 << 34;

/// What checkpoints were taken since the counters were reset.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Checkpoints.
    pub taken: u64,
    /// Their pages.
    pub pages: u64,
    /// Blocks of older ones that were erased.
    pub erases: u64,
}

/// What a drive keeps to take checkpoints.
pub struct Keeper {
    /// Where they lie.
    pub anchors: Anchors,
    /// Pages programmed between two checkpoints.
    interval: u64,
    /// Logical pages whose entries changed since the last checkpoint.
    pub touched: Vec<u32>,
    /// Logical pages whose entries differed then.
    differed: Vec<u32>,
    /// Number of the last checkpoint.
    pub last: u64,
    /// What was taken.
    pub count: Counts,
}

impl Keeper {
    /// Checkpoints after `blocks` blocks each, of a map with `ram` bytes of cache.
    pub fn new(layout: &Layout, shape: &MapShape, ram: u64, blocks: u32) -> Keeper {
        let per_page = shape.entries() as u32;
        let records =
            TrimJournal::pages_max(shape.pages.into(), 4 * shape.entries(), shape.owners() as usize) as u32;
        let entries = (ram / 4).min(u64::from(shape.pages)) as u32;
        let words = Checkpoint::words(shape.translation_pages(), records, entries);
        Keeper {
            anchors: Anchors::new(*layout, words, per_page),
            interval: u64::from(blocks) * u64::from(layout.pages),
            touched: Vec::new(),
            differed: Vec::new(),
            last: 0,
            count: Counts::default(),
        }
    }

    /// Forgets everything that a loss of power takes.
    pub fn restart(&mut self, last: u64) {
        self.touched.clear();
        self.differed.clear();
        self.last = last;
    }
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// Whether a checkpoint is to be taken before the next request.
    #[inline]
    pub fn checkpoint_is_due(&self) -> bool {
        self.paging
            .keeper
            .as_ref()
            .is_some_and(|k| self.seq - k.last >= k.interval || k.touched.len() as u64 >= 4 * k.interval)
    }

    /// Writes a checkpoint.
    #[cold]
    pub fn take_checkpoint(&mut self, cause: TenantId, cx: &mut Cx<'_>) {
        self.record_trims(cx, cause);
        let mut words = self.snapshot();
        let pages_max = self.paging.keeper.as_ref().map_or(0, |k| k.anchors.pages()) as usize;
        let per_page = 1usize << (self.host.page.bits - 2);
        if words.len().div_ceil(per_page) > pages_max {
            self.write_map_back(cx);
            words = self.snapshot();
        }
        let pages = words.len().div_ceil(per_page);
        if pages > pages_max {
            // More trim records than there ever should be: the last checkpoint stays valid.
            return;
        }
        let Some(mut keeper) = self.paging.keeper.take() else { return };
        let outer = self.exec.work_for(Work::Journal);
        let (half, first, stale) = keeper.anchors.take(pages as u32);
        let before = self.exec.all_changes(cx);
        for block in stale {
            self.erase_anchor(block, before, &mut keeper, cause, cx);
        }
        let ready = self.exec.behind_all(cx);
        let mut pieces = Pieces::of_nobody(cx, cause, Work::Journal);
        for (index, words) in (0..).zip(words.chunks(per_page)) {
            let ppn = keeper.anchors.page(half, first + index);
            self.write_anchor(ppn, ready, u64::from(index), words, &mut pieces, cx);
        }
        pieces.charge(cx);
        self.exec.work_for(outer);
        keeper.last = self.seq;
        keeper.count.taken += 1;
        keeper.count.pages += pages as u64;
        self.paging.keeper = Some(keeper);
    }

    /// Erases all checkpoints before anything else begins, for a start that has to erase what one may name: the next one scans everything.
    #[cold]
    pub(super) fn give_checkpoints_up(&mut self, cx: &mut Cx<'_>) {
        let Some(mut keeper) = self.paging.keeper.take() else { return };
        let before = self.exec.all_changes(cx);
        for block in keeper.anchors.give_up() {
            self.erase_anchor(block, before, &mut keeper, TenantId::SYSTEM, cx);
        }
        keeper.last = 0;
        self.paging.keeper = Some(keeper);
        if self.exec.holds_back() {
            self.exec.serve(cx);
        }
        let given = self.exec.all_given();
        self.exec.fence(given);
    }

    /// The checkpoint of now, as words. It takes a sequence number for itself.
    fn snapshot(&mut self) -> Vec<u32> {
        self.seq += 1;
        let per_page = 1usize << (self.host.page.bits - 2);
        let mut differ: Vec<(Lpn, u32)> = Vec::new();
        if let Some(keeper) = &mut self.paging.keeper {
            let mut changed = std::mem::take(&mut keeper.touched);
            changed.append(&mut keeper.differed);
            changed.sort_unstable();
            changed.dedup();
            for lpn in changed.into_iter().map(Lpn) {
                let word = self.map.get(lpn).map_or(0, |ppn| ppn.0 + 1);
                let stored = self.map.store().map_or(0, |store| store.word(lpn));
                if word != stored {
                    differ.push((lpn, word));
                }
            }
            keeper.differed.extend(differ.iter().map(|(lpn, _)| lpn.0));
        }
        let place = |tp: u32| match self.map.translation_page(Tp(tp)) {
            Some(_) if self.planted.slot_persisted && tp.is_multiple_of(3) => tp / 3 + 1,
            at => at.map_or(0, |ppn| ppn.0 + 1),
        };
        let checkpoint = Checkpoint {
            seq: self.seq,
            directory: (0..self.map.translation_pages()).map(place).collect(),
            records: self.journal.records().map(|(_, record)| record.ppn).collect(),
            entries: differ,
        };
        checkpoint.encode(per_page)
    }

    /// Erases a block of older checkpoints, when the one that replaces them is complete.
    fn erase_anchor(
        &mut self,
        block: BlockId,
        before: After,
        keeper: &mut Keeper,
        cause: TenantId,
        cx: &mut Cx<'_>,
    ) {
        let after = self.exec.behind_anchors(before);
        self.exec.erase(Erasing { unit: block, after, is_slc: false, cause, work: Work::Journal }, cx);
        self.blocks.wore(block);
        self.erases_ever += 1;
        keeper.count.erases += 1;
    }

    fn write_anchor(
        &mut self,
        ppn: Ppn,
        after: After,
        index: u64,
        words: &[u32],
        pieces: &mut Pieces<F>,
        cx: &mut Cx<'_>,
    ) {
        self.exec.begin_group();
        let overlay = self.host.page.own(cx, |page| put_words(words, page));
        let oob = Oob { key: CHECKPOINT_KEY + index, seq: self.seq };
        self.exec.program(
            Programming { overlay, ..Programming::of(Job::Anchor, ppn, oob, after) },
            pieces,
            cx,
        );
    }
}

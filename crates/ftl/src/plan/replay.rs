//! The start from a checkpoint: what is read instead of every page's record.
//!
//! Pages of a block carry rising numbers. So the record of a block's last page tells whether any of the block is newer
//! than the checkpoint: one read for each full block, two for an erased one, and only blocks that were written since are
//! scanned, and those in SLC mode, whose last pages are never written. The entry of a logical page is, in this order, its newest scanned version, the entry that the checkpoint has
//! for it, or the word in the newest version of its translation page. A word counts only while the page it names still
//! is what it was: a trim may have let its block be erased. Trim records then apply as they do after a full scan.
//!
//! A translation page may have been complete before a data page that it names: where that never came, the word of the
//! version that the checkpoint names holds.
//!
//! *When the checkpoint is not enough*: that version may have been erased since; and a start that was cut short may have
//! erased a translation page before it was written anew. Then everything is scanned, which finds the same. Builds with
//! debug assertions compare the two after each start.

use super::checkpoint::CHECKPOINT_KEY;
use super::recover::{JOURNAL_KEY, MAP_KEY, without_mode};
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::checkpoint::Checkpoint;
use crate::mapping::{Mapping, Tp};
use crate::trim_journal::Extent;
use crate::{Lpn, Ppn};
use nandu_base::{ByteLen, Cx, Oob, UnitState};
use std::collections::BTreeSet;

/// How a block that was not scanned is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Block {
    /// Its pages were scanned, or it is erased.
    Scanned,
    /// Full of data pages, none newer than the checkpoint.
    Data,
    /// Full of translation pages, none newer than the checkpoint.
    Map,
}

/// A start from a checkpoint that is under way.
struct Replay {
    blocks: Vec<Block>,
    /// Number and place of the newest version of each logical page that is newer than the checkpoint.
    newest: Vec<(u64, Ppn)>,
    map_pages: Vec<(u64, Ppn)>,
    /// What `map_pages` was at the checkpoint.
    old_map_pages: Vec<(u64, Ppn)>,
    /// Logical pages that the checkpoint has an entry for.
    entries: BTreeSet<Lpn>,
}

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// The newest valid checkpoint. Takes over which pages of its blocks are used.
    pub(super) fn find_checkpoint(&mut self, cx: &mut Cx<'_>) -> Option<Checkpoint> {
        let anchors = self.paging.keeper.as_ref()?.anchors.clone();
        let mut used = [0; 2];
        let mut begins: Vec<(u64, usize, u32)> = Vec::new();
        for (half, used) in used.iter_mut().enumerate() {
            for index in 0..anchors.pages() {
                match self.record_of(anchors.page(half, index), cx) {
                    UnitState::Erased => continue,
                    UnitState::Torn => {}
                    UnitState::Programmed(Oob { key, seq }) => {
                        self.seq = self.seq.max(seq);
                        if key == CHECKPOINT_KEY {
                            begins.push((seq, half, index));
                        }
                    }
                }
                *used = index + 1;
            }
        }
        begins.sort_unstable();
        let mut valid = begins.into_iter().rev().filter_map(|(seq, half, index)| {
            let place = |i: u32| (index + i < anchors.pages()).then(|| anchors.page(half, index + i));
            self.read_checkpoint(seq, place, cx).map(|checkpoint| (half, checkpoint))
        });
        let newest = valid.next();
        drop(valid);
        let keeper = self.paging.keeper.as_mut()?;
        keeper.anchors.restore(used, newest.as_ref().map(|(half, _)| *half));
        keeper.restart(newest.as_ref().map_or(0, |(_, checkpoint)| checkpoint.seq));
        newest.map(|(_, checkpoint)| checkpoint)
    }

    /// The checkpoint with this number whose pages lie at `place`, when all of them are there.
    fn read_checkpoint(
        &mut self,
        seq: u64,
        place: impl Fn(u32) -> Option<Ppn>,
        cx: &mut Cx<'_>,
    ) -> Option<Checkpoint> {
        let mut words = self.read_words(place(0)?, cx)?;
        for index in 1..Checkpoint::pages(&words)? {
            let ppn = place(index)?;
            let medium = cx.medium.as_deref()?;
            let want = Oob { key: CHECKPOINT_KEY + u64::from(index), seq };
            if medium.state(u64::from(ppn.0)) != UnitState::Programmed(want) {
                return None;
            }
            words.extend(self.read_words(ppn, cx)?);
        }
        Checkpoint::decode(&words).filter(|checkpoint| checkpoint.seq == seq)
    }

    /// Reads the out-of-band record of a page.
    pub(super) fn record_of(&mut self, ppn: Ppn, cx: &Cx<'_>) -> UnitState {
        let die = self.exec.die_of(ppn);
        self.recovery.note(die, 1);
        cx.medium.as_deref().expect("recovery reads the medium").state(u64::from(ppn.0))
    }

    /// Reads a page as words; [`None`] when it is torn or erased.
    fn read_words(&mut self, ppn: Ppn, cx: &mut Cx<'_>) -> Option<Vec<u32>> {
        self.recovery.note(self.exec.die_of(ppn), 1);
        let page = ByteLen(1 << self.host.page.bits);
        let payload = cx.pool.allocate_metadata(page);
        let medium = cx.medium.as_deref_mut().expect("recovery reads the medium");
        let readable = medium.read(cx.pool, u64::from(ppn.0), 0, self.host.page.sectors, payload);
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let words = cx.pool.bytes(payload, page).chunks_exact(4).map(word).collect();
        cx.pool.release(payload);
        readable.then_some(words)
    }

    /// Rebuilds the map from a checkpoint; returns number and place of each translation page's newest version. [`None`] when
    /// the checkpoint is not enough, with the drive half rebuilt.
    pub(super) fn replay(&mut self, checkpoint: &Checkpoint, cx: &mut Cx<'_>) -> Option<Vec<(u64, Ppn)>> {
        let before = checkpoint.seq;
        let place = |&word: &u32| if word == 0 { (0, Ppn(0)) } else { (before, Ppn(word - 1)) };
        let map_pages: Vec<_> = checkpoint.directory.iter().map(place).collect();
        let mut replay = Replay {
            old_map_pages: map_pages.clone(),
            entries: checkpoint.entries.iter().map(|&(lpn, _)| lpn).collect(),
            blocks: vec![Block::Scanned; self.blocks.layout().block_end() as usize],
            newest: vec![(before, Ppn(0)); self.host.logical as usize],
            map_pages,
        };
        self.scan_changed(before, &mut replay, cx);
        for tp in (0..self.map.translation_pages()).map(Tp) {
            self.load_map_page(tp, before, &replay, cx)?;
        }
        for &(lpn, word) in &checkpoint.entries {
            match word.checked_sub(1).map(Ppn).filter(|&ppn| self.is_still(lpn, ppn, &replay)) {
                Some(ppn) => self.map.set(lpn, ppn),
                None => self.map.clear(lpn),
            };
        }
        for (lpn, &(seq, ppn)) in (0..).map(Lpn).zip(&replay.newest) {
            if seq > before {
                self.map.set(lpn, ppn);
            }
        }
        self.take_over_records(checkpoint, &replay, cx);
        let newest: Vec<u64> = replay.newest.iter().map(|&(seq, _)| seq).collect();
        self.apply_trims(&newest);
        self.forget_going();
        self.keep_latest_records(cx);
        self.note_unrecorded_trims(before, &replay);
        self.own_pages(&replay);
        Some(replay.map_pages)
    }

    /// Looks at every block, and scans those with pages newer than the checkpoint.
    fn scan_changed(&mut self, before: u64, replay: &mut Replay, cx: &mut Cx<'_>) {
        let layout = *self.blocks.layout();
        for block in layout.all_blocks().filter(|&block| !self.paging.is_anchor(block)).collect::<Vec<_>>() {
            let first = layout.first_page(block).0;
            match without_mode(self.record_of(Ppn(first + layout.pages - 1), cx)) {
                UnitState::Programmed(Oob { key, seq }) if seq <= before => {
                    let kind = if key >= MAP_KEY { Block::Map } else { Block::Data };
                    replay.blocks[block.0 as usize] = kind;
                    continue;
                }
                UnitState::Erased if self.record_of(Ppn(first), cx) == UnitState::Erased => continue,
                _ => {}
            }
            let mut marks = [0; 2];
            for ppn in (first..first + layout.pages).map(Ppn) {
                if let Some(is_slc) = self.scan_page(ppn, before, replay, cx) {
                    marks[usize::from(is_slc)] += 1;
                }
            }
            self.restore_mode(block, marks[1], marks[0]);
        }
    }

    /// Takes in what a page holds; returns whether it was programmed in SLC mode, where it can be read.
    fn scan_page(&mut self, ppn: Ppn, before: u64, replay: &mut Replay, cx: &mut Cx<'_>) -> Option<bool> {
        let state = self.record_of(ppn, cx);
        match without_mode(state) {
            UnitState::Erased => {}
            UnitState::Torn => self.blocks.programmed(ppn, Content::Waste),
            UnitState::Programmed(Oob { key, seq }) => {
                self.seq = self.seq.max(seq).max(before);
                if key < JOURNAL_KEY {
                    self.blocks.programmed(ppn, Content::Data(Lpn(key as u32)));
                    let best = &mut replay.newest[key as usize];
                    *best = if seq > best.0 { (seq, ppn) } else { *best };
                } else if key >= MAP_KEY {
                    let tp = (key - MAP_KEY) as usize;
                    self.blocks.programmed(ppn, Content::Map(Tp(tp as u32)));
                    let best = &mut replay.map_pages[tp];
                    *best = if seq > best.0 && seq > before { (seq, ppn) } else { *best };
                } else {
                    self.read_record(ppn, cx);
                }
            }
        }
        match state {
            UnitState::Programmed(oob) => Some(oob.key & Oob::SLC != 0),
            _ => None,
        }
    }

    /// Enters the words of a translation page; [`None`] when the page is gone.
    fn load_map_page(&mut self, tp: Tp, before: u64, replay: &Replay, cx: &mut Cx<'_>) -> Option<()> {
        let (newest, ppn) = replay.map_pages[tp.0 as usize];
        if newest == 0 {
            return Some(());
        }
        let is_page = u64::from(ppn.0) < self.blocks.layout().ppn_end();
        let in_place = is_page && !self.paging.is_anchor(self.blocks.layout().block(ppn));
        assert!(in_place, "I-4: a checkpoint has {ppn:?} as the place of {tp:?}, which no map page can have");
        match self.record_of(ppn, cx) {
            UnitState::Programmed(Oob { key, seq }) if seq <= before || seq == newest => {
                let want = MAP_KEY + u64::from(tp.0);
                assert!(
                    key == want,
                    "I-4: a checkpoint has {ppn:?} as the place of {tp:?}, which lies elsewhere"
                );
            }
            UnitState::Programmed(_) | UnitState::Erased | UnitState::Torn => return None,
        }
        let words = self.read_words(ppn, cx)?;
        let span = self.map.span(tp);
        let mut old_words = None;
        let lpns = span.start..span.end.min(self.host.logical);
        for (index, (lpn, mut word)) in lpns.map(Lpn).zip(words).enumerate() {
            let never_came = newest > before
                && word > 0
                && replay.newest[lpn.0 as usize].0 == before
                && !replay.entries.contains(&lpn)
                && !self.is_still(lpn, Ppn(word - 1), replay);
            if never_came {
                if old_words.is_none() {
                    old_words = Some(self.old_map_page(tp, before, replay, cx)?);
                }
                word = old_words.as_ref().map_or(0, |words: &Vec<u32>| words[index]);
            }
            if let Some(ppn) = word.checked_sub(1).map(Ppn).filter(|&ppn| self.is_still(lpn, ppn, replay)) {
                self.map.set(lpn, ppn);
            }
        }
        Some(())
    }

    /// The words of a translation page as of the checkpoint, for a newer one that was complete before a data page that it
    /// names; [`None`] when that version is gone.
    fn old_map_page(&mut self, tp: Tp, before: u64, replay: &Replay, cx: &mut Cx<'_>) -> Option<Vec<u32>> {
        let (seq, ppn) = replay.old_map_pages[tp.0 as usize];
        if seq == 0 {
            return Some(vec![0; 1 << (self.host.page.bits - 2)]);
        }
        match self.record_of(ppn, cx) {
            UnitState::Programmed(oob) if oob.seq <= before && oob.key == MAP_KEY + u64::from(tp.0) => {
                self.read_words(ppn, cx)
            }
            _ => None,
        }
    }

    /// Whether the page at `ppn` is the version of `lpn` that a word from before has named.
    fn is_still(&self, lpn: Lpn, ppn: Ppn, replay: &Replay) -> bool {
        let layout = self.blocks.layout();
        if u64::from(ppn.0) >= layout.ppn_end() {
            return false;
        }
        match replay.blocks[layout.block(ppn).0 as usize] {
            Block::Data => true,
            Block::Map => false,
            Block::Scanned => self.blocks.content(ppn) == Content::Data(lpn),
        }
    }

    /// Reads the trim records that the checkpoint names in blocks that were not scanned.
    fn take_over_records(&mut self, checkpoint: &Checkpoint, replay: &Replay, cx: &mut Cx<'_>) {
        for &ppn in &checkpoint.records {
            if replay.blocks[self.blocks.layout().block(ppn).0 as usize] == Block::Data {
                let state = self.record_of(ppn, cx);
                let is_record = matches!(state, UnitState::Programmed(oob) if oob.key == JOURNAL_KEY);
                assert!(is_record, "a checkpoint has {ppn:?} as the place of a trim record");
                self.read_record(ppn, cx);
            }
        }
    }

    /// Gives up records that nothing can depend on. Which old versions there are is not known, so of the records that name
    /// an unmapped page, one with the largest number stays, and of tables of tenants the newest.
    fn keep_latest_records(&mut self, cx: &Cx<'_>) {
        let mut latest = vec![(0, u32::MAX); self.host.logical as usize];
        for (slot, record) in self.journal.records() {
            for extent in &record.extents {
                for lpn in extent.first.0..extent.first.0 + extent.count {
                    let best = &mut latest[lpn as usize];
                    if self.map.get(Lpn(lpn)).is_none() && (best.1 == u32::MAX || extent.as_of > best.0) {
                        *best = (extent.as_of, slot);
                    }
                }
            }
        }
        let tables = self.journal.records().filter(|(_, record)| record.is_table);
        let table = tables.max_by_key(|(_, record)| self.number_at(record.ppn, cx)).map(|(slot, _)| slot);
        let needed: BTreeSet<u32> = latest.into_iter().map(|(_, slot)| slot).chain(table).collect();
        let slots: Vec<u32> = self.journal.records().map(|(slot, _)| slot).collect();
        for slot in slots.into_iter().filter(|slot| !needed.contains(slot)) {
            self.journal.drop_record(slot);
        }
    }

    /// A translation page that was written since the checkpoint may hold trims that are not on record, of versions that were
    /// not scanned. They are in effect from here on, so they go on record before the drive opens: else a start without
    /// the checkpoint would undo what was read.
    fn note_unrecorded_trims(&mut self, before: u64, replay: &Replay) {
        let mut recorded = vec![false; self.host.logical as usize];
        for (_, record) in self.journal.records() {
            for extent in record.extents.iter().filter(|extent| extent.as_of >= before) {
                recorded[extent.first.0 as usize..][..extent.count as usize].fill(true);
            }
        }
        for lpn in (0..self.host.logical).map(Lpn) {
            let is_new = replay.map_pages[self.map.tp(lpn).0 as usize].0 > before;
            let is_unmapped = self.map.get(lpn).is_none() && self.is_somebodys(lpn.0, lpn.0 + 1);
            if is_new && !recorded[lpn.0 as usize] && is_unmapped {
                self.journal.trimmed(Extent { first: lpn, count: 1, as_of: self.seq });
            }
        }
    }

    /// Notes what the pages of the blocks hold that were not scanned: what the map names, and old versions.
    fn own_pages(&mut self, replay: &Replay) {
        for lpn in (0..self.host.logical).map(Lpn) {
            if let Some(ppn) = self.map.get(lpn).filter(|&ppn| self.blocks.content(ppn) == Content::Free) {
                self.blocks.programmed(ppn, Content::Data(lpn));
            }
        }
        for (tp, &(seq, ppn)) in (0..).map(Tp).zip(&replay.map_pages) {
            if seq > 0 && self.blocks.content(ppn) == Content::Free {
                self.blocks.programmed(ppn, Content::Map(tp));
            }
        }
        let layout = *self.blocks.layout();
        for block in layout.all_blocks() {
            let old = match replay.blocks[block.0 as usize] {
                Block::Scanned => continue,
                Block::Data => Content::Waste,
                Block::Map => Content::Map(Tp(0)),
            };
            let first = layout.first_page(block).0;
            for ppn in (first..first + layout.pages).map(Ppn) {
                if self.blocks.content(ppn) == Content::Free {
                    self.blocks.programmed(ppn, old);
                }
            }
        }
    }
}

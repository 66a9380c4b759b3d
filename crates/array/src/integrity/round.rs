//! Rounds: the checksums of some regions are written, the device is flushed, and their marks are taken away.
//!
//! A round begins when regions have not been written for `bitmap_delay`, when a write needs room for another marked region or for
//! another page in memory, and at the end. New writes of its regions wait until it is over, and those under way end first. So what the
//! flush makes durable is all of their data, and the checksums that belong to it. When a page cannot be written or the flush fails the
//! regions stay marked, and writes that wait for room fail.

use super::{CLEAN, Integrity, Run, Tag};
use nandu_base::{ByteLen, Cx, Flags, Instant, Op, Payload};

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Step {
    #[default]
    Idle,
    /// Writes under way end.
    Drain,
    /// Pages are written.
    Tags,
    /// The device is flushed.
    Flush,
}

/// The round under way.
#[derive(Debug, Default)]
pub(super) struct Round {
    step: Step,
    slots: Vec<u32>,
    left: u32,
    errors: bool,
    /// The last round did not succeed.
    pub(super) failed: bool,
}

impl Round {
    pub(super) fn is_idle(&self) -> bool {
        self.step == Step::Idle
    }
}

impl Integrity {
    /// A write needs room: the half of the marked regions that was not written for longest.
    pub(super) fn make_room(&mut self) {
        if !self.round.is_idle() || self.dirty.is_empty() {
            return;
        }
        let mut oldest = self.dirty.clone();
        oldest.sort_by_key(|&slot| (self.pages[slot].written, slot));
        oldest.truncate(oldest.len().div_ceil(2));
        self.begin_round(oldest);
    }

    /// Regions whose time has come.
    pub(super) fn clean_old(&mut self, cx: &mut Cx<'_>) {
        if self.run != Run::Running || self.dirty.is_empty() {
            return;
        }
        let due = |slot: u32| self.pages[slot].written + self.bitmap_delay;
        let old: Vec<u32> =
            self.dirty.iter().copied().filter(|&s| due(s) <= cx.now && self.pages[s].writing == 0).collect();
        let next = self.dirty.iter().map(|&slot| due(slot)).min().unwrap_or(Instant::ZERO);
        let soonest = cx.now + nandu_base::Span(self.bitmap_delay.0 / 4);
        self.timer_is_set = true;
        cx.wake_at(CLEAN, next.later(soonest));
        if self.round.is_idle() && !old.is_empty() {
            self.begin_round(old);
        }
    }

    pub(super) fn begin_round(&mut self, slots: Vec<u32>) {
        for &slot in &slots {
            self.pages[slot].held = true;
        }
        self.tally.rounds += 1;
        self.round = Round { step: Step::Drain, slots, left: 0, errors: false, failed: false };
    }

    pub(super) fn pump_round(&mut self, cx: &mut Cx<'_>) {
        if self.round.step != Step::Drain || self.round.slots.iter().any(|&slot| self.pages[slot].writing > 0)
        {
            return;
        }
        let page = self.layout.page;
        self.round.step = Step::Tags;
        for n in 0..self.round.slots.len() {
            let slot = self.round.slots[n];
            let payload = cx.pool.allocate_metadata(ByteLen(page));
            super::pages::encode(self.pages.tags(slot), cx.pool.bytes_mut(payload, ByteLen(page)));
            let at = self.layout.tags_of(self.pages[slot].region).0;
            self.round.left += 1;
            self.tally.page_writes += 1;
            self.send_own(Tag::Tags.cookie(slot), Op::Write, Flags::NONE, (at, page), payload, cx);
            cx.pool.release(payload);
        }
    }

    pub(super) fn round_back(&mut self, tag: Tag, failed: bool, cx: &mut Cx<'_>) {
        self.round.errors |= failed;
        if tag == Tag::Tags {
            self.round.left -= 1;
            if self.round.left > 0 {
                return;
            }
            if !self.round.errors && !self.planted.clear_before_flush && !self.is_lost() {
                self.round.step = Step::Flush;
                self.send_own(Tag::Flush.cookie(0), Op::Flush, Flags::NONE, (0, 0), Payload::NONE, cx);
                return;
            }
        }
        self.end_round(cx);
    }

    fn end_round(&mut self, cx: &mut Cx<'_>) {
        let failed = self.round.errors || self.is_lost();
        for slot in std::mem::take(&mut self.round.slots) {
            let page = &mut self.pages[slot];
            page.held = false;
            if !failed {
                page.dirty = false;
                let region = page.region;
                self.marks.put(region, self.layout.piece_of(region), false);
            }
        }
        let pages = &self.pages;
        self.dirty.retain(|&slot| pages[slot].dirty);
        self.round = Round { failed, ..Round::default() };
        self.made_progress = true;
        if failed {
            self.fail_crowded(cx);
        }
    }
}

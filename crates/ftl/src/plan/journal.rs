//! Putting trims on record; see [`crate::trim_journal`] for the why.

use super::flash::{After, Job, Pieces, Programming};
use super::{Flash, Planner};
use crate::blocks::Content;
use crate::isolation::Table;
use crate::mapping::Mapping;
use crate::trim_journal::{Extent, Record, TrimJournal};
use crate::{Lpn, Ppn};
use nandu_base::{Cx, Oob, ReqId, TenantId, Violation, Work};

impl<M: Mapping + ?Sized, F: Flash> Planner<M, F> {
    /// I-19: what is trimmed is on record, or waits for one, while an older version of it lies on the flash.
    pub(super) fn check_trims(&self) -> Result<(), Violation> {
        let mut known = vec![false; self.host.logical as usize];
        let records = self.journal.records().filter(|(_, record)| !record.is_table);
        let extents = records.flat_map(|(_, record)| &record.extents).chain(self.journal.waiting());
        for extent in extents {
            known[extent.first.0 as usize..(extent.first.0 + extent.count) as usize].fill(true);
        }
        for block in self.blocks.layout().all_blocks() {
            if self.paging.is_anchor(block) || self.paging.area.owns(block) || self.blocks.is_bad(block) {
                continue;
            }
            let first = self.blocks.layout().first_page(block).0;
            for ppn in (first..first + self.blocks.layout().pages).map(Ppn) {
                let Content::Data(lpn) = self.blocks.content(ppn) else { continue };
                let is_given = || self.tenants.as_ref().is_none_or(|t| t.table.are_live(lpn.0, lpn.0 + 1));
                if self.map.get(lpn).is_none() && !known[lpn.0 as usize] && is_given() {
                    let what =
                        format!("{lpn:?} is trimmed, {ppn:?} has an older version, and no record says so");
                    return Err(Violation { invariant: "I-19", what });
                }
            }
        }
        Ok(())
    }

    /// Puts all pending trims on record; returns when they are safe. Renews the journal when it has grown long.
    pub fn record_trims(&mut self, cx: &mut Cx<'_>, cause: TenantId) -> After {
        if self.journal.pending() == 0 {
            return self.exec.recorded(cx);
        }
        if self.journal.is_long() {
            self.drop_unneeded(cx);
        }
        // The page comes first: getting it may clear a block, and whatever is trimmed there goes on record before.
        while let Some(first) = self.journal.waiting().first().map(|extent| extent.first) {
            let ppn = self.take_page(first, 0, cause, cx);
            let extents = self.take_for_record(first);
            self.write_record(ppn, extents, None, cx, cause);
        }
        // An erase may have written a record that is still on its way: a flush waits for that one too.
        let end = self.exec.recorded(cx);
        if self.journal.is_long() {
            self.renew_journal(cx, cause);
        }
        end
    }

    /// Records that erases have added may be as many as flushes add: they are given up or renewed alike.
    #[cold]
    pub fn shorten_journal(&mut self, id: ReqId, cx: &mut Cx<'_>) {
        let cause = cx.requests[id].cause;
        self.renew_is_due = false;
        self.drop_unneeded(cx);
        if self.journal.is_long() {
            self.renew_journal(cx, cause);
        }
    }

    fn in_records(&self, extents: Vec<Extent>) -> Vec<Vec<Extent>> {
        let fit = TrimJournal::extents_per_record(1 << self.host.page.bits);
        if let Some(tenants) = &self.tenants {
            let parts = tenants.split(&extents);
            return parts.iter().flat_map(|part| part.chunks(fit)).map(<[Extent]>::to_vec).collect();
        }
        extents.chunks(fit).map(<[Extent]>::to_vec).collect()
    }

    /// Takes what waits and fits one record of the tenant of `first`. When all of it went on record meanwhile, an extent
    /// without pages: the record is there, and is dropped with the next ones.
    fn take_for_record(&mut self, first: Lpn) -> Vec<Extent> {
        let fit = TrimJournal::extents_per_record(1 << self.host.page.bits);
        let mut own = self.journal.take_pending();
        let mut rest = Vec::new();
        if let Some(tenants) = &self.tenants {
            let mut parts = tenants.split(&own);
            own = std::mem::take(&mut parts[tenants.of(first)]);
            rest = parts.concat();
        }
        if own.len() > fit {
            let mut later = own.split_off(fit);
            later.append(&mut rest);
            rest = later;
        }
        self.journal.put_back(rest);
        if own.is_empty() {
            own.push(Extent { first, count: 0, as_of: 0 });
        }
        own
    }

    /// The same into the block for moved pages of `plane`, where an erase is about to happen. Pending extents fit one
    /// record, and before an erase the plane always has a page for it. Where tenants have units of their own only the trims of the owner
    /// matter: no older version of another's page lies there.
    pub(super) fn record_trims_in(&mut self, plane: u32, cx: &mut Cx<'_>, cause: TenantId) {
        let mut pending = self.journal.take_pending();
        if let Some(tenants) = &self.tenants {
            let mut parts = tenants.split(&pending);
            pending = std::mem::take(&mut parts[tenants.of_pool(plane)]);
            self.journal.put_back(parts.concat());
        }
        for extents in self.in_records(pending) {
            let ppn = self.next_moved_page(plane);
            self.write_record(ppn, extents, None, cx, cause);
        }
    }

    /// Writes what is still unmapped anew and gives the old records up, once everything issued so far is complete. Pages that a
    /// tenant gives up, or that nobody has, need no record: the table tells.
    pub(super) fn renew_journal(&mut self, cx: &mut Cx<'_>, cause: TenantId) {
        let (extents, replaced) = {
            let (map, tenants) = (&self.map, self.tenants.as_deref());
            let is_kept = |lpn: Lpn| tenants.is_none_or(|tenants| tenants.table.are_live(lpn.0, lpn.0 + 1));
            self.journal.renew(self.seq, |lpn| map.get(lpn).is_none() && is_kept(lpn))
        };
        let mut safe = self.exec.all_given();
        for extents in self.in_records(extents) {
            let ppn = self.take_page(extents[0].first, 0, cause, cx);
            let written = self.write_record(ppn, extents, None, cx, cause);
            safe = safe.later(written);
        }
        for slot in replaced {
            let ppn = self.journal.drop_record(slot);
            self.give_record_up(ppn, safe, cx);
        }
    }

    /// Gives up records that no page on the drive is older than. Erases that were issued but are not complete count as
    /// pages still there, so a dropped record stays readable until they are.
    fn drop_unneeded(&mut self, cx: &mut Cx<'_>) {
        if let Some(oldest) = self.blocks.oldest_seq() {
            let some = self.planted.trim_record_dropped;
            for slot in self.journal.unneeded(oldest, some) {
                let ppn = self.journal.drop_record(slot);
                self.give_record_up(ppn, self.exec.all_given(), cx);
            }
        }
    }

    /// A record is needed no more once `after` is over, and its page is not erased before everything that was given so far is.
    fn give_record_up(&mut self, record: Ppn, after: After, cx: &mut Cx<'_>) {
        self.exec.say_given_up(record, after, cx);
        self.give_up(record, after);
        self.exec.keep_until_all_is_done(record, cx);
    }

    /// Writes a record of trims, or of who has which pages; returns what stands for it. Its bytes are held until it is
    /// programmed.
    pub(super) fn write_record(
        &mut self,
        ppn: Ppn,
        extents: Vec<Extent>,
        table: Option<&Table>,
        cx: &mut Cx<'_>,
        cause: TenantId,
    ) -> After {
        let overlay = self.host.page.own(cx, |page| {
            TrimJournal::encode(&extents, page);
            table.iter().for_each(|table| table.encode(page));
        });
        let slot = self.journal.written(Record { ppn, extents, is_table: table.is_some() });
        let content = Content::Journal(slot);
        let mut pieces = Pieces::of_nobody(cx, cause, Work::Journal);
        self.exec.begin_group();
        self.count.journal_pages += 1;
        self.seq += 1;
        self.blocks.programmed(ppn, content);
        let oob = Oob { key: super::recover::key(content) | self.mode_mark(ppn), seq: self.seq };
        let (is_slc, record) = (self.is_slc(ppn), Programming::of(Job::Record, ppn, oob, After::now(cx)));
        let programming = Programming { overlay, is_slc, ..record };
        let outer = self.exec.work_for(Work::Journal);
        let given = self.exec.program(programming, &mut pieces, cx);
        self.exec.work_for(outer);
        pieces.charge(cx);
        self.exec.recorded_behind(given, cx)
    }
}

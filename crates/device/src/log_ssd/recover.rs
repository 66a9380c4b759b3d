//! The first fill of a drive, and its start after a power cut.
//!
//! A start reads the out-of-band record of every programmed page, all dies at once, finds what each block is (see
//! [`nandu_ftl::log_block::recover`]) and erases what a merge had left behind. A cut during the start finds the same again:
//! only blocks are erased that nothing depends on, in an order that keeps it so.
//!
//! What the start took is in the counters `recovery_pages_read` and `recovery_ns`.

use super::LogSsd;
use super::drain::decode_mark;
use nandu_base::{
    ByteLen, Counter, Cx, Instant, Oob, Program, Resource, Span, TenantId, UnitState, Window, Work,
};
use nandu_ftl::log_block::recover::{Block, Mark, Page, rebuild};
use nandu_ftl::log_block::{LogBlocks, Tag};

/// What a start took.
#[derive(Clone, Copy, Default)]
pub(super) struct Figures {
    pages: u64,
    span: Option<Span>,
}

impl Figures {
    /// The counters, when there was a start.
    pub fn counters(&self, out: &mut Vec<Counter>) {
        if let Some(span) = self.span {
            out.push(Counter { name: "recovery_pages_read", value: self.pages });
            out.push(Counter { name: "recovery_ns", value: span.0 });
        }
    }
}

impl<F: LogBlocks> LogSsd<F> {
    /// Maps every logical page, as if the drive had been written once from start to end.
    pub(super) fn fill(&mut self) {
        for lpn in 0..self.pages.logical {
            let (plane, local) = self.pages.home(lpn);
            let taken = self.lines[plane as usize].map.take(local);
            assert!(taken.is_some(), "an empty drive takes its pages in order without a merge");
            self.seq += 1;
        }
        self.is_filled = true;
    }

    /// Puts the pages of the first fill on the medium: zeros.
    pub(super) fn store_fill(&mut self, cx: &mut Cx<'_>) {
        let Some(medium) = cx.medium.as_deref_mut().filter(|_| self.is_filled) else { return };
        let window = Window { start: Instant::ZERO, end: Instant::ZERO };
        for lpn in 0..self.pages.logical {
            let (plane, local) = self.pages.home(lpn);
            let region = self.lines[plane as usize].map.region();
            let Some(spot) = region.at(local) else { continue };
            let oob = Oob { key: region.tag(local, spot).word(), seq: u64::from(lpn) + 1 };
            let unit = u64::from(self.layout.first_page(self.layout.first_block(plane)).0 + spot);
            medium.program(cx.pool, &Program { unit, base: None, overlay: None, oob, window });
        }
    }

    /// Rebuilds everything from the medium; returns when the start is complete.
    pub(super) fn recover(&mut self, cx: &mut Cx<'_>) -> Instant {
        let mut end = cx.now;
        let mut scanned = vec![0; (self.layout.planes >> self.plane_bits) as usize];
        let mut doomed = Vec::new();
        self.seq = 0;
        for plane in 0..self.layout.planes {
            let (blocks, marks) = self.scan(plane, cx);
            scanned[self.die(plane) as usize] += blocks.iter().map(|b| b.pages.len() as u64).sum::<u64>();
            let map = &mut self.lines[plane as usize].map;
            let dedicated = map.logs_are_dedicated();
            map.region_mut().reset();
            let found = rebuild(map.region_mut(), &blocks, &marks, dedicated, self.planted.oldest_wins);
            self.seq = self.seq.max(found.seq);
            doomed.extend(found.doomed.iter().map(|&block| (plane, block)));
            map.adopt(&found);
        }
        for (die, &pages) in (0..).zip(&scanned) {
            let (done, span) = self.lanes.scan(die, cx.now, pages);
            cx.charge(TenantId::SYSTEM, Resource::Die, Work::Recovery, span);
            end = end.later(done);
            self.recovery.pages += pages;
        }
        for (plane, block) in doomed {
            let (done, span) = self.erase(plane, block, cx);
            self.lines[plane as usize].map.region_mut().erase(block);
            cx.charge(TenantId::SYSTEM, Resource::Die, Work::Recovery, span);
            end = end.later(done);
        }
        self.recovery.span = Some(end.since(cx.now));
        self.last_change = end;
        end
    }

    /// Reads the records of a plane, and the marks among its pages.
    fn scan(&mut self, plane: u32, cx: &mut Cx<'_>) -> (Vec<Block>, Vec<Mark>) {
        let stride = self.layout.block_stride();
        let (mut blocks, mut marks) = (Vec::new(), Vec::new());
        for block in 0..self.layout.blocks {
            let first = block * stride;
            let medium = cx.medium.as_deref().expect("recovery reads the medium");
            let erases = medium.erases(self.unit(plane, first));
            let mut pages = Vec::new();
            for spot in first..first + self.layout.pages {
                let medium = cx.medium.as_deref().expect("recovery reads the medium");
                match medium.state(self.unit(plane, spot)) {
                    UnitState::Erased => break,
                    UnitState::Torn => pages.push(Page::Torn),
                    UnitState::Programmed(Oob { key, seq }) => {
                        let tag = Tag::from_word(key);
                        if tag.is_mark {
                            marks.push(self.read_mark(plane, spot, seq, cx));
                        }
                        pages.push(Page::Tagged(tag, seq));
                    }
                }
            }
            blocks.push(Block { block, erases, pages });
        }
        (blocks, marks)
    }

    fn read_mark(&self, plane: u32, spot: u32, seq: u64, cx: &mut Cx<'_>) -> Mark {
        let page = ByteLen(1 << self.pages.bits);
        let payload = cx.pool.allocate_metadata(page);
        let unit = self.unit(plane, spot);
        let medium = cx.medium.as_deref_mut().expect("recovery reads the medium");
        let readable = medium.read(cx.pool, unit, 0, self.pages.sectors, payload);
        let range = decode_mark(cx.pool.bytes(payload, page)).filter(|_| readable);
        cx.pool.release(payload);
        let (first, end) = range.expect("a page with the tag of a mark holds a mark");
        Mark { block: spot / self.layout.block_stride(), seq, pages: (first..end).collect() }
    }
}

//! The state of a drive that was overwritten at random for long, computed: [`Precondition::Aged`].
//!
//! The steady state of the drive's own policy says how many valid pages each block has, in the order of opening
//! ([`nandu_ftl::age`]). The blocks of all planes are laid out in that order, oldest first, and which logical page lies where follows
//! by rule ([`nandu_ftl::aged`]). So every page carries the number of its program, versions grow younger with it, and a start
//! after a power cut finds what it would find on a drive that was really used. Each plane keeps the erased blocks of the
//! steady state and one block open for the host, half full.
//!
//! A large drive with a map in RAM keeps the rule: no page has an entry before it is written again, so that a drive of 1 TB is ready
//! when the steady state is known and takes memory for what is touched. Elsewhere map and owners are entered page by page.
//!
//! The seed of the run fixes everything. Blocks count no erases: ageing is not wear. Cost: the steady state of a small plane, a step for
//! each block, and for tables some hundred instructions for each page.
//!
//! [`Precondition::Aged`]: nandu_base::Precondition::Aged

use super::fill::by_rule_from;
use super::Ssd;
use nandu_base::{BuildError, Cx, Instant, Oob, Program, Window};
use nandu_ftl::age::{Ageing, Steady};
use nandu_ftl::aged::{Aged, Laid, Version};
use nandu_ftl::blocks::Content;
use nandu_ftl::filled::Initial;
use nandu_ftl::gc::GcPolicy;
use nandu_ftl::mapping::Mapping;
use std::sync::Arc;

impl<M: Mapping, G: GcPolicy, const DEFERS: bool> Ssd<M, G, DEFERS> {
    /// Lays an aged drive out. `policy` is one like the drive's own.
    pub(super) fn age(&mut self, policy: &mut dyn GcPolicy, free: u32, seed: u64) -> Result<(), BuildError> {
        if self.tenants.is_some() {
            return Err(BuildError::at(
                "isolation",
                "a drive with tenants cannot start aged: take `filled` or `empty`",
            ));
        }
        let refuse = || BuildError::at("over_provisioning", "too little is spare for a drive that is aged");
        let shares = self.valid_by_plane();
        let pages = self.blocks.layout().pages;
        let mut counts: Vec<Vec<u16>> = Vec::new();
        let mut known: Option<(Ageing, Steady)> = None;
        for (plane, &valid) in self.blocks.planes.iter().zip(&shares) {
            let ageing = Ageing { blocks: plane.free, pages, valid, free, separate: self.host.separate };
            // Planes that differ by a page or a bad block are in one state.
            let is_like = |(other, _): &&(Ageing, Steady)| {
                other.blocks.abs_diff(ageing.blocks) * 50 <= ageing.blocks
                    && other.valid.abs_diff(valid) * 50 <= valid
            };
            if known.as_ref().filter(is_like).is_none() {
                known = Some((ageing, ageing.steady(policy, seed).ok_or_else(refuse)?));
            }
            let (_, steady) = known.as_ref().ok_or_else(refuse)?;
            let full = plane.free.checked_sub(free + 1).ok_or_else(refuse)?;
            counts.push(steady.scaled(full, valid.saturating_sub(pages / 2), pages).ok_or_else(refuse)?);
        }
        let blocks = self.lay_out(&counts, &shares);
        let aged = Aged::new(*self.blocks.layout(), &blocks, self.host.logical, seed).ok_or_else(refuse)?;
        let aged = Arc::new(aged);
        let initial: Arc<dyn Initial> = Arc::clone(&aged) as _;
        if self.host.logical >= by_rule_from() && self.map.begin_as(&initial) {
            self.begin_as(&initial, &blocks);
        } else {
            self.enter(&aged);
        }
        self.filled_to = self.seq;
        self.fill_map();
        self.aged = Some(aged);
        Ok(())
    }

    /// The host's pages over the planes, by what they may hold.
    fn valid_by_plane(&self) -> Vec<u32> {
        let (logical, room) = (u64::from(self.host.logical), self.blocks.room().max(1));
        let mut before = 0;
        let share = |p: &nandu_ftl::Plane| {
            let from = before * logical / room;
            before += u64::from(p.valid_max);
            (before * logical / room - from) as u32
        };
        self.blocks.planes.iter().map(share).collect()
    }

    /// Opens the blocks in order: full ones of all planes in turn, then those that stay open.
    fn lay_out(&mut self, counts: &[Vec<u16>], shares: &[u32]) -> Vec<Laid> {
        let layout = *self.blocks.layout();
        let pages = layout.pages;
        let mut blocks = Vec::new();
        let mut seq = self.seq;
        let in_full: Vec<u32> =
            counts.iter().map(|counts| counts.iter().map(|&v| u32::from(v)).sum()).collect();
        let rows = counts.iter().map(Vec::len).max().unwrap_or(0);
        for row in 0..=rows {
            for (plane, counts) in (0..).zip(counts) {
                let (written, valid) = match counts.get(row) {
                    Some(&valid) => (pages, u32::from(valid)),
                    // All pages of the open block are valid.
                    None if row == rows => {
                        let rest = shares[plane as usize] - in_full[plane as usize];
                        (rest, rest)
                    }
                    None => continue,
                };
                let Some(mut cursor) = self.blocks.open_free(plane, seq + 1) else { continue };
                let block = cursor.block(&layout);
                cursor.skip(written);
                seq += u64::from(written);
                blocks.push(Laid { block, written, valid });
                if row == rows {
                    self.blocks.planes[plane as usize].host = cursor;
                }
            }
        }
        blocks
    }

    /// Takes the counters of the blocks that were laid out; what lies on their pages is known by rule.
    fn begin_as(&mut self, initial: &Arc<dyn Initial>, blocks: &[Laid]) {
        self.blocks.begin_as(initial);
        for &Laid { block, written, valid } in blocks {
            self.seq += u64::from(written);
            self.blocks.begin_with_invalid(block, written - valid);
            let plane = self.blocks.layout().plane_of_block(block) as usize;
            self.blocks.planes[plane].valid += valid;
        }
    }

    /// Puts map and counters into the state that was laid out.
    fn enter(&mut self, aged: &Aged) {
        aged.pages(|ppn, version| {
            self.seq += 1;
            match version {
                Version::Newest(lpn) => {
                    self.map.set(lpn, ppn);
                    self.blocks.programmed(ppn, Content::Data(lpn));
                    let plane = self.blocks.layout().plane(ppn) as usize;
                    self.blocks.planes[plane].valid += 1;
                }
                Version::Old(_) => self.blocks.waste_page(ppn),
            }
        });
    }

    /// Puts the pages that were laid out on the medium: zeros.
    pub(super) fn store_aged(&mut self, aged: &Aged, cx: &mut Cx<'_>) {
        let Some(medium) = cx.medium.as_deref_mut() else { return };
        let window = Window { start: Instant::ZERO, end: Instant::ZERO };
        let mut seq = 0;
        aged.pages(|ppn, version| {
            seq += 1;
            let (Version::Newest(lpn) | Version::Old(lpn)) = version;
            let oob = Oob { key: u64::from(lpn.0), seq };
            let unit = self.stripes.unit(ppn);
            medium.program(cx.pool, &Program { unit, base: None, overlay: None, oob, window });
        });
        self.store_map_fill(cx);
    }
}

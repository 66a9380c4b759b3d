//! Whether drives still use up erased blocks: then collection has yet to do what the load asks of it, and the figures are those of a drive
//! that is emptier than it will be, however level they are.
//!
//! The rule of SNIA's specification ([`crate::steady`]) follows what the host sees, and takes for granted that drives were conditioned before: it asks
//! for that first. A run has no such step of its own, so what drives program and what they clear is held against each other: in a steady state they
//! are the same.

use nandu_base::Ask;
use nandu_stack::Graph;

/// What a drive has done since its counters began, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Drive {
    /// All of its flash.
    flash: u64,
    /// Programmed.
    programmed: u64,
    /// Of blocks that were erased.
    cleared: u64,
    /// Of blocks that are erased now.
    left: u64,
}

impl Drive {
    fn of(graph: &mut Graph, node: u32) -> Option<Drive> {
        let regions = graph.report(node, Ask::Wear).wear;
        if regions.is_empty() {
            return None;
        }
        let report = graph.report(node, Ask::Counters);
        let (mut flash, mut cleared, mut blocks) = (0, 0, 0);
        for region in &regions {
            let bytes = u128::from(region.cells) * u128::from(region.bits_per_cell) / 8;
            let erased = bytes * u128::from(region.erases) / u128::from(region.blocks.max(1));
            flash += u64::try_from(bytes).unwrap_or(u64::MAX);
            cleared += u64::try_from(erased).unwrap_or(u64::MAX);
            blocks += region.blocks;
        }
        let block = flash / blocks.max(1);
        let left = report.counter("free_blocks")?.saturating_mul(block);
        let programmed = report.counter("nand_bytes_written")?;
        Some(Drive { flash, programmed, cleared, left })
    }

    /// What it used up beyond what it cleared, where that is more than a fifth of what it programmed, as much as the rounds of a run may
    /// differ, and more than a hundredth of its flash, which comes and goes with the work of collection.
    fn used_up(&self) -> Option<u64> {
        let used = self.programmed.saturating_sub(self.cleared);
        (used > self.programmed / 5 && used > self.flash / 100).then_some(used)
    }
}

/// Whether some drive uses up erased blocks, and if so for how many more turns as long as the one that was measured.
pub(crate) fn turns_left(graph: &mut Graph) -> Option<u64> {
    let nodes = graph.len() as u32;
    let of = |node| {
        let drive = Drive::of(graph, node)?;
        Some(drive.left / drive.used_up()?)
    };
    (0..nodes).filter_map(of).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_that_clears_what_it_programs_uses_nothing_up() {
        let drive = |programmed, cleared| Drive { flash: 10_000, programmed, cleared, left: 500 };
        assert_eq!(drive(1000, 1000).used_up(), None);
        assert_eq!(drive(1000, 1400).used_up(), None);
        assert_eq!(drive(1000, 800).used_up(), None);
        assert_eq!(drive(1000, 799).used_up(), Some(201));
        assert_eq!(drive(1000, 0).used_up(), Some(1000));
        // Reads with a few writes between them.
        assert_eq!(drive(100, 0).used_up(), None);
        assert_eq!(drive(0, 0).used_up(), None);
    }
}

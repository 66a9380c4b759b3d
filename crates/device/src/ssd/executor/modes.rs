//! What is counted of SLC mode: pages that are read, written and folded, and the time that folding takes.

use super::Executor;
use crate::nand::queued::{Job, Node};
use nandu_base::{Report, Span};

/// What happened in SLC mode since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
pub(in crate::ssd) struct Modes {
    pub pages_written: u64,
    pub pages_read: u64,
    pub pages_folded: u64,
    pub blocks_folded: u64,
    /// Time that dies were occupied by folding.
    pub fold_time: Span,
}

impl Executor {
    /// Erases that ended SLC mode.
    pub fn slc_erases(&self) -> u64 {
        self.modes.as_ref().map_or(0, |modes| modes.blocks_folded)
    }

    /// The figures.
    pub fn report_slc(&mut self, report: &mut Report) {
        let Some(modes) = &mut self.modes else { return };
        report.put("slc_pages_written", modes.pages_written);
        report.put("slc_pages_read", modes.pages_read);
        report.put("slc_pages_folded", modes.pages_folded);
        report.put("slc_blocks_folded", modes.blocks_folded);
        report.put("slc_fold_ns", modes.fold_time.0);
        report.restart(modes);
    }

    /// Counts a page that is read or programmed in SLC mode.
    #[inline]
    pub(super) fn count_mode(&mut self, job: Job, is_slc: bool) {
        let Some(modes) = self.modes.as_mut().filter(|_| is_slc) else { return };
        match job {
            Job::MoveRead => modes.pages_folded += 1,
            Job::Read | Job::PreRead => modes.pages_read += 1,
            _ => modes.pages_written += 1,
        }
    }

    /// A page that leaves SLC mode has occupied its die for `span`.
    #[inline]
    pub(super) fn folded(&mut self, is_fold: bool, span: Span) {
        if let Some(modes) = self.modes.as_mut().filter(|_| is_fold) {
            modes.fold_time += span;
        }
    }

    /// The same of an operation of collection that has waited.
    pub(super) fn note_fold(&mut self, node: &Node, span: Span) {
        self.folded(node.job != Job::Erase && (node.slc || node.pre_read_slc), span);
    }
}

//! What waits for a plane: pages of the host in the order in which they came, and trims among them.

use crate::write_buffer::Held;
use nandu_base::{Instant, TenantId};
use std::collections::VecDeque;

/// No request waits for this.
pub(super) const NOBODY: u32 = u32::MAX;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Job {
    /// Write sectors of a page.
    Write {
        lpn: u32,
        /// Its number on the plane.
        local: u32,
    },
    /// Unmap pages of one logical block, by their numbers on the plane.
    Unmap { first: u32, end: u32 },
}

/// One page, or one part of a trim.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub job: Job,
    /// The sectors that are written, held by this entry.
    pub held: Held,
    /// The request that waits for it, or [`NOBODY`].
    pub pending: u32,
    /// Number of the request, for multi-plane groups.
    pub serial: u32,
    /// Its place in the order of all lines.
    pub ticket: u64,
    pub cause: TenantId,
    /// It counts against the buffer's size.
    pub is_buffered: bool,
    /// A trim came after it: a newer write is an entry of its own behind the trim.
    pub is_sealed: bool,
    /// The merge that it waits for has begun.
    pub has_begun: bool,
}

/// A plane with what waits for it.
pub(super) struct Line<F> {
    pub map: F,
    pub queue: VecDeque<Entry>,
    /// Number of the first entry, counted from the first there ever was.
    pub head: u64,
    /// The tenant whose write began the merge.
    pub cause: TenantId,
    /// The merge goes on then.
    pub merge_until: Instant,
    /// Whether the merge is counted in the clock of merges.
    pub is_merging: bool,
    /// When what unmapped pages so far is complete: a trim that finds nothing to do ends no earlier.
    pub unmapped_until: Instant,
    /// A page of the buffer is being programmed until then.
    pub flying: Option<Instant>,
}

impl<F> Line<F> {
    pub fn new(map: F) -> Line<F> {
        Line {
            map,
            queue: VecDeque::new(),
            head: 0,
            cause: TenantId::SYSTEM,
            merge_until: Instant::ZERO,
            is_merging: false,
            unmapped_until: Instant::ZERO,
            flying: None,
        }
    }

    /// The entry of this number.
    pub fn entry(&self, number: u64) -> &Entry {
        &self.queue[(number - self.head) as usize]
    }

    /// The entry of this number, to change.
    pub fn entry_mut(&mut self, number: u64) -> &mut Entry {
        &mut self.queue[(number - self.head) as usize]
    }

    /// Appends an entry; returns its number.
    pub fn push(&mut self, entry: Entry) -> u64 {
        self.queue.push_back(entry);
        self.head + self.queue.len() as u64 - 1
    }

    /// Takes the first entry out.
    pub fn pop(&mut self) -> (u64, Entry) {
        let entry = self.queue.pop_front().expect("a line that is popped has an entry");
        self.head += 1;
        (self.head - 1, entry)
    }
}

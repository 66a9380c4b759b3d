//! Joins: requests that are answered by several child requests.
//!
//! A machine that splits a request begins a join with the number of children, gives each child the cookie of
//! [`Joins::cookie`], and calls [`Joins::child_done`] for each that comes back. The last one yields the parent, whose
//! path is then that of this last child. Slots are used again: nothing is allocated once as many requests were joined at
//! a time as ever will be.

use crate::context::Cx;
use crate::request::{IoError, ReqId};
use crate::units::{ByteLen, SECTOR};

/// Sectors of a parent that a cookie can count: 512 TiB in one request.
const START_BITS: u32 = 40;

/// The joins that a machine has under way.
#[derive(Debug, Default)]
pub struct Joins {
    slots: Vec<Join>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Join {
    parent: ReqId,
    left: u32,
}

impl Joins {
    /// None under way.
    pub fn new() -> Joins {
        Joins::default()
    }

    /// Joins under way.
    pub fn alive(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Begins to wait for `children` child requests of `parent`, at least one.
    #[inline]
    pub fn begin(&mut self, parent: ReqId, children: u32) -> u32 {
        assert!(children > 0, "a join without children would never end");
        let join = Join { parent, left: children };
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = join;
                slot
            }
            None => {
                self.slots.push(join);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// The cookie of a child whose data begins `start` bytes into its parent. Bounds: 2^24 joins at a time, `start` a
    /// whole number of sectors below 512 TiB.
    #[inline]
    pub fn cookie(join: u32, start: ByteLen) -> u64 {
        debug_assert!(join < 1 << (64 - START_BITS) && start.0 / SECTOR < 1 << START_BITS);
        (u64::from(join) << START_BITS) | (start.0 / SECTOR)
    }

    /// The parent of a child request.
    pub fn parent(&self, cookie: u64) -> ReqId {
        self.slots[(cookie >> START_BITS) as usize].parent
    }

    /// Child `id` is done. A failure is noted in the parent, counted from the parent's start; the first one stands. The
    /// parent, when this was its last child: it is ready to be finished.
    #[inline]
    pub fn child_done(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Option<ReqId> {
        let child = &cx.requests[id];
        let start = ByteLen((child.cookie & ((1 << START_BITS) - 1)) * SECTOR);
        let error = child.error.map(|error| IoError { at: start + error.at, ..error });
        self.child_done_with(id, error, cx)
    }

    /// The same with a failure that the machine has counted from the parent's start itself.
    #[inline]
    pub fn child_done_with(&mut self, id: ReqId, error: Option<IoError>, cx: &mut Cx<'_>) -> Option<ReqId> {
        let slot = (cx.requests[id].cookie >> START_BITS) as usize;
        let join = &mut self.slots[slot];
        let parent = join.parent;
        if let Some(error) = error {
            cx.requests[parent].fail_part(error.kind, error.at, error.len);
        }
        join.left -= 1;
        if join.left > 0 {
            return None;
        }
        self.free.push(slot as u32);
        cx.absorb(parent, id);
        Some(parent)
    }
}

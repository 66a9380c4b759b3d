//! How many requests for data each leg has at once: `leg_queue_depth`.
//!
//! What is beyond waits here, first come first served, and goes on as others come back. Flushes and records never wait. A leg
//! that leaves gets what waits at once: it counts as under way, and a leg is not taken back before all of that has ended.
//!
//! Cost: one test for each request; 4 B for each that waits.

use super::{Mirror, Tag};
use nandu_base::{Cx, ReqId};
use std::collections::VecDeque;

/// The requests of one leg beyond its depth.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Requests for data that were sent and are not back.
    sent: u32,
    waits: VecDeque<ReqId>,
}

impl Mirror {
    /// Sends a request now, or when the leg has room.
    #[inline]
    pub(super) fn dispatch(&mut self, leg: usize, tag: Tag, id: ReqId, cx: &mut Cx<'_>) {
        let depth = self.maintenance.leg_queue_depth[leg];
        if depth > 0 && matches!(tag, Tag::Data | Tag::Drain) {
            if self.outbox[leg].sent >= depth && self.legs[leg].is_in() {
                self.outbox[leg].waits.push_back(id);
                self.count.depth_waits[leg] += 1;
                return;
            }
            self.outbox[leg].sent += 1;
        }
        cx.send(leg as u8, id);
    }

    /// A request for data is back: the next one may go.
    #[inline]
    pub(super) fn came_back(&mut self, leg: usize, tag: Tag, cx: &mut Cx<'_>) {
        if self.maintenance.leg_queue_depth[leg] > 0 && matches!(tag, Tag::Data | Tag::Drain) {
            self.outbox[leg].sent -= 1;
            if let Some(id) = self.outbox[leg].waits.pop_front() {
                self.outbox[leg].sent += 1;
                cx.send(leg as u8, id);
            }
        }
    }

    /// What waits for a leg that is out ends there.
    pub(super) fn empty_outboxes(&mut self, cx: &mut Cx<'_>) {
        for leg in 0..self.legs.len() {
            while !self.legs[leg].is_in() {
                let Some(id) = self.outbox[leg].waits.pop_front() else { break };
                self.outbox[leg].sent += 1;
                cx.send(leg as u8, id);
            }
        }
    }
}

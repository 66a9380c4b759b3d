//! The driver of the graph under test: what is due, and what it hears.

use super::oracle::Answer;
use nandu_base::{
    Instant, Notice, Op, PayloadPool, ReqId, Request, RequestTable, SECTOR, Sector, Stamp, TimerKey,
};
use nandu_stack::Driver;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Due {
    Finish(u32),
    Wake(u32, u32, u64),
}

/// What the driver of the graph hears.
#[derive(Default)]
pub struct Events {
    pub queue: BTreeMap<(u64, u64), Due>,
    pub order: u64,
    pub answers: Vec<Answer>,
    pub notices: Vec<(u32, Notice)>,
}

impl Events {
    fn push(&mut self, at: Instant, due: Due) {
        self.order += 1;
        self.queue.insert((at.0, self.order), due);
    }
}

impl Driver for Events {
    fn finish_at(&mut self, id: ReqId, at: Instant) {
        self.push(at, Due::Finish(id.0));
    }
    fn wake(&mut self, node: u32, key: TimerKey, generation: u64, at: Instant) {
        self.push(at, Due::Wake(node, key.0, generation));
    }
    fn medium(&mut self, _: u32, _: ReqId, _: &mut RequestTable, _: &mut PayloadPool) {
        unreachable!("test legs have no medium")
    }
    fn notice(&mut self, node: u32, notice: Notice) {
        self.notices.push((node, notice));
    }
    fn host_done(&mut self, r: &Request, _: Instant, pool: &mut PayloadPool) {
        let sectors = if r.op == Op::Read { r.len.0 / SECTOR } else { 0 };
        let data = (0..sectors)
            .map(|i| match pool.sector(r.payload, i) {
                Some(Sector::Stamp(stamp)) => stamp,
                _ => Stamp::METADATA,
            })
            .collect();
        self.answers.push(Answer { cookie: r.cookie, error: r.error, data });
    }
}

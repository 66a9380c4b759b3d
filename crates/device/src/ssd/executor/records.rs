//! Requests that end when trims are on record: trims that are to be durable, and flushes.
//!
//! A record is a program like others. One that has its time says when it is complete; behind one that waits, an answer of the request does.

use super::{Executor, Given, Pieces};
use crate::nand::queued::{After, NONE};
use nandu_base::{Cx, Instant, Phase, ReqId, Span, Step, TenantId, Work};

impl Executor {
    /// What stands for all records of trims so far, as far as their ends are known.
    pub fn recorded(&self, cx: &Cx<'_>) -> After {
        After::at(self.recorded_at.later(self.queue.recorded_at()).later(cx.now))
    }

    /// The same for a record that was just given.
    pub fn recorded_behind(&self, given: Given, cx: &Cx<'_>) -> After {
        match given {
            Given::Time(time) => After::at(time.end),
            _ if self.queue.any_record_waits() => After::now(cx),
            Given::Waits(_) | Given::Settled => self.recorded(cx),
        }
    }

    /// All pages of a trim were given. It ends when that is done and all trims so far are on record.
    pub fn finish_recorded(
        &mut self,
        id: ReqId,
        mut pieces: Pieces,
        recorded: After,
        cx: &mut Cx<'_>,
    ) -> Step {
        let is_last = recorded.at >= pieces.tally.slowest.time.end.later(pieces.after.at);
        let has_answer = pieces.tally.answer().is_some();
        if self.queue.any_record_waits() || has_answer || is_last && pieces.after.node != NONE {
            self.wait_for_records(&mut pieces, recorded);
        } else if is_last {
            pieces.charge(cx);
            self.explain_record(id, recorded.at, cx);
            return Step::FinishAt(id, recorded.at);
        }
        self.finish_pieces(id, pieces, cx)
    }

    /// A flush ends when all trims so far are on record.
    pub fn finish_flush(&mut self, id: ReqId, recorded: After, cause: TenantId, cx: &mut Cx<'_>) -> Step {
        if self.queue.any_record_waits() {
            let mut pieces = Pieces::of_request(id, cx, cause, Work::Journal);
            self.wait_for_records(&mut pieces, recorded);
            return self.finish_pieces(id, pieces, cx);
        }
        self.explain_record(id, recorded.at, cx);
        Step::FinishAt(id, recorded.at)
    }

    fn wait_for_records(&mut self, pieces: &mut Pieces, recorded: After) {
        let answer = self.answer_of(pieces);
        self.queue.not_before(answer, recorded.at);
        self.queue.after_records(answer);
    }

    /// Explains the wait for a record of the trim journal: one program, and the wait before it.
    fn explain_record(&self, id: ReqId, recorded: Instant, cx: &mut Cx<'_>) {
        let whole = recorded.since(cx.now);
        let program = Span(self.shortest_program().0.min(whole.0));
        let path = &mut cx.requests[id].path;
        path.add(Phase::Program, program);
        path.add(Phase::Queue, whole - program);
    }
}

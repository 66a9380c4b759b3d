//! What the lanes of a device did, moment by moment, for a picture.
//!
//! Nothing is kept unless somebody watches: a [`Timeline`] exists only then, and it keeps what falls into its window, at
//! most [`Timeline::MAX`] spans.

use crate::charge::{Resource, Work};
use crate::units::Instant;

/// One stretch of time in which a part of a device was busy with one thing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneSpan {
    /// What kind of part it is.
    pub resource: Resource,
    /// Its number among the parts of that kind in this device.
    pub lane: u32,
    /// The part of the lane that works alone, such as the plane of a die; `None` when the whole lane does.
    pub part: Option<u32>,
    /// What it did: `read`, `program`, `move`, `erase`, `scan`, `transfer`, `seek`...
    pub what: &'static str,
    /// What it did it for.
    pub work: Work,
    /// From here.
    pub start: Instant,
    /// To here.
    pub end: Instant,
}

/// Spans within a window, in the order in which they were issued.
#[derive(Clone, Debug)]
pub struct Timeline {
    from: Instant,
    to: Instant,
    spans: Vec<LaneSpan>,
    lost: u64,
}

impl Timeline {
    /// Most spans that are kept: 64 MiB of them.
    pub const MAX: usize = 1 << 20;

    /// Keeps what is busy at some moment from `from` to `to`.
    pub fn new(from: Instant, to: Instant) -> Timeline {
        Timeline { from, to, spans: Vec::new(), lost: 0 }
    }

    /// Notes a span, if it touches the window and there is room.
    pub fn note(&mut self, span: LaneSpan) {
        if span.end < self.from || span.start > self.to || span.start == span.end {
            return;
        }
        if self.spans.len() == Self::MAX {
            self.lost += 1;
        } else {
            self.spans.push(span);
        }
    }

    /// What a lane does now ends at `at`, earlier than was noted.
    pub fn cut(&mut self, resource: Resource, lane: u32, at: Instant) {
        let spans = self.spans.iter_mut().rev().filter(|span| (span.resource, span.lane) == (resource, lane));
        for span in spans.take_while(|span| span.end > at) {
            span.end = at;
        }
    }

    /// The spans.
    pub fn spans(&self) -> &[LaneSpan] {
        &self.spans
    }

    /// Spans for which there was no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, end: u64) -> LaneSpan {
        let (start, end) = (Instant(start), Instant(end));
        LaneSpan { resource: Resource::Die, lane: 0, part: None, what: "read", work: Work::Read, start, end }
    }

    #[test]
    fn what_a_lane_does_can_end_early() {
        let mut timeline = Timeline::new(Instant(0), Instant(200));
        timeline.note(span(0, 10));
        timeline.note(span(10, 100));
        timeline.note(LaneSpan { lane: 1, ..span(20, 90) });
        timeline.cut(Resource::Die, 0, Instant(30));
        let ends: Vec<u64> = timeline.spans().iter().map(|s| s.end.0).collect();
        assert_eq!(ends, [10, 30, 90]);
    }

    #[test]
    fn only_what_touches_the_window_is_kept() {
        let mut timeline = Timeline::new(Instant(100), Instant(200));
        for (start, end) in [(0, 99), (50, 100), (120, 130), (200, 300), (201, 300), (150, 150)] {
            timeline.note(span(start, end));
        }
        let kept: Vec<u64> = timeline.spans().iter().map(|s| s.start.0).collect();
        assert_eq!(kept, [50, 120, 200]);
    }
}

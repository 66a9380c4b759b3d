//! How far the work of devices beside serving is (resync, rebuild, scrub), how fast it goes, and when it ends.
//!
//! The speed is that since the work was seen first, so it takes a moment until it is known. Work that begins anew (more is left than was) is
//! seen first again.

use super::Reactor;
use nandu_base::{ByteLen, Instant, Maintenance, MaintenanceKind, Span};
use serde_json::{Value, json};

/// Shorter than this says nothing about a speed.
const LEAST: Span = Span::from_ms(500);

/// Work that goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Course {
    node: u32,
    kind: MaintenanceKind,
    /// When it was seen first, and what was left then.
    first: (Instant, ByteLen),
    /// What was left when it was looked at last.
    left: ByteLen,
    of: ByteLen,
}

impl Course {
    /// Bytes in a second, when that can be said.
    pub fn speed(&self, now: Instant) -> Option<u64> {
        let (since, left) = self.first;
        let (took, done) = (now.since(since), left.0.checked_sub(self.left.0)?);
        (took >= LEAST && done > 0).then(|| (u128::from(done) * 1_000_000_000 / u128::from(took.0)) as u64)
    }

    fn status(&self, now: Instant) -> Value {
        let speed = self.speed(now).filter(|&speed| speed > 0);
        json!({
            "work": self.kind.word(),
            "left_bytes": self.left.0,
            "of_bytes": self.of.0,
            "bytes_per_second": speed,
            "left_ns": speed.map(|speed| (u128::from(self.left.0) * 1_000_000_000 / u128::from(speed)) as u64),
        })
    }
}

/// Brings what is known up to `now`.
fn look(courses: &mut Vec<Course>, seen: &[(u32, Maintenance)], now: Instant) {
    let is = |course: &Course, node: u32, maintenance: &Maintenance| {
        course.node == node && course.kind == maintenance.kind
    };
    courses.retain(|course| seen.iter().any(|(node, maintenance)| is(course, *node, maintenance)));
    for &(node, maintenance) in seen {
        let Maintenance { kind, left, of } = maintenance;
        match courses.iter_mut().find(|course| is(course, node, &maintenance)) {
            Some(course) => {
                if left > course.first.1 || of != course.of {
                    course.first = (now, left);
                }
                (course.left, course.of) = (left, of);
            }
            None => courses.push(Course { node, kind, first: (now, left), left, of }),
        }
    }
}

impl Reactor {
    /// Looks what devices do beside serving.
    pub(super) fn look_at_maintenance(&mut self) {
        let (mut seen, mut all) = (Vec::new(), Vec::new());
        for node in 0..self.graph.len() as u32 {
            if let Some(members) = self.graph.members(node) {
                members.maintenance(&mut seen);
            }
            all.extend(seen.drain(..).map(|maintenance| (node, maintenance)));
        }
        look(&mut self.courses, &all, self.clock.now());
    }

    /// What a device does beside serving.
    pub(super) fn maintenance_status(&self, node: u32) -> Option<Value> {
        let now = self.clock.now();
        let mine = self.courses.iter().filter(|course| course.node == node);
        let all: Vec<Value> = mine.map(|course| course.status(now)).collect();
        (!all.is_empty()).then(|| json!(all))
    }

    /// What devices do beside serving: who, what, bytes left, bytes of the whole.
    pub(super) fn courses(&self) -> impl Iterator<Item = (&str, &'static str, u64, u64)> {
        self.courses.iter().map(|c| (self.graph.name(c.node), c.kind.word(), c.left.0, c.of.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_that_since_the_work_began() {
        let seen = |left: u64| {
            [(3, Maintenance { kind: MaintenanceKind::Resync, left: ByteLen(left), of: ByteLen(1000) })]
        };
        let at = |ms: u64| Instant::ZERO + Span::from_ms(ms);
        let mut courses = Vec::new();
        look(&mut courses, &seen(1000), at(0));
        assert_eq!(courses[0].status(at(0))["bytes_per_second"], Value::Null);
        look(&mut courses, &seen(600), at(2000));
        let status = courses[0].status(at(2000));
        assert_eq!(
            (&status["bytes_per_second"], &status["left_ns"]),
            (&json!(200), &json!(3_000_000_000_u64))
        );
        // A leg left and came back.
        look(&mut courses, &seen(900), at(3000));
        look(&mut courses, &seen(1100), at(4000));
        look(&mut courses, &seen(1000), at(5000));
        assert_eq!(courses[0].speed(at(5000)), Some(100));
        look(&mut courses, &[], at(6000));
        assert!(courses.is_empty());
    }
}

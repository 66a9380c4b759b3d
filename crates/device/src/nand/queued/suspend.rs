//! Suspension: a program or an erase that runs stands still while its die reads for the host.
//!
//! Without it an operation that begins has its end at once, and what waits for it is told at once. One that may be suspended
//! *runs* instead, one for each die at most, and is told of when it is complete: an end that was told never moves.
//!
//! - Only the work of the array is suspended (tPROG, tBERS), not the transfer before it. Reads, moves inside a die and
//!   whatever runs while another operation is suspended are not.
//! - It takes `suspend_latency` until the die reads and `resume_latency` until the operation goes on where it was. An operation with no more than
//!   both of that left is let finish.
//! - With a scheduler of tenants it says whether a read passes, and which (see `fair`).
//! - An operation is suspended at most as often as `max_per_program` or `max_per_erase` says, and at most `max_read_bypass` reads pass it in all,
//!   those before its suspensions included. So it is late by at most that many suspensions and reads.
//!
//! Source: G. Wu and X. He, "Reducing SSD Read Latency via NAND Flash Program and Erase Suspension", FAST 2012; they suspend at
//! the next phase boundary of a program (inter-phase suspension) or at once (intra-phase cancellation). Here it is at once and
//! nothing is done twice, which is what chips of today offer; `suspend_latency` is where the boundary goes. RAM: 100 bytes for each die.

use super::node::Job;
use super::{Die, PageTime, Queued};
use nandu_base::{Instant, Span, TenantId, Violation};

/// Later than anything: the end of what stands still.
pub(crate) const NEVER: Instant = Instant(u64::MAX);

/// How operations are suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Suspending {
    /// Times that one program may be suspended.
    pub programs: u32,
    /// Times that one erase may be suspended.
    pub erases: u32,
    /// From the suspension until the die can read.
    pub suspend: Span,
    /// From the last read until the operation goes on.
    pub resume: Span,
}

/// An operation that runs and may be suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub node: u32,
    pub job: Job,
    pub time: PageTime,
    /// From here on its array works.
    pub array_from: Instant,
    /// What is left of it, while it is suspended.
    pub left: Option<Span>,
    /// Times that it was suspended, and reads that passed it meanwhile.
    pub suspensions: u32,
    pub passed: u32,
    /// For whom it was suspended last.
    pub reader: TenantId,
}

/// Suspensions since the counters were reset.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Counts {
    pub programs: u64,
    pub erases: u64,
    pub reads: u64,
}

impl Suspending {
    /// Times that an operation of this kind may be suspended.
    pub fn most(&self, job: Job) -> u32 {
        match job {
            Job::Program
            | Job::Record
            | Job::Mark
            | Job::MoveProgram
            | Job::MapProgram
            | Job::Gathered
            | Job::Anchor => self.programs,
            Job::Erase => self.erases,
            _ => 0,
        }
    }

    /// Suspension and what follows it.
    pub fn both(&self) -> Span {
        self.suspend + self.resume
    }
}

impl Queued {
    /// How operations are suspended, if they are.
    pub fn suspending(&self) -> Option<&Suspending> {
        self.suspending.as_ref()
    }

    /// Operations are suspended from now on.
    pub fn suspend_with(&mut self, suspending: Suspending) {
        self.suspending = Some(suspending);
    }

    /// The operation of a die that runs and may be suspended.
    pub fn running(&mut self, die: u32) -> Option<&mut Running> {
        self.dies[die as usize].running.as_mut()
    }

    /// Whether an operation that begins now may be suspended later.
    pub fn may_run(&self, die: u32, job: Job) -> bool {
        self.dies[die as usize].running.is_none() && self.suspending.is_some_and(|s| s.most(job) > 0)
    }

    /// An operation that may be suspended begins.
    pub fn begin(&mut self, die: u32, running: Running) {
        self.dies[die as usize].running = Some(running);
    }

    /// The operation that runs is complete.
    pub fn end(&mut self, die: u32) -> Option<Running> {
        self.dies[die as usize].running.take()
    }

    /// Whether a read might pass the operation that a die runs.
    pub fn might_pass(&mut self, die: u32, now: Instant) -> bool {
        let most = self.max_read_bypass;
        let Die { line, fair, running, .. } = &mut self.dies[die as usize];
        match fair {
            Some(fair) => running.is_none_or(|running| running.passed < most) && fair.might_pass(now),
            None => line.next_read(now, most).is_some(),
        }
    }

    /// The tenant of the read that passes the operation that a die runs, where one might: a scheduler has decided then.
    pub fn read_to_pass(&mut self, die: u32, now: Instant) -> Option<TenantId> {
        let Die { line, fair, .. } = &mut self.dies[die as usize];
        match fair {
            Some(fair) => fair.pass(now),
            None => line.next_read(now, self.max_read_bypass).map(|node| self.nodes[node].cause),
        }
    }

    /// Takes that read.
    pub fn next_read(&mut self, die: u32, now: Instant) -> Option<u32> {
        if !self.might_pass(die, now) {
            return None;
        }
        let Die { line, fair, .. } = &mut self.dies[die as usize];
        let node = match fair {
            None => line.take_read()?,
            Some(fair) => {
                let (node, is_contended) = fair.take_read(now)?;
                self.was_sent(node, is_contended);
                node
            }
        };
        if let Some(running) = &mut self.dies[die as usize].running {
            running.passed += 1;
        }
        self.suspensions.reads += 1;
        Some(node)
    }

    /// When the die is to be woken, at the latest at `at`; `None` when it will be.
    pub fn arm_while_running(&mut self, die: u32, now: Instant, at: Instant) -> Option<Instant> {
        let die = &mut self.dies[die as usize];
        let again = match &mut die.fair {
            Some(fair) => fair.looks_again(now),
            None => {
                die.line.settle(now);
                die.line.next_ready()
            }
        };
        let at = again.map_or(at, |again| again.min(at));
        if die.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        die.armed = Some(at);
        Some(at)
    }

    /// No operation was suspended more often than it may.
    pub fn check_suspensions(&self) -> Result<(), Violation> {
        let Some(suspending) = &self.suspending else { return Ok(()) };
        let most = self.max_read_bypass;
        if let Some(die) =
            self.dies.iter().find(|die| die.fair.is_some() && die.running.is_some_and(|r| r.passed > most))
        {
            let what =
                format!("{:?} reads passed an operation, and {most} may", die.running.map(|r| r.passed));
            return Err(Violation { invariant: "suspension", what });
        }
        let running = self.dies.iter().filter_map(|die| die.running.as_ref());
        match running.clone().find(|r| r.suspensions > suspending.most(r.job)) {
            None => Ok(()),
            Some(r) => {
                let what = format!("a {:?} was suspended {} times", r.job, r.suspensions);
                Err(Violation { invariant: "suspension", what })
            }
        }
    }
}

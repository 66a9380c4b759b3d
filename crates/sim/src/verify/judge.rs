//! The host of a seed: gives requests their stamps, and judges every answer.

use super::digest::Digest;
use super::oracle::{Asked, Oracle, found};
use crate::engine::Sink;
use nandu_base::{ErrorKind, Flags, Instant, Op, Payload, PayloadPool, Request, Stamp, Violation};

/// Requests with this bit in their cookie read a leg directly, past the oracle.
pub(super) const ASIDE: u64 = 1 << 63;

/// The sink of a seed. It outlives the machines.
pub(super) struct Judge {
    /// One for each export; exports of one device share that of the first.
    pub oracles: Vec<Oracle>,
    pub digest: Digest,
    /// Answers so far.
    pub answers: u64,
    /// Those to flushes.
    pub flushes: u64,
    /// The first broken invariant.
    pub violation: Option<Violation>,
    /// A request failed in this way since somebody looked.
    pub failure: Option<(Op, ErrorKind)>,
    /// The last write that failed since somebody looked, by its export.
    pub failed_write: Option<(usize, Asked)>,
    /// What happened, in words, when that is wanted.
    pub log: Option<Vec<String>>,
    /// The cookie of the last read past the oracle. One that nobody waited for any longer may end after it.
    pub asked_aside: u64,
    /// What that read found; `None` while it is under way, and when it failed.
    pub aside: Option<Vec<Stamp>>,
    /// What it finds is xored into this.
    pub sum: Option<Payload>,
}

impl Judge {
    pub fn new(oracles: Vec<Oracle>) -> Judge {
        Judge {
            oracles,
            digest: Digest::default(),
            answers: 0,
            flushes: 0,
            violation: None,
            failure: None,
            failed_write: None,
            log: None,
            asked_aside: ASIDE,
            aside: None,
            sum: None,
        }
    }

    /// What judges the machines that start after a power cut now. This one goes on.
    pub fn after_a_cut(&self) -> Judge {
        let mut judge = Judge { answers: self.answers, ..Judge::new(self.oracles.clone()) };
        judge.oracles.iter_mut().for_each(Oracle::cut);
        judge
    }

    /// A request is about to come at export `export`; returns its serial number and its cookie.
    pub fn comes(&mut self, export: usize, asked: Asked, now: Instant) -> (u32, u64) {
        let serial = self.oracles[export].comes(asked);
        self.note(now, || {
            let (first, count) = asked.sectors();
            let fua = if asked.flags.has(Flags::FUA) { " with FUA" } else { "" };
            format!("{serial}: {} of sectors {first}+{count}{fua}", asked.op.name())
        });
        (serial, (export as u64) << 32 | u64::from(serial))
    }

    /// A change that no machine answers as a request is made, or was refused and may have been made in part.
    pub fn settled(&mut self, cookie: u64, is_made: bool) {
        self.oracles[(cookie >> 32) as usize].settled(cookie as u32, !is_made);
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.oracles.iter().map(Oracle::under_way).sum()
    }

    /// Keeps a line of the log.
    pub fn note(&mut self, now: Instant, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(format!("{} ns  {}", now.0, line()));
        }
    }

    pub fn report(&mut self, violation: Violation) {
        self.violation.get_or_insert(violation);
    }
}

fn stamps(request: &Request, pool: &PayloadPool) -> impl Iterator<Item = Stamp> + use<> {
    let payload = request.payload;
    let count = if payload.is_none() { 0 } else { request.len.sectors() };
    let found: Vec<Stamp> = (0..count).map(|i| found(pool.sector(payload, i))).collect();
    found.into_iter()
}

impl Sink for Judge {
    fn done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool) {
        if request.cookie & ASIDE != 0 {
            if request.cookie != self.asked_aside {
                return;
            }
            if let Some(sum) = self.sum {
                pool.xor(request.payload, sum, request.len);
            }
            self.aside = request.error.is_none().then(|| stamps(request, pool).collect());
            return;
        }
        self.answers += 1;
        self.flushes += u64::from(request.op == Op::Flush);
        self.digest.add(request.cookie);
        self.digest.add(now.0);
        self.digest.add(request.error.map_or(0, |e| 1 + e.kind as u64));
        if request.op == Op::Read && request.error.is_none() {
            stamps(request, pool).for_each(|stamp| self.digest.add(stamp.0));
        }
        if self.log.is_some() {
            let mut found = String::new();
            if request.op == Op::Read && request.error.is_none() {
                stamps(request, pool).for_each(|s| found += &format!(" {}", s.serial()));
            }
            let error = request.error.map_or_else(String::new, |e| format!(": {e}"));
            self.note(now, || format!("{} ends{error}{found}", request.cookie as u32));
        }
        let export = (request.cookie >> 32) as usize;
        if let Some(error) = request.error {
            self.failure = Some((request.op, error.kind));
            // As it was asked: a slice has moved the request on.
            let asked = self.oracles[export].asked(request.cookie as u32);
            if let Some(asked) = asked.filter(|asked| asked.op == Op::Write) {
                self.failed_write = Some((export, Asked { flags: Flags::NONE, ..asked }));
            }
        }
        let oracle = &mut self.oracles[export];
        if let Err(violation) = oracle.ended(request.cookie as u32, request.error, request.payload, pool) {
            self.report(violation);
        }
    }
}

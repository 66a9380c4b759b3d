//! Verified replay: a trace on a stack that stores stamps, every read checked.

use super::ledger::Ledger;
use super::oracle::Asked;
use super::panics::caught;
use crate::engine::Sink;
use crate::metrics::Metrics;
use crate::replay::{Go, Host, Progress, number_of, source_of};
use crate::result::RunResult;
use crate::run::{RunError, RunOptions, run_with};
use crate::steady::State;
use nandu_base::{
    ByteLen, ByteOffset, Content, Deal, ErrorKind, Flags, Instant, Op, Payload, PayloadPool, Request, SECTOR,
    Span, Stamp, TenantId, Violation,
};
use nandu_stack::{BuildOptions, Change, Changed, Stack};
use nandu_trace::Record;

/// Why a verified run has no result.
#[derive(Debug, thiserror::Error)]
pub enum VerifiedError {
    /// The run did not take place.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A check failed.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// The host of a verified replay: it measures like [`Metrics`], gives every write its stamps and checks every read.
///
/// What is exported lies one behind the other in one address space, so that data of one device in another is found. Exports of the same device
/// have the same addresses.
pub struct Verified {
    metrics: Metrics,
    ledger: Ledger,
    /// First sector of each workload's export.
    bases: Vec<u64>,
    /// Whether a request may fail.
    may_fail: bool,
    /// Whether space goes while the workloads run: what is asked of it fails.
    space_goes: bool,
    /// Names of the tenants, SYSTEM first.
    tenants: Vec<String>,
    reads_checked: u64,
    violation: Option<Violation>,
}

impl Sink for Verified {
    #[inline]
    fn done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool) {
        self.metrics.done(request, now, pool);
        self.reads_checked += u64::from(request.op == Op::Read && request.error.is_none());
        let number = number_of(request.cookie) as u32 + 1;
        let result = self.ledger.ended(number, request.error, request.payload, pool);
        if let Err(violation) = result {
            self.violation.get_or_insert(violation);
        }
        if let (Some(error), false) = (request.error, self.may_fail) {
            if self.space_goes && matches!(error.kind, ErrorKind::NoSpace | ErrorKind::BadExtent) {
                return;
            }
            let tenant = &self.tenants[usize::from(request.tenant.0)];
            let what = format!("a {} of tenant `{tenant}` failed without cause: {error}", request.op.name());
            self.violation.get_or_insert(Violation { invariant: "failures", what });
        }
    }
}

impl Host for Verified {
    #[inline]
    fn payload(&mut self, record: &Record, cookie: u64, pool: &mut PayloadPool) -> Payload {
        let base = self.bases[source_of(cookie)];
        let flags = if record.fua() { Flags::FUA } else { Flags::NONE };
        let offset = ByteOffset(record.offset().0 + base * SECTOR);
        let serial = self.ledger.comes(Asked { op: record.op(), flags, offset, len: record.len() });
        debug_assert_eq!(
            u64::from(serial),
            number_of(cookie) + 1,
            "requests are numbered in the order they come"
        );
        match record.op() {
            Op::Read => pool.allocate(record.len()),
            Op::Write => Payload::run(Stamp::new(serial, offset.sector())),
            _ => Payload::NONE,
        }
    }

    #[inline]
    fn ended(&self, source: usize) -> u64 {
        self.metrics.ended(source)
    }

    #[inline]
    fn last_end(&self, source: usize) -> Instant {
        self.metrics.last_end(source)
    }

    fn slower(&self, tenant: TenantId, span: Span) -> u64 {
        self.metrics.slower(tenant, span)
    }

    fn touched(&mut self) -> u64 {
        self.metrics.touched()
    }

    fn begin(&mut self, first: u64, now: Instant) {
        self.metrics.begin(first, now);
    }

    fn count_from(&mut self, source: usize, first: u64) {
        self.metrics.count_from(source, first);
    }

    fn state(&self, open_loop: bool) -> Option<State> {
        self.metrics.state(open_loop)
    }

    fn checked(&mut self, result: Result<(), Violation>) {
        if let Err(violation) = result {
            self.violation.get_or_insert(violation);
        }
    }
}

/// Runs `stack` with every read checked, and the machines' own invariants at the end. A `fault` that loses its device
/// loses data by right: such stacks are for [`verify`](super::verify), here it counts as a violation. Where a `[change]` takes space away
/// from a tenant of a drive, requests for it may fail.
pub fn run_verified<R: Into<Go>>(
    stack: &Stack,
    options: &RunOptions,
    progress: impl FnMut(Progress) -> R,
) -> Result<RunResult, VerifiedError> {
    let built = stack
        .build(&BuildOptions { seed: options.seed, precondition: options.precondition, ..Default::default() })
        .map_err(RunError::from)?;
    let mut starts = Vec::new();
    let mut capacity = 0;
    for (at, export) in built.exports.iter().enumerate() {
        if let Some(same) = built.exports[..at].iter().position(|other| other.node == export.node) {
            starts.push(starts[same]);
            continue;
        }
        starts.push(capacity / SECTOR);
        let len = built.parts[export.node as usize].machine.limits().capacity.0;
        capacity += len.next_multiple_of(1 << 20);
    }
    let bases = options.workloads.iter().map(|w| starts[w.export]).collect();
    let may_fail = built.parts.iter().any(|part| part.machine.needs().injects_faults);
    drop(built);
    let goes =
        |change: &Change| matches!(change.what, Changed::Space(_, Deal::Resize { .. } | Deal::Remove { .. }));
    let space_goes = stack.changes.iter().any(goes);
    let names: Vec<String> = std::iter::once("system")
        .chain(stack.tenants.iter().map(|t| t.name.as_str()))
        .map(str::to_string)
        .collect();
    let (tenants, workloads) = (stack.tenants.len() + 1, options.workloads.len());
    let host = |start| Verified {
        metrics: Metrics::new(tenants, workloads, start),
        ledger: Ledger::new(ByteLen(capacity)),
        bases,
        may_fail,
        space_goes,
        tenants: names,
        reads_checked: 0,
        violation: None,
    };
    let doing = format!("replaying {}", options.stack_name);
    let run = || run_with(stack, options, Content::Stamps, host, |h: &Verified| &h.metrics, progress);
    let (mut result, host) = caught(doing, run)??;
    result.provenance.reads_checked = host.reads_checked;
    match host.violation {
        Some(violation) => Err(violation.into()),
        None => Ok(result),
    }
}

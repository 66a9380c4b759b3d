//! A case: everything that a run does, step by step, with nothing left to draw but how faults strike and how a cut tears.
//!
//! A seed draws its steps while it runs, for what comes next depends on what has happened (`session/drawn.rs`). Each
//! step is taken by the same function whether it was drawn or is listed in a case, and may be written down on the way: the list, taken
//! again, does the same. A step can be left out of a list, which a number that means the run does not allow.
//!
//! *Where a step comes* is told by what came before, so that the rest of a list means much the same when a step is gone.
//!
//! *What keeps its seed.* The faults of `fault` machines and wear, of each start; which of the pages that a cut
//! interrupts are torn, and how what no flush has ordered is reordered ([`Tear`]).

use super::oracle::Asked;
use nandu_base::{Deal, Precondition, Rng, Span, TenantShare};

/// When a step is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// At once after the step before.
    Now,
    /// So long after the step before, cuts beside the run left out, and when fewer requests are under way than the depth.
    After(Span),
    /// After so many events since the step before.
    Events(u64),
    /// When no request of the host is under way.
    Idle,
    /// So long after the deal that is the step before, whether it holds or not.
    Within(Span),
}

/// From where on the generator of a stream is used to tear what a cut interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tear {
    /// Numbers of the stream that were drawn before.
    pub drawn: u64,
    /// Which loss of power of the run comes next.
    pub number: u64,
}

/// A power cut, or a death of the process, and the start that follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PowerCut {
    /// Comes so long after the last event, at most until the next.
    pub delay: Span,
    /// A device that is missing until the next cut, where the stack must bear that.
    pub missing: Option<String>,
    /// Only the process dies, where a cut has more to take.
    pub process: bool,
    /// Cut again after so many events of the start that follows, and so on.
    pub again: Vec<u32>,
    /// Read everything back at once.
    pub look: bool,
    /// How it tears.
    pub tear: Tear,
}

/// What an operator does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chore {
    /// Compares all copies.
    Scrub,
    /// Ends that.
    StopScrub,
    /// Lets this leg lead.
    Lead(u8),
    /// Puts a blank medium in place of this leg.
    Replace(u8),
    /// Makes every leg so many bytes longer than the stack file says, and has the array serve more.
    Grow(u64),
}

/// The share of a tenant from here on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Its number, from 1.
    pub tenant: u16,
    /// Its weight.
    pub weight: u16,
    /// Most bytes written per second.
    pub wbps: Option<u64>,
    /// Most reads per second.
    pub riops: Option<u64>,
    /// The mean latency it wants to stay below.
    pub target_latency: Option<Span>,
}

/// What is done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// A request of the host.
    Ask {
        /// Which export, in the order of the stack file.
        export: usize,
        /// For what.
        asked: Asked,
    },
    /// An operator comes.
    Chore {
        /// The array that is looked after.
        device: String,
        /// What for.
        chore: Chore,
    },
    /// A tenant has another share.
    Share(Share),
    /// A drive deals its space anew.
    Deal(Deal),
    /// The power is cut.
    Cut(PowerCut),
    /// The power of a copy is cut, beside the run.
    Peek {
        /// So many nanoseconds after the last event, or before it.
        at: i64,
        /// How it tears.
        tear: Tear,
    },
    /// Nothing: what happens by itself until then is all that counts.
    Wait,
}

/// A step of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// When it is taken.
    pub when: When,
    /// What is done.
    pub what: What,
}

/// The clean end, and the start that follows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Close {
    /// The power is cut after so many events of the end.
    pub within: Option<u64>,
    /// How that tears.
    pub tear: Tear,
}

/// What a run stands on: all that is not a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ground {
    /// The stack file.
    pub stack: String,
    /// State of the drives at the start.
    pub precondition: Precondition,
    /// Faults are drawn from it, and what a cut tears.
    pub seed: u64,
    /// Most requests under way.
    pub depth: u32,
    /// Time that a mirror has to make its legs equal at the end.
    pub rest: Span,
    /// Whether what tenants of a shared drive do to each other is measured (I-8).
    pub harm: bool,
    /// Whether what was acknowledged must survive, flushed or not.
    pub acknowledged: bool,
}

/// A run that is listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// What it stands on.
    pub ground: Ground,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// The clean end after the last step, if there is one.
    pub close: Option<Close>,
    /// The fault that is planted, if one is.
    pub plant: Option<String>,
    /// The invariant that it breaks, when it is kept for that.
    pub breaks: Option<String>,
}

impl Share {
    /// The share, with the limits that it says and no others.
    pub(super) fn whole(self) -> TenantShare {
        let Share { weight, wbps, riops, target_latency, .. } = self;
        TenantShare { weight, wbps, riops, target_latency, ..TenantShare::named("changed") }
    }
}

impl Case {
    /// Requests of the host among the steps.
    pub fn requests(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step.what, What::Ask { .. })).count()
    }
}

impl Tear {
    /// The stream of power cuts.
    pub(super) const CUTS: u64 = 3;
    /// The stream of cuts beside the run.
    pub(super) const PEEKS: u64 = 11;

    /// Where `rng` stands in the stream that begins at `first`.
    pub(super) fn at(rng: &Rng, first: Rng, number: u64) -> Tear {
        let next = |rng: &Rng| {
            let mut rng = rng.clone();
            [rng.bits(), rng.bits()]
        };
        let (here, mut walker, mut drawn) = (next(rng), first, 0);
        while next(&walker) != here {
            walker.bits();
            drawn += 1;
        }
        Tear { drawn, number }
    }

    /// The generator of stream `stream` of `seed`, as far drawn.
    pub(super) fn rng(self, seed: u64, stream: u64) -> Rng {
        let mut rng = Rng::new(seed).fork(stream);
        (0..self.drawn).for_each(|_| {
            rng.bits();
        });
        rng
    }
}

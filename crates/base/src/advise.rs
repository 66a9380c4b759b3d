//! What machines say of requests that have not come, and what they are told of such.
//!
//! Both are optional. A machine that says nothing is taken for one that is never busy and needs no time. What comes is told to the child that
//! [`Machine::prepare`](crate::machine::Machine::prepare) names where a machine takes no hints; what of a speculative read is used is not told further.

use crate::machine::Place;
use crate::node::Peek;
use crate::request::Op;
use crate::units::{ByteLen, ByteOffset, Span};

/// Answers to those above who choose between devices ([`Machine::advise`](crate::machine::Machine::advise)). Nothing changes by a question.
pub trait Advise {
    /// About how long a request would take if it came now.
    fn expected_latency(&self, _op: Op, _offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Span {
        Span::ZERO
    }

    /// Whether a request that came now would have to wait.
    fn is_busy(&self, _peek: &Peek<'_>) -> bool {
        false
    }

    /// Where data lies, if this machine can tell.
    fn locate(&self, _offset: ByteOffset, _len: ByteLen, _peek: &Peek<'_>) -> Option<Place> {
        None
    }
}

/// Takes hints about requests ([`Machine::hints`](crate::machine::Machine::hints)). A hint may change what is kept where, and nothing that is
/// answered. What comes back is the extent below that the machine would use, as the number of a child and an offset there: the driver passes
/// the hint on to it.
pub trait Hints {
    /// A request like this comes as many requests from now as the machine with the longest
    /// [`foresight`](crate::machine::Needs::foresight) of its stack asked for.
    fn foresee(&mut self, op: Op, offset: ByteOffset, len: ByteLen) -> Option<(u8, ByteOffset)>;

    /// An extent that was read here with [`Flags::SPECULATIVE`](crate::request::Flags::SPECULATIVE) is used after all.
    fn used(&mut self, offset: ByteOffset, len: ByteLen) -> Option<(u8, ByteOffset)>;
}

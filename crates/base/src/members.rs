//! What a machine says of its children: whether it can do without some, what is lost, what it does to make good for it.

use crate::admin::{ChildUse, Health, Maintenance};
use crate::machine::Limits;
use crate::redundancy::Redundancy;
use crate::units::{ByteLen, ByteOffset};

/// A machine that uses its children in other ways than to pass requests on ([`Machine::members`](crate::machine::Machine::members)).
/// One that says nothing needs all of them.
pub trait Members {
    /// How safely it holds its data, if it is built to bear a loss.
    fn health(&self) -> Option<Health> {
        None
    }

    /// What the loss of its children means, of a machine that does not simply need all of them.
    fn redundancy(&self) -> Option<Redundancy> {
        None
    }

    /// Ranges that were lost and fail until they are written whole, in order; of a machine that keeps a list of them on record.
    fn lost(&self, _out: &mut Vec<(ByteOffset, ByteLen)>) {}

    /// What it does with its data beside serving, each kind of work once.
    fn maintenance(&self, _out: &mut Vec<Maintenance>) {}

    /// What it does with a child, if it is built to do without some.
    fn child_use(&self, _child: u8) -> Option<ChildUse> {
        None
    }

    /// Bytes of a child with these limits in which nothing will ever be stored: what it has more than the others, and tails that are
    /// no whole unit.
    fn left_over(&self, _child: u8, _below: &Limits) -> ByteLen {
        ByteLen::ZERO
    }

    /// Whether it serves now and could not without this child.
    fn needs_child(&self, _child: u8) -> bool {
        false
    }
}

//! What the loss of children means to a machine that stands on several: declared by itself, so that what judges a stack need not know its kinds.
//!
//! A machine that says nothing here ([`Members::redundancy`](crate::Members::redundancy)) needs every child: what one of them fails, fails here, and
//! what one of them loses is lost.

/// Children of one machine, by number: 0 to 63, the most that any machine takes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Children(u64);

impl Children {
    /// None of them.
    pub const NONE: Children = Children(0);

    /// The first `count`.
    ///
    /// # Panics
    /// More than 64 are asked for.
    pub fn first(count: usize) -> Children {
        assert!(count <= 64, "a machine has 64 children at most");
        Children(u64::MAX.checked_shr(64 - count as u32).unwrap_or(0))
    }

    /// Those of the first `count` of which `is_one` says so.
    ///
    /// # Panics
    /// More than 64 are asked for.
    pub fn of(count: usize, mut is_one: impl FnMut(usize) -> bool) -> Children {
        let one = |child| if is_one(child) { 1 << child } else { 0 };
        assert!(count <= 64, "a machine has 64 children at most");
        Children((0..count).map(one).fold(0, |all: u64, one: u64| all | one))
    }

    /// Whether this one is among them.
    #[inline]
    pub fn has(self, child: usize) -> bool {
        child < 64 && self.0 >> child & 1 == 1
    }

    /// How many there are.
    #[inline]
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Those of both.
    #[inline]
    pub fn and(self, other: Children) -> Children {
        Children(self.0 & other.0)
    }

    /// Those that are not among `other`.
    #[inline]
    pub fn without(self, other: Children) -> Children {
        Children(self.0 & !other.0)
    }

    /// Their numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..64).filter(move |&child| self.has(child))
    }
}

/// What a machine says of its children, as it stands now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redundancy {
    /// Those on which its data stand. Whatever happens to the others, which hold copies, nothing is missed.
    pub members: Children,
    /// Members that are enough for all data, while none of them lacks anything: 1 of a mirror, all but one of a parity array, all of what bears no loss.
    pub enough: u32,
    /// Members that lack nothing now.
    pub complete: Children,
    /// Since its figures were reset it has gone on without a member that had not failed, only come late or was to follow. An error of another one may have
    /// been on its way by then.
    pub shaken: bool,
    /// What it acknowledged is durable, even where a child loses all that was not flushed there.
    pub keeps: bool,
    /// What a read finds after a start is durable: it does not come undone by a later loss of power.
    pub settles: bool,
    /// Which child may stay away at the next start, together with a loss of power, when nothing else is redundant.
    pub absence: Absence,
    /// Never are two changes of one block under way at a member.
    pub in_order: bool,
    /// Nothing is lost, under way or left to do: members that hold the same are the same, parity is that of its data.
    pub at_rest: bool,
    /// Grows with whatever is written to members, as far as [`at_rest`](Redundancy::at_rest) between two looks does not say already that nothing was.
    pub changes: u64,
    /// How often it has said durably that it goes on without a member; less while that is not durable.
    pub departures: u64,
}

/// Which child may stay away at a start that follows on a loss of power.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Absence {
    /// None.
    None,
    /// Any member, and all others are needed.
    Any,
    /// Any member. One that has followed may refuse to start without the `leader`, for it cannot know what it lacks.
    Follower {
        /// The member that says what holds.
        leader: u8,
    },
    /// A child that holds copies, which nobody misses.
    Copy,
    /// Any but the last child, for good by an operator's word: the machine names what is lost with it.
    GivenUp,
}

impl Redundancy {
    /// Of a machine that stands on all of its `count` children.
    pub fn none(count: usize) -> Redundancy {
        let members = Children::first(count);
        Redundancy {
            members,
            enough: members.count(),
            complete: members,
            shaken: false,
            keeps: false,
            settles: false,
            absence: Absence::None,
            in_order: false,
            at_rest: false,
            changes: 0,
            departures: 0,
        }
    }

    /// Whether it is built to bear the loss of a member.
    pub fn bears_a_loss(&self) -> bool {
        self.enough < self.members.count()
    }

    /// Whether something is missed when all of `struck` are lost, or fail, at this moment.
    pub fn misses(&self, struck: Children) -> bool {
        let struck = struck.and(self.members);
        struck != Children::NONE && self.complete.without(struck).count() < self.enough
    }

    /// Whether a request may fail when all of `struck` have failed requests at some time.
    pub fn may_fail(&self, struck: Children) -> bool {
        self.members.without(struck).count() < self.enough + u32::from(self.shaken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(children: &[usize]) -> Children {
        Children::of(64, |child| children.contains(&child))
    }

    #[test]
    fn children_are_a_set() {
        assert_eq!(Children::first(0), Children::NONE);
        assert_eq!(Children::first(64).count(), 64);
        assert_eq!(Children::first(3).iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(some(&[0, 63]).iter().collect::<Vec<_>>(), [0, 63]);
        assert!(!some(&[0]).has(64));
        assert_eq!(Children::first(4).without(some(&[1, 3])), some(&[0, 2]));
    }

    #[test]
    fn a_mirror_bears_the_loss_of_one_while_the_other_is_complete() {
        let mut mirror = Redundancy { enough: 1, ..Redundancy::none(2) };
        assert!(mirror.bears_a_loss());
        assert!(!mirror.misses(Children::NONE) && !mirror.misses(some(&[0])) && mirror.misses(some(&[0, 1])));
        mirror.complete = some(&[0]);
        assert!(mirror.misses(some(&[0])) && !mirror.misses(some(&[1])));
        assert!(!mirror.may_fail(some(&[1])) && mirror.may_fail(some(&[0, 1])));
        mirror.shaken = true;
        assert!(!mirror.may_fail(Children::NONE) && mirror.may_fail(some(&[1])));
    }

    #[test]
    fn a_parity_array_bears_the_loss_of_one_while_all_are_complete() {
        let mut parity = Redundancy { enough: 3, ..Redundancy::none(4) };
        assert!(!parity.misses(some(&[2])) && parity.misses(some(&[2, 3])));
        parity.complete = Children::NONE;
        assert!(parity.misses(some(&[0])));
    }

    #[test]
    fn copies_are_not_missed() {
        let cache =
            Redundancy { members: some(&[2]), complete: some(&[2]), enough: 1, ..Redundancy::none(3) };
        assert!(!cache.bears_a_loss());
        assert!(!cache.misses(some(&[0, 1])) && cache.misses(some(&[2])));
        assert!(!cache.may_fail(some(&[0, 1])) && cache.may_fail(some(&[0, 2])));
    }
}

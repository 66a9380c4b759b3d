//! Which legs a start takes for current.
//!
//! The superblock with the highest generation that can be right is believed: every leg that it calls a full member
//! and that is present says the same generation, or is one change behind where a cut explains that
//! ([`crate::member::standing`]; they are made the same before anything else is written). All but one of its full
//! members must be present. A leg that it does not call current, and a blank one where that is allowed, is
//! rebuilt.
//!
//! A leg that it calls current and that is further behind is an old copy: somebody has put it there. One such leg
//! is refused, or with `alone` counts as missing: nothing is written to it before it is added, and then it is
//! rebuilt. Two are refused.
//!
//! So is a leg that is not called current and has seen changes that the record does not know of: the others were put
//! back to a state of before, and went on from there. It is no earlier state, and is not rebuilt unasked.
//!
//! A new set is written down twice before it is used, so a record with number 1 means that nothing was ever stored.

use super::layout::{EPOCHS, OUT, START_EPOCHS, Superblock};
use super::open::Step;
use super::{Parity, Run, bits};
use crate::member::slots::Content;
use crate::member::{Standing, State, is_fork, standing};
use nandu_base::{Cx, DeviceEvent, Gone, Notice, OpenError};

impl Parity {
    /// Whether the journal that a leg's record speaks of is not the one that the options mean. Records of an older version do not say.
    fn is_journal_elsewhere(&self, leg: usize, sb: &Superblock) -> bool {
        let layout = &self.legs[leg].layout;
        self.journaled && sb.head.map != 0 && (sb.head.map, sb.head.lost) != (layout.journal, layout.slot)
    }

    /// Whether a record says the size of this array, or a smaller one that was to become it.
    fn is_size(&self, sb: &Superblock) -> bool {
        sb.data == self.room || sb.data < self.room && sb.head.served == self.capacity_of(self.room).0
    }

    pub(super) fn decide(&mut self, cx: &mut Cx<'_>) -> Result<Step, OpenError> {
        let legs = self.legs.len();
        let refused = |why: String, remedy: &str| OpenError::Refused { why, remedy: remedy.into() };
        let (mut blank, mut unread) = (0u16, 0u16);
        let mut found: Vec<Option<Superblock>> = vec![None; legs];
        for (leg, place) in found.iter_mut().enumerate() {
            if self.opening.uses >> leg & 1 == 0 {
                continue;
            }
            let name = &self.roster[leg].name;
            let is_blank = self.legs[leg].slots.content() == Content::Blank;
            match self.legs[leg].slots.newer().map(|(slot, written)| (slot, written.sb)) {
                Some((_, sb)) if usize::from(sb.head.leg) != leg => {
                    let why = format!("`{name}` is leg {} of its array", sb.head.leg);
                    return Err(refused(why, "name the legs in their order"));
                }
                Some((_, sb)) if sb.shape != self.shape || !self.is_size(&sb) => {
                    let why = format!("`{name}` belongs to an array of another shape");
                    return Err(refused(why, "give the options with which the array was made"));
                }
                // Room for data may be the same; what was acknowledged may lie in the journal alone.
                Some((_, sb)) if self.is_journal_elsewhere(leg, &sb) => {
                    let why = format!(
                        "`{name}` keeps its journal in another place, or with entries of another length"
                    );
                    return Err(refused(
                        why,
                        "give the `journal_size` with which the array was made, and the same layers below it",
                    ));
                }
                Some((slot, sb)) => {
                    self.legs[leg].slots.written(slot);
                    *place = Some(sb);
                }
                None if self.how.salvage && !(self.how.create && is_blank) => {
                    (blank, unread) = (blank | 1 << leg, unread | 1 << leg)
                }
                None if is_blank => blank |= 1 << leg,
                None => {
                    let [first, second] = self.legs[leg].layout.superblocks;
                    let why = format!(
                        "`{name}` holds something else where the array keeps its records, at bytes {first} and {second}"
                    );
                    let remedy = "if they are damaged, start with salvage, and the other legs go on without it; if nothing in it is \
                                  needed, empty the file (`truncate -s 0 FILE`, of a block device `blkdiscard -z FILE`) and start \
                                  once with create";
                    return Err(OpenError::Unknown { why, remedy: remedy.into() });
                }
            }
        }
        // A simulation that stores nothing reads blanks: what was written last counts then.
        let stored = cx.pool.content() != nandu_base::Content::Nothing;
        if !stored && self.members.sb.head.seq > 1 {
            let mut sb = self.members.sb;
            sb.upto[..legs].fill(self.geometry.data);
            found.fill(Some(sb));
            blank = 0;
        }
        if unread != 0 && self.salvage(&mut found, unread, cx) {
            let step = self.create(cx);
            self.how.create = false;
            return step;
        }
        blank &= !mask(&found);
        let sets: Vec<[u64; 2]> = found.iter().flatten().map(|sb| sb.head.set).collect();
        if sets.iter().any(|set| *set != sets[0]) {
            return Err(refused("the legs belong to different arrays".into(), "give the legs of one array"));
        }
        let epoch = found.iter().flatten().map(|sb| sb.head.generation.epoch).max().unwrap_or(0);
        self.members.epoch = self.members.epoch.max(epoch);
        if let Some((why, remedy)) = counts_no_more(self.members.epoch) {
            return Err(refused(why, remedy));
        }
        let unfinished = found.iter().flatten().all(|sb| sb.head.seq == 1);
        if unfinished && (blank | mask(&found)) == self.all() && blank != 0 {
            return self.create(cx);
        }
        if unfinished && blank | mask(&found) != self.all() && sets.is_empty() {
            let missing = bits(self.all() & !blank).next().unwrap_or(0);
            return Err(OpenError::Child(missing as u8));
        }
        let mut aside = 0;
        if let Some(old) = old_legs(&found).filter(|_| !self.planted.stale_leg_believed) {
            let why = say_old(&found, &|l| self.roster[l].name.clone(), old);
            let (is_one, stays) = (old.count_ones() == 1, (mask(&found) & !old).count_ones() as usize);
            if stays + 1 < legs || !is_one {
                return Err(refused(why, "put the legs that were used last in their places"));
            }
            if !self.how.alone && !self.how.salvage {
                let remedy = "put the leg that was used last in its place; or start with --force-degraded, and the others go on without it";
                return Err(refused(why, remedy));
            }
            bits(old).for_each(|l| found[l] = None);
            aside = old;
        }
        let sb = self.believe(&found).ok_or_else(|| {
            let present = found.iter().flatten().count();
            let why = format!("too few current legs: {present} of {legs} are there, one may be missing");
            refused(why, "add the legs that were used last")
        })?;
        self.adopt(sb, &found, blank)?;
        bits(aside).for_each(|l| self.roster[l].waits_no_more());
        if bits(self.legs_in()).any(|l| found[l].is_some_and(|o| o.head.generation != sb.head.generation)) {
            self.write_superblocks(cx);
            return Ok(Step::Agree);
        }
        Ok(self.exclude(cx))
    }

    /// Goes on without the records of the legs in `unread`. One leg is left alone. Of more each one is taken for what the newest record
    /// calls it, as it is. True when none has a record: then all become a new set, as they are, and what only the journal held is gone.
    fn salvage(&mut self, found: &mut [Option<Superblock>], unread: u16, cx: &mut Cx<'_>) -> bool {
        let mut gone = |leg: usize, what| cx.event(DeviceEvent::Notice(Notice::Gone(leg as u8, what)));
        let Some(newest) = newest(found) else {
            let all_are_here = unread == self.all();
            if all_are_here {
                gone(0, Gone::Set);
                (self.how.create, self.how.assume_clean) = (true, true);
            }
            return all_are_here;
        };
        if unread.count_ones() == 1 && mask(found) | unread == self.all() {
            gone(unread.trailing_zeros() as usize, Gone::Leg);
            return false;
        }
        for leg in bits(unread) {
            gone(leg, Gone::Member);
            let mut sb = newest;
            sb.head.leg = leg as u8;
            self.legs[leg].slots.written(1);
            found[leg] = Some(sb);
        }
        false
    }

    /// The superblock that is right: see the module's page.
    fn believe(&self, found: &[Option<Superblock>]) -> Option<Superblock> {
        if self.planted.stale_leg_believed {
            let mut sb = newest(found)?;
            for (upto, found) in sb.upto.iter_mut().zip(found) {
                *upto = if found.is_some() { sb.data } else { *upto };
            }
            return Some(sb);
        }
        believe(found)
    }

    fn adopt(&mut self, sb: Superblock, found: &[Option<Superblock>], blank: u16) -> Result<(), OpenError> {
        self.members.sb = sb;
        self.geometry.data = sb.data;
        // The list of lost sectors changes without a new generation: it grows before a mark moves on, and shrinks after a flush.
        // Full members carry it. A leg that was just taken in may be the only one to say so.
        let carries = |l: usize| found[l].filter(|own| own.upto[l] == own.data && fits(own, &sb));
        let newest = (0..found.len()).filter_map(|l| Some((order(&carries(l)?), l))).max();
        if let Some((_, l)) = newest {
            let list = self.legs[l].slots.newer().map_or(&[][..], |(_, written)| &written.lost);
            self.lost.restore(list, self.legs.len(), self.geometry.data);
        }
        for (leg, found) in found.iter().enumerate() {
            let fits = found.is_some_and(|o| match standing(&o.head, &sb.head).0 {
                Standing::Current => true,
                // How far a leg was rebuilt is what it says itself, unless nothing was served since.
                Standing::Before => sb.upto[leg] == sb.data || sb.head.state == State::Opening,
                _ => self.planted.stale_leg_believed,
            });
            let (l, seat) = (&mut self.legs[leg], &mut self.roster[leg]);
            if fits && sb.upto[leg] != OUT {
                (l.upto, l.durable, seat.replaced) = (sb.upto[leg], sb.upto[leg], false);
            } else {
                let may_be_blank = self.how.create || seat.replaced;
                seat.waits_if(found.is_some() || may_be_blank && blank >> leg & 1 != 0);
            }
        }
        for leg in bits(!self.legs_in()) {
            self.lost.drop_leg(leg);
        }
        let lacking = bits(self.all()).filter(|&l| self.legs[l].durable != self.geometry.data);
        let lacking = lacking.fold(0u16, |m, l| m | 1 << l);
        if self.run == Run::Opening {
            let word = self.how.alone || self.how.salvage;
            self.members.excused = if word { lacking } else { 0 };
        }
        if !self.journaled && !sb.head.clean {
            if lacking & !self.members.excused != 0 {
                return Err(OpenError::Doubtful {
                    why: "the array has not ended in order, it has no journal, and a leg is missing or not rebuilt: \
                          blocks of that leg may come back wrong"
                        .into(),
                    remedy: "add the leg, or start with `alone` and check the data".into(),
                });
            }
            self.rebuild.parity_upto = if lacking != 0 { u64::MAX } else { 0 };
        }
        Ok(())
    }
}

/// Why a set that has seen so many changes starts no more, and what helps.
pub fn counts_no_more(epoch: u64) -> Option<(String, &'static str)> {
    let why =
        || format!("the legs have seen {epoch} changes of the set, and their records can count no more");
    let remedy = "empty the records of all legs, the last 72 KiB of each, and start with salvage: they become a new set, as they are";
    (epoch + START_EPOCHS >= EPOCHS).then(|| (why(), remedy))
}

/// Which legs are old, and how far, in words. `name` says how each is called.
pub fn say_old(found: &[Option<Superblock>], name: &dyn Fn(usize) -> String, old: u16) -> String {
    // Of records with one number the one that came last may be of a leg that went on apart.
    let believed = believe(found).filter(|sb| old >> sb.head.leg & 1 == 0);
    let newest = believed.or(newest(found)).expect("an old leg is older than another");
    let by = name(usize::from(newest.head.leg));
    let each = |l: usize| {
        let place = found[l].map_or(Standing::Unrelated, |sb| standing(&sb.head, &newest.head).0);
        let name = name(l);
        match place {
            Standing::Behind(1) => {
                format!("leg `{name}` is old: `{by}` has seen one change of the set since")
            }
            Standing::Behind(n) => {
                format!("leg `{name}` is old: `{by}` has seen {n} changes of the set since")
            }
            _ if is_apart(&found[l], &newest) => {
                format!(
                    "leg `{name}` has seen changes of the set that `{by}` has not: they went on apart, from an older copy"
                )
            }
            _ => format!("leg `{name}` is old: it was replaced, left behind, or is a copy from long ago"),
        }
    };
    let all: Vec<String> = bits(old).map(each).collect();
    all.join("; ")
}

/// The record that came last: of one generation that of an opening is earlier than others.
fn newest(found: &[Option<Superblock>]) -> Option<Superblock> {
    found.iter().flatten().copied().max_by_key(order)
}

fn order(sb: &Superblock) -> (u64, bool, u64) {
    (sb.head.generation.epoch, sb.head.state != State::Opening, sb.head.seq)
}

/// Whether the record of a leg can be that of a current member of the array as `sb` tells it.
pub fn fits(of: &Superblock, sb: &Superblock) -> bool {
    standing(&of.head, &sb.head).0 <= Standing::Before
}

/// The superblock that is right, if there is one: see the module's page.
pub fn believe(found: &[Option<Superblock>]) -> Option<Superblock> {
    let mut candidates: Vec<Superblock> = found.iter().flatten().copied().collect();
    candidates.sort_by_key(|sb| std::cmp::Reverse(order(sb)));
    candidates.into_iter().find(|sb| {
        let full = |leg: usize| sb.upto[leg] == sb.data;
        let agreed = (0..found.len()).all(|l| !full(l) || found[l].is_none_or(|other| fits(&other, sb)));
        let present = (0..found.len()).filter(|&l| full(l) && found[l].is_some()).count();
        agreed && present + 1 >= found.len()
    })
}

/// The legs that the newest record calls current and that are older than a cut explains; when an older state would be believed although
/// there is a newer generation, all that say so; and those that have gone on apart from the one that is believed.
///
/// A record of an opening may be believed beside one that says that the opening is over: then a leg that was not told of the opening is old.
pub fn old_legs(found: &[Option<Superblock>]) -> Option<u16> {
    let newest = newest(found)?;
    let is_old = |l: usize| found[l].is_some_and(|sb| !fits(&sb, &newest));
    let called_current = |l: usize| newest.upto[l] == newest.data;
    let bits_of = |test: &dyn Fn(usize) -> bool| {
        (0..found.len()).filter(|&l| test(l)).fold(0u16, |bits, l| bits | 1 << l)
    };
    let believed = believe(found);
    let of_before = believed.is_some_and(|sb| sb.head.generation.epoch < newest.head.generation.epoch);
    let old = match believed {
        Some(_) if of_before => bits_of(&is_old),
        Some(sb) => bits_of(&|l| is_apart(&found[l], &sb) || is_old(l) && called_current(l)),
        None => bits_of(&|l| is_old(l) && called_current(l)),
    };
    (old != 0).then_some(old)
}

/// Whether a leg has gone on apart from the others, which tell of the set as `sb`.
fn is_apart(found: &Option<Superblock>, sb: &Superblock) -> bool {
    found.is_some_and(|of| is_fork(&of.head, &sb.head))
}

/// The legs that were found.
fn mask(found: &[Option<Superblock>]) -> u16 {
    (0..found.len()).filter(|&l| found[l].is_some()).fold(0, |m, l| m | 1 << l)
}

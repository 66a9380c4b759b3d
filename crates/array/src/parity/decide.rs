//! Which legs a start takes for current.
//!
//! The superblock with the highest generation that can be right is believed: every leg that it calls a full member and that is
//! present carries the same generation or the one before it (a cut between two legs leaves that; they are made the same
//! before anything else is written). All but one of its full
//! members must be present. A leg that it does not call current, and a blank one where that is allowed, is rebuilt.
//!
//! A new set is written down twice before it is used, so a record with number 1 means that nothing was ever stored.

use super::layout::{Superblock, OUT};
use super::open::{Slot, Step};
use super::{bits, Parity};
use nandu_base::{Cx, OpenError};

impl Parity {
    /// The newest superblock of a leg.
    fn newest(&self, leg: usize) -> Option<(u8, Superblock)> {
        let valid = |k: u8| match self.opening.slots[leg][usize::from(k)] {
            Slot::Valid(sb) => Some((k, sb)),
            _ => None,
        };
        [valid(0), valid(1)].into_iter().flatten().max_by_key(|(_, sb)| sb.seq)
    }

    pub(super) fn decide(&mut self, cx: &mut Cx<'_>) -> Result<Step, OpenError> {
        let legs = self.legs.len();
        let refused = |why: String, remedy: &str| OpenError::Refused { why, remedy: remedy.into() };
        let mut blank = 0u16;
        let mut found: Vec<Option<Superblock>> = vec![None; legs];
        for (leg, place) in found.iter_mut().enumerate() {
            if self.opening.uses >> leg & 1 == 0 {
                continue;
            }
            let name = &self.legs[leg].name;
            match self.newest(leg) {
                Some((_, sb)) if usize::from(sb.leg) != leg => {
                    let why = format!("`{name}` is leg {} of its array", sb.leg);
                    return Err(refused(why, "name the legs in their order"));
                }
                Some((_, sb)) if sb.shape != self.shape || sb.data != self.geometry.data => {
                    let why = format!("`{name}` belongs to an array of another shape");
                    return Err(refused(why, "give the options with which the array was made"));
                }
                Some((slot, sb)) => {
                    self.legs[leg].slot = slot;
                    *place = Some(sb);
                }
                None if self.opening.slots[leg] == [Slot::Blank; 2] => blank |= 1 << leg,
                None => {
                    let why = format!("`{name}` holds something else where the array keeps its records");
                    return Err(refused(why, "clear the last 68 KiB of it if nothing there is needed"));
                }
            }
        }
        let epoch = found.iter().flatten().map(|sb| sb.gen.epoch).max().unwrap_or(0);
        self.members.epoch = self.members.epoch.max(epoch);
        // A simulation that stores nothing reads blanks: what was written last counts then.
        let stored = cx.pool.content() != nandu_base::Content::Nothing;
        if !stored && self.members.sb.seq > 1 {
            let mut sb = self.members.sb;
            sb.upto[..legs].fill(self.geometry.data);
            found.fill(Some(sb));
            blank = 0;
        }
        let sets: Vec<[u64; 2]> = found.iter().flatten().map(|sb| sb.set).collect();
        if sets.iter().any(|set| *set != sets[0]) {
            return Err(refused("the legs belong to different arrays".into(), "give the legs of one array"));
        }
        let unfinished = found.iter().flatten().all(|sb| sb.seq == 1);
        if unfinished && (blank | mask(&found)) == self.all() && blank != 0 {
            return self.create(cx);
        }
        if unfinished && blank | mask(&found) != self.all() && sets.is_empty() {
            let missing = bits(self.all() & !blank).next().unwrap_or(0);
            return Err(OpenError::Child(missing as u8));
        }
        let sb = self.believe(&found).ok_or_else(|| {
            if let Some(old) = old_one(&found) {
                let why = format!("leg `{}` is old: it was replaced, or left behind", self.legs[old].name);
                return refused(
                    why,
                    "put the leg that was used last in its place; the others start without it",
                );
            }
            let present = found.iter().flatten().count();
            let why = format!("too few current legs: {present} of {legs} are there, one may be missing");
            refused(why, "add the legs that were used last")
        })?;
        self.adopt(sb, &found, blank)?;
        if bits(self.legs_in()).any(|l| found[l].is_some_and(|other| other.gen != sb.gen)) {
            self.write_superblocks(cx);
            return Ok(Step::Agree);
        }
        Ok(self.exclude(cx))
    }

    /// The superblock that is right: see the module's page.
    fn believe(&self, found: &[Option<Superblock>]) -> Option<Superblock> {
        let mut candidates: Vec<Superblock> = found.iter().flatten().copied().collect();
        candidates.sort_by_key(|sb| std::cmp::Reverse((sb.gen.epoch, sb.seq)));
        if self.planted.stale_leg_believed {
            let mut sb = candidates.first().copied()?;
            for (upto, found) in sb.upto.iter_mut().zip(found) {
                *upto = if found.is_some() { sb.data } else { *upto };
            }
            return Some(sb);
        }
        candidates.into_iter().find(|sb| {
            let full = |leg: usize| sb.upto[leg] == sb.data;
            let fits = |other: &Superblock| other.gen == sb.gen || other.gen == sb.before;
            let agreed = (0..found.len()).all(|l| !full(l) || found[l].is_none_or(|other| fits(&other)));
            let present = (0..found.len()).filter(|&l| full(l) && found[l].is_some()).count();
            agreed && present + 1 >= found.len()
        })
    }

    fn adopt(&mut self, sb: Superblock, found: &[Option<Superblock>], blank: u16) -> Result<(), OpenError> {
        self.members.sb = sb;
        // The floor moves without a new generation: the highest counts, for all legs had flushed before it was written.
        let same = found.iter().flatten().filter(|other| other.gen == sb.gen);
        self.members.sb.floor = same.map(|other| other.floor).max().unwrap_or(sb.floor);
        // So does the list of lost sectors: it grows before a mark moves on, and shrinks after a flush.
        let newest = (0..found.len()).filter(|&l| found[l].is_some_and(|other| other.gen == sb.gen));
        if let Some(l) = newest.max_by_key(|&l| found[l].map(|other| other.seq)) {
            let list = &self.opening.lists[l][usize::from(self.legs[l].slot)];
            self.lost.restore(list, self.legs.len(), self.geometry.data);
        }
        for (leg, found) in found.iter().enumerate() {
            let fits = found.is_some_and(|o| {
                o.gen == sb.gen
                    || o.gen == sb.before && sb.upto[leg] == sb.data
                    || self.planted.stale_leg_believed
            });
            let l = &mut self.legs[leg];
            if fits && sb.upto[leg] != OUT {
                (l.upto, l.durable, l.replaced) = (sb.upto[leg], sb.upto[leg], false);
            } else {
                l.back |= found.is_some() || (self.how.create || l.replaced) && blank >> leg & 1 != 0;
            }
        }
        for leg in bits(!self.legs_in()) {
            self.lost.drop_leg(leg);
        }
        if !self.journaled && !sb.clean {
            if self.not_full() > 0 && !self.how.alone {
                return Err(OpenError::Refused {
                    why: "the array has not ended in order, it has no journal, and a leg is missing or not rebuilt: \
                          blocks of that leg may come back wrong"
                        .into(),
                    remedy: "add the leg, or start with `alone` and check the data".into(),
                });
            }
            self.rebuild.parity_upto = if self.not_full() > 0 { u64::MAX } else { 0 };
        }
        Ok(())
    }
}

/// The only leg that is of an older generation than the newest record says.
fn old_one(found: &[Option<Superblock>]) -> Option<usize> {
    let newest = found.iter().flatten().max_by_key(|sb| (sb.gen.epoch, sb.seq))?;
    let is_old = |sb: &Superblock| sb.gen != newest.gen && sb.gen != newest.before;
    let mut old = (0..found.len()).filter(|&leg| found[leg].as_ref().is_some_and(is_old));
    let only = old.next()?;
    let others = found.iter().flatten().count() - 1;
    (old.next().is_none() && others + 1 >= found.len()).then_some(only)
}

/// The legs that were found.
fn mask(found: &[Option<Superblock>]) -> u16 {
    (0..found.len()).filter(|&l| found[l].is_some()).fold(0, |m, l| m | 1 << l)
}

//! Lists of slots from the least to the most recently used, linked through an array: every change is O(1).
//!
//! The papers keep a time of last access with each slot and search for the oldest (O2-15); the list answers the same.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
}

/// The ends of a list whose slots are linked in a [`Links`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    oldest: u32,
    newest: u32,
}

impl Ends {
    /// An empty list.
    pub const EMPTY: Ends = Ends { oldest: NONE, newest: NONE };

    /// Whether no slot is in the list.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.oldest == NONE
    }

    /// The least recently used slot.
    #[inline]
    pub fn oldest(self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

/// The neighbours of each slot, for any number of lists; a slot is in one of them at most.
#[derive(Clone, Default, Debug)]
pub struct Links {
    links: Vec<Link>,
}

impl Links {
    /// Adds `slot`, which is in no list, as the most recently used.
    #[inline]
    pub fn add(&mut self, ends: &mut Ends, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Link { older: NONE, newer: NONE });
        }
        self.links[slot as usize] = Link { older: ends.newest, newer: NONE };
        match ends.newest {
            NONE => ends.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        ends.newest = slot;
    }

    /// Takes `slot` out of the list that it is in.
    #[inline]
    pub fn remove(&mut self, ends: &mut Ends, slot: u32) {
        let Link { older, newer } = self.links[slot as usize];
        match older {
            NONE => ends.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => ends.newest = older,
            newer => self.links[newer as usize].older = older,
        }
    }

    /// Makes `slot` the most recently used of its list.
    #[inline]
    pub fn touch(&mut self, ends: &mut Ends, slot: u32) {
        if ends.newest != slot {
            self.remove(ends, slot);
            self.add(ends, slot);
        }
    }

    /// The slot of the same list that was used next after `slot`.
    #[inline]
    pub fn newer(&self, slot: u32) -> Option<u32> {
        let newer = self.links[slot as usize].newer;
        (newer != NONE).then_some(newer)
    }

    /// The slots of a list from the least recently used on.
    pub fn iter(&self, ends: Ends) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(ends.oldest(), |&slot| self.newer(slot))
    }
}

/// One list.
#[derive(Clone, Debug)]
pub struct Lru {
    links: Links,
    ends: Ends,
}

impl Default for Lru {
    fn default() -> Lru {
        Lru { links: Links::default(), ends: Ends::EMPTY }
    }
}

impl Lru {
    /// Adds `slot`, which is not in the list, as the most recently used.
    #[inline]
    pub fn add(&mut self, slot: u32) {
        self.links.add(&mut self.ends, slot);
    }

    /// Takes `slot` out.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        self.links.remove(&mut self.ends, slot);
    }

    /// Makes `slot` the most recently used.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        self.links.touch(&mut self.ends, slot);
    }

    /// The least recently used slot.
    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        self.ends.oldest()
    }

    /// The slot that was used next after `slot`.
    #[inline]
    pub fn newer(&self, slot: u32) -> Option<u32> {
        self.links.newer(slot)
    }

    /// The slots from the least recently used on.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.links.iter(self.ends)
    }

    /// Forgets every slot.
    pub fn clear(&mut self) {
        *self = Lru::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The obvious model: a vector in the order of use.
        #[test]
        fn agrees_with_a_vector(uses in prop::collection::vec((0u32..8, any::<bool>()), 0..60)) {
            let mut lru = Lru::default();
            let mut model: Vec<u32> = Vec::new();
            for (slot, remove) in uses {
                match (model.iter().position(|&s| s == slot), remove) {
                    (Some(at), true) => { model.remove(at); lru.remove(slot); }
                    (Some(at), false) => { model.remove(at); model.push(slot); lru.touch(slot); }
                    (None, _) => { model.push(slot); lru.add(slot); }
                }
                prop_assert_eq!(lru.oldest(), model.first().copied());
                prop_assert_eq!(lru.iter().collect::<Vec<_>>(), model.clone());
            }
        }
    }
}

//! A list of slots from the least to the most recently used, linked through two arrays: every change is O(1).
//!
//! The papers keep a time of last access with each slot and search for the oldest (O2-15); the list answers the same.

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
}

/// The list.
#[derive(Clone, Debug)]
pub struct Lru {
    links: Vec<Link>,
    oldest: u32,
    newest: u32,
}

impl Default for Lru {
    fn default() -> Lru {
        Lru { links: Vec::new(), oldest: NONE, newest: NONE }
    }
}

impl Lru {
    /// Adds `slot`, which is not in the list, as the most recently used.
    #[inline]
    pub fn add(&mut self, slot: u32) {
        if self.links.len() <= slot as usize {
            self.links.resize(slot as usize + 1, Link { older: NONE, newer: NONE });
        }
        self.links[slot as usize] = Link { older: self.newest, newer: NONE };
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        self.newest = slot;
    }

    /// Takes `slot` out.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        let Link { older, newer } = self.links[slot as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.links[newer as usize].older = older,
        }
    }

    /// Makes `slot` the most recently used.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.remove(slot);
            self.add(slot);
        }
    }

    /// The least recently used slot.
    #[inline]
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// The slot that was used next after `slot`.
    #[inline]
    pub fn newer(&self, slot: u32) -> Option<u32> {
        let newer = self.links[slot as usize].newer;
        (newer != NONE).then_some(newer)
    }

    /// The slots from the least recently used on.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.oldest(), |&slot| self.newer(slot))
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

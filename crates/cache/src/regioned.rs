//! Lists that know which slots are their oldest `n`: the regions B1 and B2 of the culling cache (O0-7).
//!
//! Of each list the newest slot of the region is kept. When a slot leaves the region the next newer one comes in, so that
//! every change is O(1). What the slots of a region weigh together is kept too. Two lists share one array of places, for a
//! slot is in at most one of them; its place says in which.
//!
//! Cost: 16 bytes for a slot.

use crate::list::NONE;

/// One slot: its neighbours in its list, whether it lies in the region and with which weight it was counted, and which
/// list it is in.
#[derive(Clone, Copy, Debug)]
struct Place {
    older: u32,
    newer: u32,
    weight: u32,
    list: Name,
}

/// Which of two lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// The one.
    First,
    /// The other.
    Second,
}

/// Not in a region.
const OUTSIDE: u32 = u32::MAX;

/// The places of all slots.
#[derive(Clone, Debug)]
pub struct Places(Vec<Place>);

impl Places {
    /// For slots `0..slots`.
    pub fn new(slots: usize) -> Places {
        Places(vec![Place { older: NONE, newer: NONE, weight: OUTSIDE, list: Name::First }; slots])
    }

    /// Whether `slot`, which is in a list, is in the first; and whether it lies in the region of its list.
    #[inline(always)]
    pub fn find(&self, slot: u32) -> (bool, bool) {
        let place = &self.0[slot as usize];
        (place.list == Name::First, place.weight != OUTSIDE)
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.0.len() * size_of::<Place>()
    }
}

/// A list and the region of its oldest slots.
#[derive(Clone, Copy, Debug)]
pub struct Regioned {
    name: Name,
    oldest: u32,
    newest: u32,
    len: u32,
    /// Slots that the region has when the list is long enough.
    limit: u32,
    /// Slots in the region now.
    inside: u32,
    /// The newest slot of the region.
    edge: u32,
    /// Sum of the weights of its slots.
    weight: u64,
}

impl Regioned {
    /// An empty list with a region of the oldest `limit` slots, at least one.
    pub fn new(name: Name, limit: u32) -> Regioned {
        let limit = limit.max(1);
        Regioned { name, oldest: NONE, newest: NONE, len: 0, limit, inside: 0, edge: NONE, weight: 0 }
    }

    /// Slots in the list.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of the weights in the region.
    #[inline(always)]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// `slot` is the newest of the region from now on.
    #[inline(always)]
    fn enter(&mut self, places: &mut [Place], slot: u32, weigh: impl Fn(u32) -> u32) {
        let weight = weigh(slot);
        places[slot as usize].weight = weight;
        self.weight += u64::from(weight);
        self.edge = slot;
    }

    /// A slot of this weight leaves the region: the next one comes in, if there is one.
    #[inline(always)]
    fn give_way(&mut self, places: &mut [Place], weight: u32, weigh: impl Fn(u32) -> u32) {
        self.weight -= u64::from(weight);
        let next = places[self.edge as usize].newer;
        if next == NONE {
            self.inside -= 1;
        } else {
            self.enter(places, next, weigh);
        }
    }

    /// Adds `slot`, which is in no list of these places, as the newest. `weigh` says what a slot weighs that comes into the
    /// region.
    #[inline(always)]
    pub fn push(&mut self, places: &mut Places, slot: u32, weigh: impl Fn(u32) -> u32) {
        let places = &mut places.0[..];
        places[slot as usize] = Place { older: self.newest, newer: NONE, weight: OUTSIDE, list: self.name };
        if self.newest == NONE {
            self.oldest = slot;
        } else {
            places[self.newest as usize].newer = slot;
        }
        self.newest = slot;
        self.len += 1;
        if self.inside < self.limit {
            // Fewer slots than the region has room for: all of them are inside.
            self.inside += 1;
            self.enter(places, slot, weigh);
        }
    }

    /// Takes `slot` out; the next slot comes into the region if it left a place there.
    #[inline(always)]
    pub fn remove(&mut self, places: &mut Places, slot: u32, weigh: impl Fn(u32) -> u32) {
        let places = &mut places.0[..];
        let Place { older, newer, weight, .. } = places[slot as usize];
        if weight != OUTSIDE {
            self.give_way(places, weight, weigh);
            if self.edge == slot {
                self.edge = older;
            }
        }
        if older == NONE {
            self.oldest = newer;
        } else {
            places[older as usize].newer = newer;
        }
        if newer == NONE {
            self.newest = older;
        } else {
            places[newer as usize].older = older;
        }
        self.len -= 1;
    }

    /// Takes the oldest slot out.
    #[inline(always)]
    pub fn pop(&mut self, places: &mut Places, weigh: impl Fn(u32) -> u32) -> Option<u32> {
        let places = &mut places.0[..];
        let slot = self.oldest;
        if slot == NONE {
            return None;
        }
        let Place { newer, weight, .. } = places[slot as usize];
        self.give_way(places, weight, weigh);
        self.oldest = newer;
        if newer == NONE {
            (self.newest, self.edge) = (NONE, NONE);
        } else {
            places[newer as usize].older = NONE;
        }
        self.len -= 1;
        Some(slot)
    }

    /// Makes `slot` the newest.
    #[inline(always)]
    pub fn renew(&mut self, places: &mut Places, slot: u32, weigh: impl Fn(u32) -> u32) {
        let places = &mut places.0[..];
        if self.newest == slot {
            return;
        }
        let Place { older, newer, weight, .. } = places[slot as usize];
        if weight != OUTSIDE {
            self.give_way(places, weight, &weigh);
        }
        // Some slot is newer: it takes the place, and the newest gets a newer one.
        places[newer as usize].older = older;
        if older == NONE {
            self.oldest = newer;
        } else {
            places[older as usize].newer = newer;
        }
        places[self.newest as usize].newer = slot;
        places[slot as usize] = Place { older: self.newest, newer: NONE, weight: OUTSIDE, list: self.name };
        self.newest = slot;
        if self.inside < self.limit {
            self.inside += 1;
            self.enter(places, slot, weigh);
        }
    }

    /// Weighs `slot` again, whose weight has changed.
    #[inline(always)]
    pub fn weigh_again(&mut self, places: &mut Places, slot: u32, weight: u32) {
        let place = &mut places.0[slot as usize];
        if place.weight != OUTSIDE {
            self.weight = self.weight - u64::from(place.weight) + u64::from(weight);
            place.weight = weight;
        }
    }

    /// The slots from the oldest on.
    pub fn iter<'a>(&self, places: &'a Places) -> impl Iterator<Item = u32> + 'a + use<'a> {
        let start = (self.oldest != NONE).then_some(self.oldest);
        let newer = |slot: u32| places.0[slot as usize].newer;
        std::iter::successors(start, move |&slot| Some(newer(slot)).filter(|&s| s != NONE))
    }

    /// Whether the region is the oldest slots and its weight their sum, looking at every slot.
    pub fn is_sound(&self, places: &Places, weigh: impl Fn(u32) -> u32) -> bool {
        let inside = self.limit.min(self.len) as usize;
        let mut weight = 0;
        for (at, slot) in self.iter(places).enumerate() {
            if places.find(slot) != (self.name == Name::First, at < inside) {
                return false;
            }
            if at < inside {
                weight += u64::from(weigh(slot));
            }
        }
        weight == self.weight && self.inside as usize == inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A vector from the oldest to the newest slot, of which the first `limit` are the region.
        #[test]
        fn a_list_with_its_region_agrees_with_a_vector(
            limit in 1u32..5,
            uses in prop::collection::vec((0u32..9, 0u8..4), 0..120),
        ) {
            let mut places = Places::new(9);
            let mut list = Regioned::new(Name::Second, limit);
            let mut model: Vec<u32> = Vec::new();
            let weigh = |slot: u32| slot * slot + 1;
            for (slot, what) in uses {
                match (model.iter().position(|&s| s == slot), what) {
                    (_, 3) => {
                        let oldest = (!model.is_empty()).then(|| model.remove(0));
                        prop_assert_eq!(list.pop(&mut places, weigh), oldest);
                    }
                    (Some(at), 0) => { model.remove(at); list.remove(&mut places, slot, weigh); }
                    (Some(at), _) => {
                        model.remove(at);
                        model.push(slot);
                        list.renew(&mut places, slot, weigh);
                    }
                    (None, _) => { model.push(slot); list.push(&mut places, slot, weigh); }
                }
                prop_assert_eq!(list.iter(&places).collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(list.len() as usize, model.len());
                prop_assert!(list.is_sound(&places, weigh));
                let heavy: u64 = model.iter().take(limit as usize).map(|&s| u64::from(weigh(s))).sum();
                prop_assert_eq!(list.weight(), heavy);
            }
        }
    }
}

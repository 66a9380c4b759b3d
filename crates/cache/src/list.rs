//! Lists of slots from the oldest to the newest, linked through one array: every change is O(1), 8 bytes for a slot.
//!
//! Several lists may share the links of one [`Chain`], for a slot is in at most one of them. [`Regioned`] is a list that
//! also knows which slots are the oldest `n` of it: the regions B1 and B2 of the culling cache (O0-7).

/// No slot.
pub const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
}

/// The links of all slots.
#[derive(Clone, Debug)]
pub struct Chain(Vec<Link>);

/// One list in a [`Chain`].
#[derive(Clone, Copy, Debug)]
pub struct List {
    oldest: u32,
    newest: u32,
    len: u32,
}

impl Default for List {
    fn default() -> List {
        List { oldest: NONE, newest: NONE, len: 0 }
    }
}

impl Chain {
    /// Links for slots `0..slots`.
    pub fn new(slots: usize) -> Chain {
        Chain(vec![Link { older: NONE, newer: NONE }; slots])
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.0.len() * size_of::<Link>()
    }

    /// The slot that came or was moved just before `slot`.
    #[inline(always)]
    pub fn older(&self, slot: u32) -> u32 {
        self.0[slot as usize].older
    }

    /// The slot that came or was moved just after `slot`.
    #[inline(always)]
    pub fn newer(&self, slot: u32) -> u32 {
        self.0[slot as usize].newer
    }
}

impl List {
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

    /// The oldest slot, or [`NONE`].
    #[inline(always)]
    pub fn oldest(&self) -> u32 {
        self.oldest
    }

    /// The newest slot, or [`NONE`].
    #[inline(always)]
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// Adds `slot`, which is in no list of the chain, as the newest.
    #[inline(always)]
    pub fn push(&mut self, chain: &mut Chain, slot: u32) {
        chain.0[slot as usize] = Link { older: self.newest, newer: NONE };
        if self.newest == NONE {
            self.oldest = slot;
        } else {
            chain.0[self.newest as usize].newer = slot;
        }
        self.newest = slot;
        self.len += 1;
    }

    /// Takes `slot` out.
    #[inline(always)]
    pub fn remove(&mut self, chain: &mut Chain, slot: u32) {
        let Link { older, newer } = chain.0[slot as usize];
        if older == NONE {
            self.oldest = newer;
        } else {
            chain.0[older as usize].newer = newer;
        }
        if newer == NONE {
            self.newest = older;
        } else {
            chain.0[newer as usize].older = older;
        }
        self.len -= 1;
    }

    /// Makes `slot` the newest.
    #[inline(always)]
    pub fn renew(&mut self, chain: &mut Chain, slot: u32) {
        if self.newest != slot {
            self.remove(chain, slot);
            self.push(chain, slot);
        }
    }

    /// Adds `slot`, which is in no list of the chain, as the oldest.
    pub fn push_oldest(&mut self, chain: &mut Chain, slot: u32) {
        chain.0[slot as usize] = Link { older: NONE, newer: self.oldest };
        if self.oldest == NONE {
            self.newest = slot;
        } else {
            chain.0[self.oldest as usize].older = slot;
        }
        self.oldest = slot;
        self.len += 1;
    }

    /// Takes the oldest slot out.
    #[inline(always)]
    pub fn pop(&mut self, chain: &mut Chain) -> Option<u32> {
        let slot = self.oldest;
        if slot == NONE {
            return None;
        }
        self.remove(chain, slot);
        Some(slot)
    }

    /// The slots from the oldest on.
    pub fn iter<'a>(&self, chain: &'a Chain) -> impl Iterator<Item = u32> + 'a {
        let start = (self.oldest != NONE).then_some(self.oldest);
        std::iter::successors(start, |&slot| Some(chain.newer(slot)).filter(|&s| s != NONE))
    }
}

/// A list and the region of its oldest slots.
#[derive(Clone, Copy, Debug)]
pub struct Regioned {
    list: List,
    /// Slots that the region has when the list is long enough.
    limit: u32,
    /// Slots in the region now.
    inside: u32,
    /// The newest slot of the region.
    edge: u32,
    /// Sum of the weights of its slots.
    weight: u64,
}

/// For each slot: whether it lies in the region of its list, and with which weight it was counted.
#[derive(Clone, Debug)]
pub struct Weights(Vec<u32>);

/// Not in a region.
const OUTSIDE: u32 = u32::MAX;

impl Weights {
    /// For slots `0..slots`.
    pub fn new(slots: usize) -> Weights {
        Weights(vec![OUTSIDE; slots])
    }

    /// Whether `slot` lies in the region of its list.
    #[inline(always)]
    pub fn is_inside(&self, slot: u32) -> bool {
        self.0[slot as usize] != OUTSIDE
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.0.len() * 4
    }
}

impl Regioned {
    /// An empty list with a region of the oldest `limit` slots, at least one.
    pub fn new(limit: u32) -> Regioned {
        Regioned { list: List::default(), limit: limit.max(1), inside: 0, edge: NONE, weight: 0 }
    }

    /// Slots in the list.
    #[inline(always)]
    pub fn len(&self) -> u32 {
        self.list.len
    }

    /// Whether there is none.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The oldest slot, or [`NONE`].
    #[inline(always)]
    pub fn oldest(&self) -> u32 {
        self.list.oldest
    }

    /// Sum of the weights in the region.
    #[inline(always)]
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The list alone.
    pub fn list(&self) -> &List {
        &self.list
    }

    #[inline(always)]
    fn enter(&mut self, slot: u32, weights: &mut Weights, weigh: impl Fn(u32) -> u32) {
        let weight = weigh(slot);
        weights.0[slot as usize] = weight;
        self.weight += u64::from(weight);
        self.inside += 1;
        self.edge = slot;
    }

    /// Adds `slot` as the newest. `weigh` says what a slot weighs that comes into the region.
    #[inline(always)]
    pub fn push(&mut self, chain: &mut Chain, weights: &mut Weights, slot: u32, weigh: impl Fn(u32) -> u32) {
        self.list.push(chain, slot);
        weights.0[slot as usize] = OUTSIDE;
        if self.inside < self.limit {
            // Fewer slots than the region has room for: all of them are inside.
            self.enter(slot, weights, weigh);
        }
    }

    /// Takes `slot` out; the next slot comes into the region if it left a place there.
    #[inline(always)]
    pub fn remove(
        &mut self,
        chain: &mut Chain,
        weights: &mut Weights,
        slot: u32,
        weigh: impl Fn(u32) -> u32,
    ) {
        let weight = weights.0[slot as usize];
        if weight == OUTSIDE {
            return self.list.remove(chain, slot);
        }
        let next = chain.newer(self.edge);
        self.weight -= u64::from(weight);
        self.inside -= 1;
        if self.edge == slot {
            self.edge = chain.older(slot);
        }
        weights.0[slot as usize] = OUTSIDE;
        self.list.remove(chain, slot);
        if next != NONE {
            self.enter(next, weights, weigh);
        }
    }

    /// Makes `slot` the newest.
    #[inline(always)]
    pub fn renew(&mut self, chain: &mut Chain, weights: &mut Weights, slot: u32, weigh: impl Fn(u32) -> u32) {
        if self.list.newest != slot {
            self.remove(chain, weights, slot, &weigh);
            self.push(chain, weights, slot, weigh);
        }
    }

    /// Weighs `slot` again, whose weight has changed.
    #[inline(always)]
    pub fn weigh_again(&mut self, weights: &mut Weights, slot: u32, weight: u32) {
        let old = weights.0[slot as usize];
        if old != OUTSIDE {
            self.weight = self.weight - u64::from(old) + u64::from(weight);
            weights.0[slot as usize] = weight;
        }
    }

    /// Whether the region is the oldest slots and its weight their sum, looking at every slot.
    pub fn is_sound(&self, chain: &Chain, weights: &Weights, weigh: impl Fn(u32) -> u32) -> bool {
        let inside = self.limit.min(self.list.len) as usize;
        let mut weight = 0;
        for (at, slot) in self.list.iter(chain).enumerate() {
            if weights.is_inside(slot) != (at < inside) {
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
            uses in prop::collection::vec((0u32..9, 0u8..3), 0..120),
        ) {
            let (mut chain, mut weights) = (Chain::new(9), Weights::new(9));
            let mut list = Regioned::new(limit);
            let mut model: Vec<u32> = Vec::new();
            let weigh = |slot: u32| slot * slot + 1;
            for (slot, what) in uses {
                match (model.iter().position(|&s| s == slot), what) {
                    (Some(at), 0) => { model.remove(at); list.remove(&mut chain, &mut weights, slot, weigh); }
                    (Some(at), _) => {
                        model.remove(at);
                        model.push(slot);
                        list.renew(&mut chain, &mut weights, slot, weigh);
                    }
                    (None, _) => { model.push(slot); list.push(&mut chain, &mut weights, slot, weigh); }
                }
                prop_assert_eq!(list.list().iter(&chain).collect::<Vec<_>>(), model.clone());
                prop_assert!(list.is_sound(&chain, &weights, weigh));
                let heavy: u64 = model.iter().take(limit as usize).map(|&s| u64::from(weigh(s))).sum();
                prop_assert_eq!(list.weight(), heavy);
            }
        }
    }
}

//! Lists of slots from the oldest to the newest, linked through one array: every change is O(1), 8 bytes for a slot.
//!
//! Several lists may share the links of one [`Chain`], for a slot is in at most one of them.

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
        let links = &mut chain.0[..];
        links[slot as usize] = Link { older: self.newest, newer: NONE };
        if self.newest == NONE {
            self.oldest = slot;
        } else {
            links[self.newest as usize].newer = slot;
        }
        self.newest = slot;
        self.len += 1;
    }

    /// Takes `slot` out.
    #[inline(always)]
    pub fn remove(&mut self, chain: &mut Chain, slot: u32) {
        let links = &mut chain.0[..];
        let Link { older, newer } = links[slot as usize];
        if older == NONE {
            self.oldest = newer;
        } else {
            links[older as usize].newer = newer;
        }
        if newer == NONE {
            self.newest = older;
        } else {
            links[newer as usize].older = older;
        }
        self.len -= 1;
    }

    /// Makes `slot` the newest.
    #[inline(always)]
    pub fn renew(&mut self, chain: &mut Chain, slot: u32) {
        let links = &mut chain.0[..];
        if self.newest == slot {
            return;
        }
        // Some slot is newer: it takes the place, and the newest gets a newer one.
        let Link { older, newer } = links[slot as usize];
        links[newer as usize].older = older;
        if older == NONE {
            self.oldest = newer;
        } else {
            links[older as usize].newer = newer;
        }
        links[self.newest as usize].newer = slot;
        links[slot as usize] = Link { older: self.newest, newer: NONE };
        self.newest = slot;
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
        let links = &mut chain.0[..];
        let slot = self.oldest;
        if slot == NONE {
            return None;
        }
        let newer = links[slot as usize].newer;
        self.oldest = newer;
        if newer == NONE {
            self.newest = NONE;
        } else {
            links[newer as usize].older = NONE;
        }
        self.len -= 1;
        Some(slot)
    }

    /// The slots from the oldest on.
    pub fn iter<'a>(&self, chain: &'a Chain) -> impl Iterator<Item = u32> + 'a + use<'a> {
        let start = (self.oldest != NONE).then_some(self.oldest);
        std::iter::successors(start, |&slot| Some(chain.newer(slot)).filter(|&s| s != NONE))
    }
}

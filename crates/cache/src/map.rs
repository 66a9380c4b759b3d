//! From the number of a line to its slot: a flat table for devices whose size is known, a hashed one for any number.
//!
//! [`Flat`] has 4 bytes for each line of the device, in chunks that exist once touched: two loads. [`Hashed`] is open
//! addressing with linear probing and deletion by backward shift (Knuth, TAOCP vol. 3, section 6.4, algorithm R), at most
//! half full, 16 bytes for an entry. The hash is a fixed multiplication, so the same numbers give the same table on every
//! machine, and nothing ever iterates over it. In [`Rows`] eight numbers in a row lie side by side.

/// From line numbers to slots.
pub trait LineMap: Send {
    /// The slot of `line`.
    fn get(&self, line: u64) -> Option<u32>;
    /// Puts `line`, which is not in the map, into it.
    fn insert(&mut self, line: u64, slot: u32);
    /// Takes `line` out, if it is there.
    fn remove(&mut self, line: u64);
    /// Bytes of memory.
    fn bytes(&self) -> usize;
}

const CHUNK_BITS: u32 = 12;
const CHUNK: usize = 1 << CHUNK_BITS;

/// A table indexed by line number. 0 stands for no slot, so that fresh memory is an empty table.
#[derive(Clone, Debug, Default)]
pub struct Flat {
    chunks: Vec<Option<Box<[u32; CHUNK]>>>,
    touched: usize,
}

impl Flat {
    /// A table for lines `0..lines`.
    pub fn new(lines: u64) -> Flat {
        let chunks = lines.div_ceil(CHUNK as u64) as usize;
        Flat { chunks: vec![None; chunks], touched: 0 }
    }

    #[cold]
    fn touch(&mut self, chunk: usize) -> &mut [u32; CHUNK] {
        self.touched += 1;
        let fresh: Box<[u32]> = vec![0; CHUNK].into();
        self.chunks[chunk].insert(fresh.try_into().expect("a chunk has its length"))
    }
}

impl LineMap for Flat {
    #[inline(always)]
    fn get(&self, line: u64) -> Option<u32> {
        let chunk = self.chunks.get((line >> CHUNK_BITS) as usize)?.as_ref()?;
        chunk[line as usize & (CHUNK - 1)].checked_sub(1)
    }

    #[inline(always)]
    fn insert(&mut self, line: u64, slot: u32) {
        let chunk = (line >> CHUNK_BITS) as usize;
        let slots = match &mut self.chunks[chunk] {
            Some(slots) => slots,
            None => self.touch(chunk),
        };
        slots[line as usize & (CHUNK - 1)] = slot + 1;
    }

    #[inline(always)]
    fn remove(&mut self, line: u64) {
        if let Some(Some(slots)) = self.chunks.get_mut((line >> CHUNK_BITS) as usize) {
            slots[line as usize & (CHUNK - 1)] = 0;
        }
    }

    fn bytes(&self) -> usize {
        self.chunks.len() * size_of::<Option<Box<[u32; CHUNK]>>>() + self.touched * CHUNK * 4
    }
}

/// One place of a [`Hashed`] map. A key is the line number and 1, so that 0 is a free place.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    key: u64,
    slot: u32,
}

/// A hashed table in which `2^ROW` numbers in a row have homes side by side.
#[derive(Clone, Debug)]
pub struct Table<const ROW: u32> {
    places: Vec<Place>,
    shift: u32,
    len: usize,
}

/// 2^64 divided by the golden ratio: Knuth's multiplicative hashing.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// A hashed table.
pub type Hashed = Table<0>;

/// A hashed table for numbers of which many in a row are asked for one after the other: less memory is touched for them.
pub type Rows = Table<3>;

impl<const ROW: u32> Table<ROW> {
    /// A table that takes `entries` without growing.
    pub fn new(entries: usize) -> Self {
        let places = (2 * entries).max(16).next_power_of_two();
        Table { places: vec![Place::default(); places], shift: 64 - places.trailing_zeros(), len: 0 }
    }

    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        let in_row = key & ((1 << ROW) - 1);
        ((key >> ROW).wrapping_mul(GOLDEN) >> self.shift ^ in_row) as usize
    }

    /// Where `key` is, or the free place where a search for it ends.
    #[inline(always)]
    fn find(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = self.home(key);
        while self.places[at].key != key && self.places[at].key != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Self::new(self.places.len());
        for place in self.places.iter().filter(|p| p.key != 0) {
            larger.insert(place.key - 1, place.slot);
        }
        *self = larger;
    }
}

impl<const ROW: u32> LineMap for Table<ROW> {
    #[inline(always)]
    fn get(&self, line: u64) -> Option<u32> {
        let place = self.places[self.find(line + 1)];
        (place.key != 0).then_some(place.slot)
    }

    #[inline(always)]
    fn insert(&mut self, line: u64, slot: u32) {
        if 2 * self.len >= self.places.len() {
            self.grow();
        }
        let at = self.find(line + 1);
        self.len += usize::from(self.places[at].key == 0);
        self.places[at] = Place { key: line + 1, slot };
    }

    #[inline(always)]
    fn remove(&mut self, line: u64) {
        let mask = self.places.len() - 1;
        let mut hole = self.find(line + 1);
        if self.places[hole].key == 0 {
            return;
        }
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place.key == 0 {
                break;
            }
            // An entry may move into the hole unless its home lies behind it.
            let from_home = at.wrapping_sub(self.home(place.key)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.places[hole] = place;
                hole = at;
            }
        }
        self.places[hole].key = 0;
    }

    fn bytes(&self) -> usize {
        self.places.len() * size_of::<Place>()
    }
}

/// Either kind, chosen when a cache is built.
#[derive(Clone, Debug)]
pub enum AnyMap {
    /// Indexed by number.
    Flat(Flat),
    /// Hashed.
    Hashed(Hashed),
}

impl LineMap for AnyMap {
    #[inline]
    fn get(&self, line: u64) -> Option<u32> {
        match self {
            AnyMap::Flat(map) => map.get(line),
            AnyMap::Hashed(map) => map.get(line),
        }
    }
    #[inline]
    fn insert(&mut self, line: u64, slot: u32) {
        match self {
            AnyMap::Flat(map) => map.insert(line, slot),
            AnyMap::Hashed(map) => map.insert(line, slot),
        }
    }
    #[inline]
    fn remove(&mut self, line: u64) {
        match self {
            AnyMap::Flat(map) => map.remove(line),
            AnyMap::Hashed(map) => map.remove(line),
        }
    }
    fn bytes(&self) -> usize {
        match self {
            AnyMap::Flat(map) => map.bytes(),
            AnyMap::Hashed(map) => map.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// All maps against the obvious one. Few numbers, in a row or far apart, and a small table, so that runs of places meet and wrap.
        #[test]
        fn maps_agree_with_a_tree(
            changes in prop::collection::vec((0u64..40, 0u32..1000, any::<bool>()), 0..400),
            apart in prop::sample::select(vec![0, 2, 8]),
        ) {
            let (mut flat, mut tree) = (Flat::new(40 << 8), BTreeMap::new());
            let (mut hashed, mut rows) = (Hashed::new(0), Rows::new(0));
            for (line, slot, put) in changes {
                let line = line << apart;
                if put && !tree.contains_key(&line) {
                    tree.insert(line, slot);
                    flat.insert(line, slot);
                    hashed.insert(line, slot);
                    rows.insert(line, slot);
                } else {
                    tree.remove(&line);
                    flat.remove(line);
                    hashed.remove(line);
                    rows.remove(line);
                }
                for line in (0..40).map(|l| l << apart) {
                    prop_assert_eq!(flat.get(line), tree.get(&line).copied());
                    prop_assert_eq!(hashed.get(line), tree.get(&line).copied());
                    prop_assert_eq!(rows.get(line), tree.get(&line).copied());
                }
                prop_assert_eq!((hashed.len(), rows.len()), (tree.len(), tree.len()));
            }
        }
    }
}

//! LRU stack distance of page accesses: how many other pages are touched between two accesses to the same one.
//!
//! A page that comes back after d others hits in an LRU cache of more than d pages, so one pass gives the misses of every size
//! (Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies", IBM Systems Journal 1970). Each page's latest
//! access is a mark on a line of positions, and a distance is the number of marks behind a position. When the positions run out, the marks
//! move together, so memory is about 20 B per distinct page however long the trace. Source: Bennett and Kruskal, "LRU stack processing"
//! (IBM J. R&D 1975), with Olken's compaction.
//!
//! *Where we differ:* they sum over a tree of two children a node. Ours has sixteen, and each child has the sum of the marks before it in its
//! node, one line of the processor's cache: a count reads one number for each level, none of which waits for another, and a mark that goes
//! is taken from the children behind it. Marks come at the end only, behind which nobody counts, so a child's sum is set when its first
//! position is reached, and to set a mark changes no sum. Pages side by side whose latest accesses are side by side too have the same distance, for
//! each that moves to the end comes behind the others: they are one count. Cost: O(log n) with a base of 16, four levels for a million pages.

/// Positions of a word of marks.
const WORD: u32 = 64;
/// Children of a node, as a power of two.
const FAN: u32 = 4;
/// Of these bits the lowest say which child.
const CHILD: usize = (1 << FAN) - 1;

/// All bits of the children behind a place.
const BEHIND: [[u32; 1 << FAN]; 1 << FAN] = {
    let mut masks = [[0; 1 << FAN]; 1 << FAN];
    let mut at = 0;
    while at < 1 << (2 * FAN) {
        let (place, other) = (at >> FAN, at & CHILD);
        masks[place][other] = if other > place { u32::MAX } else { 0 };
        at += 1;
    }
    masks
};

/// For each child of a node the marks in the children before it.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Node([u32; 1 << FAN]);

/// Stack distances of a sequence of pages numbered from 0.
pub struct StackDistance {
    /// Position of each page's latest access, from 1; 0 for none.
    last: Vec<u32>,
    /// Page at each position.
    page_at: Vec<u32>,
    /// A bit for each position: set where it is some page's latest access.
    marks: Vec<u64>,
    /// The lowest level first; its children are words of marks.
    levels: Vec<Vec<Node>>,
    next: u32,
    live: u32,
    /// Accesses by distance.
    counts: Vec<u64>,
    reused: u64,
}

impl StackDistance {
    /// For pages `0..pages`; `None` beyond 2^30 pages (4 TiB of footprint).
    pub fn new(pages: u64) -> Option<StackDistance> {
        let pages = usize::try_from(pages).ok().filter(|&n| n <= 1 << 30)?;
        let words = (2 * pages + WORD as usize).div_ceil(WORD as usize);
        let (mut levels, mut children) = (Vec::new(), words);
        while children > 1 {
            children = children.div_ceil(1 << FAN);
            levels.push(vec![Node([0; 1 << FAN]); children]);
        }
        Some(StackDistance {
            last: vec![0; pages],
            page_at: vec![0; words * WORD as usize],
            marks: vec![0; words],
            levels,
            next: 0,
            live: 0,
            counts: vec![0; pages],
            reused: 0,
        })
    }

    /// The first position of `word` is reached: sums begin there.
    fn enter(&mut self, word: usize) {
        self.marks[word] = 0;
        let (mut child, mut before) = (word, word.checked_sub(1).map_or(0, |w| self.marks[w].count_ones()));
        for level in &mut self.levels {
            let (node, place) = (child >> FAN, child & CHILD);
            if place > 0 {
                let node = &mut level[node].0;
                node[place] = node[place - 1] + before;
                return;
            }
            level[node].0[0] = 0;
            before += node.checked_sub(1).map_or(0, |n| level[n].0[CHILD]);
            child = node;
        }
    }

    /// Marks for `count` pages from `page` on at the next positions.
    #[inline]
    fn push(&mut self, mut page: u32, mut count: u32) {
        while count > 0 {
            let (at, word) = (self.next, (self.next / WORD) as usize);
            if at.is_multiple_of(WORD) {
                self.enter(word);
            }
            let within = count.min(WORD - at % WORD);
            self.marks[word] |= (u64::MAX >> (WORD - within)) << (at % WORD);
            let pages = page as usize..(page + within) as usize;
            let places = self.page_at[at as usize..].iter_mut().zip(&mut self.last[pages]);
            for ((page_at, last), number) in places.zip(0..) {
                (*page_at, *last) = (page + number, at + number + 1);
            }
            (self.next, self.live) = (at + within, self.live + within);
            (page, count) = (page + within, count - within);
        }
    }

    /// Takes the marks at `count` positions of a word from `at` on away, all of which are set; says how many are behind them.
    #[inline]
    fn take(&mut self, at: u32, count: u32) -> u32 {
        let (mut child, bit) = ((at / WORD) as usize, at % WORD);
        let mut before = (self.marks[child] & !(u64::MAX << bit)).count_ones();
        self.marks[child] ^= (u64::MAX >> (WORD - count)) << bit;
        for level in &mut self.levels {
            let (node, place) = (&mut level[child >> FAN].0, child & CHILD);
            before += node[place];
            // Sums of positions that are not reached yet are set when they are.
            for (sum, mask) in node.iter_mut().zip(&BEHIND[place]) {
                *sum = sum.wrapping_sub(count & mask);
            }
            child >>= FAN;
        }
        self.live -= count;
        self.live - before
    }

    /// Moves the marks together at the front.
    #[cold]
    fn compact(&mut self) {
        let words = self.next.div_ceil(WORD) as usize;
        (self.next, self.live) = (0, 0);
        for word in 0..words {
            let mut left = self.marks[word];
            while left != 0 {
                let at = word * WORD as usize + left.trailing_zeros() as usize;
                left &= left - 1;
                self.push(self.page_at[at], 1);
            }
        }
    }

    /// The next accesses: `count` pages from `first` on, one after the other.
    #[inline]
    pub fn access(&mut self, first: u64, count: u64) {
        let (mut page, end) = (first as usize, (first + count) as usize);
        if self.next as usize + (end - page) > self.page_at.len() {
            self.compact();
        }
        while page < end {
            let last = self.last[page];
            // Up to the end of the word, or all that come for the first time.
            let (room, step) =
                if last == 0 { (usize::MAX, 0) } else { ((WORD - (last - 1) % WORD) as usize, 1) };
            let others = self.last[page + 1..end].iter().take(room - 1).zip(1..);
            let alike =
                1 + others.take_while(|(other, number)| **other == last + number * step).count() as u32;
            if last == 0 {
                self.push(page as u32, alike);
            } else {
                let are_latest = last + alike - 1 == self.next;
                let behind = if are_latest { 0 } else { self.take(last - 1, alike) };
                if !are_latest {
                    self.push(page as u32, alike);
                }
                self.counts[(behind + alike - 1) as usize] += u64::from(alike);
                self.reused += u64::from(alike);
            }
            page += alike as usize;
        }
    }

    /// Accesses so far that hit in an LRU cache of so many pages, for each of `sizes` in rising order.
    pub fn hits(&self, sizes: &[u64]) -> Vec<u64> {
        let (mut from, mut sum) = (0, 0);
        let below = |&size: &u64| {
            let to = self.counts.len().min(usize::try_from(size).unwrap_or(usize::MAX)).max(from);
            sum += self.counts[from..to].iter().sum::<u64>();
            from = to;
            sum
        };
        sizes.iter().map(below).collect()
    }

    /// Accesses to a page seen before.
    pub fn reused(&self) -> u64 {
        self.reused
    }

    /// The smallest distance that `num` in `den` of the reuses do not exceed; `None` without reuse.
    pub fn quantile(&self, num: u64, den: u64) -> Option<u64> {
        let wanted = (u128::from(self.reused) * u128::from(num)).div_ceil(u128::from(den)) as u64;
        let mut seen = 0;
        self.counts.iter().enumerate().find_map(|(d, &n)| {
            seen += n;
            (n > 0 && seen >= wanted).then_some(d as u64)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distances by a list of pages, the latest first.
    #[derive(Default)]
    struct List(Vec<u64>);

    impl List {
        fn access(&mut self, page: u64) -> Option<u64> {
            let at = self.0.iter().position(|&p| p == page);
            at.map(|at| self.0.remove(at));
            self.0.insert(0, page);
            at.map(|at| at as u64)
        }
    }

    #[test]
    fn several_levels_agree_with_a_list() {
        let (pages, mut rng) = (9000, nandu_base::Rng::new(3));
        let (mut fast, mut list) = (StackDistance::new(pages).expect("few pages"), List::default());
        assert_eq!(fast.levels.len(), 3);
        let (mut moved_together, mut counts) = (0, vec![0; pages as usize]);
        for i in 0..20_000 {
            let first = rng.below(pages).min(rng.below(pages)).min(rng.below(pages));
            let (count, before) = ((1 + rng.below(5)).min(pages - first), fast.next);
            fast.access(first, count);
            (first..first + count).filter_map(|page| list.access(page)).for_each(|d| counts[d as usize] += 1);
            assert!(i % 500 > 0 || fast.counts == counts, "access {i}");
            moved_together += u32::from(fast.next < before);
        }
        assert!(moved_together > 2 && fast.counts == counts, "{moved_together}");
    }

    proptest::proptest! {
        #[test]
        fn agrees_with_a_list_moved_to_front(runs in proptest::collection::vec((0u64..200, 1u64..140), 0..200)) {
            let mut fast = StackDistance::new(200).unwrap();
            let (mut list, mut all) = (List::default(), Vec::new());
            let mut counts = vec![0; 200];
            for (first, count) in runs {
                let count = count.min(200 - first);
                for distance in (first..first + count).filter_map(|page| list.access(page)) {
                    counts[distance as usize] += 1;
                    all.push(distance);
                }
                fast.access(first, count);
                assert_eq!(fast.counts, counts);
            }
            all.sort_unstable();
            assert_eq!(fast.quantile(1, 2), (!all.is_empty()).then(|| all[(all.len() - 1) / 2]));
            assert_eq!(fast.quantile(1, 1), all.last().copied());
            let sizes = [0, 1, 2, 7, 39, 40, 1000];
            let below = |size: &u64| all.iter().filter(|d| *d < size).count() as u64;
            assert_eq!(fast.hits(&sizes), sizes.iter().map(below).collect::<Vec<_>>());
        }
    }
}

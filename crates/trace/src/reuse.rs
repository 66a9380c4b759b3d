//! LRU stack distance of page accesses: how many other pages are touched between two accesses to the same one.
//!
//! A page that comes back after d others hits in an LRU cache of more than d pages, so one pass gives the misses of every size
//! (Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies", IBM Systems Journal 1970). Each page's latest
//! access is a mark on a line of positions; a Fenwick tree over words of 64 marks counts those behind a position in O(log n). When the
//! positions run out, the marks move together, so memory is about 20 B per distinct page however long the trace. Source: Bennett and
//! Kruskal, "LRU stack processing" (IBM J. R&D 1975), with Olken's compaction.

/// Stack distances of a sequence of pages numbered from 0.
pub struct StackDistance {
    /// Position of each page's latest access, from 1; 0 for none.
    last: Vec<u32>,
    /// Page at each position.
    page_at: Vec<u32>,
    /// A bit for each position: set where it is some page's latest access.
    marks: Vec<u64>,
    /// Fenwick tree over the number of marks in each word.
    tree: Vec<u32>,
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
        let words = (2 * pages + 64).div_ceil(64);
        Some(StackDistance {
            last: vec![0; pages],
            page_at: vec![0; words * 64],
            marks: vec![0; words],
            tree: vec![0; words + 1],
            next: 0,
            live: 0,
            counts: vec![0; pages],
            reused: 0,
        })
    }

    /// Sets or clears the mark at a position; `by` is 1 or its negative.
    #[inline]
    fn change(&mut self, at: u32, by: u32) {
        self.marks[at as usize / 64] ^= 1 << (at % 64);
        let mut node = at as usize / 64 + 1;
        while let Some(sum) = self.tree.get_mut(node) {
            *sum = sum.wrapping_add(by);
            node += node & node.wrapping_neg();
        }
    }

    /// Marks at this position and before.
    #[inline]
    fn marks_up_to(&self, at: u32) -> u32 {
        let within = self.marks[at as usize / 64] & (u64::MAX >> (63 - at % 64));
        let mut sum = within.count_ones();
        let mut node = at as usize / 64;
        while node > 0 {
            sum = sum.wrapping_add(self.tree[node]);
            node &= node - 1;
        }
        sum
    }

    /// Moves the marks together at the front.
    #[cold]
    fn compact(&mut self) {
        let mut kept = 0u32;
        for at in 0..self.next {
            let page = self.page_at[at as usize];
            if self.last[page as usize] == at + 1 {
                self.page_at[kept as usize] = page;
                kept += 1;
                self.last[page as usize] = kept;
            }
        }
        for (word, marks) in self.marks.iter_mut().enumerate() {
            *marks = match (kept as usize).saturating_sub(word * 64) {
                0 => 0,
                n if n < 64 => (1 << n) - 1,
                _ => u64::MAX,
            };
        }
        self.tree.fill(0);
        for node in 1..self.tree.len() {
            self.tree[node] += self.marks[node - 1].count_ones();
            let parent = node + (node & node.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] += self.tree[node];
            }
        }
        self.next = kept;
    }

    /// The next access; returns its distance, `None` for a page not seen before.
    #[inline]
    pub fn access(&mut self, page: u64) -> Option<u64> {
        if self.next as usize >= self.page_at.len() {
            self.compact();
        }
        let page = page as usize;
        let last = self.last[page];
        if last != 0 && last == self.next {
            // The page of the access before.
            self.counts[0] += 1;
            self.reused += 1;
            return Some(0);
        }
        let distance = (last != 0).then(|| {
            let distance = self.live - self.marks_up_to(last - 1);
            self.change(last - 1, u32::MAX);
            self.live -= 1;
            u64::from(distance)
        });
        self.page_at[self.next as usize] = page as u32;
        self.change(self.next, 1);
        self.live += 1;
        self.next += 1;
        self.last[page] = self.next;
        if let Some(d) = distance {
            self.counts[d as usize] += 1;
            self.reused += 1;
        }
        distance
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

    proptest::proptest! {
        #[test]
        fn agrees_with_a_list_moved_to_front(pages in proptest::collection::vec(0u64..40, 0..1500)) {
            let mut fast = StackDistance::new(40).unwrap();
            let mut list: Vec<u64> = Vec::new();
            let mut all = Vec::new();
            for page in pages {
                let at = list.iter().position(|&p| p == page);
                if let Some(at) = at {
                    list.remove(at);
                    all.push(at as u64);
                }
                list.insert(0, page);
                assert_eq!(fast.access(page), at.map(|d| d as u64));
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

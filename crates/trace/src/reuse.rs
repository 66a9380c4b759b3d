//! LRU stack distance of page accesses: how many other pages are touched between two accesses to the same one.
//!
//! A page that comes back after d others hits in an LRU cache of more than d pages. Each page's latest access is a
//! mark on a line of positions; a Fenwick tree counts the marks behind a position in O(log n). When the positions run
//! out, the marks move together, so memory is about 28 B per distinct page however long the trace. Source: Bennett and
//! Kruskal, "LRU stack processing" (IBM J. R&D 1975), with Olken's compaction.

/// Stack distances of a sequence of pages numbered from 0.
pub struct StackDistance {
    /// Position of each page's latest access, from 1; 0 for none.
    last: Vec<u32>,
    /// Page at each position, from 1.
    page_at: Vec<u32>,
    /// Fenwick tree over positions: 1 where the position is some page's latest access.
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
        let positions = 2 * pages + 64;
        Some(StackDistance {
            last: vec![0; pages],
            page_at: vec![0; positions + 1],
            tree: vec![0; positions + 1],
            next: 1,
            live: 0,
            counts: vec![0; pages],
            reused: 0,
        })
    }

    fn change(&mut self, mut at: u32, by: u32) {
        while (at as usize) < self.tree.len() {
            self.tree[at as usize] = self.tree[at as usize].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    fn marks_up_to(&self, mut at: u32) -> u32 {
        let mut sum = 0u32;
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at as usize]);
            at &= at - 1;
        }
        sum
    }

    /// Moves the marks together at the front.
    fn compact(&mut self) {
        let mut kept = 0u32;
        for at in 1..self.next {
            let page = self.page_at[at as usize];
            if self.last[page as usize] == at {
                kept += 1;
                self.last[page as usize] = kept;
                self.page_at[kept as usize] = page;
            }
        }
        self.tree.fill(0);
        for at in 1..=kept as usize {
            self.tree[at] += 1;
            let parent = at + (at & at.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] += self.tree[at];
            }
        }
        for at in kept as usize + 1..self.tree.len() {
            let parent = at + (at & at.wrapping_neg());
            if parent < self.tree.len() {
                self.tree[parent] += self.tree[at];
            }
        }
        self.next = kept + 1;
    }

    /// The next access; returns its distance, `None` for a page not seen before.
    pub fn access(&mut self, page: u64) -> Option<u64> {
        if self.next as usize >= self.page_at.len() {
            self.compact();
        }
        let page = page as usize;
        let last = self.last[page];
        let distance = (last != 0).then(|| {
            let distance = self.live - self.marks_up_to(last);
            self.change(last, u32::MAX);
            self.live -= 1;
            u64::from(distance)
        });
        self.last[page] = self.next;
        self.page_at[self.next as usize] = page as u32;
        self.change(self.next, 1);
        self.live += 1;
        self.next += 1;
        if let Some(d) = distance {
            self.counts[d as usize] += 1;
            self.reused += 1;
        }
        distance
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
        }
    }
}

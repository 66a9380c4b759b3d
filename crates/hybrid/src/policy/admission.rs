//! Who is copied up: which pages that are read from the disk or a lower ring go to the top ring (S4-5, W4-2).
//!
//! With *always* all of them, as the paper has it; with *never* none. *second-touch* and *hot* count reads from below in a
//! table with as many entries as the rings have pages, at the page's number modulo its length: one that is taken by another page
//! begins anew. At the second, or at the given count, the page is admitted and begins anew. *hot* with more than two is in the
//! manner of dm-cache's `smq`, which promotes what has climbed in a queue of hot spots.
//!
//! Cost: 5 bytes for each page of the rings, where there is something to count.

use crate::config::Promote;

/// The rule and its table.
#[derive(Debug)]
pub(crate) struct Admission {
    rule: Promote,
    seen: Vec<(u32, u8)>,
}

impl Admission {
    /// For rings of `slots` pages.
    pub fn new(rule: Promote, slots: usize) -> Admission {
        let counts = matches!(rule, Promote::SecondTouch | Promote::Hot { .. });
        Admission { rule, seen: vec![(u32::MAX, 0); if counts { slots } else { 0 }] }
    }

    /// Whether `page`, which was read from below, is copied up.
    pub fn admits(&mut self, page: u32) -> bool {
        let hits = match self.rule {
            Promote::Always => return true,
            Promote::Never => return false,
            Promote::SecondTouch => 2,
            Promote::Hot { hits } => hits,
        };
        let count = self.touch(page);
        let is_hot = *count >= hits;
        if is_hot {
            *count = 0;
        }
        is_hot
    }

    /// `page` is used, and is not there to be copied: that counts as a read from below.
    pub fn touched(&mut self, page: u32) {
        if !self.seen.is_empty() {
            self.touch(page);
        }
    }

    /// Counts a touch of `page`; the touches so far.
    fn touch(&mut self, page: u32) -> &mut u8 {
        let at = page as usize % self.seen.len();
        let (of, count) = &mut self.seen[at];
        (*of, *count) = (page, if *of == page { count.saturating_add(1) } else { 1 });
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(rule: Promote, pages: &[u32]) -> Vec<bool> {
        let mut admission = Admission::new(rule, 10);
        pages.iter().map(|&page| admission.admits(page)).collect()
    }

    #[test]
    fn a_page_is_admitted_at_its_nth_read_from_below() {
        assert_eq!(admitted(Promote::SecondTouch, &[3, 3, 3, 3]), [false, true, false, true]);
        assert_eq!(
            admitted(Promote::Hot { hits: 3 }, &[3, 3, 4, 3, 4, 3]),
            [false, false, false, true, false, false]
        );
        assert_eq!(admitted(Promote::SecondTouch, &[3, 13, 3]), [false; 3], "13 takes the entry of 3");
        assert_eq!(admitted(Promote::Never, &[3, 3]), [false; 2]);
        assert_eq!(admitted(Promote::Always, &[3]), [true]);
    }
}

//! How often pages were read from below, as far as a table remembers: it has as many entries as the rings have pages, and a page's entry is at
//! its number modulo that. One that is taken by another page begins anew.
//!
//! Cost: 5 bytes for each page of the rings.

/// The table.
#[derive(Clone, Debug)]
pub struct Touches(Vec<(u32, u8)>);

impl Touches {
    /// For rings of `slots` pages.
    pub fn new(slots: usize) -> Touches {
        Touches(vec![(u32::MAX, 0); slots])
    }

    /// Counts a touch of `page`; the touches so far, this one included, at most 255.
    pub fn touch(&mut self, page: u32) -> &mut u8 {
        let at = page as usize % self.0.len();
        let (of, count) = &mut self.0[at];
        (*of, *count) = (page, if *of == page { count.saturating_add(1) } else { 1 });
        count
    }

    /// Counts a touch of `page`. Whether it was touched `hits` times; it begins anew then.
    pub fn is_hot(&mut self, page: u32, hits: u8) -> bool {
        let count = self.touch(page);
        let is_hot = *count >= hits;
        if is_hot {
            *count = 0;
        }
        is_hot
    }
}

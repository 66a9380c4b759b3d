//! Every point, once. The answer holds for the whole space; the cost is its size.

use super::{Known, Search, SearchKind};
use crate::space::Space;

pub(super) const KIND: SearchKind = SearchKind {
    name: "exhaustive",
    summary: "every point",
    shards: true,
    begin: || Box::new(Exhaustive { asked: false }),
};

struct Exhaustive {
    asked: bool,
}

impl Search for Exhaustive {
    fn next(&mut self, space: &Space, _known: &Known) -> Vec<usize> {
        match std::mem::replace(&mut self.asked, true) {
            false => (0..space.len()).collect(),
            true => Vec::new(),
        }
    }
}

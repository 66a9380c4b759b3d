//! Ways to choose the points that are measured. One file each, one line in [`SEARCHES`].
//!
//! A search is asked for points, and asked again when all of them are known, until it wants no more. What it asks for may depend
//! on figures and on nothing else, so that the same sweep asks the same however often it is interrupted.

mod exhaustive;

use crate::error::{SweepError, known};
use crate::metric::Figure;
use crate::space::Space;

/// Figures of the points that are known, in the order of the metrics; `None` where a point was not measured.
pub type Known = Vec<Option<Box<[Option<Figure>]>>>;

/// A way to choose points.
pub trait Search {
    /// The points to measure next; none when it has seen enough. A point may be asked for again: it is not run again.
    fn next(&mut self, space: &Space, known: &Known) -> Vec<usize>;
}

/// A search that can be asked for by name.
pub struct SearchKind {
    /// The name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Whether what it asks for does not depend on figures, so that each shard can do its part alone.
    pub shards: bool,
    /// Begins one.
    pub begin: fn() -> Box<dyn Search>,
}

/// All searches.
pub const SEARCHES: [SearchKind; 1] = [exhaustive::KIND];

/// The search called `name`; the exhaustive one without a name.
pub fn by_name(name: Option<&str>) -> Result<&'static SearchKind, SweepError> {
    static ALL: [SearchKind; 1] = SEARCHES;
    let Some(name) = name else { return Ok(&ALL[0]) };
    ALL.iter().find(|s| s.name == name).ok_or_else(|| {
        let right = known(name, ALL.iter().map(|s| s.name));
        SweepError::bad("search", format!("unknown search `{name}`"), right)
    })
}

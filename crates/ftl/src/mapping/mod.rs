//! Address translation: where each logical page lies. One file per scheme.

mod page_map;

pub use page_map::PageMap;

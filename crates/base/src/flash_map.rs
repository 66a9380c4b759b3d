//! The blocks of a flash device at one moment, for a picture.

/// Valid pages and erases of every block, plane after plane.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FlashMap {
    /// Blocks of a plane.
    pub blocks_per_plane: u32,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// Pages with valid data, by block.
    pub valid: Vec<u32>,
    /// Erases so far, by block.
    pub erases: Vec<u32>,
}

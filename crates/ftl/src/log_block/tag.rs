//! What the out-of-band record of a page says, beside the sequence number of its program.
//!
//! One word: the logical page (32 bits), what the page is (4 bits), the role of its block (2 bits), and the block's
//! *birth*, its number in the order in which the plane opened blocks (24 bits). Role and birth are the block's header: every
//! page repeats them, so a torn first page takes nothing away.

/// What a block was opened for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Role {
    /// A data block that a full merge fills: it counts from its last page on.
    Merged = 0,
    /// A data block of a logical block that had none: it counts from its first page on.
    Direct = 1,
    /// A log block whose pages may come in any order.
    Log = 2,
    /// A log block (or replacement block) whose page `i` is page `i` of its logical block.
    Sequential = 3,
}

/// What a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// The logical page; of a mark, the first page of its logical block.
    pub page: u32,
    /// The block's role.
    pub role: Role,
    /// The block's number in the order of opening.
    pub birth: u32,
    /// No data: a gap below a page with data.
    pub is_filler: bool,
    /// No data but the names of unmapped pages.
    pub is_mark: bool,
    /// The last page that a merge copies: with it the block is a data block.
    pub is_last: bool,
}

/// Births that fit.
const BIRTHS: u32 = 1 << 24;

impl Tag {
    /// The bit of the word that says that a page is a mark.
    pub const MARK: u64 = 1 << 33;

    /// The word for the out-of-band record. Panics after 2^24 blocks opened in a plane, which no flash endures.
    pub fn word(self) -> u64 {
        assert!(self.birth < BIRTHS, "a plane has opened {} blocks: more than any flash endures", self.birth);
        u64::from(self.page)
            | u64::from(self.is_filler) << 32
            | if self.is_mark { Tag::MARK } else { 0 }
            | u64::from(self.is_last) << 34
            | (self.role as u64) << 36
            | u64::from(self.birth) << 40
    }

    /// The tag in a word of an out-of-band record.
    pub fn from_word(word: u64) -> Tag {
        let role = match word >> 36 & 3 {
            0 => Role::Merged,
            1 => Role::Direct,
            2 => Role::Log,
            _ => Role::Sequential,
        };
        Tag {
            page: word as u32,
            role,
            birth: (word >> 40) as u32,
            is_filler: word >> 32 & 1 == 1,
            is_mark: word >> 33 & 1 == 1,
            is_last: word >> 34 & 1 == 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_reads_back_as_it_was_written() {
        for role in [Role::Merged, Role::Direct, Role::Log, Role::Sequential] {
            for bits in 0..8 {
                let [is_filler, is_mark, is_last] = [1, 2, 4].map(|bit| bits & bit != 0);
                let tag = Tag { page: 0xDEAD_BEEF, role, birth: BIRTHS - 1, is_filler, is_mark, is_last };
                assert_eq!(Tag::from_word(tag.word()), tag);
            }
        }
    }
}

//! Pages: what a request concerns of each, and their size.

use nandu_base::{ByteLen, ByteOffset, Cx, Overlay, SECTOR};

/// The size of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageShape {
    /// log2 of its bytes.
    pub bits: u32,
    /// Sectors of a page.
    pub sectors: u32,
}

/// The sectors of one page that a request concerns.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// First sector within the page.
    pub first: u32,
    /// Sectors.
    pub count: u32,
}

/// A request taken apart: perhaps a part of a page, then whole pages, then perhaps a part of one.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// First page concerned.
    pub first: u32,
    /// One past the last.
    pub end: u32,
    /// Sectors of the first page that come before the request.
    skip: u32,
    /// Sectors of the last page that the request reaches; all of them when it ends on a page boundary.
    reach: u32,
}

impl PageShape {
    /// Takes a request apart.
    #[inline(always)]
    pub fn pages(&self, offset: ByteOffset, len: ByteLen) -> Pages {
        let mask = (1 << self.bits) - 1;
        let last = offset.0 + len.0 - 1;
        Pages {
            first: (offset.0 >> self.bits) as u32,
            end: (last >> self.bits) as u32 + 1,
            skip: ((offset.0 & mask) / SECTOR) as u32,
            reach: ((last & mask) / SECTOR) as u32 + 1,
        }
    }

    /// The sectors of page `lpn`; `None` for all.
    #[inline(always)]
    pub fn part(&self, pages: &Pages, lpn: u32) -> Option<Part> {
        let first = if lpn == pages.first { pages.skip } else { 0 };
        let end = if lpn + 1 == pages.end { pages.reach } else { self.sectors };
        (end - first != self.sectors).then_some(Part { first, count: end - first })
    }

    /// The whole of a page, or the part of it.
    #[inline(always)]
    pub fn sectors_of(&self, part: Option<Part>) -> Part {
        part.unwrap_or(Part { first: 0, count: self.sectors })
    }

    /// A page of the drive's own, which `fill` writes: its bytes are held until it is programmed. None where nothing is stored.
    pub fn own(&self, cx: &mut Cx<'_>, fill: impl FnOnce(&mut [u8])) -> Option<Overlay> {
        cx.medium.as_ref()?;
        let len = ByteLen(1 << self.bits);
        let payload = cx.pool.allocate_metadata(len);
        fill(cx.pool.bytes_mut(payload, len));
        Some(Overlay { first: 0, count: self.sectors, payload })
    }

    /// Whether the request consists of whole pages.
    #[inline(always)]
    pub fn is_whole(&self, pages: &Pages) -> bool {
        pages.skip == 0 && pages.reach == self.sectors
    }

    /// Bytes of the request before page `lpn`.
    #[inline(always)]
    pub fn before(&self, pages: &Pages, lpn: u32) -> ByteLen {
        let start = u64::from(lpn - pages.first) << self.bits;
        ByteLen(start.saturating_sub(u64::from(pages.skip) * SECTOR))
    }
}

/// Puts words at the front of a page, in little endian.
pub(super) fn put_words(words: &[u32], page: &mut [u8]) {
    for (bytes, word) in page.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

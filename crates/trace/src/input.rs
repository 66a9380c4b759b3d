//! Decoded text in blocks of about 1 MiB, whatever compression holds it.
//!
//! Compression is recognised by its magic bytes. Only one block of decoded text exists at a time; a block always ends
//! with a newline, the rest of a cut line is carried into the next one.

use crate::error::TraceError;
use crate::spool;
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};

/// Bytes of decoded text in a block, unless a single line is longer.
pub const BLOCK: usize = 1 << 20;
/// Longest line that is read, in bytes.
pub const LINE_LIMIT: usize = 1 << 16;

/// How a file is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// Zstandard, RFC 8878.
    Zstd,
    /// gzip, RFC 1952.
    Gzip,
    /// bzip2.
    Bzip2,
    /// xz.
    Xz,
}

impl Compression {
    /// The name people and files use.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::Plain => "plain",
            Compression::Zstd => "zstd",
            Compression::Gzip => "gzip",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
        }
    }

    /// Recognises the magic bytes at the start of a file.
    pub fn sniff(head: &[u8]) -> Compression {
        match head {
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Compression::Zstd,
            [0x1F, 0x8B, ..] => Compression::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            [0xFD, b'7', b'z', b'X', ..] => Compression::Xz,
            _ => Compression::Plain,
        }
    }
}

/// Most memory a dictionary of xz takes, in KiB: its largest preset takes 64 MiB.
const XZ_MEMORY_KIB: u32 = 256 << 10;

/// Where a block of text stands.
pub struct Place<'a> {
    /// What errors call the source.
    pub source_name: &'a str,
    /// Lines before the block.
    pub lines_before: u64,
}

/// Decoded text of a trace, block by block.
pub struct Blocks<'r> {
    source: Box<dyn Read + 'r>,
    source_name: String,
    compression: Compression,
    buffer: Vec<u8>,
    /// End of the text in `buffer`; what lies beyond is space.
    filled: usize,
    /// End of the block handed out last; the carried rest starts here.
    used: usize,
    /// Lines handed out before the current block.
    lines: u64,
    /// Something was read: a mark of byte order can no longer come.
    begun: bool,
    ended: bool,
}

/// What some programs put before text in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

impl<'r> Blocks<'r> {
    /// Opens `raw`, whose first bytes tell the compression. `source_name` appears in errors.
    ///
    /// # Errors
    /// [`TraceError::Io`] when the first bytes cannot be read.
    pub fn new(mut raw: Box<dyn Read + 'r>, source_name: &str) -> Result<Blocks<'r>, TraceError> {
        let mut head = Vec::new();
        raw.by_ref()
            .take(4)
            .read_to_end(&mut head)
            .map_err(|error| TraceError::Io { source_name: source_name.into(), error })?;
        let compression = Compression::sniff(&head);
        let whole = Cursor::new(head).chain(raw);
        let io_error = |error| TraceError::Io { source_name: source_name.into(), error };
        let source: Box<dyn Read + 'r> = match compression {
            Compression::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(
                BufReader::with_capacity(1 << 17, whole),
                true,
                XZ_MEMORY_KIB,
            )),
            Compression::Plain => Box::new(whole),
            Compression::Zstd => Box::new(zstd::Decoder::new(whole).map_err(io_error)?),
            Compression::Gzip => {
                Box::new(flate2::bufread::MultiGzDecoder::new(BufReader::with_capacity(1 << 17, whole)))
            }
            Compression::Bzip2 => {
                Box::new(bzip2::bufread::MultiBzDecoder::new(BufReader::with_capacity(1 << 17, whole)))
            }
        };
        Ok(Blocks {
            source,
            source_name: source_name.into(),
            compression,
            buffer: Vec::new(),
            filled: 0,
            used: 0,
            lines: 0,
            begun: false,
            ended: false,
        })
    }

    /// How the source is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// True when the text begins with `magic`.
    ///
    /// # Errors
    /// `Io`, `Truncated` or `Corrupt`.
    pub fn holds(&mut self, magic: &[u8]) -> Result<bool, TraceError> {
        self.fill()?;
        Ok(self.buffer[..self.filled].starts_with(magic))
    }

    /// Everything not yet handed out, in a file without a name: for the one format that is not read from its start to its end.
    ///
    /// # Errors
    /// `Io`, `Truncated` or `Corrupt`.
    pub fn spooled(&mut self) -> Result<File, TraceError> {
        self.fill()?;
        let rest = &self.buffer[self.used..self.filled];
        spool::spooled(&mut rest.chain(&mut *self.source)).map_err(|error| self.read_error(error))
    }

    /// At most `limit` bytes from the start, without taking them.
    ///
    /// # Errors
    /// `Io`, `Truncated` or `Corrupt`.
    pub fn head(&mut self, limit: usize) -> Result<&[u8], TraceError> {
        self.fill()?;
        Ok(&self.buffer[..self.filled.min(limit)])
    }

    /// What is not yet taken, at least `least` bytes (at most a block) unless the source ends before.
    ///
    /// # Errors
    /// `Io`, `Truncated` or `Corrupt`.
    pub fn bytes(&mut self, least: usize) -> Result<&[u8], TraceError> {
        if self.filled - self.used < least {
            self.buffer.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
            self.fill()?;
        }
        Ok(&self.buffer[self.used..self.filled])
    }

    /// Takes `count` of the bytes that [`Blocks::bytes`] showed.
    pub fn take(&mut self, count: usize) {
        debug_assert!(count <= self.filled - self.used);
        self.used += count;
    }

    /// What errors call the source.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// Whole lines of at most `limit` bytes from the start, without taking them; a longer first line is cut.
    ///
    /// # Errors
    /// `Io`, `Truncated` or `Corrupt`.
    pub fn sample(&mut self, limit: usize) -> Result<&[u8], TraceError> {
        self.fill()?;
        let head = &self.buffer[..self.filled.min(limit)];
        match memchr::memrchr(b'\n', head) {
            Some(last) if self.filled > limit => Ok(&head[..=last]),
            _ => Ok(head),
        }
    }

    /// The next whole lines, never without a newline at the end, and where they stand; `None` when the text has ended.
    ///
    /// # Errors
    /// `Io`, `Truncated`, `Corrupt` or `LineTooLong`.
    pub fn next_block(&mut self) -> Result<Option<(&[u8], Place<'_>)>, TraceError> {
        if self.used > 0 {
            self.lines += memchr::memchr_iter(b'\n', &self.buffer[..self.used]).count() as u64;
            self.buffer.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
        }
        self.fill()?;
        if self.filled == 0 {
            return Ok(None);
        }
        if self.ended && self.buffer[self.filled - 1] != b'\n' {
            if self.filled == self.buffer.len() {
                self.buffer.push(b'\n');
            } else {
                self.buffer[self.filled] = b'\n';
            }
            self.filled += 1;
        }
        match memchr::memrchr(b'\n', &self.buffer[..self.filled]) {
            Some(last) => {
                self.used = last + 1;
                let place = Place { source_name: &self.source_name, lines_before: self.lines };
                Ok(Some((&self.buffer[..self.used], place)))
            }
            None => Err(TraceError::LineTooLong {
                source_name: self.source_name.clone(),
                line: self.lines + 1,
                limit: LINE_LIMIT,
            }),
        }
    }

    /// Reads until the buffer is full or the text ends.
    fn fill(&mut self) -> Result<(), TraceError> {
        if self.buffer.is_empty() {
            self.buffer.resize(BLOCK, 0);
        }
        while !self.ended && self.filled < self.buffer.len() {
            match self.source.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.read_error(error)),
            }
        }
        if !self.begun && self.buffer[..self.filled].starts_with(BYTE_ORDER_MARK) {
            self.buffer.copy_within(BYTE_ORDER_MARK.len()..self.filled, 0);
            self.filled -= BYTE_ORDER_MARK.len();
        }
        self.begun = true;
        Ok(())
    }

    /// Tells a cut or damaged stream from a failing disk.
    fn read_error(&self, error: io::Error) -> TraceError {
        let (source_name, compression) = (self.source_name.clone(), self.compression.name());
        let from_system = error.raw_os_error().is_some();
        if self.compression == Compression::Plain || from_system {
            TraceError::Io { source_name, error }
        } else if error.kind() == io::ErrorKind::UnexpectedEof {
            TraceError::Truncated { source_name, compression }
        } else {
            TraceError::Corrupt { source_name, compression, detail: error.to_string() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn text_of(raw: &[u8]) -> Result<Vec<u8>, TraceError> {
        let mut blocks = Blocks::new(Box::new(raw), "test")?;
        let mut out = Vec::new();
        while let Some((block, _)) = blocks.next_block()? {
            assert_eq!(block.last(), Some(&b'\n'));
            out.extend_from_slice(block);
        }
        Ok(out)
    }

    fn long_text() -> Vec<u8> {
        (0..300_000u32)
            .flat_map(|n| format!("{n} {}\n", n.wrapping_mul(2_654_435_761)).into_bytes())
            .collect()
    }

    fn packed(text: &[u8]) -> [Vec<u8>; 3] {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text).unwrap();
        let mut bz = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        bz.write_all(text).unwrap();
        [zstd::encode_all(text, 1).unwrap(), gz.finish().unwrap(), bz.finish().unwrap()]
    }

    #[test]
    fn a_mark_of_byte_order_is_no_text() {
        let marked = [BYTE_ORDER_MARK, b"1 2\n", BYTE_ORDER_MARK, b"3\n"].concat();
        assert_eq!(text_of(&marked).unwrap(), marked[3..]);
        for raw in packed(&marked) {
            assert_eq!(text_of(&raw).unwrap(), marked[3..]);
        }
        assert_eq!(text_of(BYTE_ORDER_MARK).unwrap(), b"");
    }

    #[test]
    fn every_compression_gives_the_same_text() {
        let text = long_text();
        assert_eq!(text_of(&text).unwrap(), text);
        for raw in packed(&text) {
            assert_eq!(text_of(&raw).unwrap(), text);
        }
    }

    #[test]
    fn a_cut_stream_is_an_error_wherever_it_is_cut() {
        for raw in packed(b"1 2 3\n4 5 6\n") {
            for cut in 4..raw.len() {
                let got = text_of(&raw[..cut]);
                assert!(matches!(got, Err(TraceError::Truncated { .. })), "cut at {cut}: {got:?}");
            }
        }
        for raw in packed(&long_text()) {
            let got = text_of(&raw[..raw.len() / 2]);
            assert!(matches!(got, Err(TraceError::Truncated { .. })), "{got:?}");
        }
    }

    /// "1 2 3\n4 5 6\n" as xz 5.4 packs it, with CRC-64.
    const XZ: [u8; 68] = [
        0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00, 0x00, 0x04, 0xE6, 0xD6, 0xB4, 0x46, 0x02, 0x00, 0x21, 0x01, 0x16,
        0x00, 0x00, 0x00, 0x74, 0x2F, 0xE5, 0xA3, 0x01, 0x00, 0x0B, 0x31, 0x20, 0x32, 0x20, 0x33, 0x0A, 0x34,
        0x20, 0x35, 0x20, 0x36, 0x0A, 0x00, 0x46, 0x1C, 0xDB, 0x13, 0x72, 0xCC, 0xAD, 0xE5, 0x00, 0x01, 0x24,
        0x0C, 0xA6, 0x18, 0xD8, 0xD8, 0x1F, 0xB6, 0xF3, 0x7D, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59, 0x5A,
    ];

    #[test]
    fn xz_is_read_whole_and_damage_is_seen() {
        assert_eq!(text_of(&XZ).unwrap(), b"1 2 3\n4 5 6\n");
        // Streams that were joined.
        assert_eq!(text_of(&[XZ, XZ].concat()).unwrap(), b"1 2 3\n4 5 6\n".repeat(2));
        for cut in 4..XZ.len() {
            let got = text_of(&XZ[..cut]);
            assert!(matches!(got, Err(TraceError::Truncated { .. })), "cut at {cut}: {got:?}");
        }
        for at in [8, 20, 30, 50, 60] {
            let mut raw = XZ;
            raw[at] ^= 4;
            assert!(matches!(text_of(&raw), Err(TraceError::Corrupt { .. })), "byte {at}");
        }
    }

    #[test]
    fn a_damaged_stream_is_an_error() {
        // gzip and bzip2 carry a checksum; a zstd frame need not, so damage may decode there.
        for mut raw in packed(&long_text()).into_iter().skip(1) {
            let middle = raw.len() / 2;
            raw[middle..middle + 64].fill(0x55);
            assert!(text_of(&raw).is_err());
        }
    }

    #[test]
    fn a_last_line_without_newline_gets_one() {
        assert_eq!(text_of(b"1\n2").unwrap(), b"1\n2\n");
        assert_eq!(text_of(b"").unwrap(), b"");
        let full = vec![b'\n'; BLOCK - 1].into_iter().chain([b'7']).collect::<Vec<_>>();
        assert_eq!(text_of(&full).unwrap().len(), BLOCK + 1);
    }

    #[test]
    fn a_line_without_end_is_an_error() {
        assert!(matches!(text_of(&vec![b'x'; BLOCK + 10]), Err(TraceError::LineTooLong { line: 1, .. })));
    }
}

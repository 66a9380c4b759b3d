//! Timed reads of a real file or block device. Nothing here can write: the file is opened for reading only.
//!
//! Reads bypass the page cache (`O_DIRECT`), so that the device is measured and not memory. The device's own cache and
//! read-ahead are its own; whoever chooses the offsets defeats them.

use nandu_base::ByteLen;
use nandu_base::bytebuf::{ALIGN, ByteBuf};
use rustix::fs::{OFlags, fstat};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// A file or device that is only read.
#[derive(Debug)]
pub struct Target {
    file: File,
    len: ByteLen,
    holes: bool,
}

/// Why a target cannot be measured.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {why}")]
pub struct ProbeError {
    path: String,
    why: String,
    /// What would be right.
    pub remedy: &'static str,
}

/// A buffer that direct reads go to.
#[derive(Debug)]
pub struct Buffer(ByteBuf);

impl Buffer {
    /// A buffer of `len` bytes.
    pub fn new(len: ByteLen) -> Buffer {
        Buffer(ByteBuf::zeroed(len.0 as usize))
    }
}

impl Target {
    /// Opens `path` for direct reads.
    ///
    /// # Errors
    /// It is not there, may not be read, is shorter than `at_least`, or its file system has no direct I/O.
    pub fn open(path: &Path, at_least: ByteLen) -> Result<Target, ProbeError> {
        let fail = |why: String, remedy| ProbeError { path: path.display().to_string(), why, remedy };
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((OFlags::DIRECT | OFlags::CLOEXEC).bits() as i32);
        let mut file = options.open(path).map_err(|error| fail(error.to_string(), remedy(&error)))?;
        let unusable = |error: io::Error| fail(error.to_string(), "name a regular file or a block device");
        let len = file.seek(SeekFrom::End(0)).map_err(unusable)?;
        if len < at_least.0 {
            let why = format!("it has {len} bytes");
            return Err(fail(why, "name a file or device of at least 8 MiB, better one of gigabytes"));
        }
        let stat = fstat(&file).map_err(|error| unusable(error.into()))?;
        let regular = file.metadata().map_err(unusable)?.is_file();
        let target =
            Target { file, len: ByteLen(len), holes: regular && (stat.st_blocks as u64) < len / 512 };
        let mut buffer = Buffer::new(ByteLen(ALIGN as u64));
        target
            .read(&mut buffer, 0, ByteLen(ALIGN as u64))
            .map_err(|error| fail(format!("it cannot be read: {error}"), remedy(&error)))?;
        Ok(target)
    }

    /// Its size in bytes.
    pub fn len(&self) -> ByteLen {
        self.len
    }

    /// Whether there is nothing in it; never the case.
    pub fn is_empty(&self) -> bool {
        self.len.0 == 0
    }

    /// Whether parts of it have no place on the device: reading them costs nothing.
    pub fn has_holes(&self) -> bool {
        self.holes
    }

    /// Reads `len` bytes at `offset` and says how long it took. Offset and length are multiples of 4 KiB.
    ///
    /// # Errors
    /// What the read says; `UnexpectedEof` at the end.
    pub fn read(&self, buffer: &mut Buffer, offset: u64, len: ByteLen) -> io::Result<Duration> {
        // SAFETY: the buffer is ours alone, and nobody else knows it.
        let into = unsafe { buffer.0.slice_mut(0, len.0 as usize) };
        let start = Instant::now();
        self.file.read_exact_at(into, offset)?;
        Ok(start.elapsed())
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "name a file or block device that is there",
        ErrorKind::PermissionDenied => "give this user the right to read it",
        ErrorKind::InvalidInput => {
            "its file system has no direct I/O: name a file on a disk, or the device itself"
        }
        _ => "name a regular file or a block device",
    }
}

//! Standard input as a trace, as often as it is asked for.
//!
//! It can be read once only, but a command may want a trace several times: for several workloads, for the points of a sweep. So its
//! bytes are written to a file without a name in the folder for temporary files, as they come in, and read from there. The
//! file goes away with the process.

use crate::error::TraceError;
use crate::load::{LoadOptions, parse_reader};
use crate::trace::Trace;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::sync::OnceLock;

/// What results and errors call it.
pub const NAME: &str = "standard input";

/// Reads the trace on standard input.
///
/// # Errors
/// As [`crate::load()`].
pub fn load_stdin(options: &LoadOptions) -> Result<Trace, TraceError> {
    static SPOOLED: OnceLock<Result<File, (io::ErrorKind, String)>> = OnceLock::new();
    let file =
        SPOOLED.get_or_init(|| spooled(&mut io::stdin().lock()).map_err(|e| (e.kind(), e.to_string())));
    let failed = |error| TraceError::Io { source_name: NAME.into(), error };
    let file = file.as_ref().map_err(|(kind, text)| failed(io::Error::new(*kind, text.clone())))?;
    parse_reader(Box::new(FromStart { file, at: 0 }), NAME, options)
}

/// All of `source` in a file without a name.
fn spooled(source: &mut dyn Read) -> io::Result<File> {
    let mut file = unnamed(&std::env::temp_dir())?;
    io::copy(source, &mut file)?;
    Ok(file)
}

/// A new file in `folder` that only this process can open.
fn unnamed(folder: &std::path::Path) -> io::Result<File> {
    for turn in 0u32.. {
        let path = folder.join(format!("nandu-stdin-{}-{turn}", std::process::id()));
        match OpenOptions::new().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && turn < 1000 => {}
            Err(e) => return Err(e),
        }
    }
    unreachable!("the loop returns")
}

/// Reads a file from its start, wherever others have read it.
struct FromStart<'f> {
    file: &'f File,
    at: u64,
}

impl Read for FromStart<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spooled_is_read_again_and_again() {
        let text = b"0 0 8 8 1\n5 0 16 8 1\n".repeat(40_000);
        let file = spooled(&mut &text[..]).unwrap();
        for _ in 0..2 {
            let reader = Box::new(FromStart { file: &file, at: 0 });
            let t = parse_reader(reader, NAME, &LoadOptions::default()).unwrap();
            assert_eq!((t.records.len(), t.meta.source.as_str()), (80_000, NAME));
        }
    }
}

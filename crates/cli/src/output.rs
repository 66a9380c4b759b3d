//! Where results go: stdout, and files that are complete or absent.

use crate::failure::Failure;
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes `text` to stdout. A reader that has gone away (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes `value` to stdout as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(|e| Failure::failed(format!("JSON: {e}")))?;
    text.push('\n');
    print(&text)
}

/// Refuses early what could not be written at the end of a long run.
pub fn check_writable(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::input(format!("{}: is a directory; name a file in it", path.display())));
    }
    match folder(path) {
        folder if folder.is_dir() => Ok(()),
        folder => {
            Err(Failure::input(format!("{}: there is no directory {}", path.display(), folder.display())))
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Writes the file `path` by `fill`: under another name beside it, renamed when it is complete.
pub fn write_file<T>(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check_writable(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let part = Part(folder(path).join(format!(".{name}.{}.part", std::process::id())));
    let failed = |error: io::Error| Failure::unwritable(path, &error);
    let mut out = BufWriter::new(File::create(&part.0).map_err(failed)?);
    let value = fill(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    fs::rename(&part.0, path).map_err(failed)?;
    Ok(value)
}

/// Removes what a process that was killed while it wrote has left in a folder of its own.
pub fn remove_parts(folder: &Path) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::unwritable(folder, &error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".part") {
            fs::remove_file(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

/// A file that goes away unless it was renamed.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

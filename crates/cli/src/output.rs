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
    if path.as_os_str() == "-" {
        let message = "-: name a file; /dev/stdout writes to the output, ./- to a file of that name";
        return Err(Failure::input(message));
    }
    if path.is_dir() {
        return Err(Failure::input(format!("{}: is a directory; name a file in it", path.display())));
    }
    let target = target(path)?;
    match folder(&target) {
        folder if folder.is_dir() => Ok(()),
        folder => {
            Err(Failure::input(format!("{}: there is no directory {}", path.display(), folder.display())))
        }
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Most symbolic links in a row, as the system has it.
const LINKS: usize = 40;

/// The file that `path` leads to: a symbolic link is followed, also one to a file that is not there yet.
fn target(path: &Path) -> Result<PathBuf, Failure> {
    let mut at = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::read_link(&at) {
            Ok(next) if !is_open(&at) => at = folder(&at).join(next),
            _ => return Ok(at),
        }
    }
    Err(Failure::input(format!("{}: symbolic links that lead nowhere", path.display())))
}

/// Whether `path` stands for a file that some process has open, as /dev/stdout does in the end: it has no name to rename to.
fn is_open(path: &Path) -> bool {
    path.starts_with("/proc")
}

/// Writes the file `path` by `fill`: under another name beside it, renamed when it is complete. What is there and is no
/// regular file, a pipe or a device, is written to as it is.
pub fn write_file<T>(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    check_writable(path)?;
    let failed = |error: io::Error| Failure::unwritable(path, &error);
    let target = target(path)?;
    if is_open(&target) || fs::metadata(&target).is_ok_and(|m| !m.is_file()) {
        let mut out = BufWriter::new(File::options().append(true).open(&target).map_err(failed)?);
        let value = fill(&mut out)?;
        out.flush().map_err(failed)?;
        return Ok(value);
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let part = Part(folder(&target).join(format!(".{name}.{}.part", std::process::id())));
    let mut out = BufWriter::new(File::create(&part.0).map_err(failed)?);
    let value = fill(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    fs::rename(&part.0, &target).map_err(failed)?;
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::fs::{symlink, FileTypeExt};

    fn write(path: &Path, text: &str) -> Result<(), Failure> {
        write_file(path, |out| out.write_all(text.as_bytes()).map_err(|e| Failure::unwritable(path, &e)))
    }

    fn empty(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("nandu-output-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn a_link_is_followed_and_stays_a_link() {
        let folder = empty("link");
        fs::create_dir(folder.join("sub")).unwrap();
        // One to a file that is there, one to a file that is not there yet, by way of a second link.
        fs::write(folder.join("old"), "old and longer").unwrap();
        symlink("old", folder.join("a")).unwrap();
        symlink("sub/new", folder.join("b")).unwrap();
        symlink(folder.join("b"), folder.join("c")).unwrap();
        for (link, file) in [("a", "old"), ("b", "sub/new"), ("c", "sub/new")] {
            write(&folder.join(link), link).unwrap();
            assert_eq!(fs::read_to_string(folder.join(file)).unwrap(), link);
            assert!(folder.join(link).symlink_metadata().unwrap().is_symlink(), "{link}");
        }
        symlink("round", folder.join("round")).unwrap();
        assert_eq!(write(&folder.join("round"), "x").unwrap_err().code, crate::failure::INPUT);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 6, "nothing else is left");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_pipe_is_written_to_and_stays_a_pipe() {
        let folder = empty("pipe");
        let pipe = folder.join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = {
            let pipe = pipe.clone();
            std::thread::spawn(move || {
                let mut text = String::new();
                File::open(pipe).unwrap().read_to_string(&mut text).map(|_| text).unwrap()
            })
        };
        write(&pipe, "through").unwrap();
        assert_eq!(reader.join().unwrap(), "through");
        assert!(pipe.metadata().unwrap().file_type().is_fifo());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_dash_is_no_file() {
        assert!(check_writable(Path::new("-")).unwrap_err().message.contains("/dev/stdout"));
        assert!(check_writable(Path::new("./-")).is_ok());
    }
}

//! Files that a command writes: each is complete or absent.
//!
//! A command says what it will write and what it reads ([`allow`]) before it begins: nothing replaces an input, or a file that is not of
//! the kind that is written there, unless `--force` says so.

use crate::failure::Failure;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

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

/// What a file is that a command writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A page with plots.
    Page,
    /// A line for each request of a run.
    RequestLog,
    /// What the lanes of the devices did.
    Timeline,
    /// The points of a sweep as JSON.
    Points,
    /// The points of a sweep as Parquet.
    PointsTable,
    /// The winning stack of a search.
    Winner,
    /// The JSON of a command.
    Json,
    /// A case of the verified simulation.
    Case,
    /// A trace. Nothing says who wrote one, and recordings are not made again: each is somebody's own.
    Trace,
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Kind::Page => "a page",
            Kind::RequestLog => "a log of requests",
            Kind::Timeline => "a timeline",
            Kind::Points => "the points of a sweep",
            Kind::PointsTable => "a table of points",
            Kind::Winner => "the winner of a search",
            Kind::Json => "a result as JSON",
            Kind::Case => "a case",
            Kind::Trace => "a trace",
        }
    }

    /// Whether a file that begins and ends like this was written as such by Nandu.
    fn wrote(self, head: &[u8], tail: &[u8]) -> bool {
        let has = |text: &str| head.windows(text.len()).any(|part| part == text.as_bytes());
        match self {
            Kind::Page => has("<meta name=\"generator\" content=\"nandu\">"),
            Kind::RequestLog => head.starts_with(b"request,export,op,offset,bytes,arrival_ns,"),
            Kind::Timeline => head.starts_with(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":["),
            Kind::Points => head.starts_with(b"{\n  \"sweep\": "),
            Kind::PointsTable => {
                let mark = b"nandu.sweep.schema";
                head.starts_with(b"PAR1") && tail.windows(mark.len()).any(|part| part == mark)
            }
            Kind::Winner => head.starts_with(b"# ") && has(", the best of ") && has("nandu run THIS "),
            Kind::Json => [&b"{\n  \"schema\": "[..], b"[\n  {\n    \"schema\": "]
                .iter()
                .any(|begin| head.starts_with(begin)),
            Kind::Case => head.starts_with(b"case = "),
            Kind::Trace => false,
        }
    }
}

/// Bytes at each end of a file by which its kind is told.
const TOLD_BY: u64 = 16 << 10;

/// Decides whether a command that reads `inputs` may write `outputs`: those that can be written at all, that are no input, and
/// where nothing else stands than what Nandu wrote as the same kind of file. With `force` the last two are not asked.
pub fn allow(outputs: &[(&Path, Kind)], inputs: &[&Path], force: bool) -> Result<(), Failure> {
    let mut places = Vec::new();
    for &(path, kind) in outputs {
        check_writable(path)?;
        let target = target(path)?;
        if is_open(&target) || fs::metadata(&target).is_ok_and(|m| !m.is_file()) {
            continue;
        }
        let place = place(&target);
        if places.contains(&place) {
            return Err(Failure::input(format!("{}: two outputs would go to this file", path.display())));
        }
        places.push(place.clone());
        if force {
            continue;
        }
        let refuse = |why: String| {
            let message = format!("{}: {why}; name another file, or replace it with --force", path.display());
            Err(Failure::input(message))
        };
        if inputs.iter().any(|input| input.is_file() && self::place(input) == place) {
            return refuse("this command reads the file".into());
        }
        if !is_replaceable(&target, kind).map_err(|e| Failure::unreadable(path, &e))? {
            return refuse(match kind {
                Kind::Trace => "the file is there, and no trace says that Nandu wrote it".into(),
                _ => format!("the file is there and is not {} that Nandu wrote", kind.words()),
            });
        }
    }
    Ok(())
}

/// A name for the file at `path` that no other path to it differs from.
fn place(path: &Path) -> PathBuf {
    let whole = path.canonicalize();
    whole.unwrap_or_else(|_| {
        let folder = folder(path).canonicalize().unwrap_or_else(|_| folder(path).into());
        folder.join(path.file_name().unwrap_or_default())
    })
}

/// Whether nothing stands at `path`, an empty file, or what Nandu wrote as `kind`.
pub fn is_replaceable(path: &Path, kind: Kind) -> io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let len = file.metadata()?.len();
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    Read::by_ref(&mut file).take(TOLD_BY).read_to_end(&mut head)?;
    file.seek(io::SeekFrom::Start(len.saturating_sub(TOLD_BY)))?;
    file.take(TOLD_BY).read_to_end(&mut tail)?;
    Ok(len == 0 || kind.wrote(&head, &tail))
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

/// Removes what a process that was killed while it wrote files of these names has left in a folder.
pub fn remove_parts(folder: &Path, names: &[&str]) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::unwritable(folder, &error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let process = name.strip_prefix('.').and_then(|name| name.strip_suffix(".part"));
        let is_left = process.and_then(|name| name.rsplit_once('.')).is_some_and(|(of, process)| {
            names.contains(&of) && !process.is_empty() && process.bytes().all(|b| b.is_ascii_digit())
        });
        if is_left {
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
    use std::os::unix::fs::{FileTypeExt, symlink};

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
        assert_eq!(write(&folder.join("round"), "x").unwrap_err().kind, crate::failure::Kind::Input);
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
    fn nothing_replaces_an_input_or_what_is_not_its_own_kind() {
        let folder = empty("allow");
        let at = |name: &str| folder.join(name);
        let page = "<!DOCTYPE html>\n<meta name=\"generator\" content=\"nandu\">\n";
        for (name, text) in [("mine.toml", "[device.a]\n"), ("page", page), ("empty", "")] {
            fs::write(at(name), text).unwrap();
        }
        symlink("mine.toml", at("link")).unwrap();
        fs::hard_link(at("page"), at("other")).unwrap();
        let allowed = |name: &str, kind, inputs: &[&str], force| {
            let inputs: Vec<PathBuf> = inputs.iter().map(|i| at(i)).collect();
            let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
            let path = at(name);
            allow(&[(&path, kind)], &inputs, force).map_err(|f| (f.kind, f.message))
        };
        for name in ["page", "empty", "new"] {
            assert_eq!(allowed(name, Kind::Page, &["mine.toml", "gone"], false), Ok(()), "{name}");
        }
        for (name, kind, inputs, why) in [
            ("mine.toml", Kind::Page, &[][..], "is not a page that Nandu wrote"),
            ("link", Kind::Winner, &[], "is not the winner of a search"),
            ("page", Kind::RequestLog, &[], "is not a log of requests"),
            ("page", Kind::Trace, &[], "no trace says that Nandu wrote it"),
            ("link", Kind::Page, &["mine.toml"], "this command reads the file"),
            ("page", Kind::Page, &["page"], "this command reads the file"),
        ] {
            let (fault, message) = allowed(name, kind, inputs, false).unwrap_err();
            assert!(fault.is_input() && message.contains(why), "{name}: {message}");
            assert!(message.ends_with("or replace it with --force"), "{message}");
            assert_eq!(allowed(name, kind, inputs, true), Ok(()));
        }
        let (a, b) = (at("new"), at("new"));
        let twice = allow(&[(&a, Kind::Page), (&b, Kind::RequestLog)], &[], true);
        assert!(twice.unwrap_err().message.contains("two outputs"));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_dash_is_no_file() {
        assert!(check_writable(Path::new("-")).unwrap_err().message.contains("/dev/stdout"));
        assert!(check_writable(Path::new("./-")).is_ok());
    }
}

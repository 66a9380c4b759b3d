//! Where results go: stdout, and files that are complete or absent.
//!
//! A command says what it will write and what it reads ([`allow`]) before it begins: nothing replaces an input, or a file that is not of
//! the kind that is written there, unless `--force` says so.

use crate::args::OutArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::format::visible;
use serde::Serialize;
use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Writes `text` to stdout for people, in [`WIDTH`] columns and with control characters made visible.
pub fn print(text: &str) -> Result<(), Failure> {
    print_as_it_is(&wrapped(&visible(text)))
}

/// Writes `text` to stdout, for programs and not for eyes. A reader that has gone away (`| head`) is no failure.
pub fn print_as_it_is(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::failed(format!("stdout: {error}")))
        }
        _ => Ok(()),
    }
}

/// Says `text` on stderr for people, in [`WIDTH`] columns and with control characters made visible. Where nobody listens any more, nothing
/// is said.
pub fn say(text: std::fmt::Arguments<'_>) {
    log(&wrapped(&visible(&text.to_string())));
}

/// Writes an entry of a log to stderr as it is: one line, for eyes and for programs. Where nobody listens any more, nothing is written.
pub fn log(entry: &str) {
    let _ = writeln!(io::stderr(), "{entry}");
}

/// Says on stderr why something was not done.
pub fn failure(failure: &Failure) {
    for line in failure.message.lines() {
        if line.starts_with(' ') {
            say(format_args!("{line}"));
        } else {
            say(format_args!("error: {line}"));
        }
    }
}

/// Writes `value` to stdout as JSON.
pub fn print_json(value: &impl Serialize) -> Result<(), Failure> {
    print_as_it_is(&json(value)?)
}

fn json(value: &impl Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(|e| Failure::failed(format!("JSON: {e}")))?;
    text.push('\n');
    Ok(text)
}

/// Writes `value` as JSON to wherever the options want it: to stdout, to a file, to both.
pub fn give_json(out: &OutArgs, value: &impl Serialize, console: Console) -> Result<(), Failure> {
    if !out.wants_json() {
        return Ok(());
    }
    let text = json(value)?;
    if out.json {
        print_as_it_is(&text)?;
    }
    if let Some(path) = &out.export_json {
        write_file(path, |file| file.write_all(text.as_bytes()).map_err(|e| Failure::unwritable(path, &e)))?;
        console.note(format!("JSON written to {}", path.display()));
    }
    Ok(())
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

/// Columns of a terminal that results keep to.
pub const WIDTH: usize = 100;

/// How lines begin that are said on stderr.
const SAID: [&str; 4] = ["error: ", "note: ", "progress: ", "warning: "];

/// The parts of a line that stay whole, with their places. Most are words. A value in quotes and a command in backticks stay whole with the
/// blanks in them, and so does the path at the head of what is said: `error: a folder/a file.toml:3:1: ...`.
pub fn words(line: &str) -> Vec<Range<usize>> {
    let mut words = Vec::new();
    let mut at = head(line);
    if at > 0 {
        words.push(0..at);
    }
    while let Some(blanks) = line[at..].find(|c| c != ' ') {
        let start = at + blanks;
        let (mut before, mut end) = (' ', start);
        while let Some(c) = line[end..].chars().next().filter(|c| *c != ' ') {
            let quoted = if before.is_alphanumeric() { None } else { closed(&line[end..]) };
            (before, end) = (c, end + quoted.unwrap_or(c.len_utf8()));
        }
        words.push(start..end);
        at = end;
    }
    words
}

/// Where the head of what is said ends: its first word behind [`SAID`], or the whole path there. 0 where no line on stderr begins so.
fn head(line: &str) -> usize {
    let Some(said) = SAID.iter().find_map(|how| line.strip_prefix(how)) else { return 0 };
    let place = said.find(": ").filter(|&end| said[..end].contains('/') && !said[..end].contains(", "));
    let word = || words(said).first().map_or(0, |word| word.end);
    line.len() - said.len() + place.map_or_else(word, |end| end + 1)
}

/// The bytes of what stands in quotes at the start of `text`, with its quotes; `None` where no quotes begin there, or do not end.
fn closed(text: &str) -> Option<usize> {
    let quote = text.chars().next().filter(|c| matches!(c, '`' | '"' | '\''))?;
    let mut ends = text.match_indices(quote).map(|(at, _)| at + 1).skip(1);
    ends.find(|&end| !text[end..].starts_with(char::is_alphanumeric))
}

/// `text` in lines of at most `first` columns, and `later` from the second on, broken between [`words`]. Blanks at its start stay; a word that
/// is too long stands over.
pub fn broken(text: &str, first: usize, later: usize) -> Vec<&str> {
    if text.len() <= first {
        return vec![text];
    }
    let (mut lines, mut room) = (Vec::new(), first);
    let (mut from, mut to) = (0, 0);
    for word in words(text) {
        if to > from && text[from..word.end].chars().count() > room {
            lines.push(&text[from..to]);
            (from, room) = (word.start, later);
        }
        to = word.end;
    }
    lines.push(&text[from..]);
    lines
}

/// Lines of at most [`WIDTH`] columns, broken between words, the later ones of each indented.
pub fn wrapped(text: &str) -> Cow<'_, str> {
    if text.lines().all(|line| line.len() <= WIDTH) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        let indent = line.len() - line.trim_start().len() + 4;
        out.push_str(
            &broken(line, WIDTH, WIDTH.saturating_sub(indent)).join(&format!("\n{}", " ".repeat(indent))),
        );
        out.push_str(end);
    }
    out.into()
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

    #[test]
    fn lines_are_broken_between_words() {
        assert_eq!(broken("a bc def", 4, 4), ["a bc", "def"]);
        assert_eq!(broken("a bc def", 100, 4), ["a bc def"]);
        assert_eq!(broken("abcdefgh ij k", 4, 4), ["abcdefgh", "ij k"]);
        assert_eq!(broken("  abcdefgh", 4, 4), ["  abcdefgh"]);
        assert_eq!(broken("", 4, 4), [""]);
        assert_eq!(broken("größer als das", 10, 4), ["größer als", "das"]);
        assert_eq!(broken("  ", 1, 1), ["  "]);
        let text = format!("short\n  {}\n\nend\n", "word ".repeat(30).trim_end());
        let lines: Vec<String> = wrapped(&text).lines().map(str::to_string).collect();
        assert_eq!((lines[0].as_str(), lines[3].as_str(), lines[4].as_str()), ("short", "", "end"));
        assert!(lines[1].starts_with("  word") && lines[2].starts_with("      word"));
        assert!(lines.iter().all(|line| line.len() <= WIDTH));
    }

    #[test]
    fn commands_values_and_the_path_at_the_head_stay_whole() {
        let whole = |line: &str| -> Vec<String> {
            words(line).into_iter().map(|word| line[word].to_string()).collect()
        };
        assert_eq!(
            whole("  see `nandu list ssd`, or \"a b\";"),
            ["see", "`nandu list ssd`,", "or", "\"a b\";"]
        );
        assert_eq!(whole("--axis='a b' (`c d`-`e f`)"), ["--axis='a b'", "(`c d`-`e f`)"]);
        // Neither an apostrophe nor a quote that does not end holds words together.
        assert_eq!(whole("a drive's two drives' `on off"), ["a", "drive's", "two", "drives'", "`on", "off"]);
        assert_eq!(whole("expected `\"`, `'`"), ["expected", "`\"`,", "`'`"]);
        assert_eq!(whole("error: a b/c d.toml:5:1: it is"), ["error: a b/c d.toml:5:1:", "it", "is"]);
        assert_eq!(whole("warning: mixed-zipf ends: it"), ["warning: mixed-zipf", "ends:", "it"]);
        assert_eq!(whole("note: a/b c, d e: it"), ["note: a/b", "c,", "d", "e:", "it"]);
        assert_eq!(whole("a b/c d.toml: it"), ["a", "b/c", "d.toml:", "it"]);
        assert_eq!(whole("error: "), ["error: "]);
        let path = format!("error: /{}: it is not there", "a folder/".repeat(12));
        assert_eq!(broken(&path, WIDTH, 96).len(), 2, "the path is not broken");
    }
}

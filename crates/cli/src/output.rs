//! What is said on stdout and stderr, in the columns of a terminal.

use crate::failure::Failure;
use crate::format::visible;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;

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

/// `value` as JSON, with a line break at its end.
pub fn json(value: &impl Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value).map_err(|e| Failure::failed(format!("JSON: {e}")))?;
    text.push('\n');
    Ok(text)
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

#[cfg(test)]
mod tests {
    use super::*;

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

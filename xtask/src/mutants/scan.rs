//! Places of a source file where a bug can be drawn, found without a parser.
//!
//! Comments, texts and tests are blanked first; what is left is searched for a few shapes that rustfmt always writes alike. What cannot be
//! built at such a place the compiler says, and it is left out.

/// A kind of bug.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A condition says the opposite.
    Negated,
    /// One part of a condition always holds.
    PartHolds,
    /// A statement is left out.
    LeftOut,
    /// One is nothing.
    OneLess,
    /// The larger of two instead of the smaller, or the other way round.
    OtherEnd,
    /// What is later is not waited for.
    NotLater,
    /// `true` is `false`, or the other way round.
    Flipped,
}

impl Kind {
    /// Its name in a report.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Negated => "negated",
            Kind::PartHolds => "part holds",
            Kind::LeftOut => "left out",
            Kind::OneLess => "one less",
            Kind::OtherEnd => "other end",
            Kind::NotLater => "not later",
            Kind::Flipped => "flipped",
        }
    }
}

/// One place: the bytes that change, and what they become; `BUG` is the switch, `NUMBER` its number.
#[derive(Clone, Debug)]
pub struct Site {
    pub kind: Kind,
    pub start: usize,
    pub end: usize,
    pub text: String,
}

/// The same text with blanks where there is a comment, a text, a character, an attribute or a test.
fn blanked(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut blank = |from: usize, to: usize| {
        for byte in &mut out[from..to] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    };
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text.as_bytes()[at..];
        let find = |what: &str| text[at..].find(what).map_or(bytes.len(), |n| at + n);
        let end = if rest.starts_with(b"//") {
            find("\n")
        } else if rest.starts_with(b"#[cfg(test)]") {
            bytes.len()
        } else if rest.starts_with(b"#[") || rest.starts_with(b"#![") {
            find("\n")
        } else if rest.starts_with(b"r#\"") {
            text[at + 3..].find("\"#").map_or(bytes.len(), |n| at + 3 + n + 2)
        } else if rest[0] == b'"' {
            let mut end = at + 1;
            while end < bytes.len() && bytes[end] != b'"' {
                end += if bytes[end] == b'\\' { 2 } else { 1 };
            }
            (end + 1).min(bytes.len())
        } else if rest[0] == b'\'' && (rest.get(2) == Some(&b'\'') || rest.get(1) == Some(&b'\\')) {
            text[at + 2..].find('\'').map_or(bytes.len(), |n| at + 2 + n + 1)
        } else {
            at += 1;
            continue;
        };
        blank(at, end);
        at = end.max(at + 1);
    }
    out
}

/// One past the bracket that closes the one at `open`.
fn closing(code: &[u8], open: usize) -> Option<usize> {
    let mut depth = 0i32;
    for (at, byte) in code.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// Where the condition that begins at `from` ends: before a brace, or `=>` in a guard, that belongs to no bracket inside.
fn condition_end(code: &[u8], from: usize, guard: bool) -> Option<usize> {
    let mut at = from;
    while at < code.len() {
        match code[at] {
            b'(' | b'[' => at = closing(code, at)?,
            b'{' if !guard => return Some(at),
            b'=' if guard && code.get(at + 1) == Some(&b'>') => return Some(at),
            b';' | b'}' => return None,
            _ => at += 1,
        }
    }
    None
}

/// Every place in a file.
pub fn sites(text: &str) -> Vec<Site> {
    let code = blanked(text);
    let plain = String::from_utf8_lossy(&code).into_owned();
    let mut sites = Vec::new();
    conditions(text, &code, &plain, &mut sites);
    statements(text, &plain, &mut sites);
    for (at, _) in plain.match_indices(" + 1") {
        let next = plain.as_bytes().get(at + 4).copied().unwrap_or(b' ');
        if !next.is_ascii_alphanumeric() && next != b'_' && next != b'.' {
            sites.push(Site { kind: Kind::OneLess, start: at + 3, end: at + 4, text: "ONE(NUMBER)".into() });
        }
    }
    for (word, other) in [(".min(", ".mutant_min(NUMBER, "), (".max(", ".mutant_max(NUMBER, ")] {
        for (at, _) in plain.match_indices(word) {
            if plain.as_bytes()[at + word.len()] != b')' {
                let (start, end, text) = (at, at + word.len(), other.to_string());
                sites.push(Site { kind: Kind::OtherEnd, start, end, text });
            }
        }
    }
    for word in [".later(", ".longer("] {
        for (at, _) in plain.match_indices(word) {
            let (start, end, text) = (at, at + word.len(), ".mutant_later(NUMBER, ".to_string());
            sites.push(Site { kind: Kind::NotLater, start, end, text });
        }
    }
    for (word, other) in [("true", "!BUG"), ("false", "BUG")] {
        for (at, _) in plain.match_indices(word) {
            let is_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
            let bytes = plain.as_bytes();
            if !is_word(bytes.get(at.wrapping_sub(1))) && !is_word(bytes.get(at + word.len())) {
                let (start, end, text) = (at, at + word.len(), other.to_string());
                sites.push(Site { kind: Kind::Flipped, start, end, text });
            }
        }
    }
    sites.sort_by_key(|site| site.start);
    sites
}

fn conditions(text: &str, code: &[u8], plain: &str, sites: &mut Vec<Site>) {
    for (at, word) in plain.match_indices(" if ") {
        let from = at + word.len();
        // A guard follows a pattern, whose line ends with `=>`.
        let before = plain[..at].trim_end();
        let guard = !(before.ends_with(['{', '}', ';', '=', '(', ',', '|'])
            || before.ends_with("else")
            || before.is_empty());
        let Some(end) = condition_end(code, from, guard) else { continue };
        let condition = plain[from..end].trim_end();
        if condition.contains("let ") || condition.is_empty() {
            continue;
        }
        let end = from + condition.len();
        let whole = &text[from..end];
        sites.push(Site { kind: Kind::Negated, start: from, end, text: format!("(({whole}) != BUG)") });
        let mut start = from;
        let parts: Vec<(usize, usize)> = split(code, from, end)
            .into_iter()
            .map(|to| (std::mem::replace(&mut start, to + 4), to))
            .collect();
        for (first, last) in parts.iter().copied().chain([(start, end)]) {
            if !parts.is_empty() {
                let part = &text[first..last];
                sites.push(Site {
                    kind: Kind::PartHolds,
                    start: first,
                    end: last,
                    text: format!("(({part}) || BUG)"),
                });
            }
        }
    }
}

/// Where ` && ` stands between the parts of a condition that has no ` || `.
fn split(code: &[u8], from: usize, end: usize) -> Vec<usize> {
    let (mut at, mut found) = (from, Vec::new());
    while at + 4 <= end {
        match &code[at..at + 4] {
            [b'(' | b'[' | b'{', ..] => match closing(code, at) {
                Some(next) => at = next,
                None => return Vec::new(),
            },
            b" || " => return Vec::new(),
            b" && " => {
                found.push(at);
                at += 4;
            }
            _ => at += 1,
        }
    }
    found
}

/// Statements of one line: calls and assignments.
fn statements(text: &str, plain: &str, sites: &mut Vec<Site>) {
    let mut start = 0;
    for line in plain.split_inclusive('\n') {
        let (from, to) = (start + line.len() - line.trim_start().len(), start + line.trim_end().len());
        start += line.len();
        let Some(body) = plain.get(from..to) else { continue };
        let is_statement = body.ends_with(';')
            && (body.starts_with("self.")
                || body.starts_with("cx.")
                || body.contains(" += ")
                || body.contains(" -= ")
                || body.contains(" |= "));
        let is_other = ["let ", "return", "break", "use ", "pub ", "const ", "static ", "type "]
            .iter()
            .any(|word| body.starts_with(word));
        let whole = body.matches('(').count() == body.matches(')').count()
            && body.matches('{').count() == body.matches('}').count();
        if is_statement && !is_other && whole {
            let text = format!("if !BUG {{ {} }}", &text[from..to]);
            sites.push(Site { kind: Kind::LeftOut, start: from, end: to, text });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_and_texts_are_not() {
        let text = "fn f(&self) {\n    // if true {\n    if a < b && self.c(\"if x {\") {\n        self.d += 1;\n    }\n    let e = x.min(y) + 1;\n}\n#[cfg(test)]\nmod tests { if true {} }\n";
        let found: Vec<(Kind, &str)> = sites(text).iter().map(|s| (s.kind, &text[s.start..s.end])).collect();
        assert_eq!(
            found,
            [
                (Kind::Negated, "a < b && self.c(\"if x {\")"),
                (Kind::PartHolds, "a < b"),
                (Kind::PartHolds, "self.c(\"if x {\")"),
                (Kind::LeftOut, "self.d += 1;"),
                (Kind::OtherEnd, ".min("),
                (Kind::OneLess, "1"),
            ]
        );
    }
}

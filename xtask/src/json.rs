//! JSON, read: enough for what `nandu --json` prints.

use std::collections::BTreeMap;

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

/// Reads one value; the error says where it breaks off.
pub fn parse(text: &str) -> Result<Json, String> {
    let mut reader = Reader { text, at: 0 };
    let value = reader.value()?;
    reader.space();
    if reader.at == text.len() { Ok(value) } else { Err(reader.wrong("the end")) }
}

impl Json {
    /// A member of an object; `Null` where there is none.
    pub fn get(&self, key: &str) -> &Json {
        match self {
            Json::Object(members) => members.get(key).unwrap_or(&Json::Null),
            _ => &Json::Null,
        }
    }

    /// A text; empty where it is something else.
    pub fn text(&self) -> &str {
        if let Json::Text(text) = self { text } else { "" }
    }

    /// A number.
    pub fn number(&self) -> Option<f64> {
        if let Json::Number(number) = self { Some(*number) } else { None }
    }

    /// The elements of a list; none where it is something else.
    pub fn list(&self) -> &[Json] {
        if let Json::List(elements) = self { elements } else { &[] }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, wanted: &str) -> String {
        format!("no JSON: {wanted} is wanted at byte {} of {}", self.at, self.text.len())
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    /// Goes past `word`, if it comes next.
    fn skip(&mut self, word: &str) -> bool {
        self.space();
        let found = self.text[self.at..].starts_with(word);
        self.at += if found { word.len() } else { 0 };
        found
    }

    fn value(&mut self) -> Result<Json, String> {
        if self.skip("{") {
            let mut members = BTreeMap::new();
            let member = |reader: &mut Self| {
                reader.space();
                let key = reader.quoted()?;
                if !reader.skip(":") {
                    return Err(reader.wrong("a colon"));
                }
                members.insert(key, reader.value()?);
                Ok(())
            };
            self.until("}", member)?;
            return Ok(Json::Object(members));
        }
        if self.skip("[") {
            let mut elements = Vec::new();
            self.until("]", |reader| {
                elements.push(reader.value()?);
                Ok(())
            })?;
            return Ok(Json::List(elements));
        }
        for (word, value) in [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))]
        {
            if self.skip(word) {
                return Ok(value);
            }
        }
        if self.text[self.at..].starts_with('"') {
            return self.quoted().map(Json::Text);
        }
        let rest = &self.text[self.at..];
        let digits =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).unwrap_or(rest.len());
        let number = rest[..digits].parse().map_err(|_| self.wrong("a value"))?;
        self.at += digits;
        Ok(Json::Number(number))
    }

    /// What stands between commas, up to `end`.
    fn until(
        &mut self,
        end: &str,
        mut one: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.skip(end) {
            return Ok(());
        }
        loop {
            one(self)?;
            if self.skip(end) {
                return Ok(());
            }
            if !self.skip(",") {
                return Err(self.wrong("a comma"));
            }
        }
    }

    fn quoted(&mut self) -> Result<String, String> {
        if !self.text[self.at..].starts_with('"') {
            return Err(self.wrong("a text"));
        }
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(['"', '\\']).ok_or_else(|| self.wrong("the end of a text"))?;
            out.push_str(&rest[..plain]);
            self.at += plain + 1;
            if rest[plain..].starts_with('"') {
                return Ok(out);
            }
            let escaped = self.text[self.at..].chars().next().ok_or_else(|| self.wrong("an escape"))?;
            self.at += escaped.len_utf8();
            out.push(match escaped {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'u' => {
                    let digits = self.text.get(self.at..self.at + 4).unwrap_or("");
                    let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
                    self.at += digits.len();
                    code.ok_or_else(|| self.wrong("a character outside of the surrogates"))?
                }
                other => other,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nandu_prints_is_read() {
        let value =
            parse(" [ {\"a\": \"x\\n\\u00e9\\\"\", \"b\": [1, -2.5e3, null], \"c\": {}, \"d\": true}] ");
        let value = value.expect("it is JSON");
        let first = &value.list()[0];
        assert_eq!(first.get("a").text(), "x\n\u{e9}\"");
        assert_eq!(first.get("b").list()[1].number(), Some(-2500.0));
        assert_eq!(first.get("b").list()[2].number(), None);
        assert_eq!((first.get("c"), first.get("none")), (&Json::Object(BTreeMap::new()), &Json::Null));
        assert_eq!(first.get("d"), &Json::Bool(true));
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        for text in ["", "{", "[1", "{\"a\" 1}", "\"x", "[1] 2", "nul", "\"\\ud800\"", "{\"a\":1,}"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

//! The language of DiskSim's parameter files: blocks of `key = value`, values that are words, numbers, lists, blocks or
//! `source FILE`, comments after `#`. Keys have blanks in them.

use super::ParamError;
use nandu_base::registry::ReadText;
use std::path::{Path, PathBuf};

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// Words: a number, a name.
    Words(String),
    /// `[ a, b ]`.
    List(Vec<Value>),
    /// `type name { ... }`.
    Block(Block),
}

/// A block.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Block {
    /// The word before it that says what it is.
    pub kind: String,
    /// Its entries, in order.
    pub entries: Vec<(String, Value)>,
    /// The file in which it stands.
    pub file: PathBuf,
}

/// Files within files.
const DEEPEST: usize = 8;

#[derive(Clone, PartialEq, Debug)]
enum Token {
    Word(String),
    Sign(char),
}

struct Parser {
    read: ReadText,
    tokens: Vec<Token>,
    at: usize,
    file: PathBuf,
    depth: usize,
}

/// All blocks of a file and of those that it names.
pub fn read(path: &Path, read: ReadText) -> Result<Vec<Block>, ParamError> {
    let mut blocks = Vec::new();
    Parser::open(path, 0, read)?.items(&mut blocks)?;
    Ok(blocks)
}

/// The text of a file that belongs to this one.
pub fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

/// The text of a file, which `read` gets: nothing here opens one.
pub fn text(path: &Path, read: ReadText) -> Result<String, ParamError> {
    read(path).map_err(|what| ParamError { file: path.into(), what })
}

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut word = String::new();
        let flush = |word: &mut String, tokens: &mut Vec<Token>| {
            if !word.is_empty() {
                tokens.push(Token::Word(std::mem::take(word)));
            }
        };
        for c in line.chars() {
            match c {
                '{' | '}' | '[' | ']' | ',' | '=' => {
                    flush(&mut word, &mut tokens);
                    tokens.push(Token::Sign(c));
                }
                c if c.is_whitespace() => flush(&mut word, &mut tokens),
                c => word.push(c),
            }
        }
        flush(&mut word, &mut tokens);
    }
    tokens
}

impl Parser {
    fn open(path: &Path, depth: usize, read: ReadText) -> Result<Parser, ParamError> {
        if depth > DEEPEST {
            return Err(ParamError { file: path.into(), what: format!("more than {DEEPEST} files deep") });
        }
        Ok(Parser { read, tokens: tokens(&text(path, read)?), at: 0, file: path.into(), depth })
    }

    fn error<T>(&self, what: impl Into<String>) -> Result<T, ParamError> {
        Err(ParamError { file: self.file.clone(), what: what.into() })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at)
    }

    fn eat(&mut self, sign: char) -> bool {
        let is = self.peek() == Some(&Token::Sign(sign));
        self.at += usize::from(is);
        is
    }

    fn words(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.clone());
            self.at += 1;
        }
        words
    }

    /// The blocks of a whole file; lists beside them (instances, topology) are passed over.
    fn items(&mut self, blocks: &mut Vec<Block>) -> Result<(), ParamError> {
        while self.peek().is_some() {
            if self.peek() == Some(&Token::Word("source".into())) {
                self.at += 1;
                let Some(Token::Word(name)) = self.peek().cloned() else {
                    return self.error("`source` without a file");
                };
                self.at += 1;
                Parser::open(&beside(&self.file, &name), self.depth + 1, self.read)?.items(blocks)?;
                continue;
            }
            let mut words = Vec::new();
            while let Some(Token::Word(word)) = self.peek() {
                if word == "source" {
                    break;
                }
                words.push(word.clone());
                self.at += 1;
            }
            match self.peek() {
                Some(Token::Sign('{')) => blocks.push(self.block(&words)?),
                Some(Token::Sign('[')) => {
                    self.list()?;
                }
                Some(Token::Sign(sign)) => {
                    return self.error(format!("`{sign}` after `{}`", words.join(" ")));
                }
                Some(Token::Word(_)) | None => {}
            }
        }
        Ok(())
    }

    fn block(&mut self, words: &[String]) -> Result<Block, ParamError> {
        let kind = words.first().cloned().unwrap_or_default();
        let mut block = Block { kind, entries: Vec::new(), file: self.file.clone() };
        self.at += 1;
        while !self.eat('}') {
            let key = self.words().join(" ");
            if !self.eat('=') {
                return self.error(format!("`=` is missing after `{key}`, or a `}}` before it"));
            }
            let value = self.value()?;
            block.entries.push((key, value));
            self.eat(',');
        }
        Ok(block)
    }

    fn list(&mut self) -> Result<Vec<Value>, ParamError> {
        let mut list = Vec::new();
        self.at += 1;
        while !self.eat(']') {
            if self.peek().is_none() {
                return self.error("`]` is missing");
            }
            list.push(self.value()?);
            self.eat(',');
        }
        Ok(list)
    }

    fn value(&mut self) -> Result<Value, ParamError> {
        let words = self.words();
        match self.peek() {
            Some(Token::Sign('{')) => Ok(Value::Block(self.block(&words)?)),
            Some(Token::Sign('[')) => Ok(Value::List(self.list()?)),
            _ if words.first().is_some_and(|w| w == "source") && words.len() == 2 => {
                let path = beside(&self.file, &words[1]);
                let mut blocks = Vec::new();
                Parser::open(&path, self.depth + 1, self.read)?.items(&mut blocks)?;
                match blocks.pop() {
                    Some(block) if blocks.is_empty() => Ok(Value::Block(block)),
                    _ => Err(ParamError { file: path, what: "not exactly one block".into() }),
                }
            }
            _ if words.is_empty() => self.error("a value is missing"),
            _ => Ok(Value::Words(words.join(" "))),
        }
    }
}

impl Block {
    /// An error of this block.
    pub fn error<T>(&self, what: impl Into<String>) -> Result<T, ParamError> {
        Err(ParamError { file: self.file.clone(), what: what.into() })
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    fn need(&self, key: &str) -> Result<&Value, ParamError> {
        self.get(key).map_or_else(|| self.error(format!("`{}` has no `{key}`", self.kind)), Ok)
    }

    /// The word that is the value of `key`.
    pub fn word(&self, key: &str) -> Result<&str, ParamError> {
        match self.need(key)? {
            Value::Words(word) => Ok(word),
            _ => self.error(format!("`{key}` is not a word")),
        }
    }

    /// The block that is the value of `key`.
    pub fn block(&self, key: &str) -> Result<&Block, ParamError> {
        match self.need(key)? {
            Value::Block(block) => Ok(block),
            _ => self.error(format!("`{key}` is not a block")),
        }
    }

    /// The list that is the value of `key`.
    pub fn list(&self, key: &str) -> Result<&[Value], ParamError> {
        match self.need(key)? {
            Value::List(list) => Ok(list),
            _ => self.error(format!("`{key}` is not a list")),
        }
    }

    /// The number that is the value of `key`, in millionths.
    pub fn millionths(&self, key: &str) -> Result<i64, ParamError> {
        let word = self.word(key)?;
        millionths(word).map_or_else(|| self.error(format!("`{key} = {word}` is not a number")), Ok)
    }

    /// The whole number that is the value of `key`.
    pub fn whole(&self, key: &str) -> Result<u64, ParamError> {
        match self.millionths(key)? {
            n if n >= 0 && n % 1_000_000 == 0 => Ok(n as u64 / 1_000_000),
            _ => self.error(format!("`{key}` is not a whole number from 0")),
        }
    }

    /// A list of whole numbers.
    pub fn whole_list(&self, key: &str) -> Result<Vec<u64>, ParamError> {
        let one = |value: &Value| match value {
            Value::Words(word) => word.parse().ok(),
            _ => None,
        };
        let list: Option<Vec<u64>> = self.list(key)?.iter().map(one).collect();
        list.map_or_else(|| self.error(format!("`{key}` is not a list of whole numbers")), Ok)
    }

    /// A list of numbers, in millionths.
    pub fn millionths_list(&self, key: &str) -> Result<Vec<i64>, ParamError> {
        let one = |value: &Value| match value {
            Value::Words(word) => millionths(word),
            _ => None,
        };
        let list: Option<Vec<i64>> = self.list(key)?.iter().map(one).collect();
        list.map_or_else(|| self.error(format!("`{key}` is not a list of numbers")), Ok)
    }
}

/// A decimal number in millionths; digits below are dropped.
pub fn millionths(word: &str) -> Option<i64> {
    let (negative, digits) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if (whole.is_empty() && part.is_empty()) || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let part: i64 = format!("{part:0<6}")[..6].parse().ok()?;
    let value = whole.checked_mul(1_000_000)?.checked_add(part)?;
    Some(if negative { -value } else { value })
}

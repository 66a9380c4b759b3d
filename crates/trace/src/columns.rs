//! A file of columns that no format here describes: which column is what, and in which unit.
//!
//! A list such as `time:us,op,offset:sectors,size` names the columns from the first on; `-` passes one over, and further columns
//! are ignored. A first line of words where numbers should be is a header, and passed over wherever it comes, and so are lines that were skipped.
//! `time:us=ts` looks for the column called `ts` in the file's header line, or in a Parquet file, and then every item has a name.
//!
//! | column   | units and forms                                                                                     |
//! |----------|-----------------------------------------------------------------------------------------------------|
//! | `time`   | `ns`, `us`, `ms`, `s`, `100ns` (Windows filetime); decimals are read. Without it there is only an order |
//! | `op`     | words such as R, read, W, write, T, trim, discard, F, flush, sync; `read0` = 0 read, 1 write; `read1` = the reverse; `scsi` = operation code in hex |
//! | `offset` | `bytes` (default), `sectors` of 512 B, `4k`                                                             |
//! | `size`   | as `offset`                                                                                              |
//! | `stream` | any word: a volume, disk, ASU                                                                            |
//! | `fua`    | 0 or 1, false or true                                                                                    |
//! | `service`| the measured response time, in units as `time`                                                           |
//!
//! `offset` and `op` are needed, and `size`. Fields stand apart by a comma, semicolon or tab, whichever the first line has, else by
//! blanks; a table in TOML can name another separator, lines to skip and further words of operations ([`ColumnFile`]).

use crate::builder::{Builder, Line};
use crate::cursor::{Cursor, TEN_POWERS};
use crate::error::{Fault, TraceError, Why};
use crate::formats::cloudphysics::scsi_op;
use crate::formats::{Format, Kind, Tried, no_note};
use crate::load::LineParser;
use crate::record::RecordError;
use crate::trace::Arrival;
use nandu_base::Op;
use serde::Deserialize;

/// What errors call such files.
pub(crate) const NAME: &str = "columns";

/// What errors call such a file, and the list of formats does not show.
pub(crate) static FORMAT: Format = Format {
    name: NAME,
    summary: "columns as they were described",
    example: "one field for each column that was described",
    tried: Tried::Tool,
    sniff: |_| false,
    note: no_note,
    kind: Kind::Columns,
    writer: None,
};

/// What a column means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// Arrival, or with [`Role::Service`] the response time: how many nanoseconds a unit has.
    Time(u64),
    /// The operation.
    Op(OpForm),
    /// First byte: how many bytes a unit has.
    Offset(u64),
    /// Length: how many bytes a unit has.
    Size(u64),
    /// Whose address space it is.
    Stream,
    /// Force unit access.
    Fua,
    /// Measured response time: how many nanoseconds a unit has.
    Service(u64),
    /// Nothing.
    Ignored,
}

impl Role {
    const fn is_number(self) -> bool {
        matches!(self, Role::Time(_) | Role::Offset(_) | Role::Size(_) | Role::Service(_))
    }
}

/// How operations are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpForm {
    /// Words.
    Words,
    /// 0 is a read, 1 a write.
    ReadIs0,
    /// 1 is a read, 0 a write.
    ReadIs1,
    /// SCSI operation codes in hex.
    Scsi,
}

/// One column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// What it means.
    pub role: Role,
    /// A unit was given.
    pub has_unit: bool,
    /// Its name in the file; `None` counts from the first.
    pub name: Option<String>,
}

/// Which column of a file is what.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Columns {
    text: String,
    /// Everything that is described, which `text` may only name.
    whole: String,
    /// In the order they were given.
    pub(crate) list: Vec<Column>,
    separator: Option<u8>,
    skip_lines: u64,
    words: Vec<(String, Op)>,
}

/// The same as a table, for a file in TOML.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnFile {
    /// The list, as on the command line.
    pub columns: String,
    /// One character between fields.
    #[serde(default)]
    pub separator: Option<char>,
    /// Lines at the start that are passed over; the header of names is not among them.
    #[serde(default)]
    pub skip_lines: u64,
    /// Further words for operations, such as `{ "0x2a" = "write" }`.
    #[serde(default)]
    pub ops: std::collections::BTreeMap<String, String>,
}

impl std::fmt::Display for Columns {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Columns, String> {
        let list = text.split(',').map(|item| column(item.trim())).collect::<Result<Vec<_>, _>>()?;
        let columns = Columns {
            text: text.into(),
            whole: text.into(),
            list,
            separator: None,
            skip_lines: 0,
            words: Vec::new(),
        };
        columns.checked()
    }
}

const NAMES: &str = "time, op, offset, size, stream, fua, service, or - for one to pass over";

fn column(item: &str) -> Result<Column, String> {
    let (described, name) = match item.split_once('=') {
        Some((described, name)) if !name.trim().is_empty() => {
            (described.trim(), Some(name.trim().to_string()))
        }
        Some(_) => return Err(format!("`{item}`: the name of the column is missing behind `=`")),
        None => (item, None),
    };
    let (word, unit) = match described.split_once(':') {
        Some((word, unit)) => (word, Some(unit)),
        None => (described, None),
    };
    let wrong = |known: &str| format!("`{item}`: the unit of `{word}` is one of {known}");
    let time = |default: u64| {
        Ok(match unit {
            None => default,
            Some("ns") => 1,
            Some("100ns" | "filetime") => 100,
            Some("us") => 1_000,
            Some("ms") => 1_000_000,
            Some("s") => 1_000_000_000,
            Some(_) => return Err(wrong("ns, 100ns, us, ms, s")),
        })
    };
    let bytes = || {
        Ok(match unit {
            None | Some("bytes" | "b" | "B") => 1,
            Some("sectors" | "512") => 512,
            Some("4k" | "4K" | "pages") => 4096,
            Some(_) => return Err(wrong("bytes, sectors (512 B), 4k")),
        })
    };
    let role = match word {
        "time" if unit.is_none() && name.is_none() => {
            return Err(format!("`{item}`: a time needs its unit, for example time:us"));
        }
        "time" => Role::Time(time(1)?),
        "service" => Role::Service(time(1)?),
        "op" => Role::Op(match unit {
            None => OpForm::Words,
            Some("read0") => OpForm::ReadIs0,
            Some("read1") => OpForm::ReadIs1,
            Some("scsi") => OpForm::Scsi,
            Some(_) => return Err(wrong("read0 (0 is a read), read1 (1 is a read), scsi")),
        }),
        "offset" => Role::Offset(bytes()?),
        "size" => Role::Size(bytes()?),
        "stream" if unit.is_none() => Role::Stream,
        "fua" if unit.is_none() => Role::Fua,
        "-" if unit.is_none() && name.is_none() => Role::Ignored,
        _ => return Err(format!("`{item}`: a column is {NAMES}")),
    };
    Ok(Column { role, has_unit: unit.is_some(), name })
}

impl Columns {
    /// From a table.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn of(file: ColumnFile) -> Result<Columns, String> {
        let mut columns: Columns = file.columns.parse()?;
        columns.skip_lines = file.skip_lines;
        columns.separator = match file.separator {
            None => None,
            Some(c) if c.is_ascii() && !c.is_ascii_alphanumeric() && !matches!(c, '\n' | '\r' | '.') => {
                Some(c as u8)
            }
            Some(c) => return Err(format!("separator: `{c}` does not stand between fields")),
        };
        for (word, name) in file.ops {
            let op = Op::ALL.into_iter().find(|op| op.name() == name).ok_or_else(|| {
                format!(
                    "ops: `{word}` = `{name}`: an operation is one of {}",
                    Op::ALL.map(Op::name).join(", ")
                )
            })?;
            columns.words.push((word.to_ascii_lowercase(), op));
        }
        columns.whole =
            format!("{}{:?}{}{:?}", columns.text, columns.separator, columns.skip_lines, columns.words);
        Ok(columns)
    }

    /// The same, shown as the `name` of the file it was read from.
    pub fn called(self, name: &str) -> Columns {
        Columns { text: name.into(), ..self }
    }

    /// Everything that is described: equal for what reads a file alike.
    pub fn whole(&self) -> &str {
        &self.whole
    }

    fn checked(self) -> Result<Columns, String> {
        let kind = |role: Role| std::mem::discriminant(&role);
        for (at, column) in self.list.iter().enumerate() {
            let twice = self.list[..at].iter().any(|c| kind(c.role) == kind(column.role));
            if twice && column.role != Role::Ignored {
                return Err(format!("`{}`: the same column twice", self.text));
            }
        }
        for (name, role) in
            [("op", Role::Op(OpForm::Words)), ("offset", Role::Offset(1)), ("size", Role::Size(1))]
        {
            if !self.list.iter().any(|c| kind(c.role) == kind(role)) {
                return Err(format!(
                    "`{}`: `{name}` is missing; for example time:us,op,offset:sectors,size",
                    self.text
                ));
            }
        }
        let named = self.list.iter().filter(|c| c.name.is_some()).count();
        if named > 0 && named < self.list.len() {
            return Err(format!("`{}`: either every column has a name behind `=`, or none has", self.text));
        }
        Ok(self)
    }

    fn has_names(&self) -> bool {
        self.list.iter().any(|c| c.name.is_some())
    }

    /// The operation that `word` stands for.
    pub(crate) fn op(&self, form: OpForm, word: &[u8]) -> Option<Op> {
        if let Ok(text) = std::str::from_utf8(word)
            && let Some((_, op)) = self.words.iter().find(|(own, _)| own.eq_ignore_ascii_case(text))
        {
            return Some(*op);
        }
        match form {
            OpForm::Scsi => scsi_op(word.strip_prefix(b"0x").unwrap_or(word)),
            OpForm::ReadIs0 | OpForm::ReadIs1 => match (word, form) {
                (b"0", OpForm::ReadIs0) | (b"1", OpForm::ReadIs1) => Some(Op::Read),
                (b"0" | b"1", _) => Some(Op::Write),
                _ => None,
            },
            OpForm::Words => word_op(word),
        }
    }

    /// What `op` may be, for errors.
    pub(crate) const fn expected(form: OpForm) -> &'static str {
        match form {
            OpForm::Words => {
                "R, read, W, write, T, trim, discard, F, flush, sync or write-zeroes; op:read0 and op:read1 read numbers"
            }
            OpForm::ReadIs0 => "0 (read) or 1 (write)",
            OpForm::ReadIs1 => "1 (read) or 0 (write)",
            OpForm::Scsi => "a SCSI operation code in hex: 28 (read), 2a (write), 35 (flush), 42 (unmap)",
        }
    }

    /// A reader of text with these columns.
    pub(crate) fn parser(&self, sample: &[u8], source_name: &str) -> Result<ColumnParser<'_>, TraceError> {
        let mut lines =
            sample.split(|&b| b == b'\n').skip(usize::try_from(self.skip_lines).unwrap_or(usize::MAX));
        let first = lines.find(|l| !l.trim_ascii().is_empty()).unwrap_or_default();
        let separator = self.separator.unwrap_or_else(|| {
            let counts = [b',', b';', b'\t'].map(|s| (memchr::memchr_iter(s, first).count(), s));
            counts.into_iter().max_by_key(|&(n, _)| n).filter(|&(n, _)| n > 0).map_or(b' ', |(_, s)| s)
        });
        let mut parser = ColumnParser {
            columns: self,
            separator,
            roles: Vec::new(),
            left_to_skip: self.skip_lines,
            headers: Vec::new(),
        };
        let mut c = Cursor::new(first);
        let mut names: Vec<String> = Vec::new();
        while let Some(name) = parser.field(&mut c) {
            names.push(String::from_utf8_lossy(name).trim_matches('"').to_string());
        }
        if !self.has_names() {
            parser.roles = self.list.iter().map(|c| c.role).collect();
            let mut numbers = parser.roles.iter().enumerate().filter(|(_, role)| role.is_number());
            let word = |name: &String| name.starts_with(|c: char| c.is_alphabetic() || c == '_');
            if numbers.all(|(at, _)| names.get(at).is_some_and(word)) {
                parser.headers.push(first.trim_ascii_end().to_vec());
            }
            return Ok(parser);
        }
        parser.roles = vec![Role::Ignored; names.len()];
        for column in &self.list {
            let wanted = column.name.as_deref().unwrap_or_default();
            let Some(at) = names.iter().position(|n| n == wanted) else {
                return Err(TraceError::Column {
                    source_name: source_name.into(),
                    column: wanted.into(),
                    why: format!("there is none; the first line has {}", names.join(", ")),
                });
            };
            parser.roles[at] = match column.role {
                Role::Time(1) if !column.has_unit => return Err(no_unit(source_name, wanted)),
                role => role,
            };
        }
        parser.headers.push(first.trim_ascii_end().to_vec());
        Ok(parser)
    }
}

/// A time without a unit.
pub(crate) fn no_unit(source_name: &str, column: &str) -> TraceError {
    TraceError::Column {
        source_name: source_name.into(),
        column: column.into(),
        why: format!("nothing says in which unit it is; write for example time:us={column}"),
    }
}

fn word_op(word: &[u8]) -> Option<Op> {
    let lower = word.to_ascii_lowercase();
    let text = std::str::from_utf8(&lower).ok()?.trim_matches('"');
    if let Some(op) = Op::ALL.into_iter().find(|op| op.name() == text) {
        return Some(op);
    }
    Some(match text {
        "r" | "rs" | "ra" | "rd" | "rm" => Op::Read,
        "w" | "ws" | "wr" | "wm" => Op::Write,
        "t" | "d" | "discard" | "unmap" => Op::Trim,
        "f" | "sync" | "fsync" | "datasync" => Op::Flush,
        _ => return None,
    })
}

/// Most lines at the start that are known again.
const HEADERS: usize = 16;

/// Reads lines of columns.
pub(crate) struct ColumnParser<'a> {
    columns: &'a Columns,
    separator: u8,
    roles: Vec<Role>,
    left_to_skip: u64,
    /// The line of names, and those that were skipped at the start: they are passed over wherever they come, as in files that were joined.
    headers: Vec<Vec<u8>>,
}

/// A number of units with decimals, as a count of the thing a unit is made of.
fn scaled(c: &mut Cursor<'_>, unit: u64, field: &'static str) -> Result<(u64, bool), Fault> {
    if TEN_POWERS[..10].contains(&unit) {
        let time = c.time(unit, field)?;
        return Ok((time.ns, time.rounded));
    }
    let value = c.uint(field)?;
    Ok((value.checked_mul(unit).ok_or_else(|| c.fault(field, Why::TooLarge))?, false))
}

impl ColumnParser<'_> {
    /// The next field of a line, without quotes and blanks around it; `None` behind the last.
    fn field<'t>(&self, c: &mut Cursor<'t>) -> Option<&'t [u8]> {
        let blank = self.separator == b' ';
        if blank {
            c.blanks();
        }
        if matches!(c.peek(), b'\n' | b'\r') {
            return None;
        }
        let from = c.pos();
        while !matches!(c.peek(), b'\n' | b'\r')
            && c.peek() != self.separator
            && !(blank && c.peek() == b'\t')
        {
            c.seek_by_one();
        }
        let field = c.since(from).trim_ascii();
        if !matches!(c.peek(), b'\n' | b'\r') {
            c.seek_by_one();
        }
        Some(field.strip_prefix(b"\"").and_then(|f| f.strip_suffix(b"\"")).unwrap_or(field))
    }

    pub(crate) fn arrival(&self) -> Arrival {
        match self.roles.iter().any(|r| matches!(r, Role::Time(_))) {
            true => Arrival::Timestamps,
            false => Arrival::OrderOnly,
        }
    }
}

impl LineParser for ColumnParser<'_> {
    fn line(&mut self, c: &mut Cursor<'_>, out: &mut Builder) -> Result<(), Fault> {
        let start = c.pos();
        let rest = c.rest_of_line();
        let rest = rest.trim_ascii_end();
        if self.left_to_skip > 0 {
            self.left_to_skip -= 1;
            if self.headers.len() < HEADERS {
                self.headers.push(rest.to_vec());
            }
            c.skip_line();
            return Ok(());
        }
        if self.headers.iter().any(|header| header == rest) {
            c.skip_line();
            return Ok(());
        }
        let mut line =
            Line { time_ns: 0, op: Op::Read, fua: false, offset_sectors: 0, len_sectors: 0, stream: 0 };
        let (mut offset, mut len, mut service, mut stream, mut rounded) = (0, 0, None, None, 0u64);
        for (at, &role) in self.roles.iter().enumerate() {
            let field_at = c.pos();
            let name = match role {
                Role::Time(_) => "time",
                Role::Op(_) => "op",
                Role::Offset(_) => "offset",
                Role::Size(_) => "size",
                Role::Stream => "stream",
                Role::Fua => "fua",
                Role::Service(_) => "service",
                Role::Ignored => "a column that is passed over",
            };
            let fault = |why| Fault { at: field_at, field: name, why };
            let Some(field) = self.field(c) else {
                // What is passed over at the end may be missing.
                if self.roles[at..].iter().all(|&r| r == Role::Ignored) {
                    break;
                }
                return Err(fault(Why::Expected("one more column")));
            };
            let whole = |value: Result<(u64, bool), Fault>, mut own: Cursor<'_>| {
                let value = value.map_err(|f| fault(f.why))?;
                own.end_of_line().map_err(|_| fault(Why::Expected("a number without other signs")))?;
                Ok::<_, Fault>(value)
            };
            let number = |unit| {
                let mut own = Cursor::new(field);
                whole(scaled(&mut own, unit, name), own)
            };
            match role {
                Role::Time(unit) => {
                    let (ns, cut) = number(unit)?;
                    line.time_ns = ns;
                    rounded += u64::from(cut);
                }
                Role::Service(unit) => service = Some(number(unit)?.0),
                Role::Offset(unit) => offset = number(unit)?.0,
                Role::Size(unit) => len = number(unit)?.0,
                Role::Op(form) => {
                    line.op = self
                        .columns
                        .op(form, field)
                        .ok_or_else(|| fault(Why::Expected(Columns::expected(form))))?;
                }
                Role::Stream => stream = Some(field),
                Role::Fua => {
                    line.fua = match field.to_ascii_lowercase().as_slice() {
                        b"0" | b"false" | b"" => false,
                        b"1" | b"true" => true,
                        _ => return Err(fault(Why::Expected("0 or 1, false or true"))),
                    }
                }
                Role::Ignored => {}
            }
        }
        c.skip_line();
        let bounds = |why: RecordError| Cursor::bounds(start, why);
        line.stream = match stream {
            Some(name) => out.stream_named(name).map_err(bounds)?,
            None => out.stream(0).map_err(bounds)?,
        };
        if line.op == Op::Flush {
            (offset, len) = (0, 0);
        }
        out.push_bytes(start, line, offset, len)?;
        (0..rounded).for_each(|_| {
            out.nanos(crate::cursor::Nanos { ns: 0, rounded: true });
        });
        if let Some(ns) = service {
            out.push_service(ns);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{LoadOptions, parse_bytes};
    use crate::trace::Trace;
    use nandu_base::Span;

    fn read(columns: &str, text: &str) -> Result<Trace, TraceError> {
        let columns = Some(columns.parse::<Columns>().unwrap());
        parse_bytes(None, text.as_bytes(), LoadOptions { columns, ..LoadOptions::default() })
    }

    #[test]
    fn columns_by_place_in_any_separator() {
        let text = "7,100,w,8,4096\n7,350,R,16,512\n";
        for separator in [",", ";", "\t", "  "] {
            let t = read("stream,time:us,op,offset:sectors,size", &text.replace(',', separator)).unwrap();
            assert_eq!(
                (t.meta.format.as_str(), t.span().0, t.streams[0].name.as_str()),
                ("columns", 250_000, "7")
            );
            assert_eq!((t.records[0].op(), t.records[1].op()), (Op::Write, Op::Read));
            assert_eq!((t.records[0].offset().0, t.records[0].len().0), (4096, 4096));
        }
    }

    #[test]
    fn columns_by_name_with_a_repeated_header() {
        let head = "ts,\"kind\",lba,bytes,latency\n";
        let text = format!("{head}0.5,0,1,4096,12\n{head}0.750000001,1,2,8192,13\n");
        let t = read("time:s=ts,op:read0=kind,offset:4k=lba,size=bytes,service:us=latency", &text).unwrap();
        assert_eq!((t.span().0, t.records[1].op(), t.records[1].offset().0), (250_000_001, Op::Write, 8192));
        assert_eq!(t.service.unwrap(), [Span(12_000), Span(13_000)]);
        let e = read("time:s=when,op=kind,offset=lba,size=bytes", &text).unwrap_err().to_string();
        assert!(
            e.contains("column `when`: there is none; the first line has ts, kind, lba, bytes, latency"),
            "{e}"
        );
    }

    #[test]
    fn a_header_above_columns_by_place_passes_wherever_it_comes() {
        let head = "time_us;op;\"lba\";bytes\n";
        let t = read("time:us,op,offset,size", &format!("{head}1;r;0;512\n{head}2;w;0;512\n")).unwrap();
        assert_eq!((t.records.len(), t.span().0), (2, 1_000));
        // One number in it, or a column too few, makes it a line that is wrong.
        for line in ["time_us;op;0;bytes", "time_us;op;lba"] {
            let e = read("time:us,op,offset,size", &format!("{line}\n1;r;0;512\n")).unwrap_err();
            assert!(e.to_string().contains(":1:1: time: found"), "{e}");
        }
    }

    #[test]
    fn a_bad_field_is_named_by_its_column() {
        for (text, says) in [
            ("1,r,0,512\nx,r,0,512\n", ":2:1: time: found `x,r,0,512`; expected a whole number"),
            ("1,q,0,512\n", ":1:3: op: found `q,0,512`; expected R, read"),
            ("1,r,0x10,512\n", ":1:5: offset: found `0x10,512`; expected a number without other signs"),
            ("1,r,0\n", ":1:6: size: the line ends here; expected one more column"),
        ] {
            let e = read("time:ns,op,offset,size", text).unwrap_err().to_string();
            assert!(e.contains(says), "{e}");
        }
    }

    #[test]
    fn what_is_no_description_is_refused() {
        for (text, says) in [
            ("time,op,offset,size", "needs its unit"),
            ("time:h,op,offset,size", "ns, 100ns, us, ms, s"),
            ("time:us,op,offset", "`size` is missing"),
            ("time:us,op,op,offset,size", "twice"),
            ("time:us=a,op,offset,size", "either every column"),
            ("when:us,op,offset,size", "a column is time"),
        ] {
            let e = text.parse::<Columns>().unwrap_err();
            assert!(e.contains(says), "{text}: {e}");
        }
        // Without times there is an order.
        let t = read("op,offset,size", "flush,0,0\nw,0,512\n").unwrap();
        assert_eq!((t.meta.arrival, t.records[0].op()), (Arrival::OrderOnly, Op::Flush));
    }

    #[test]
    fn a_table_says_more() {
        let ops = [("0x2a".to_string(), "write".to_string())].into();
        let columns = "time:ms,op,offset,size".to_string();
        let file = ColumnFile { columns, separator: Some('|'), skip_lines: 2, ops };
        let columns = Some(Columns::of(file.clone()).unwrap());
        let text = b"made by\na tool\n1|0x2A|512|512\nmade by\na tool\n";
        let t = parse_bytes(None, text, LoadOptions { columns, ..LoadOptions::default() }).unwrap();
        assert_eq!((t.records.len(), t.records[0].op(), t.meta.start_ns), (1, Op::Write, 1_000_000));
        let ops = [("7".to_string(), "erase".to_string())].into();
        assert!(
            Columns::of(ColumnFile { ops, ..file })
                .unwrap_err()
                .contains("an operation is one of read, write")
        );
    }
}

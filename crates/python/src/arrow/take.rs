//! Columns of other libraries' tables as whole numbers and words. What is not of a type that a trace can be made of is refused by name.

use super::{Array, Schema, Stream};
use std::ffi::CStr;
use std::ptr::NonNull;

/// A column by name.
pub enum Taken {
    /// Whole numbers, and nanoseconds a unit where the type is a time.
    Numbers(Vec<i128>, Option<u64>),
    /// Words.
    Words(Words),
}

/// Words, each a place in a list of those there are.
#[derive(Default)]
pub struct Words {
    /// Places.
    pub at: Vec<u32>,
    /// The words.
    pub known: Vec<String>,
}

impl Words {
    /// One more word.
    pub fn push(&mut self, word: &str) {
        let last = self.at.last().copied().filter(|&at| self.known[at as usize] == word);
        let at = last.or_else(|| self.known.iter().position(|k| k == word).map(|at| at as u32));
        let at = at.unwrap_or_else(|| {
            self.known.push(word.into());
            self.known.len() as u32 - 1
        });
        self.at.push(at);
    }
}

/// Most different words of a column: more are no names of operations or streams.
const WORDS: usize = 65_536;

/// The columns called `names` of the table in `stream`, in this order; what is not there is left out.
///
/// # Safety
/// `stream` points to a stream that was not released. It is empty afterwards.
pub unsafe fn read(stream: NonNull<Stream>, names: &[&str]) -> Result<Vec<(String, Taken)>, String> {
    // SAFETY: says the caller; who moves a struct of this interface leaves an empty one behind.
    let mut stream = unsafe { stream.as_ptr().replace(Stream::NONE) };
    let mut schema = Schema::NONE;
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err("the Arrow stream was read already".into());
    };
    // SAFETY: functions of the stream are called with the stream.
    let code = unsafe { get_schema(&mut stream, &mut schema) };
    told(&mut stream, code)?;
    // SAFETY: a schema points to its children, as many as it says.
    let fields: Vec<Field<'_>> = unsafe { fields(&schema) }?;
    let mut found: Vec<(String, usize, Taken)> = Vec::new();
    for name in names {
        if let Some(place) = fields.iter().position(|field| field.name == *name) {
            found.push(((*name).into(), place, fields[place].empty()?));
        }
    }
    loop {
        let mut array = Array::NONE;
        // SAFETY: as above.
        let code = unsafe { get_next(&mut stream, &mut array) };
        told(&mut stream, code)?;
        if array.release.is_none() {
            break;
        }
        for (_, place, taken) in &mut found {
            // SAFETY: the array has the children that the schema says.
            unsafe {
                let child = &**array.children.add(*place);
                let rows = Rows { from: array.offset as usize, len: array.length as usize };
                fields[*place].append(child, rows, taken)?;
            }
        }
    }
    Ok(found.into_iter().map(|(name, _, taken)| (name, taken)).collect())
}

fn told(stream: &mut Stream, code: i32) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the text lives until the next call.
    let text = stream.get_last_error.map(|error| unsafe { error(stream) }).filter(|text| !text.is_null());
    Err(text.map_or_else(
        || format!("the Arrow stream failed with error {code}"),
        |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    ))
}

/// The rows of a chunk.
#[derive(Clone, Copy)]
struct Rows {
    from: usize,
    len: usize,
}

/// A field of the table.
struct Field<'a> {
    name: String,
    format: String,
    dictionary: Option<&'a Schema>,
}

unsafe fn fields(schema: &Schema) -> Result<Vec<Field<'_>>, String> {
    // SAFETY: strings and children of a schema live as long as it.
    unsafe {
        if CStr::from_ptr(schema.format).to_bytes() != b"+s" {
            return Err("this Arrow stream is not a table".into());
        }
        let children = (0..schema.n_children as usize).map(|i| &**schema.children.add(i));
        let text = |text| CStr::from_ptr(text).to_string_lossy().into_owned();
        let name = |child: &Schema| if child.name.is_null() { String::new() } else { text(child.name) };
        let field = |child: &'_ Schema| Field {
            name: name(child),
            format: text(child.format),
            dictionary: child.dictionary.as_ref().map(|d| &*std::ptr::from_ref(d)),
        };
        Ok(children.map(field).collect())
    }
}

impl Field<'_> {
    fn refused(&self) -> String {
        format!(
            "column `{}`: its Arrow type `{}` is not a whole number, time, truth value or text; cast it first",
            self.name, self.format
        )
    }

    /// An empty column of its type.
    fn empty(&self) -> Result<Taken, String> {
        if self.dictionary.is_some() {
            return Ok(Taken::Words(Words::default()));
        }
        let unit = |unit| Ok(Taken::Numbers(Vec::new(), Some(unit)));
        match self.format.as_str() {
            "c" | "C" | "s" | "S" | "i" | "I" | "l" | "L" | "b" => Ok(Taken::Numbers(Vec::new(), None)),
            "u" | "U" | "vu" => Ok(Taken::Words(Words::default())),
            time if time.starts_with("ts") || time.starts_with("tD") => match time.as_bytes()[2] {
                b's' => unit(1_000_000_000),
                b'm' => unit(1_000_000),
                b'u' => unit(1000),
                _ => unit(1),
            },
            _ => Err(self.refused()),
        }
    }

    /// # Safety
    /// `array` is a chunk of this field.
    unsafe fn append(&self, array: &Array, rows: Rows, taken: &mut Taken) -> Result<(), String> {
        // A chunk of a table may begin behind the first row of its columns.
        let (from, len) = (rows.from + array.offset as usize, rows.len);
        // SAFETY: buffers are as long as offset and length say, and their types are those of the format.
        unsafe {
            let valid = *array.buffers;
            if array.null_count != 0 && !valid.is_null() {
                let bits = valid.cast::<u8>();
                if (from..from + len).any(|i| *bits.add(i / 8) >> (i % 8) & 1 == 0) {
                    return Err(format!("column `{}` has missing values", self.name));
                }
            }
            let data = || *array.buffers.add(1);
            macro_rules! numbers {
                ($type:ty, $out:expr) => {{
                    if len > 0 {
                        let values = std::slice::from_raw_parts(data().cast::<$type>().add(from), len);
                        $out.extend(values.iter().map(|&value| i128::from(value)));
                    }
                }};
            }
            match (taken, self.dictionary) {
                (Taken::Words(words), Some(of)) => {
                    let keys =
                        Field { name: self.name.clone(), format: self.format.clone(), dictionary: None };
                    let mut places = Taken::Numbers(Vec::new(), None);
                    keys.append(array, rows, &mut places)?;
                    let values = Field {
                        name: self.name.clone(),
                        format: CStr::from_ptr(of.format).to_string_lossy().into_owned(),
                        dictionary: None,
                    };
                    let all = &*array.dictionary;
                    let mut known = Vec::new();
                    values.texts(
                        all,
                        Rows { from: all.offset as usize, len: all.length as usize },
                        |word| {
                            known.push(word.to_string());
                        },
                    )?;
                    if let Taken::Numbers(places, _) = places {
                        for place in places {
                            let word = usize::try_from(place).ok().and_then(|place| known.get(place));
                            words.push(word.ok_or_else(|| self.refused())?);
                        }
                    }
                }
                (Taken::Words(words), None) => {
                    let mut many = false;
                    self.texts(array, Rows { from, len }, |word| {
                        if words.known.len() < WORDS {
                            words.push(word);
                        } else {
                            many = true;
                        }
                    })?;
                    if many {
                        return Err(format!("column `{}` has more than {WORDS} different words", self.name));
                    }
                }
                (Taken::Numbers(out, _), _) => match self.format.as_bytes()[0] {
                    b'c' => numbers!(i8, out),
                    b'C' => numbers!(u8, out),
                    b's' => numbers!(i16, out),
                    b'S' => numbers!(u16, out),
                    b'i' => numbers!(i32, out),
                    b'I' => numbers!(u32, out),
                    b'L' => numbers!(u64, out),
                    b'b' => {
                        let bits = data().cast::<u8>();
                        out.extend((from..from + len).map(|i| i128::from(*bits.add(i / 8) >> (i % 8) & 1)));
                    }
                    // 64-bit numbers, times and durations.
                    _ => numbers!(i64, out),
                },
            }
        }
        Ok(())
    }

    /// # Safety
    /// `array` is a chunk of this field, which is text.
    unsafe fn texts(&self, array: &Array, rows: Rows, mut each: impl FnMut(&str)) -> Result<(), String> {
        let Rows { from, len } = rows;
        // SAFETY: text has offsets and bytes; a view has its length, and 12 bytes of text or a buffer and a place in it.
        unsafe {
            let buffer = |i: usize| *array.buffers.add(i);
            for i in from..from + len {
                let bytes: &[u8] = match self.format.as_str() {
                    "u" => {
                        let offsets = buffer(1).cast::<i32>();
                        let (start, end) = (*offsets.add(i) as usize, *offsets.add(i + 1) as usize);
                        bytes_of(buffer(2).cast(), start, end)
                    }
                    "U" => {
                        let offsets = buffer(1).cast::<i64>();
                        let (start, end) = (*offsets.add(i) as usize, *offsets.add(i + 1) as usize);
                        bytes_of(buffer(2).cast(), start, end)
                    }
                    "vu" => {
                        let view = buffer(1).cast::<u8>().add(16 * i);
                        let word = |at: usize| view.add(at).cast::<i32>().read_unaligned() as usize;
                        match word(0) {
                            len @ 0..=12 => std::slice::from_raw_parts(view.add(4), len),
                            len => bytes_of(buffer(2 + word(8)).cast(), word(12), word(12) + len),
                        }
                    }
                    _ => return Err(self.refused()),
                };
                each(std::str::from_utf8(bytes).map_err(|_| self.refused())?);
            }
        }
        Ok(())
    }
}

/// # Safety
/// `data` has these bytes, or there are none.
unsafe fn bytes_of<'a>(data: *const u8, start: usize, end: usize) -> &'a [u8] {
    if start == end {
        return &[];
    }
    // SAFETY: says the caller.
    unsafe { std::slice::from_raw_parts(data.add(start), end - start) }
}

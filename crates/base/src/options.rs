//! Options that are declared once, at their field.
//!
//! ```
//! use nandu_base::{ByteLen, Span, options};
//! use nandu_base::options::Options;
//!
//! /// Options of a machine.
//! #[options]
//! #[derive(Clone, Debug)]
//! pub struct MachineConfig {
//!     /// The device below.
//!     pub below: String,
//!     /// Requests in flight at once.
//!     #[option(default = 4, range = 1..=256)]
//!     pub depth: u32,
//!     /// Bytes of one request.
//!     #[option(default = ByteLen::kib(64), range = ByteLen::kib(4)..=ByteLen::mib(1), power_of_two)]
//!     pub chunk: ByteLen,
//!     /// A request that takes longer is sent again.
//!     #[option(default = Span::ZERO, off = "never", range = Span::from_ms(1)..)]
//!     pub timeout: Span,
//! }
//!
//! let mut config = MachineConfig::with_defaults("disk".into());
//! assert!(config.check_ranges().is_ok());
//! config.depth = 0;
//! let error = config.check_ranges().expect_err("none is too few");
//! assert_eq!((error.key.as_deref(), error.reason.as_str()), (Some("depth"), "0 is out of bounds: 1 to 256"));
//! let sentences: Vec<String> = MachineConfig::declared().iter().map(|option| option.sentence()).collect();
//! assert_eq!(sentences[1], "Default 4; 1 to 256.");
//! assert_eq!(sentences[2], "Default 64 KiB; a power of two from 4 KiB to 1 MiB.");
//! assert_eq!(sentences[3], "Default 0: never; otherwise at least 1 ms.");
//! ```
//!
//! From the attribute come the default of the stack file and of constructors, the check that every stack is built with, and the
//! sentence that the schema, and with it the reference and `nandu list`, adds to the field's own words.

use crate::policy::{Chosen, Family};
pub use crate::registry::BuildError;
use crate::units::{ByteLen, Ratio, Span};
use schemars::Schema;
use std::cmp::Ordering;

/// Options of a machine or policy. `#[options]` implements it.
pub trait Options {
    /// What is declared of each option, in the order of the fields.
    fn declared() -> Vec<Described>
    where
        Self: Sized;

    /// Whether each option is what its declaration allows.
    ///
    /// # Errors
    /// The first that is not: its name, its value and what would be right.
    fn check_ranges(&self) -> Result<(), BuildError>;
}

/// What a sentence can say.
pub trait Value {
    /// As the reference says it: `5 s`, `"balanced"`.
    fn say(&self) -> String;

    /// Whether it is nothing: what [`Bounds::off`] allows.
    fn is_zero(&self) -> bool {
        false
    }
}

/// A value that has an order and can be bounded.
pub trait Quantity: Value + Copy {
    /// Which of two is larger.
    fn order(&self, other: &Self) -> Ordering;
    /// The value as a whole number, where it is one.
    fn whole(&self) -> Option<u64>;
    /// The next smaller value, if there is one.
    fn before(&self) -> Option<Self>;
    /// The next larger value, if there is one.
    fn after(&self) -> Option<Self>;
    /// As a stack file writes it.
    fn toml(&self) -> String;
}

macro_rules! integers {
    ($($int:ty)*) => {
        $(impl Value for $int {
            fn say(&self) -> String {
                self.to_string()
            }

            fn is_zero(&self) -> bool {
                *self == 0
            }
        }

        impl Quantity for $int {
            fn order(&self, other: &$int) -> Ordering {
                self.cmp(other)
            }

            fn whole(&self) -> Option<u64> {
                Some(*self as u64)
            }

            fn before(&self) -> Option<$int> {
                self.checked_sub(1)
            }

            fn after(&self) -> Option<$int> {
                self.checked_add(1)
            }

            fn toml(&self) -> String {
                self.to_string()
            }
        })*
    };
}

integers! { u8 u16 u32 u64 usize }

macro_rules! quantities {
    ($($name:ident, $say:expr, $toml:expr;)*) => {
        $(impl Value for $name {
            fn say(&self) -> String {
                $say(self)
            }

            fn is_zero(&self) -> bool {
                self.0 == 0
            }
        }

        impl Quantity for $name {
            fn order(&self, other: &$name) -> Ordering {
                self.0.cmp(&other.0)
            }

            fn whole(&self) -> Option<u64> {
                Some(self.0)
            }

            fn before(&self) -> Option<$name> {
                self.0.checked_sub(1).map($name)
            }

            fn after(&self) -> Option<$name> {
                self.0.checked_add(1).map($name)
            }

            fn toml(&self) -> String {
                $toml(self)
            }
        })*
    };
}

quantities! {
    ByteLen, |length: &ByteLen| length.exact(), |length: &ByteLen| length.0.to_string();
    Span, |span: &Span| span.exact(), |span: &Span| format!("\"{} ns\"", span.0);
}

impl Value for Ratio {
    /// With a point where that is exact in six digits, otherwise as a fraction.
    fn say(&self) -> String {
        let millionths = u128::from(self.num) * 1_000_000;
        if !millionths.is_multiple_of(u128::from(self.den)) {
            return format!("{}/{}", self.num, self.den);
        }
        let millionths = millionths / u128::from(self.den);
        let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
        text.trim_end_matches('0').trim_end_matches('.').into()
    }

    fn is_zero(&self) -> bool {
        self.num == 0
    }
}

impl Quantity for Ratio {
    fn order(&self, other: &Ratio) -> Ordering {
        let product = |a: u64, b: u64| u128::from(a) * u128::from(b);
        product(self.num, other.den).cmp(&product(other.num, self.den))
    }

    fn whole(&self) -> Option<u64> {
        self.num.is_multiple_of(self.den).then(|| self.num / self.den)
    }

    fn before(&self) -> Option<Ratio> {
        let finer = Ratio::new(self.num.checked_mul(1000)?, self.den.checked_mul(1000)?);
        finer.num.checked_sub(1).map(|num| Ratio { num, ..finer })
    }

    fn after(&self) -> Option<Ratio> {
        let finer = Ratio::new(self.num.checked_mul(1000)?, self.den.checked_mul(1000)?);
        Some(Ratio { num: finer.num + 1, ..finer })
    }

    fn toml(&self) -> String {
        format!("\"{}/{}\"", self.num, self.den)
    }
}

impl Value for bool {
    fn say(&self) -> String {
        self.to_string()
    }
}

impl Value for String {
    fn say(&self) -> String {
        format!("{self:?}")
    }
}

impl<F: Family> Value for Chosen<F> {
    fn say(&self) -> String {
        format!("{:?}", self.name())
    }
}

fn list<T: Value>(values: &[T]) -> String {
    let all: Vec<String> = values.iter().map(Value::say).collect();
    format!("[{}]", all.join(", "))
}

impl<T: Value, const N: usize> Value for [T; N] {
    fn say(&self) -> String {
        list(self)
    }
}

impl<T: Value> Value for Vec<T> {
    fn say(&self) -> String {
        list(self)
    }

    fn is_zero(&self) -> bool {
        self.is_empty()
    }
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds<T> {
    least: Option<T>,
    above: Option<T>,
    most: Option<T>,
    below: Option<T>,
    is_power_of_two: bool,
    step: Option<T>,
    off: Option<&'static str>,
}

impl<T: Quantity> Bounds<T> {
    /// Anything.
    pub const fn any() -> Bounds<T> {
        let (least, above, most, below) = (None, None, None, None);
        Bounds { least, above, most, below, is_power_of_two: false, step: None, off: None }
    }

    /// This or more.
    pub fn least(self, least: T) -> Bounds<T> {
        Bounds { least: Some(least), ..self }
    }

    /// More than this.
    pub fn above(self, above: T) -> Bounds<T> {
        Bounds { above: Some(above), ..self }
    }

    /// This or less.
    pub fn most(self, most: T) -> Bounds<T> {
        Bounds { most: Some(most), ..self }
    }

    /// Less than this.
    pub fn below(self, below: T) -> Bounds<T> {
        Bounds { below: Some(below), ..self }
    }

    /// A power of two.
    pub fn power_of_two(self) -> Bounds<T> {
        Bounds { is_power_of_two: true, ..self }
    }

    /// A multiple of this.
    pub fn multiple_of(self, step: T) -> Bounds<T> {
        Bounds { step: Some(step), ..self }
    }

    /// Zero besides, which means this.
    pub fn off(self, meaning: &'static str) -> Bounds<T> {
        Bounds { off: Some(meaning), ..self }
    }

    /// Whether they allow the value.
    pub fn allow(&self, value: &T) -> bool {
        if self.off.is_some() && value.is_zero() {
            return true;
        }
        let all = |bound: Option<T>, good: fn(Ordering) -> bool| {
            bound.is_none_or(|bound| good(value.order(&bound)))
        };
        let steps = |step: T| {
            let (value, step) = (value.whole()?, step.whole()?);
            Some(value.is_multiple_of(step))
        };
        all(self.least, Ordering::is_ge)
            && all(self.above, Ordering::is_gt)
            && all(self.most, Ordering::is_le)
            && all(self.below, Ordering::is_lt)
            && (!self.is_power_of_two || value.whole().is_some_and(u64::is_power_of_two))
            && self.step.is_none_or(|step| steps(step).unwrap_or(false))
    }

    /// What they allow beside "off", in words; empty when that is anything.
    fn range(&self) -> String {
        let kind = match (self.is_power_of_two, &self.step) {
            (true, _) => "a power of two".into(),
            (false, Some(step)) => format!("a multiple of {}", step.say()),
            (false, None) => String::new(),
        };
        let from = if kind.is_empty() { "" } else { " from " };
        let limits = match (&self.least, &self.most) {
            (Some(low), Some(high)) => format!("{from}{} to {}", low.say(), high.say()),
            _ => {
                let said = |word: &str, bound: &Option<T>| {
                    bound.as_ref().map(|bound| format!("{word} {}", bound.say()))
                };
                let parts = [
                    said("at least", &self.least),
                    said("above", &self.above),
                    said("at most", &self.most),
                    said("below", &self.below),
                ];
                let parts = parts.into_iter().flatten().collect::<Vec<_>>().join(", ");
                if kind.is_empty() || parts.is_empty() { parts } else { format!(", {parts}") }
            }
        };
        format!("{kind}{limits}")
    }

    /// What they allow, in words.
    pub fn say(&self) -> String {
        let range = self.range();
        match (self.off, range.is_empty()) {
            (Some(_), true) => "0".into(),
            (Some(_), false) => format!("0, or {range}"),
            (None, _) => range,
        }
    }

    /// The values next to the range that they refuse, as a stack file writes them.
    fn refused(&self) -> Vec<String> {
        let next = [
            self.least.and_then(|bound| bound.before()),
            self.above,
            self.most.and_then(|bound| bound.after()),
            self.below,
        ];
        next.into_iter().flatten().filter(|value| !self.allow(value)).map(|value| value.toml()).collect()
    }
}

/// What is declared of one option.
#[derive(Clone, Debug)]
pub struct Described {
    /// Its name in a stack file.
    pub name: &'static str,
    /// What it is when it is left out, in words; empty for one that must be given.
    pub default: String,
    /// What it may be, in words; empty for anything.
    pub range: String,
    /// Values beside the range, as a stack file writes them: each is refused.
    pub refused: Vec<String>,
    /// The word that `kind` must say for it, where a table has other options with others; empty where it always has this one.
    pub kind: &'static str,
    /// What is declared of its own options, for a table.
    pub inner: Option<fn() -> Vec<Described>>,
    is_flattened: bool,
    default_is_zero: bool,
    note: &'static str,
    off: Option<&'static str>,
    /// A bound that needs more than this option; empty for none.
    pub also: &'static str,
}

impl Described {
    /// An option of which nothing is said.
    pub fn new(name: &'static str) -> Described {
        Described {
            name,
            default: String::new(),
            range: String::new(),
            refused: Vec::new(),
            kind: "",
            inner: None,
            is_flattened: false,
            default_is_zero: false,
            note: "",
            off: None,
            also: "",
        }
    }

    /// What it is when it is left out.
    pub fn with_default(self, default: &impl Value) -> Described {
        Described { default: default.say(), default_is_zero: default.is_zero(), ..self }
    }

    /// What it is when it is left out, where other options decide that.
    pub fn unset(self, default: &str) -> Described {
        Described { default: format!(": {default}"), ..self }
    }

    /// Words behind its default.
    pub fn noted(self, note: &'static str) -> Described {
        Described { note, ..self }
    }

    /// A bound that needs more than this option.
    pub fn also(self, also: &'static str) -> Described {
        Described { also, ..self }
    }

    /// The word of `kind` that it goes with.
    pub fn of_kind(self, kind: &'static str) -> Described {
        Described { kind, ..self }
    }

    /// What is declared of its own options.
    pub fn table(self, inner: fn() -> Vec<Described>) -> Described {
        Described { inner: Some(inner), ..self }
    }

    /// What it may be, or each element of it when `is_list`.
    pub fn bounded<T: Quantity>(self, bounds: &Bounds<T>, is_list: bool) -> Described {
        let refused = bounds.refused().into_iter();
        let refused = refused.map(|value| if is_list { format!("[{value}]") } else { value }).collect();
        Described { range: bounds.range(), refused, off: bounds.off, ..self }
    }

    /// The sentence that says default and range: `Default 4; 1 to 256.` Empty when neither is declared.
    pub fn sentence(&self) -> String {
        let mut parts = Vec::new();
        let mut otherwise = "";
        if !self.default.is_empty() {
            let note = if self.note.is_empty() { String::new() } else { format!(", {}", self.note) };
            match self.off {
                Some(off) if self.default_is_zero => {
                    // A list has no zero of its own.
                    let zero = if self.default == "[]" { "[]" } else { "0" };
                    parts.push(format!("Default {zero}: {off}{note}"));
                    otherwise = "otherwise ";
                }
                _ if self.default.starts_with(':') => parts.push(format!("Default{}{note}", self.default)),
                _ => parts.push(format!("Default {}{note}", self.default)),
            }
        }
        let mut range = format!("{otherwise}{}", self.range);
        if let Some(off) = self.off.filter(|_| !self.default_is_zero) {
            let rest = if self.range.is_empty() { "" } else { ", otherwise " };
            range = format!("0 for {off}{rest}{}", self.range);
        }
        if range != otherwise {
            parts.push(range);
        }
        if !self.also.is_empty() {
            parts.push(self.also.into());
        }
        if parts.is_empty() {
            return String::new();
        }
        let text = parts.join("; ");
        let mut letters = text.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).chain(['.']).collect()
    }
}

/// What is declared of options that stand among those of others.
pub fn flattened<C: Options>() -> Vec<Described> {
    C::declared().into_iter().map(|option| Described { is_flattened: true, ..option }).collect()
}

/// Adds to the description of each option in the schema of `C` what is declared of it.
pub fn describe<C: Options>(schema: &mut Schema) {
    // What is flattened has its sentences from its own type.
    for option in C::declared().iter().filter(|option| !option.is_flattened) {
        let sentence = option.sentence();
        let properties = match option.kind {
            "" => schema.get_mut("properties"),
            kind => {
                let tables = schema.get_mut("oneOf").and_then(|tables| tables.as_array_mut());
                let table = tables.into_iter().flatten().find(|t| t["properties"]["kind"]["const"] == kind);
                table.and_then(|table| table.get_mut("properties"))
            }
        };
        let property = properties.and_then(|all| all.get_mut(option.name)?.as_object_mut());
        let Some(property) = property.filter(|_| !sentence.is_empty()) else { continue };
        let words = match property.get("description").and_then(|words| words.as_str()) {
            Some(words) => format!("{words} {sentence}"),
            None => sentence,
        };
        property.insert("description".into(), words.into());
    }
}

/// Whether `value` of the option `name` lies within `bounds`.
///
/// # Errors
/// It does not: the option, the value and what would be right.
pub fn check<T: Quantity>(name: &'static str, value: &T, bounds: &Bounds<T>) -> Result<(), BuildError> {
    if bounds.allow(value) {
        return Ok(());
    }
    Err(BuildError::at(name, format!("{} is out of bounds: {}", value.say(), bounds.say())))
}

/// The same for the options of the table `name`.
///
/// # Errors
/// The first of them that is out of bounds, as `name.OPTION`.
pub fn check_table(name: &'static str, table: &impl Options) -> Result<(), BuildError> {
    table.check_ranges().map_err(|error| error.within(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_options::options;

    /// Which way.
    #[options]
    #[derive(Clone, Copy, PartialEq, Debug, Default)]
    enum Way {
        /// Up.
        StraightUp,
        /// Down.
        #[default]
        Down,
    }

    /// A table.
    #[options]
    #[derive(Clone, Debug, PartialEq)]
    struct Inner {
        /// Rate.
        #[option(default = ByteLen::mib(32), off = "no limit", range = ByteLen::kib(4)..)]
        rate: ByteLen,
    }

    /// Every form.
    #[options]
    #[derive(Clone, PartialEq, Debug)]
    struct Every {
        /// Given.
        below: String,
        /// A number.
        #[option(default = 256, note = "as with mdadm", range = 1..=16_383)]
        number: u32,
        /// At least.
        #[option(default = Span::from_secs(5), range = Span::from_ms(1)..)]
        least: Span,
        /// At most.
        #[option(default = Span::ZERO, range = ..=Span::from_secs(3600))]
        most: Span,
        /// Between.
        #[option(default = Ratio::new(13, 10), above = Ratio::ZERO, below = Ratio::new(2, 1))]
        between: Ratio,
        /// A power.
        #[option(default = ByteLen::kib(4), range = ByteLen::kib(4)..=ByteLen::mib(1), power_of_two)]
        power: ByteLen,
        /// A multiple.
        #[option(default = ByteLen::kib(8), range = ByteLen::kib(4)..=ByteLen::mib(1), multiple_of = ByteLen::kib(4))]
        multiple: ByteLen,
        /// Off.
        #[option(default, off = "never", range = Span::from_us(1)..=Span::from_secs(10))]
        off: Span,
        /// Maybe.
        #[option(unset = "4, with \"fifo\" 1", range = 1..=256)]
        maybe: Option<u32>,
        /// A list.
        #[option(default, off = "no bound", range = ..=9)]
        list: Vec<u32>,
        /// A word.
        #[option(default = Way::StraightUp)]
        word: Way,
        /// A table.
        #[option(default, table)]
        table: Inner,
        /// More.
        #[option(default = 2, also = "room for `number`")]
        more: u8,
    }

    fn every() -> Every {
        Every::with_defaults("disk".into())
    }

    #[test]
    fn a_sentence_says_default_and_range() {
        let said: Vec<(&str, String)> = Every::declared().iter().map(|o| (o.name, o.sentence())).collect();
        let expected = [
            ("below", ""),
            ("number", "Default 256, as with mdadm; 1 to 16383."),
            ("least", "Default 5 s; at least 1 ms."),
            ("most", "Default 0 ns; at most 1 h."),
            ("between", "Default 1.3; above 0, below 2."),
            ("power", "Default 4 KiB; a power of two from 4 KiB to 1 MiB."),
            ("multiple", "Default 8 KiB; a multiple of 4 KiB from 4 KiB to 1 MiB."),
            ("off", "Default 0: never; otherwise 1 us to 10 s."),
            ("maybe", "Default: 4, with \"fifo\" 1; 1 to 256."),
            ("list", "Default []: no bound; otherwise at most 9."),
            ("word", "Default \"straight-up\"."),
            ("table", ""),
            ("more", "Default 2; room for `number`."),
        ];
        assert_eq!(said, expected.map(|(name, sentence)| (name, sentence.to_string())));
        assert_eq!(
            Inner::declared()[0].sentence(),
            "Default 32 MiB; 0 for no limit, otherwise at least 4 KiB."
        );
    }

    #[test]
    fn a_value_out_of_bounds_is_named_with_what_would_be_right() {
        type Spoil = fn(&mut Every);
        let cases: [(Spoil, &str, &str); 13] = [
            (|c| c.number = 0, "number", "0 is out of bounds: 1 to 16383"),
            (|c| c.number = 16_384, "number", "16384 is out of bounds: 1 to 16383"),
            (|c| c.least = Span(999_999), "least", "999999 ns is out of bounds: at least 1 ms"),
            (|c| c.most = Span::from_secs(3601), "most", "3601 s is out of bounds: at most 1 h"),
            (|c| c.between = Ratio::ZERO, "between", "0 is out of bounds: above 0, below 2"),
            (|c| c.between = Ratio::new(6, 3), "between", "2 is out of bounds: above 0, below 2"),
            (
                |c| c.power = ByteLen::kib(12),
                "power",
                "12 KiB is out of bounds: a power of two from 4 KiB to 1 MiB",
            ),
            (
                |c| c.multiple = ByteLen(4097),
                "multiple",
                "4097 B is out of bounds: a multiple of 4 KiB from 4 KiB to 1 MiB",
            ),
            (|c| c.off = Span(1), "off", "1 ns is out of bounds: 0, or 1 us to 10 s"),
            (|c| c.off = Span::from_secs(11), "off", "11 s is out of bounds: 0, or 1 us to 10 s"),
            (|c| c.maybe = Some(0), "maybe", "0 is out of bounds: 1 to 256"),
            (|c| c.list = vec![3, 10], "list", "10 is out of bounds: 0, or at most 9"),
            (|c| c.table.rate = ByteLen(1), "table.rate", "1 B is out of bounds: 0, or at least 4 KiB"),
        ];
        assert_eq!(every().check_ranges(), Ok(()));
        for (spoil, key, reason) in cases {
            let mut config = every();
            spoil(&mut config);
            assert_eq!(config.check_ranges(), Err(BuildError::at(key, reason)));
        }
    }

    #[test]
    fn the_file_the_constructor_and_the_schema_have_the_same_defaults() {
        let read: Every = toml::from_str("below = \"disk\"").expect("the rest has defaults");
        assert_eq!(read, every());
        assert_eq!((read.below.as_str(), read.number, read.more), ("disk", 256, 2));
        assert_eq!((read.word, read.maybe), (Way::StraightUp, None));
        assert_eq!(Inner::default(), Inner { rate: ByteLen::mib(32) });
        assert!(toml::from_str::<Every>("below = \"disk\"\nnumbre = 3").is_err());
        let schema = schemars::schema_for!(Every);
        let properties = schema.get("properties").expect("it has options");
        assert_eq!(properties["number"]["description"], "A number. Default 256, as with mdadm; 1 to 16383.");
        assert_eq!(properties["below"]["description"], "Given.");
        assert_eq!(schema.get("required").map(|names| names.to_string()), Some("[\"below\"]".into()));
    }

    /// Shared by others.
    #[options]
    #[derive(Clone, Debug, PartialEq)]
    struct Shared {
        /// How many.
        #[option(default = 3, range = 1..=9)]
        number: u32,
    }

    /// One of several.
    #[options]
    #[derive(Clone, Debug, Default, PartialEq)]
    enum Mode {
        /// Nothing.
        #[default]
        Off,
        /// Something.
        HalfWay {
            /// How far.
            #[option(default = Ratio::new(1, 2), above = Ratio::ZERO, range = ..=Ratio::new(1, 1))]
            part: Ratio,
            /// How.
            #[option(default, table)]
            how: Inner,
        },
    }

    /// A table with all of them.
    #[options]
    #[derive(Clone, Debug, PartialEq)]
    struct Outer {
        #[option(flatten, default)]
        shared: Shared,
        /// The mode.
        #[option(default, table)]
        mode: Mode,
        /// Called otherwise.
        #[serde(rename = "static")]
        #[option(default = 1, range = 1..=2)]
        fixed: u32,
    }

    #[test]
    fn options_of_others_and_of_a_kind_are_declared_and_checked() {
        let outer: Outer = toml::from_str("number = 4\nmode = { kind = \"half-way\", how.rate = 8192 }")
            .expect("the rest has defaults");
        let how = Inner { rate: ByteLen::kib(8) };
        let mode = Mode::HalfWay { part: Ratio::new(1, 2), how };
        assert_eq!(outer, Outer { shared: Shared { number: 4 }, mode, fixed: 1 });
        assert_eq!(Outer::default().shared, Shared { number: 3 });
        for (text, key, reason) in [
            ("number = 0", "number", "0 is out of bounds: 1 to 9"),
            ("static = 3", "static", "3 is out of bounds: 1 to 2"),
            (
                "mode = { kind = \"half-way\", part = 0 }",
                "mode.part",
                "0 is out of bounds: above 0, at most 1",
            ),
            (
                "mode = { kind = \"half-way\", how.rate = \"1 B\" }",
                "mode.how.rate",
                "1 B is out of bounds: 0, or at least 4 KiB",
            ),
        ] {
            let outer: Outer = toml::from_str(text).expect(text);
            assert_eq!(outer.check_ranges(), Err(BuildError::at(key, reason)), "{text}");
        }
        let named =
            |options: Vec<Described>| -> Vec<_> { options.iter().map(|o| (o.kind, o.name)).collect() };
        assert_eq!(named(Outer::declared()), [("", "number"), ("", "mode"), ("", "static")]);
        let mode = Outer::declared()[1].inner.expect("it is a table")();
        assert_eq!(named(mode.clone()), [("half-way", "part"), ("half-way", "how")]);
        assert_eq!(named(mode[1].inner.expect("it is a table")()), [("", "rate")]);
        let schema = schemars::schema_for!(Outer);
        let property = |name: &str| schema.get("properties").map(|all| all[name]["description"].clone());
        assert_eq!(property("number"), Some("How many. Default 3; 1 to 9.".into()));
        assert_eq!(property("static"), Some("Called otherwise. Default 1; 1 to 2.".into()));
        assert_eq!(schema.get("additionalProperties"), Some(&false.into()));
        let mode = &schema.get("$defs").expect("there are some")["Mode"]["oneOf"][1]["properties"];
        assert_eq!(mode["part"]["description"], "How far. Default 0.5; above 0, at most 1.");
    }

    #[test]
    fn the_values_beside_a_range_are_refused() {
        let refused: Vec<Vec<String>> = Every::declared().into_iter().map(|o| o.refused).collect();
        assert_eq!(refused[1], ["0", "16384"]);
        assert_eq!(refused[2], ["\"999999 ns\""]);
        assert_eq!(refused[4], ["\"0/1\"", "\"2/1\""]);
        assert_eq!(refused[9], ["[10]"]);
    }
}

//! Quantities as a stack file writes them: `"512 MiB"`, `"25 us"`, `"7 %"`.

use crate::units::{ByteLen, Ratio, Span, parse_ratio, parse_size, parse_span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

impl<'de> Deserialize<'de> for ByteLen {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<ByteLen, D::Error> {
        struct Size;
        impl Visitor<'_> for Size {
            type Value = ByteLen;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"512 MiB\", or a whole number of bytes")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<ByteLen, E> {
                parse_size(text).map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, bytes: u64) -> Result<ByteLen, E> {
                Ok(ByteLen(bytes))
            }
            fn visit_i64<E: Error>(self, bytes: i64) -> Result<ByteLen, E> {
                u64::try_from(bytes).map(ByteLen).map_err(|_| E::custom("a size cannot be negative"))
            }
        }
        d.deserialize_any(Size)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Span, D::Error> {
        struct Time;
        impl Visitor<'_> for Time {
            type Value = Span;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit, such as \"25 us\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Span, E> {
                parse_span(text).map_err(E::custom)
            }
        }
        d.deserialize_any(Time)
    }
}

impl<'de> Deserialize<'de> for Ratio {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Ratio, D::Error> {
        struct Share;
        impl Visitor<'_> for Share {
            type Value = Ratio;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a share such as 0.07, \"7 %\" or \"1/16\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Ratio, E> {
                parse_ratio(text).map_err(E::custom)
            }
            fn visit_u64<E: Error>(self, n: u64) -> Result<Ratio, E> {
                Ok(Ratio::new(n, 1))
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<Ratio, E> {
                u64::try_from(n)
                    .map(|n| Ratio::new(n, 1))
                    .map_err(|_| E::custom("a share cannot be negative"))
            }
            fn visit_f64<E: Error>(self, n: f64) -> Result<Ratio, E> {
                // The shortest text of the number is what the file says; from there on it is exact.
                parse_ratio(&n.to_string()).map_err(E::custom)
            }
        }
        d.deserialize_any(Share)
    }
}

impl Serialize for ByteLen {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format!("{} ns", self.0))
    }
}

impl Serialize for Ratio {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&format!("{}/{}", self.num, self.den))
    }
}

impl JsonSchema for ByteLen {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A size with its unit (B, KiB, MiB, GiB, TiB; kB, MB, GB, TB are decimal), or bytes.",
            "type": ["string", "integer"],
            "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *(B|[KMGT]iB|[kKMGT]B|[kKmMgGtT])?$",
            "minimum": 0,
            "examples": ["512 MiB"]
        })
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A time with its unit: ns, us, ms, s, min, h.",
            "type": "string",
            "pattern": "^[0-9][0-9_]*(\\.[0-9]+)? *(ns|us|µs|ms|s|min|h)$",
            "examples": ["25 us"]
        })
    }
}

impl JsonSchema for Ratio {
    fn schema_name() -> Cow<'static, str> {
        "Share".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A share: a number, a percentage or a fraction.",
            "type": ["string", "number"],
            "examples": [0.07, "7 %", "1/16"]
        })
    }
}

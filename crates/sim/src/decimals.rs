//! Ratios that are kept in whole thousandths, as decimals in JSON.
//!
//! A thousandth has a shortest decimal of three places, so that the same figure is the same text on every machine.

use serde::ser::{SerializeSeq, Serializer};
use std::collections::BTreeMap;

fn decimal(thousandths: i128) -> f64 {
    thousandths as f64 / 1000.0
}

/// A figure.
pub fn one<S: Serializer, N: Copy + Into<i128>>(thousandths: &N, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(decimal((*thousandths).into()))
}

/// A figure that may be absent.
pub fn option<S: Serializer, N: Copy + Into<i128>>(
    thousandths: &Option<N>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match thousandths {
        Some(n) => serializer.serialize_some(&decimal((*n).into())),
        None => serializer.serialize_none(),
    }
}

/// Several figures.
pub fn list<S: Serializer, N: Copy + Into<i128>>(
    thousandths: &[N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut out = serializer.serialize_seq(Some(thousandths.len()))?;
    for &n in thousandths {
        out.serialize_element(&decimal(n.into()))?;
    }
    out.end()
}

/// Figures with their names.
pub fn named<S: Serializer, N: Copy + Into<i128>>(
    thousandths: &[(String, N)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut out = serializer.serialize_seq(Some(thousandths.len()))?;
    for (name, n) in thousandths {
        out.serialize_element(&(name, decimal((*n).into())))?;
    }
    out.end()
}

/// Figures by a name.
pub fn map<S: Serializer>(
    thousandths: &BTreeMap<&'static str, u64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(thousandths.iter().map(|(name, &n)| (name, decimal(n.into()))))
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    #[derive(Serialize)]
    struct Figures {
        #[serde(serialize_with = "super::one")]
        one: u64,
        #[serde(serialize_with = "super::one")]
        below: i64,
        #[serde(serialize_with = "super::option")]
        none: Option<u64>,
        #[serde(serialize_with = "super::list")]
        list: Vec<u64>,
        #[serde(serialize_with = "super::named")]
        named: Vec<(String, u64)>,
    }

    #[test]
    fn thousandths_are_decimals_of_three_places_at_most() {
        let (list, named) = (vec![0, 1, 1000, 999_999], vec![("a".to_string(), 130)]);
        let figures = Figures { one: 1043, below: -200, none: None, list, named };
        assert_eq!(
            serde_json::to_string(&figures).expect("JSON"),
            r#"{"one":1.043,"below":-0.2,"none":null,"list":[0.0,0.001,1.0,999.999],"named":[["a",0.13]]}"#
        );
    }
}

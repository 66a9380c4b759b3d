//! Tables: named columns of equal length that any library with the Arrow C stream interface takes without a copy.

use crate::arrow::{STREAM, Stream, stream_of};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyDict, PyList};
use std::sync::Arc;

/// The values of a column.
pub enum Values {
    /// Whole numbers.
    I64(Vec<i64>),
    /// Whole numbers that are never below 0.
    U64(Vec<u64>),
    /// Others.
    F64(Vec<f64>),
    /// Truth values, a bit each.
    Bool(Vec<u8>),
    /// Texts: where each begins, with the end of the last, and all of them in a row.
    Text(Vec<i64>, Vec<u8>),
    /// A few words: which one each is, and the words as texts.
    Words(Vec<i8>, Vec<i64>, Vec<u8>),
}

/// A column.
pub struct Column {
    /// Its name, with its unit.
    pub name: String,
    /// Its values.
    pub values: Values,
    /// A bit for each row that has a value; all have where nothing is given.
    pub valid: Option<Vec<u8>>,
    /// Rows without one.
    pub missing: usize,
}

/// The columns of a table.
pub struct Columns {
    /// Rows.
    pub rows: usize,
    /// By name.
    pub columns: Vec<Column>,
}

impl Column {
    /// One in which no value is missing.
    pub fn full(name: &str, values: Values) -> Column {
        Column { name: name.into(), values, valid: None, missing: 0 }
    }
}

/// Texts in a row.
pub fn texts<'a>(all: impl IntoIterator<Item = &'a str>) -> (Vec<i64>, Vec<u8>) {
    let (mut offsets, mut bytes) = (vec![0], Vec::new());
    for text in all {
        bytes.extend_from_slice(text.as_bytes());
        offsets.push(bytes.len() as i64);
    }
    (offsets, bytes)
}

fn bits(all: impl ExactSizeIterator<Item = bool>) -> Vec<u8> {
    let mut bits = vec![0; all.len().div_ceil(8)];
    all.enumerate().filter(|(_, bit)| *bit).for_each(|(i, _)| bits[i / 8] |= 1 << (i % 8));
    bits
}

/// A table. pandas, polars, pyarrow and DuckDB read it without a copy.
#[pyclass(frozen, module = "nandu._nandu")]
pub struct Table(Arc<Columns>);

impl Table {
    /// Of these columns.
    pub fn new(columns: Vec<Column>, rows: usize) -> Table {
        Table(Arc::new(Columns { rows, columns }))
    }
}

/// A column from a list: numbers, texts or truth values, with `None` for what is missing.
fn column(name: String, list: &Bound<'_, PyList>) -> PyResult<Column> {
    let present: Vec<bool> = list.iter().map(|value| !value.is_none()).collect();
    let missing = present.iter().filter(|present| !**present).count();
    let first = list.iter().find(|value| !value.is_none());
    let kind = first
        .map_or_else(|| Ok(String::from("str")), |first| first.get_type().name().map(|n| n.to_string()))?;
    let has_parts = kind == "int" && list.iter().any(|v| v.get_type().name().is_ok_and(|n| n == "float"));
    let values = match kind.as_str() {
        "bool" => {
            let all = list.iter().map(|v| if v.is_none() { Ok(false) } else { v.extract() });
            Values::Bool(bits(all.collect::<PyResult<Vec<bool>>>()?.into_iter()))
        }
        "int" if !has_parts => {
            let all = list.iter().map(|v| if v.is_none() { Ok(0) } else { v.extract() });
            Values::I64(all.collect::<PyResult<_>>()?)
        }
        "int" | "float" => {
            let all = list.iter().map(|v| if v.is_none() { Ok(0.0) } else { v.extract() });
            Values::F64(all.collect::<PyResult<_>>()?)
        }
        "str" => {
            let all = list.iter().map(|v| if v.is_none() { Ok(String::new()) } else { v.extract() });
            let all = all.collect::<PyResult<Vec<String>>>()?;
            let (offsets, bytes) = texts(all.iter().map(String::as_str));
            Values::Text(offsets, bytes)
        }
        other => {
            return Err(PyTypeError::new_err(format!("column `{name}`: {other} is not a type of a column")));
        }
    };
    let valid = (missing > 0).then(|| bits(present.into_iter()));
    Ok(Column { name, values, valid, missing })
}

/// A column as a buffer.
type Buffer<'py> = (String, &'static str, Bound<'py, PyBytes>, Vec<String>);

fn bytes<'py>(py: Python<'py>, all: impl Iterator<Item = u8>) -> Bound<'py, PyBytes> {
    PyBytes::new(py, &all.collect::<Vec<u8>>())
}

#[pymethods]
impl Table {
    /// A table of lists of equal length by name.
    #[new]
    fn of(columns: &Bound<'_, PyDict>) -> PyResult<Table> {
        let mut all = Vec::new();
        let mut rows = None;
        for (name, list) in columns {
            let (name, list): (String, Bound<'_, PyList>) = (name.extract()?, list.extract()?);
            if *rows.get_or_insert(list.len()) != list.len() {
                return Err(PyValueError::new_err(format!(
                    "column `{name}` has another length than the first"
                )));
            }
            all.push(column(name, &list)?);
        }
        Ok(Table::new(all, rows.unwrap_or(0)))
    }

    /// Rows.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.rows
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<&str> {
        self.0.columns.iter().map(|column| column.name.as_str()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.rows
    }

    fn __repr__(&self) -> String {
        format!("<nandu.Table of {} rows: {}>", self.0.rows, self.column_names().join(", "))
    }

    /// The table as an Arrow C stream of one array.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface leaves it to the producer whether it can meet a wish.
        drop(requested_schema);
        PyCapsule::new_with_value::<Stream>(py, stream_of(&self.0), STREAM)
    }

    /// The columns of whole numbers and of words as buffers: the name, the format of a number, the bytes, and the words that the numbers stand for.
    fn buffers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Buffer<'py>>> {
        let buffers = self.0.columns.iter().map(|column| {
            let name = column.name.clone();
            Ok(match &column.values {
                Values::I64(v) => (name, "q", bytes(py, v.iter().flat_map(|n| n.to_ne_bytes())), Vec::new()),
                Values::U64(v) => (name, "Q", bytes(py, v.iter().flat_map(|n| n.to_ne_bytes())), Vec::new()),
                Values::Words(codes, offsets, all) => {
                    let words = offsets.windows(2).map(|at| &all[at[0] as usize..at[1] as usize]);
                    let words = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                    (name, "b", bytes(py, codes.iter().flat_map(|n| n.to_ne_bytes())), words)
                }
                _ => return Err(PyTypeError::new_err(format!("column `{name}` has no buffer"))),
            })
        });
        buffers.collect()
    }

    /// The columns as lists by name.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for column in &self.0.columns {
            let has = |i: usize| column.valid.as_ref().is_none_or(|bits| bits[i / 8] >> (i % 8) & 1 == 1);
            let text = |offsets: &[i64], bytes: &[u8], i: usize| {
                let range = offsets[i] as usize..offsets[i + 1] as usize;
                String::from_utf8_lossy(&bytes[range]).into_owned()
            };
            let rows = 0..self.0.rows;
            let list = match &column.values {
                Values::I64(v) => PyList::new(py, rows.map(|i| has(i).then(|| v[i])))?,
                Values::U64(v) => PyList::new(py, rows.map(|i| has(i).then(|| v[i])))?,
                Values::F64(v) => PyList::new(py, rows.map(|i| has(i).then(|| v[i])))?,
                Values::Bool(v) => {
                    PyList::new(py, rows.map(|i| has(i).then(|| v[i / 8] >> (i % 8) & 1 == 1)))?
                }
                Values::Text(o, b) => PyList::new(py, rows.map(|i| has(i).then(|| text(o, b, i))))?,
                Values::Words(c, o, b) => {
                    PyList::new(py, rows.map(|i| has(i).then(|| text(o, b, c[i] as usize))))?
                }
            };
            dict.set_item(&column.name, list)?;
        }
        Ok(dict)
    }
}

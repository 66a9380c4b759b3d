//! Stacks: a file or a built-in one by name, or a text, with options put over it.

use crate::failure::raised;
use crate::policy::{raised_within, registry};
use nandu::open::{Opened, capacity, open, open_text, text, with_sets};
use nandu::{Failure, StackFile};
use pyo3::prelude::*;

/// Where a stack comes from.
#[derive(Clone)]
enum Origin {
    Named(String),
    Text(String),
}

/// A stack that was read and checked.
#[pyclass(frozen, module = "nandu._nandu", from_py_object)]
#[derive(Clone)]
pub struct Stack {
    label: String,
    origin: Origin,
    sets: Vec<(String, String)>,
}

impl Stack {
    /// The stack as it is run.
    pub fn open(&self) -> Result<Opened, Failure> {
        let opened = match &self.origin {
            Origin::Named(name) => open(name, &self.sets, &registry()),
            Origin::Text(text) => open_text(&self.label, text, &self.sets, &registry()),
        };
        Ok(Opened { label: self.label.clone(), ..opened? })
    }

    /// What a sweep finds it by: its name, or what it is called and its text.
    pub fn source(&self) -> (String, Option<String>) {
        match &self.origin {
            Origin::Named(name) => (name.clone(), None),
            Origin::Text(text) => (self.label.clone(), Some(text.clone())),
        }
    }

    /// Options that are put over it.
    pub fn sets(&self) -> &[(String, String)] {
        &self.sets
    }

    fn file(&self) -> Result<StackFile, Failure> {
        let (text, shown) = match &self.origin {
            Origin::Named(name) => text(name)?,
            Origin::Text(text) => (text.clone(), self.label.clone()),
        };
        with_sets(StackFile::parse(&text, &shown)?, &self.sets)
    }
}

#[pymethods]
impl Stack {
    /// The stack in a file, or the built-in one of this name.
    #[staticmethod]
    #[pyo3(signature = (name, label=None))]
    fn named(py: Python<'_>, name: &str, label: Option<String>) -> PyResult<Stack> {
        let opened = open(name, &[], &registry()).map_err(|failure| raised(py, &failure))?;
        let label = label.unwrap_or(opened.label);
        Ok(Stack { label, origin: Origin::Named(name.into()), sets: Vec::new() })
    }

    /// The stack that a text in TOML describes.
    #[staticmethod]
    fn parse(py: Python<'_>, text: String, label: String) -> PyResult<Stack> {
        let stack = Stack { label, origin: Origin::Text(text), sets: Vec::new() };
        stack.open().map_err(|failure| raised(py, &failure))?;
        Ok(stack)
    }

    /// The stack that a table in JSON describes, with the keys of a stack file.
    #[staticmethod]
    fn of_json(py: Python<'_>, json: &str, label: String) -> PyResult<Stack> {
        let wrong = |why: String| raised(py, &Failure::input(format!("{label}: {why}")));
        let table: toml::Table = serde_json::from_str(json).map_err(|e| wrong(e.to_string()))?;
        let text = toml::to_string(&table).map_err(|e| wrong(e.to_string()))?;
        Stack::parse(py, text, label)
    }

    /// What tables call it.
    #[getter]
    fn label(&self) -> &str {
        &self.label
    }

    /// The same stack under another name.
    fn labelled(&self, label: String) -> Stack {
        Stack { label, ..self.clone() }
    }

    /// With options put over it, each a dotted path and its value; an empty value leaves the option out.
    fn with_options(&self, py: Python<'_>, options: Vec<(String, String)>) -> PyResult<Stack> {
        let mut stack = self.clone();
        stack.sets.extend(options);
        stack.open().map_err(|failure| raised(py, &failure))?;
        Ok(stack)
    }

    /// The text of the stack file, with the options that were put over it.
    fn to_toml(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.file().map_err(|failure| raised(py, &failure))?.to_text())
    }

    /// Name and capacity in bytes of each export.
    fn exports(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let exports = || -> Result<Vec<(String, u64)>, Failure> {
            let opened = self.open()?;
            let built = opened.built(1)?;
            let names = opened.stack.exports.iter().map(|export| export.name.clone());
            Ok(names.enumerate().map(|(i, name)| (name, capacity(&built, i).0)).collect())
        };
        raised_within(py, exports)?.map_err(|failure| raised(py, &failure))
    }
}

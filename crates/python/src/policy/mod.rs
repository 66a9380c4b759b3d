//! Policies that are classes in Python: an instance is made where a machine is built, and its methods are called where the machine asks.
//!
//! The interpreter's lock is taken for each call and for nothing else. An exception unwinds the run, through the threads of races and sweeps, to
//! whoever began it in Python ([`raised_within`], [`work`](crate::work::work)): it is raised there as it was, with its traceback. Policies decide, so
//! there is no answer that could stand for the one that is missing.

/// Options of a class have no ranges here: their schema has them, and the reader of stack files holds them to it.
macro_rules! bounded_by_schema {
    ($options:ty) => {
        impl nandu::options::Options for $options {
            fn declared() -> Vec<nandu::options::Described> {
                Vec::new()
            }

            fn check_ranges(&self) -> Result<(), nandu::units::BuildError> {
                Ok(())
            }
        }
    };
}

mod compiled;
pub mod mapping;
mod prefetch;
mod replacement;
mod scheduler;
mod victim;

use crate::failure::raised;
use nandu::units::Violation;
use nandu::{Declaration, Failure, Policy, Registry};
use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyAssertionError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};
use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock};

/// What stacks of this process may name: what Nandu ships, then the classes that were registered.
static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(|| RwLock::new(nandu::builtin()));

/// The registry as it is now.
pub fn registry() -> Registry {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Registers a class as the policy `name` of a family: with one line of help, where it was published, options with which the verified simulation
/// draws it, and the JSON schema of its options. It takes the place of a class that was registered by this name before.
#[pyfunction]
pub fn register(
    py: Python<'_>,
    family: &str,
    name: String,
    class_: Bound<'_, PyType>,
    told: (String, String, Vec<String>, String),
) -> PyResult<()> {
    let (summary, source, draws, schema) = told;
    let wrong = |why: String| raised(py, &Failure::input(why));
    let shipped = nandu::builtin();
    if shipped.policy(family, &name).is_some() {
        return Err(wrong(format!(
            "there is a {family} `{name}` in Nandu; another name tells the two apart"
        )));
    }
    let schema = serde_json::from_str(&schema).map_err(|e| wrong(format!("the options of `{name}`: {e}")))?;
    let declaration = Declaration { name: name.clone(), summary, source, draws, schema };
    let class = Class { name, class: class_.unbind() };
    let policy = match family {
        "mapping" => mapping::policy(py, declaration, class),
        "replacement" => replacement::policy(py, declaration, class),
        "prefetcher" => prefetch::policy(py, declaration, class),
        "scheduler" => scheduler::policy(py, declaration, class),
        "victim" => Ok(victim::policy(declaration, class)),
        _ => Err(format!("unknown family `{family}` for classes")),
    };
    let policy = policy.map_err(wrong)?;
    let mut registry = REGISTRY.write().unwrap_or_else(PoisonError::into_inner);
    let own = |p: &&Policy| shipped.policy(p.family, p.name).is_none();
    let others = |p: &&Policy| (p.family, p.name) != (policy.family, policy.name);
    let kept: Vec<Policy> = registry.all_policies().iter().filter(own).filter(others).copied().collect();
    *registry = shipped.with(kept).with(policy);
    Ok(())
}

/// A class that is registered.
struct Class {
    name: String,
    class: Py<PyType>,
}

impl Class {
    fn attribute<'py, T>(&self, py: Python<'py>, key: &str) -> Result<T, String>
    where
        T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
    {
        let value = self.class.bind(py).getattr(key);
        let value = value.and_then(|value| value.extract().map_err(Into::into));
        value.map_err(|e: PyErr| format!("`{key}` of `{}`: {e}", self.name))
    }

    /// An attribute of the class that is true or false.
    fn is(&self, py: Python<'_>, key: &str) -> Result<bool, String> {
        self.attribute(py, key)
    }

    /// An attribute of the class that is a number from 0 on.
    fn number(&self, py: Python<'_>, key: &str) -> Result<u64, String> {
        self.attribute(py, key)
    }

    /// Which of `words` an attribute of the class is.
    fn word<T: Copy>(&self, py: Python<'_>, key: &str, words: &[(&str, T)]) -> Result<T, String> {
        let value: String = self.attribute(py, key)?;
        let found = words.iter().find(|(word, _)| *word == value);
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let why = || format!("`{key}` of `{}` is `{value}`; known are {}", self.name, known.join(", "));
        found.map(|(_, meant)| *meant).ok_or_else(why)
    }
}

/// A class with the options of one use of it.
#[derive(Clone)]
struct Use {
    class: Arc<Class>,
    options: toml::Table,
}

impl fmt::Debug for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.class.name, self.options)
    }
}

impl Use {
    /// An instance for a machine of this size: the tuple `called` of `nandu.policies` with these figures.
    fn object(&self, py: Python<'_>, called: &str, figures: &[u64]) -> PyResult<Object> {
        self.made(py, called, PyTuple::new(py, figures)?)
    }

    /// The same with any `parts` of the tuple.
    fn made<'py>(&self, py: Python<'py>, called: &str, parts: impl PyCallArgs<'py>) -> PyResult<Object> {
        let size = tuple(py, called)?.bind(py).call1(parts)?;
        let options = PyDict::new(py);
        for (key, value) in &self.options {
            options.set_item(key, python(py, value)?)?;
        }
        let object = self.class.class.bind(py).call((size,), Some(&options))?.unbind();
        Ok(Object { name: self.class.name.clone(), object })
    }
}

/// The class of a named tuple of `nandu.policies`.
fn tuple(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    Ok(py.import("nandu.policies")?.getattr(name)?.unbind())
}

fn python<'py>(py: Python<'py>, value: &toml::Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        toml::Value::String(text) => text.into_pyobject(py)?.into_any(),
        toml::Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        toml::Value::Float(number) => number.into_pyobject(py)?.into_any(),
        toml::Value::Boolean(is) => is.into_pyobject(py)?.to_owned().into_any(),
        toml::Value::Datetime(time) => time.to_string().into_pyobject(py)?.into_any(),
        toml::Value::Array(all) => {
            let all = all.iter().map(|value| python(py, value)).collect::<PyResult<Vec<_>>>()?;
            all.into_pyobject(py)?.into_any()
        }
        toml::Value::Table(table) => {
            let dict = PyDict::new(py);
            for (key, value) in table {
                dict.set_item(key, python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}

/// An instance, and what its class is called.
struct Object {
    name: String,
    object: Py<PyAny>,
}

impl Object {
    /// Its method, which the family needs.
    fn method(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        self.object.getattr(py, name)
    }

    /// Its method, unless it is the one that classes without a method of their own have.
    fn own(&self, py: Python<'_>, base: &str, name: &str) -> PyResult<Option<Py<PyAny>>> {
        let base = tuple(py, base)?;
        let class = self.object.bind(py).get_type();
        if class.getattr(name)?.is(&base.bind(py).getattr(name)?) {
            return Ok(None);
        }
        self.method(py, name).map(Some)
    }

    /// Its figures by name.
    fn counters(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        let all = self.object.bind(py).call_method0("counters")?.call_method0("items")?;
        all.try_iter()?.map(|item| item?.extract()).collect()
    }

    /// `method` broke the contract of its family.
    fn broke(&self, method: &str, how: impl fmt::Display) -> PyErr {
        PyValueError::new_err(format!("`{method}` of the policy `{}` {how}", self.name))
    }
}

/// What the method `check` of a policy asserts.
fn asserted(object: &Object) -> Result<(), Violation> {
    let said = ask(|py| match object.object.call_method0(py, "check") {
        Ok(_) => Ok(None),
        Err(error) if error.is_instance_of::<PyAssertionError>(py) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    });
    match said {
        Some(what) => {
            Err(Violation { invariant: "I-3", what: format!("the policy `{}` says: {what}", object.name) })
        }
        None => Ok(()),
    }
}

/// The name of a counter. Names stay until the process ends; a policy has few.
fn kept(name: String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.get(name.as_str()) {
        Some(known) => known,
        None => {
            let name: &'static str = Box::leak(name.into_boxed_str());
            names.insert(name);
            name
        }
    }
}

/// What unwinds a run in which a policy raised an exception.
struct Raised(PyErr);

/// Asks Python. An exception unwinds the thread.
fn ask<R>(question: impl FnOnce(Python<'_>) -> PyResult<R>) -> R {
    KNOWN.with(|_| ());
    match Python::attach(question) {
        Ok(answer) => answer,
        Err(error) => resume_unwind(Box::new(Raised(error))),
    }
}

/// The exception of a policy that unwound, or what else did.
pub fn exception(panic: Box<dyn Any + Send>) -> Result<PyErr, Box<dyn Any + Send>> {
    panic.downcast::<Raised>().map(|raised| raised.0)
}

/// Does `work` with the lock released, and returns the exception of a policy in it.
pub fn raised_within<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    done.map_err(|panic| exception(panic).unwrap_or_else(|panic| resume_unwind(panic)))
}

thread_local! {
    /// Keeps this thread known to the interpreter from its first question on: making it known takes longer than a question.
    static KNOWN: Known = Known::new();
}

struct Known(ffi::PyGILState_STATE, *mut ffi::PyThreadState);

impl Known {
    fn new() -> Known {
        // SAFETY: the interpreter runs, for it began this work. The lock is taken by the first call and given back by the second.
        unsafe {
            let state = ffi::PyGILState_Ensure();
            Known(state, ffi::PyEval_SaveThread())
        }
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        // SAFETY: what `new` did in this thread is undone, unless the interpreter is gone.
        unsafe {
            if ffi::Py_IsInitialized() != 0 {
                ffi::PyEval_RestoreThread(self.1);
                ffi::PyGILState_Release(self.0);
            }
        }
    }
}

/// A text that Python keeps one copy of.
fn word(py: Python<'_>, text: &str) -> Py<PyAny> {
    PyString::intern(py, text).into_any().unbind()
}

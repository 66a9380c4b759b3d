//! The extension module `nandu._nandu`: what the package `nandu` for Python is made of. It binds to the crate `nandu` and to nothing below it.
//!
//! [`work`] runs long work on a thread of its own while the interpreter is free, [`stack`] and [`trace`] say what runs, [`runs`] does, and
//! [`arrow`] hands tables over without a copy.

mod arrow;
mod failure;
mod runs;
mod stack;
mod table;
mod trace;
mod work;

use nandu::Registry;
use pyo3::prelude::*;
use std::sync::{LazyLock, PoisonError, RwLock};

/// What stacks of this process may name.
static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(|| RwLock::new(nandu::builtin()));

/// The registry as it is now.
fn registry() -> Registry {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Runs the command line, whose first word is the program's name, and returns its exit code.
#[pyfunction]
fn cli_main(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| nandu::main_with(registry(), args.into_iter().map(Into::into)))
}

/// The JSON schema of stack files.
#[pyfunction]
fn schema() -> String {
    nandu::stack::schema(&registry()).to_string()
}

#[pymodule]
fn _nandu(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<stack::Stack>()?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<table::Table>()?;
    module.add_function(wrap_pyfunction!(cli_main, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(runs::run, module)?)?;
    module.add_function(wrap_pyfunction!(runs::compare, module)?)?;
    module.add_function(wrap_pyfunction!(runs::sweep, module)?)?;
    module.add_function(wrap_pyfunction!(runs::mrc, module)?)?;
    module.add_function(wrap_pyfunction!(runs::reproduce, module)?)
}

//! The extension module `nandu._nandu`: what the package `nandu` for Python is made of. It binds to the crate `nandu` and to nothing below it.
//!
//! [`work`] runs long work on a thread of its own while the interpreter is free, [`stack`] and [`trace`] say what runs, [`runs`], [`sweeps`] and [`advice`] do,
//! [`arrow`] hands tables over without a copy, and [`policy`] lets machines ask classes.
//!
//! **What is stable.** From the first release on: what the stubs of the package `nandu` for Python name. This crate has no interface for Rust.

mod advice;
mod arrow;
mod failure;
mod policy;
mod runs;
mod stack;
mod sweeps;
mod table;
mod trace;
mod work;

use policy::registry;
use pyo3::prelude::*;

/// Runs the command line, whose first word is the program's name, and returns its exit code.
#[pyfunction]
fn cli_main(py: Python<'_>, args: Vec<String>) -> PyResult<u8> {
    policy::raised_within(py, || nandu::main_with(registry(), args.into_iter().map(Into::into)))
}

/// Where a field of JSON is that had another name in the version before; nothing where it has its name.
#[pyfunction]
fn present_field(old: &str) -> Option<&'static str> {
    nandu::sim::renamed::field(old)
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
    module.add_class::<sweeps::Points>()?;
    module.add_class::<policy::mapping::Flash>()?;
    module.add_class::<policy::mapping::TranslationPage>()?;
    module.add_function(wrap_pyfunction!(cli_main, module)?)?;
    module.add_function(wrap_pyfunction!(schema, module)?)?;
    module.add_function(wrap_pyfunction!(present_field, module)?)?;
    module.add_function(wrap_pyfunction!(policy::register, module)?)?;
    module.add_function(wrap_pyfunction!(runs::run, module)?)?;
    module.add_function(wrap_pyfunction!(runs::compare, module)?)?;
    module.add_function(wrap_pyfunction!(sweeps::sweep, module)?)?;
    module.add_function(wrap_pyfunction!(sweeps::program, module)?)?;
    module.add_function(wrap_pyfunction!(advice::advise, module)?)?;
    module.add_function(wrap_pyfunction!(runs::mrc, module)?)?;
    module.add_function(wrap_pyfunction!(runs::verify, module)?)?;
    module.add_function(wrap_pyfunction!(runs::reproduce, module)?)
}

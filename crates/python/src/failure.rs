//! Failures as exceptions of the package: each keeps the whole message.

use nandu::{Failure, FaultKind};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The exception that says `failure`.
pub fn raised(py: Python<'_>, failure: &Failure) -> PyErr {
    let name = match failure.kind {
        FaultKind::Input => "InputError",
        FaultKind::Stack => "StackError",
        FaultKind::Trace => "TraceError",
        FaultKind::Run | FaultKind::Stopped => "RunError",
    };
    let class = py.import("nandu._errors").and_then(|module| module.getattr(name));
    match class.and_then(|class| class.call1((&failure.message,))) {
        Ok(error) => PyErr::from_value(error),
        // Without the package around this module.
        Err(_) => PyRuntimeError::new_err(failure.message.clone()),
    }
}

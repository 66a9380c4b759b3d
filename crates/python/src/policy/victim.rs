//! The victim of collection: a class is shown the blocks of a plane and names one.

use super::{Class, Object, Use, ask, tuple};
use nandu::victim::{AnyVictim, BlockId, GcPolicy, PlaneView, Victims};
use nandu::{Declaration, Policy};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView};
use std::sync::Arc;

/// The policy that `class` is.
pub fn policy(declaration: Declaration, class: Class) -> Policy {
    let class = Arc::new(class);
    Policy::late::<Victims>(declaration, move |options| {
        Ok(Arc::new(Options(Use { class: Arc::clone(&class), options })))
    })
}

#[derive(Debug)]
struct Options(Use);

bounded_by_schema!(Options);

impl AnyVictim for Options {
    fn boxed(&self, blocks: u32, seed: u64) -> Box<dyn GcPolicy> {
        Box::new(ask(|py| {
            let object = self.0.object(py, "Planes", &[blocks.into(), seed])?;
            Ok(Instance { plane: tuple(py, "Plane")?, victim: object.method(py, "victim")?, object })
        }))
    }
}

/// An instance in a drive.
struct Instance {
    object: Object,
    plane: Py<PyAny>,
    victim: Py<PyAny>,
}

/// Numbers as a `memoryview` of the format `code`, which NumPy takes without a copy.
fn numbers<'py>(py: Python<'py>, bytes: Vec<u8>, code: &str) -> PyResult<Bound<'py, PyAny>> {
    PyMemoryView::from(&PyBytes::new(py, &bytes))?.call_method1("cast", (code,))
}

impl GcPolicy for Instance {
    fn victim(&mut self, view: PlaneView<'_>) -> Option<BlockId> {
        let places = 0..view.invalid.len();
        let gain = places.clone().flat_map(|index| view.gain(index).to_ne_bytes()).collect();
        let opened = view.opened.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let erases = view.erases.iter().flat_map(|n| n.to_ne_bytes()).collect();
        ask(|py| {
            let (gain, opened) = (numbers(py, gain, "H")?, numbers(py, opened, "Q")?);
            let erases = numbers(py, erases, "I")?;
            let plane = self.plane.call1(py, (gain, opened, erases, view.now, view.pages))?;
            let answer = self.victim.bind(py).call1((plane,))?;
            if answer.is_none() {
                return Ok(None);
            }
            match answer.extract::<usize>() {
                Ok(index) if places.contains(&index) && view.gain(index) > 0 => Ok(Some(view.block(index))),
                _ => {
                    let how =
                        format!("answers {answer:?}; right is None, or the place of a block that gains");
                    Err(self.object.broke("victim", how))
                }
            }
        })
    }
}

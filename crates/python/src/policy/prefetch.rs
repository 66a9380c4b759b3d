//! Prefetchers: a class is shown what each read found, and names ranges of blocks.

use super::{Class, Object, Use, ask, tuple};
use nandu::prefetch::{AnyPrefetch, Brings, Holes, Look, Prefetch, Prefetchers, Range, Units};
use nandu::units::{BuildError, ByteLen};
use nandu::{Declaration, Policy};
use pyo3::prelude::*;
use std::sync::Arc;

/// The policy that `class` is.
pub fn policy(py: Python<'_>, declaration: Declaration, class: Class) -> Result<Policy, String> {
    let words = [
        ("ranges", Brings::Ranges),
        ("segments", Brings::Segments(Holes::Segment)),
        ("segments-around-blocks", Brings::Segments(Holes::BlockOnly)),
    ];
    let brings = class.word(py, "brings", &words)?;
    let class = Arc::new(class);
    Ok(Policy::late::<Prefetchers>(declaration, move |options| {
        Ok(Arc::new(Options { class: Use { class: Arc::clone(&class), options }, brings }))
    }))
}

#[derive(Debug)]
struct Options {
    class: Use,
    brings: Brings,
}

bounded_by_schema!(Options);

impl AnyPrefetch for Options {
    fn brings(&self) -> Brings {
        self.brings
    }

    fn segment(&self) -> Option<ByteLen> {
        None
    }

    fn boxed(&self, units: &Units) -> Result<Box<dyn Prefetch>, BuildError> {
        Ok(Box::new(ask(|py| {
            let object = self.class.object(py, "Units", &[units.block.0, units.segment])?;
            Ok(Instance {
                look: tuple(py, "Look")?,
                plan: object.method(py, "plan")?,
                foresight: object.object.call_method0(py, "foresight")?.extract(py)?,
                object,
            })
        })))
    }
}

/// An instance in a cache.
struct Instance {
    object: Object,
    look: Py<PyAny>,
    plan: Py<PyAny>,
    foresight: u32,
}

impl Prefetch for Instance {
    fn plan(&mut self, look: &Look<'_>, ahead: &mut Vec<Range>) {
        ask(|py| {
            let missing: Vec<(u64, u64)> = look.missing.iter().map(|run| (run.first, run.end)).collect();
            let Range { first, end } = look.asked;
            let look = self.look.call1(py, (first, end, missing, look.used, look.retired))?;
            let answer = self.plan.bind(py).call1((look,))?;
            if answer.is_none() {
                return Ok(());
            }
            let mut from = 0;
            for range in answer.try_iter()? {
                let range = range?;
                let broke = |what| self.object.broke("plan", format!("gives {range:?}, {what}"));
                let (first, end) = range
                    .extract::<(u64, u64)>()
                    .map_err(|_| broke("which is not a pair of a first block and the one past the last"))?;
                if first >= end || first < from {
                    return Err(broke("but ranges are not empty, in order and without overlap"));
                }
                from = end;
                ahead.push(Range { first, end });
            }
            Ok(())
        });
    }

    fn foresight(&self) -> u32 {
        self.foresight
    }

    fn foresee(&mut self, blocks: Range) {
        ask(|py| self.object.object.call_method1(py, "foresee", (blocks.first, blocks.end)));
    }

    fn bytes(&self) -> usize {
        ask(|py| self.object.object.call_method0(py, "bytes")?.extract(py))
    }
}

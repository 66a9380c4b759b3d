//! Replacement by compiled functions: what numba, cffi or a compiler makes of C, at the cost of a call in C.
//!
//! A class hands over the addresses of its functions once (its method `compiled`); from then on a cache asks them and not the interpreter. They know
//! lines by places, `0` to one below the blocks of the cache, so that they need no table of their own.

use super::{Object, ask};
use nandu::replacement::{Arrival, Cause, Hit, Line, Recall, Replacement, Victim};
use nandu::units::{Ask, Report, Violation};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::panic::resume_unwind;

/// What every function is given first.
type State = usize;
type Miss = unsafe extern "C" fn(State, u64) -> u32;
type Insert = unsafe extern "C" fn(State, u32, u64, u32);
type Met = unsafe extern "C" fn(State, u32, u32);
type Leave = unsafe extern "C" fn(State, u32);
type Choose = unsafe extern "C" fn(State) -> i64;

/// The functions of an instance.
struct Functions {
    state: State,
    miss: Option<Miss>,
    insert: Insert,
    hit: Option<Met>,
    victim: Choose,
    remove: Leave,
}

impl Functions {
    fn of(object: &Object, given: &Bound<'_, PyAny>) -> PyResult<Functions> {
        let all: Vec<usize> = given.try_iter()?.map(|address| address?.extract()).collect::<PyResult<_>>()?;
        let [state, insert, victim, remove, hit, miss] = all[..] else {
            return Err(object.broke("compiled", "gives something else than a Compiled"));
        };
        for (address, name) in [(insert, "insert"), (victim, "victim"), (remove, "remove")] {
            if address == 0 {
                return Err(object.broke("compiled", format!("gives no function `{name}`, which is needed")));
            }
        }
        // SAFETY: a class that gives the address of something else than such a function is at fault, which its documentation says.
        unsafe {
            Ok(Functions {
                state,
                miss: (miss != 0).then(|| std::mem::transmute::<usize, Miss>(miss)),
                insert: std::mem::transmute::<usize, Insert>(insert),
                hit: (hit != 0).then(|| std::mem::transmute::<usize, Met>(hit)),
                victim: std::mem::transmute::<usize, Choose>(victim),
                remove: std::mem::transmute::<usize, Leave>(remove),
            })
        }
    }
}

/// An instance in a cache.
pub struct Compiled {
    /// Keeps what the functions work on.
    object: Object,
    functions: Functions,
    /// Which places hold a line.
    here: Vec<bool>,
    lines: usize,
}

impl Compiled {
    /// The instance that `object` is, if it has compiled functions.
    pub fn of(py: Python<'_>, object: Object, blocks: u64) -> PyResult<Result<Compiled, Object>> {
        let given = object.object.bind(py).call_method0("compiled")?;
        if given.is_none() {
            return Ok(Err(object));
        }
        let functions = Functions::of(&object, &given)?;
        let here = vec![false; usize::try_from(blocks).map_err(|e| PyValueError::new_err(e.to_string()))?];
        Ok(Ok(Compiled { object, functions, here, lines: 0 }))
    }

    fn gone(&mut self, slot: u32) {
        self.here[slot as usize] = false;
        self.lines -= 1;
    }
}

impl Replacement for Compiled {
    fn miss(&mut self, line: u64, _cause: Cause) -> Recall {
        let Some(miss) = self.functions.miss else { return Recall::Nothing };
        // SAFETY: see `Functions::of`.
        match unsafe { miss(self.functions.state, line) } {
            1 => Recall::Once,
            2 => Recall::Often,
            _ => Recall::Nothing,
        }
    }

    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        self.here[slot as usize] = true;
        self.lines += 1;
        let recall = match arrival.recall {
            Recall::Nothing => 0,
            Recall::Once => 1,
            Recall::Often => 2,
        };
        // SAFETY: see `Functions::of`.
        unsafe { (self.functions.insert)(self.functions.state, slot, lines[slot as usize].number, recall) }
    }

    fn refill(&mut self, _slot: u32, _lines: &[Line], _arrival: Arrival) {}

    fn hit(&mut self, slot: u32, _lines: &[Line], hit: Hit) {
        let how = u32::from(hit.prefetched) | u32::from(hit.write) << 1;
        if let Some(hit) = self.functions.hit {
            // SAFETY: see `Functions::of`.
            unsafe { hit(self.functions.state, slot, how) }
        }
    }

    fn victim(&mut self, _lines: &[Line], _incoming: Recall) -> Option<Victim> {
        if self.lines == 0 {
            return None;
        }
        // SAFETY: see `Functions::of`.
        let named = unsafe { (self.functions.victim)(self.functions.state) };
        match u32::try_from(named).ok().filter(|&slot| self.here.get(slot as usize).is_some_and(|here| *here))
        {
            Some(slot) => {
                self.gone(slot);
                Some(Victim::Whole(slot))
            }
            None => {
                let how = format!("names place {named}, where no line is");
                resume_unwind(Box::new(super::Raised(self.object.broke("victim", how))))
            }
        }
    }

    fn remove(&mut self, slot: u32, _lines: &[Line]) {
        self.gone(slot);
        // SAFETY: see `Functions::of`.
        unsafe { (self.functions.remove)(self.functions.state, slot) }
    }

    fn bytes(&self) -> usize {
        ask(|py| self.object.object.call_method0(py, "bytes")?.extract(py))
    }

    fn report(&mut self, report: &mut Report) {
        match report.ask() {
            Ask::Counters => {
                let own: Vec<(String, u64)> = ask(|py| self.object.counters(py));
                own.into_iter().for_each(|(name, value)| report.put(super::kept(name), value));
            }
            Ask::Anew => {
                ask(|py| self.object.object.call_method0(py, "reset_counters"));
            }
            _ => {}
        }
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        let wrong = lines.iter().zip(&self.here).position(|(line, here)| (line.blocks > 0) != *here);
        super::asserted(&self.object)?;
        match wrong {
            None => Ok(()),
            Some(slot) => Err(Violation { invariant: "I-3", what: format!("place {slot} is not told of") }),
        }
    }
}

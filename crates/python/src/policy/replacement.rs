//! Replacement: a class knows lines by their numbers, and what it is told of them comes with each event.

use super::compiled::Compiled;
use super::{Class, Object, Use, ask, asserted, kept, tuple, word};
use nandu::replacement::{
    Accesses, AnyReplacement, Arrival, Cause, Hashed, Hit, Line, LineMap, LineOf, Needs, PageCache,
    PageResult, Recall, Replacement, Replacements, Room, Victim, each_once, run_policy,
};
use nandu::units::{Ask, BuildError, Report, Violation};
use nandu::{Declaration, Policy};
use pyo3::prelude::*;
use std::sync::Arc;

/// The policy that `class` is.
pub fn policy(py: Python<'_>, declaration: Declaration, class: Class) -> Result<Policy, String> {
    let line = class.word(py, "line", &[("block", LineOf::Block), ("segment", LineOf::Segment)])?;
    let needs = [("nothing", Needs::Nothing), ("prefetch", Needs::Prefetch), ("segments", Needs::Segments)];
    let needs = class.word(py, "needs", &needs)?;
    let class = Arc::new(class);
    Ok(Policy::late::<Replacements>(declaration, move |options| {
        Ok(Arc::new(Options { class: Use { class: Arc::clone(&class), options }, line, needs }))
    }))
}

#[derive(Debug)]
struct Options {
    class: Use,
    line: LineOf,
    needs: Needs,
}

/// An instance that is asked in Python, or one whose functions are compiled.
enum Made {
    Asked(Instance),
    Compiled(Compiled),
}

impl Options {
    fn made(&self, room: Room) -> Made {
        ask(|py| {
            let object = self.class.object(py, "Room", &[room.blocks, room.line])?;
            Ok(match Compiled::of(py, object, room.blocks)? {
                Ok(compiled) => Made::Compiled(compiled),
                Err(object) => Made::Asked(Instance::new(py, object)?),
            })
        })
    }
}

bounded_by_schema!(Options);

impl AnyReplacement for Options {
    fn line(&self) -> LineOf {
        self.line
    }

    fn needs(&self) -> Needs {
        self.needs
    }

    fn boxed(&self, room: Room) -> Result<Box<dyn Replacement>, BuildError> {
        Ok(match self.made(room) {
            Made::Asked(instance) => Box::new(instance),
            Made::Compiled(compiled) => Box::new(compiled),
        })
    }

    fn simulate(&self, cache: &PageCache, accesses: Accesses<'_>) -> Result<PageResult, BuildError> {
        Ok(match self.made(cache.room()) {
            Made::Asked(instance) => run_policy(cache, instance, accesses),
            Made::Compiled(compiled) => run_policy(cache, compiled, accesses),
        })
    }
}

const CAUSES: [&str; 3] = ["read", "write", "prefetch"];
const RECALLS: [Option<&str>; 3] = [None, Some("once"), Some("often")];

fn place(cause: Cause) -> usize {
    match cause {
        Cause::Read => 0,
        Cause::Write => 1,
        Cause::Prefetch => 2,
    }
}

/// What events are told with. There are few ways in which a line of one block comes or is met, and each of them is one object.
struct Words {
    causes: [Py<PyAny>; 3],
    recalls: [Py<PyAny>; 3],
    hits: [Py<PyAny>; 4],
    /// By cause, recall, whether it is sequential, and whether the block was prefetched.
    arrivals: Vec<Py<PyAny>>,
    arrival: Py<PyAny>,
}

impl Words {
    fn new(py: Python<'_>) -> PyResult<Words> {
        let (hit, arrival) = (tuple(py, "Hit")?, tuple(py, "Arrival")?);
        let causes = CAUSES.map(|text| word(py, text));
        let recalls = RECALLS.map(|text| text.map_or_else(|| py.None(), |text| word(py, text)));
        let hits = [(false, false), (false, true), (true, false), (true, true)];
        let [a, b, c, d] = hits.map(|met| hit.call1(py, met));
        let mut arrivals = Vec::new();
        for (cause, recall) in causes.iter().flat_map(|c| recalls.iter().map(move |r| (c, r))) {
            for (sequential, ahead) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
                arrivals.push(arrival.call1(py, (cause, recall, sequential, 1 - ahead, ahead))?);
            }
        }
        Ok(Words { causes, recalls, hits: [a?, b?, c?, d?], arrivals, arrival })
    }

    fn arrival(&self, py: Python<'_>, how: Arrival, line: &Line) -> PyResult<Py<PyAny>> {
        let (cause, recall) = (place(how.cause), how.recall as usize);
        if line.cached | line.prefetched == 1 {
            let which = usize::from(how.sequential) << 1 | line.prefetched as usize;
            return Ok(self.arrivals[(cause * 3 + recall) << 2 | which].clone_ref(py));
        }
        let (cause, recall) = (&self.causes[cause], &self.recalls[recall]);
        self.arrival.call1(py, (cause, recall, how.sequential, line.cached, line.prefetched))
    }
}

/// An instance in a cache.
struct Instance {
    object: Object,
    words: Words,
    miss: Option<Py<PyAny>>,
    insert: Py<PyAny>,
    refill: Option<Py<PyAny>>,
    hit: Option<Py<PyAny>>,
    hole: Option<Py<PyAny>>,
    victim: Py<PyAny>,
    surplus: Option<Py<PyAny>>,
    remove: Py<PyAny>,
    shrunk: Option<Py<PyAny>>,
    /// Slots by the numbers of their lines, and back.
    slots: Hashed,
    numbers: Vec<u64>,
}

impl Instance {
    fn new(py: Python<'_>, object: Object) -> PyResult<Instance> {
        let own = |name| object.own(py, "Replacement", name);
        Ok(Instance {
            words: Words::new(py)?,
            miss: own("miss")?,
            insert: object.method(py, "insert")?,
            refill: own("refill")?,
            hit: own("hit")?,
            hole: own("hole")?,
            victim: object.method(py, "victim")?,
            surplus: own("surplus")?,
            remove: object.method(py, "remove")?,
            shrunk: own("shrunk")?,
            slots: Hashed::new(0),
            numbers: Vec::new(),
            object,
        })
    }

    /// What `method` names: a line, or a `Cull` of one.
    fn named(
        &self,
        method: &str,
        answer: &Bound<'_, PyAny>,
        lines: &[Line],
    ) -> PyResult<Option<(Victim, Option<u64>)>> {
        if answer.is_none() {
            return Ok(None);
        }
        let (line, cull) = match answer.extract::<u64>() {
            Ok(line) => (line, false),
            Err(_) => match answer.extract::<(u64,)>() {
                Ok((line,)) => (line, true),
                Err(_) => {
                    let how = format!("answers {answer:?}; right is the number of a line, a Cull, or None");
                    return Err(self.object.broke(method, how));
                }
            },
        };
        let Some(slot) = self.slots.get(line) else {
            return Err(self.object.broke(method, format!("names line {line}, which is not in the cache")));
        };
        let of = &lines[slot as usize];
        if cull && of.prefetched == 0 {
            let how = format!("culls line {line}, of which no block is prefetched");
            return Err(self.object.broke(method, how));
        }
        let goes = (!cull || of.cached_blocks() == 0).then_some(line);
        let victim = if cull { Victim::Prefetched(slot) } else { Victim::Whole(slot) };
        Ok(Some((victim, goes)))
    }

    fn gone(&mut self, named: Option<(Victim, Option<u64>)>) -> Option<Victim> {
        let (victim, goes) = named?;
        if let Some(line) = goes {
            self.slots.remove(line);
        }
        Some(victim)
    }
}

impl Replacement for Instance {
    fn miss(&mut self, line: u64, cause: Cause) -> Recall {
        let Some(miss) = &self.miss else { return Recall::Nothing };
        ask(|py| {
            let answer = miss.bind(py).call1((line, &self.words.causes[place(cause)]))?;
            let known = match answer.extract::<Option<&str>>() {
                Ok(None) => Some(Recall::Nothing),
                Ok(Some("once")) => Some(Recall::Once),
                Ok(Some("often")) => Some(Recall::Often),
                _ => None,
            };
            let how = || format!("answers {answer:?}; right is \"once\", \"often\" or None");
            known.ok_or_else(|| self.object.broke("miss", how()))
        })
    }

    fn insert(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        let line = &lines[slot as usize];
        self.slots.insert(line.number, slot);
        if self.numbers.len() <= slot as usize {
            self.numbers.resize(slot as usize + 1, 0);
        }
        self.numbers[slot as usize] = line.number;
        ask(|py| self.insert.call1(py, (line.number, self.words.arrival(py, arrival, line)?)));
    }

    fn refill(&mut self, slot: u32, lines: &[Line], arrival: Arrival) {
        let (Some(refill), line) = (&self.refill, &lines[slot as usize]) else { return };
        ask(|py| refill.call1(py, (line.number, self.words.arrival(py, arrival, line)?)));
    }

    fn hit(&mut self, slot: u32, lines: &[Line], hit: Hit) {
        let Some(method) = &self.hit else { return };
        let how = &self.words.hits[usize::from(hit.prefetched) << 1 | usize::from(hit.write)];
        ask(|py| method.call1(py, (lines[slot as usize].number, how)));
    }

    fn hole(&mut self, slot: u32, bit: u64) {
        let Some(hole) = &self.hole else { return };
        ask(|py| hole.call1(py, (self.numbers[slot as usize], bit.trailing_zeros())));
    }

    fn victim(&mut self, lines: &[Line], incoming: Recall) -> Option<Victim> {
        let named = ask(|py| {
            let answer = self.victim.bind(py).call1((&self.words.recalls[incoming as usize],))?;
            self.named("victim", &answer, lines)
        });
        self.gone(named)
    }

    fn surplus(&mut self, lines: &[Line]) -> Option<Victim> {
        let surplus = self.surplus.as_ref()?;
        let named = ask(|py| self.named("surplus", &surplus.bind(py).call0()?, lines));
        self.gone(named)
    }

    fn remove(&mut self, slot: u32, lines: &[Line]) {
        let line = lines[slot as usize].number;
        self.slots.remove(line);
        ask(|py| self.remove.call1(py, (line,)));
    }

    fn shrunk(&mut self, slot: u32, lines: &[Line]) {
        let (Some(shrunk), line) = (&self.shrunk, &lines[slot as usize]) else { return };
        ask(|py| shrunk.call1(py, (line.number, line.cached, line.prefetched)));
    }

    fn bytes(&self) -> usize {
        ask(|py| self.object.object.call_method0(py, "bytes")?.extract(py))
    }

    fn report(&mut self, report: &mut Report) {
        match report.ask() {
            Ask::Counters => {
                let own: Vec<(String, u64)> = ask(|py| self.object.counters(py));
                own.into_iter().for_each(|(name, value)| report.put(kept(name), value));
            }
            Ask::Anew => {
                ask(|py| self.object.object.call_method0(py, "reset_counters"));
            }
            _ => {}
        }
    }

    fn check(&self, lines: &[Line]) -> Result<(), Violation> {
        let fail = |what| Err(Violation { invariant: "I-3", what });
        asserted(&self.object)?;
        let listed: Option<Vec<u64>> = ask(|py| {
            let Some(own) = self.object.own(py, "Replacement", "lines")? else { return Ok(None) };
            own.bind(py).call0()?.try_iter()?.map(|line| line?.extract()).collect::<PyResult<_>>().map(Some)
        });
        let Some(listed) = listed else { return Ok(()) };
        if let Some(line) = listed.iter().find(|&&line| self.slots.get(line).is_none()) {
            return fail(format!("the policy `{}` keeps line {line}, which is not here", self.object.name));
        }
        each_once(listed.iter().filter_map(|&line| self.slots.get(line)), lines)
    }
}

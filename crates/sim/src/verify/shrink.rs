//! A case that fails made smaller, until no part of it can be left out.
//!
//! *Algorithm.* Delta debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28(2), 2002). Parts of a
//! list are left out, first halves, then quarters and so on down to single ones; what still fails is kept. The lists are the steps
//! of the case and the lines of its stack file. Before that all cuts beside the run, all cuts, all chores and all
//! changes of tenants are left out in one go each, after it what remains is made plainer: shorter requests, no gaps, empty drives. This is
//! repeated until nothing changes any more.
//!
//! *What counts.* A smaller case counts only if it breaks the same invariant, and for a panic in the same words, numbers aside: else the
//! search would walk from one fault to another. A stack that cannot be built or has larger devices, and a step that does not fit it, count as no case and are not
//! run.
//!
//! *Deviations.* The paper tries each part alone and its complement; here only complements, which is what helps with lists of which most
//! is irrelevant, and the walk goes on behind what was left out instead of beginning anew. The result cannot be told from
//! that of the paper by what is promised: no single part can be left out, where the runs suffice for that.
//!
//! *Cost.* For n parts of which m matter about 2 m log2 (n / m) runs, each shorter than the first. Bounded by a number of runs.

use super::case::{Case, PowerCut, Step, What, When};
use super::case_text::{CaseError, EVENTS};
use super::oracle::Asked;
use super::run::{run_case, run_case_on};
use crate::replay::Go;
use nandu_base::{ByteLen, Flags, Op, Precondition, Registry, Span, Violation};
use std::ops::Range;

/// A case that was made smaller.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The case.
    pub case: Case,
    /// What it breaks.
    pub violation: Violation,
    /// Runs that it took.
    pub runs: u64,
    /// Whether runs were left when nothing could be left out any more.
    pub is_complete: bool,
}

/// Why a case cannot be made smaller.
#[derive(Debug, thiserror::Error)]
pub enum ShrinkError {
    /// It cannot be run.
    #[error(transparent)]
    Case(#[from] CaseError),
    /// It breaks nothing.
    #[error("the case breaks nothing: only one that fails can be made smaller")]
    Passes,
    /// It breaks something else than the seed did.
    #[error(
        "the seed broke {wanted}, and its steps taken from a list break {found}: it cannot be made smaller"
    )]
    Differs {
        /// What the seed broke.
        wanted: String,
        /// What the list breaks.
        found: String,
    },
    /// What it breaks shows only in two runs.
    #[error("two runs of the seed differ (I-14), and a case is one run: it cannot be made smaller")]
    TwoRuns,
    /// It was called off.
    #[error("the search for a smaller case was called off")]
    Stopped,
}

/// By what a violation is known again: the invariant, and of a panic its words without numbers.
fn mark(violation: &Violation) -> String {
    match violation.invariant {
        "panic" => {
            let mut words: String =
                violation.what.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            while words.contains("00") {
                words = words.replace("00", "0");
            }
            format!("panic: {words}")
        }
        named => named.into(),
    }
}

/// A list whose parts may be left out.
struct Parts {
    count: fn(&Case) -> usize,
    without: fn(&Case, Range<usize>) -> Case,
}

const STEPS: Parts = Parts { count: |case| case.steps.len(), without: without_steps };
const LINES: Parts = Parts { count: |case| case.ground.stack.lines().count(), without: without_lines };

struct Search<'a, P> {
    registry: &'a Registry,
    wanted: String,
    best: Case,
    /// What its devices hold together: without an option a device may be as large as its profile says.
    size: ByteLen,
    runs: u64,
    most: u64,
    progress: P,
}

/// Makes `case` smaller in at most `runs` runs. `progress` hears how many there were and how many requests are left, and may call it off.
///
/// # Errors
/// It cannot be run, or does not fail by what it says it breaks.
pub fn shrink<R: Into<Go>>(
    case: &Case,
    registry: &Registry,
    runs: u64,
    progress: impl FnMut(u64, usize) -> R,
) -> Result<Shrunk, ShrinkError> {
    if case.breaks.as_deref() == Some("I-14") {
        return Err(ShrinkError::TwoRuns);
    }
    let (stack, size) = case.stack(registry)?;
    let first =
        run_case_on(case, (&stack, registry), false, EVENTS)?.failure.ok_or(ShrinkError::Passes)?.violation;
    if let Some(wanted) = case.breaks.as_ref().filter(|wanted| *wanted != first.invariant) {
        let found = first.invariant.to_string();
        return Err(ShrinkError::Differs { wanted: wanted.clone(), found });
    }
    let best = Case { breaks: Some(first.invariant.into()), ..case.clone() };
    let mut search = Search { registry, wanted: mark(&first), best, size, runs: 1, most: runs, progress };
    search.drop_kinds()?;
    loop {
        let before = search.best.clone();
        search.drop_parts(&STEPS)?;
        search.drop_parts(&LINES)?;
        search.make_plainer()?;
        if search.best == before {
            break;
        }
    }
    let Search { best: case, runs, most, .. } = search;
    let violation = run_case(&case, registry, false)?.failure.ok_or(ShrinkError::Passes)?.violation;
    Ok(Shrunk { case, violation, runs, is_complete: runs < most })
}

impl<R: Into<Go>, P: FnMut(u64, usize) -> R> Search<'_, P> {
    /// Keeps `smaller` if it still fails in the same way.
    fn keep_if_it_fails(&mut self, smaller: Case) -> Result<bool, ShrinkError> {
        if self.runs >= self.most || smaller == self.best {
            return Ok(false);
        }
        let Ok((stack, size)) = smaller.stack(self.registry) else { return Ok(false) };
        if size > self.size {
            return Ok(false);
        }
        let failure = run_case_on(&smaller, (&stack, self.registry), false, EVENTS)
            .ok()
            .and_then(|report| report.failure);
        self.runs += 1;
        let fails = failure.is_some_and(|failure| mark(&failure.violation) == self.wanted);
        if fails {
            self.best = smaller;
        }
        match (self.progress)(self.runs, self.best.requests()).into() {
            Go::Stop => Err(ShrinkError::Stopped),
            Go::On => Ok(fails),
        }
    }

    /// Leaves out all steps of a kind at once, and the clean end.
    fn drop_kinds(&mut self) -> Result<(), ShrinkError> {
        let kinds: [fn(&What) -> bool; 4] = [
            |what| matches!(what, What::Peek { .. }),
            |what| matches!(what, What::Cut(_)),
            |what| matches!(what, What::Chore { .. }),
            |what| matches!(what, What::Share(_) | What::Deal(_)),
        ];
        for is_of_kind in kinds {
            let mut smaller = self.best.clone();
            for at in (0..smaller.steps.len()).rev() {
                if is_of_kind(&smaller.steps[at].what) {
                    smaller = without_steps(&smaller, at..at + 1);
                }
            }
            self.keep_if_it_fails(smaller)?;
        }
        let open = Case { close: None, ..self.best.clone() };
        self.keep_if_it_fails(open)?;
        Ok(())
    }

    fn drop_parts(&mut self, parts: &Parts) -> Result<(), ShrinkError> {
        let mut size = (parts.count)(&self.best).div_ceil(2).max(1);
        loop {
            let mut at = 0;
            while at < (parts.count)(&self.best) && self.runs < self.most {
                let end = (at + size).min((parts.count)(&self.best));
                if !self.keep_if_it_fails((parts.without)(&self.best, at..end))? {
                    at = end;
                }
            }
            if size == 1 {
                return Ok(());
            }
            size = size.div_ceil(2);
        }
    }

    /// Makes each step plainer, and what the case stands on.
    fn make_plainer(&mut self) -> Result<(), ShrinkError> {
        let mut empty = self.best.clone();
        empty.ground.precondition = Precondition::Empty;
        self.keep_if_it_fails(empty)?;
        let mut one_by_one = self.best.clone();
        one_by_one.ground.depth = 1;
        self.keep_if_it_fails(one_by_one)?;
        for at in 0..self.best.steps.len() {
            let mut tried = 0;
            while let Some(step) = plainer(&self.best.steps[at]).into_iter().nth(tried) {
                let mut smaller = self.best.clone();
                smaller.steps[at] = step;
                tried = if self.keep_if_it_fails(smaller)? { 0 } else { tried + 1 };
            }
        }
        Ok(())
    }
}

/// The steps without some of them. Events that passed before those are waited for by the next step that counts events.
fn without_steps(case: &Case, gone: Range<usize>) -> Case {
    let mut case = case.clone();
    let passed = |step: &Step| if let When::Events(count) = step.when { count } else { 0 };
    let events: u64 = case.steps.drain(gone.clone()).map(|step| passed(&step)).sum();
    if let Some(Step { when: When::Events(count), .. }) = case.steps.get_mut(gone.start) {
        *count += events;
    }
    case
}

fn without_lines(case: &Case, gone: Range<usize>) -> Case {
    let mut case = case.clone();
    let lines = case.ground.stack.lines().enumerate().filter(|(at, _)| !gone.contains(at));
    case.ground.stack = lines.map(|(_, line)| format!("{line}\n")).collect();
    case
}

/// The same step in plainer forms: each differs from it in one respect, so that this ends.
fn plainer(step: &Step) -> Vec<Step> {
    let mut forms = Vec::new();
    if let When::After(span) = step.when
        && span > Span::ZERO
    {
        forms.push(Step { when: When::After(Span::ZERO), ..step.clone() });
    }
    let mut put = |what: What| forms.push(Step { what, ..step.clone() });
    match &step.what {
        What::Ask { export, asked } if asked.op != Op::Flush => {
            let shorter =
                [512, 4096, asked.len.0 / 2].map(ByteLen).into_iter().filter(|len| *len < asked.len);
            shorter.for_each(|len| put(What::Ask { export: *export, asked: Asked { len, ..*asked } }));
            if asked.flags.has(Flags::FUA) {
                let asked = Asked { flags: Flags::NONE, ..*asked };
                put(What::Ask { export: *export, asked });
            }
        }
        What::Cut(cut) => {
            if cut.look {
                put(What::Cut(PowerCut { look: false, ..cut.clone() }));
            }
            if !cut.again.is_empty() {
                put(What::Cut(PowerCut { again: Vec::new(), ..cut.clone() }));
            }
            if cut.missing.is_some() {
                put(What::Cut(PowerCut { missing: None, ..cut.clone() }));
            }
            if cut.process {
                put(What::Cut(PowerCut { process: false, ..cut.clone() }));
            }
        }
        _ => {}
    }
    forms
}

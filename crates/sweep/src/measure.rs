//! Running points: all cores, one copy of the requests, each point into the journal as soon as it is known.

use crate::Sweep;
use crate::error::SweepError;
use crate::id::{Id, Shard, Shared};
use crate::journal::{Journal, Record};
use crate::metric::{Figure, Figures, figures};
use crate::outcome::shown_and_watched;
use crate::schedule::Schedule;
use crate::search::{Known, SearchKind};
use crate::survey::{Seen, Survey, stack};
use nandu_base::Registry;
use nandu_sim::replay::{Go, Progress};
use nandu_sim::threads::Alarm;
use nandu_sim::{RunOptions, RunWorkload};
use nandu_stack::StackFile;
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Instant;

/// Everything that the runs of a sweep share, and what is known of its points.
pub struct Bench<'a> {
    sweep: &'a Sweep,
    file: &'a StackFile,
    registry: &'a Registry,
    options: &'a RunOptions,
    seen: &'a [Option<Seen>],
    /// Figures that are kept of each point.
    names: Vec<String>,
    /// The name of each point that can be built.
    ids: Vec<Option<Id>>,
    /// The points of each name: different settings may make the same stack.
    points: BTreeMap<Id, Vec<usize>>,
    known: Known,
}

impl<'a> Bench<'a> {
    /// Nothing is known yet. `options` hold the requests; which export takes them is in `survey`.
    pub fn new(
        sweep: &'a Sweep,
        file: &'a StackFile,
        registry: &'a Registry,
        options: &'a RunOptions,
        survey: &'a Survey,
    ) -> Bench<'a> {
        let shared = Shared::of(options);
        let id = |seen: &Option<Seen>| seen.as_ref().map(|s| shared.id(&s.stack_hash, s.export));
        let ids: Vec<Option<Id>> = survey.seen.iter().map(id).collect();
        let mut points: BTreeMap<Id, Vec<usize>> = BTreeMap::new();
        for (point, id) in ids.iter().enumerate() {
            if let Some(id) = id {
                points.entry(*id).or_default().push(point);
            }
        }
        let known = ids.iter().map(|_| None).collect();
        Bench {
            sweep,
            file,
            registry,
            options,
            seen: &survey.seen,
            names: shown_and_watched(sweep),
            ids,
            points,
            known,
        }
    }

    /// The name of each point; `None` for those that cannot be built.
    pub fn ids(&self) -> &[Option<Id>] {
        &self.ids
    }

    /// Figures of the points that are known.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// How many points of `shard` are there and how many of them are known.
    pub fn progress(&self, shard: Shard) -> (usize, usize) {
        let mine = |point: &usize| self.ids[*point].is_some_and(|id| shard.has(&id));
        let all = (0..self.ids.len()).filter(mine);
        all.fold((0, 0), |(all, known), p| (all + 1, known + usize::from(self.known[p].is_some())))
    }

    /// Takes up what the journal in `folder` holds. Returns it, and how many of its lines do not count.
    pub fn resume(&mut self, folder: &Path, program: &str) -> Result<(Journal, u64), SweepError> {
        Journal::open(folder, program, |record| self.learn(record.id, &record.figures))
    }

    /// Takes up what the journal of another folder holds, and copies it to `journal`. Returns how many lines do not count.
    pub fn take_from(
        &mut self,
        folder: &Path,
        program: &str,
        mut journal: Option<&mut Journal>,
    ) -> Result<u64, SweepError> {
        let mut failed = None;
        let damaged = Journal::read(folder, program, |record| {
            let new = self.points.get(&record.id).is_some_and(|points| self.known[points[0]].is_none());
            if new {
                let copied = journal.as_deref_mut().map_or(Ok(()), |journal| journal.append(&record));
                failed = failed.take().or(copied.err());
                self.learn(record.id, &record.figures);
            }
        })?;
        failed.map_or(Ok(damaged), Err)
    }

    /// Takes up a point that was measured elsewhere.
    pub fn take(&mut self, record: &Record) {
        self.learn(record.id, &record.figures);
    }

    /// The figures of a point, if it is one of this sweep.
    fn learn(&mut self, id: Id, figures: &Figures) {
        let kept: Box<[Option<Figure>]> = self.names.iter().map(|name| figures.get(name).copied()).collect();
        for &point in self.points.get(&id).into_iter().flatten() {
            self.known[point] = Some(kept.clone());
        }
    }

    /// Measures what `search` asks for and is not known, as far as it belongs to `shard`. `moved` hears of progress
    /// from any thread, and may call it off.
    pub fn measure(
        &mut self,
        search: &SearchKind,
        shard: Shard,
        threads: usize,
        mut journal: Option<&mut Journal>,
        moved: &(dyn Fn(u64) -> Go + Sync),
    ) -> Result<(), SweepError> {
        loop {
            let todo = self.wanted(search, shard)?;
            if todo.is_empty() {
                return Ok(());
            }
            self.run(todo, threads, journal.as_deref_mut(), moved)?;
        }
    }

    /// The points that `search` asks for next and that are not known, as far as they belong to `shard`, in order; none when it has seen enough.
    ///
    /// # Errors
    /// No part of the search can be done alone.
    pub fn wanted(&self, search: &SearchKind, shard: Shard) -> Result<Vec<usize>, SweepError> {
        if !shard.is_whole() && !search.shards {
            let what = format!("the search `{}` chooses points by figures", search.name);
            return Err(SweepError::bad("--shard", what, "a part of it cannot be done alone"));
        }
        // What it asks for depends on figures alone: one that begins again asks for what is known first.
        let mut chooser = (search.begin)();
        loop {
            let asked = chooser.next(&self.sweep.space, &self.known);
            if asked.is_empty() {
                return Ok(asked);
            }
            let mine = |point: &usize| {
                let id = self.ids[*point].filter(|id| shard.has(id));
                self.known[*point].is_none() && id.is_some_and(|id| self.points[&id][0] == *point)
            };
            let mut todo: Vec<usize> =
                asked.into_iter().map(|p| self.first_of_its_name(p)).filter(mine).collect();
            if !todo.is_empty() {
                todo.sort_unstable();
                todo.dedup();
                return Ok(todo);
            }
        }
    }

    /// Measures one point, which can be built. `moved` hears of progress, and may call it off.
    ///
    /// # Errors
    /// It cannot be run.
    pub fn record(&self, point: usize, moved: &(dyn Fn(u64) -> Go + Sync)) -> Result<Record, SweepError> {
        let figures = self.runner(moved).figures(point)?;
        Ok(Record { id: self.ids[point].expect("only points that can be built are run"), figures })
    }

    fn runner<'m>(&'m self, moved: &'m (dyn Fn(u64) -> Go + Sync)) -> Runner<'m> {
        let Bench { sweep, file, registry, options, seen, .. } = *self;
        Runner { sweep, file, registry, options, seen, moved }
    }

    fn first_of_its_name(&self, point: usize) -> usize {
        self.ids[point].map_or(point, |id| self.points[&id][0])
    }

    /// Runs points on all threads. Of several that fail the first in order is the error.
    fn run(
        &mut self,
        todo: Vec<usize>,
        threads: usize,
        mut journal: Option<&mut Journal>,
        moved: &(dyn Fn(u64) -> Go + Sync),
    ) -> Result<(), SweepError> {
        let threads = threads.clamp(1, todo.len().max(1));
        let schedule = Mutex::new(Schedule::new(&self.sweep.space, todo));
        let stop = AtomicBool::new(false);
        let mut failed: Option<(usize, SweepError)> = None;
        let runner = Runner {
            sweep: self.sweep,
            file: self.file,
            registry: self.registry,
            options: self.options,
            seen: self.seen,
            moved,
        };
        std::thread::scope(|scope| {
            let (done, results) = mpsc::channel();
            let mut all = Vec::new();
            for _ in 0..threads {
                let (done, schedule, stop, runner) = (done.clone(), &schedule, &stop, &runner);
                all.push(scope.spawn(move || {
                    let _alarm = Alarm(stop);
                    while !stop.load(Ordering::Relaxed) {
                        let Some(point) = schedule.lock().expect("no holder panics").take() else { return };
                        let start = Instant::now();
                        let result = runner.figures(point);
                        schedule.lock().expect("no holder panics").took(point, start.elapsed().as_secs_f64());
                        if done.send((point, result)).is_err() {
                            return;
                        }
                    }
                }));
            }
            drop(done);
            for (point, result) in results {
                let kept = result.and_then(|figures| {
                    let id = self.ids[point].expect("only points that can be built are run");
                    self.learn(id, &figures);
                    journal.as_deref_mut().map_or(Ok(()), |journal| journal.append(&Record { id, figures }))
                });
                if let Err(error) = kept {
                    stop.store(true, Ordering::Relaxed);
                    if failed.as_ref().is_none_or(|(first, _)| point < *first) {
                        failed = Some((point, error));
                    }
                }
            }
            for thread in all {
                if let Err(panic) = thread.join() {
                    resume_unwind(panic);
                }
            }
        });
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// What a thread needs to run a point.
struct Runner<'a> {
    sweep: &'a Sweep,
    file: &'a StackFile,
    registry: &'a Registry,
    options: &'a RunOptions,
    seen: &'a [Option<Seen>],
    moved: &'a (dyn Fn(u64) -> Go + Sync),
}

impl Runner<'_> {
    fn figures(&self, point: usize) -> Result<Figures, SweepError> {
        let label = || self.sweep.space.label(point);
        let stack = stack(self.file, &self.sweep.space, point, self.registry)
            .map_err(|error| SweepError::Stack { point: label(), error })?;
        let export = self.seen[point].as_ref().expect("only points that can be built are run").export;
        let workloads = self.options.workloads.iter().map(|w| RunWorkload { export, ..w.clone() });
        let options = RunOptions { workloads: workloads.collect(), ..self.options.clone() };
        let mut told = 0;
        let follow =
            |progress: Progress| (self.moved)(progress.done - std::mem::replace(&mut told, progress.done));
        let result = nandu_sim::run(&stack, &options, follow)
            .map_err(|error| SweepError::Run { point: label(), error })?;
        Ok(figures(&result))
    }
}

//! Maps: a class says which entries of a drive's map are in its RAM, and when translation pages are read and written.
//!
//! What lies on the flash, the moves that wait and where translation pages lie is kept here, and so is where each page really lies: what a class answers is held
//! against it at once. During a question all of that lies in the object [`Flash`] that the class is given.

use super::{Class, Object, Use, ask, asserted};
use nandu::mapping::{
    Directory, Given, Lpn, MapOp, MapOps, MapOptions, Mapping, PagedOptions, Ppn, Store, Tp, late,
};
use nandu::units::BuildError;
use nandu::{Declaration, Policy};
use pyo3::exceptions::{PyIndexError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

/// The policy that `class` is.
pub(super) fn policy(py: Python<'_>, declaration: Declaration, class: Class) -> Result<Policy, String> {
    let whole_pages = class.is(py, "whole_pages")?;
    let class = Arc::new(class);
    late(declaration, move |paged, options| Options {
        class: Use { class: Arc::clone(&class), options },
        paged,
        whole_pages,
    })
}

#[derive(Clone, Debug)]
struct Options {
    class: Use,
    paged: PagedOptions,
    whole_pages: bool,
}

/// Those that all maps on the flash have; the schema of the class bounds its own.
impl nandu::options::Options for Options {
    fn declared() -> Vec<nandu::options::Described> {
        Vec::new()
    }

    fn check_ranges(&self) -> Result<(), BuildError> {
        nandu::options::Options::check_ranges(&self.paged)
    }
}

impl MapOptions for Options {
    type Map = Instance;

    fn paged(&self) -> Option<&PagedOptions> {
        Some(&self.paged)
    }

    fn build(&self, given: Given<'_>) -> Result<Instance, BuildError> {
        let Given { shape, block_pages, seed, .. } = given;
        let state = State {
            truth: vec![0; shape.pages as usize],
            changed: vec![false; shape.translation_pages() as usize],
            directory: Directory::new(shape.translation_pages()),
            store: Store::new(shape),
            ops: MapOps::default(),
            asked: None,
        };
        let options = self.clone();
        // A class may find that an option does not fit this drive.
        let refused =
            |error: PyErr| BuildError::at("mapping", format!("`{}`: {error}", options.class.class.name));
        let asked = ask(|py| match Questions::new(py, &options, &state, block_pages, seed) {
            Err(error) if error.is_instance_of::<PyValueError>(py) => Ok(Err(refused(error))),
            made => made.map(Ok),
        })?;
        Ok(Instance { options, block_pages, seed, state: Some(Box::new(state)), asked })
    }
}

/// A question for the entry of one page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Asked {
    lpn: u32,
    /// Its translation page was read, or its move taken: the entry was not in RAM.
    missed: bool,
}

/// What a drive keeps for the map.
struct State {
    store: Store,
    directory: Directory,
    /// Where each page lies, plus one; zero where it is unmapped.
    truth: Vec<u32>,
    /// Translation pages with an entry in RAM that was changed since they were written.
    changed: Vec<bool>,
    ops: MapOps,
    /// The question that is under way, where it is for an entry.
    asked: Option<Asked>,
}

impl State {
    fn tp(&self, lpn: u32) -> Option<Tp> {
        ((lpn as usize) < self.truth.len()).then(|| self.store.shape.tp(Lpn(lpn)))
    }

    /// The entry of a page is in RAM, and was changed there.
    fn entered(&mut self, lpn: Lpn) {
        self.store.take_move(lpn);
        let tp = self.store.shape.tp(lpn);
        self.changed[tp.0 as usize] = true;
    }

    /// Writes a translation page, in which the class has `own` entries.
    fn write(&mut self, tp: Tp, own: &[(u32, Option<u32>)], must_read: bool) -> Result<(), String> {
        if must_read {
            self.directory.read(tp, &mut self.ops);
        }
        for &(lpn, place) in own {
            if self.tp(lpn) != Some(tp) {
                return Err(format!("names page {lpn}, which has no entry in translation page {}", tp.0));
            }
            let word = word_of(place)
                .ok_or_else(|| format!("says that page {lpn} lies at {place:?}, which is not a place"))?;
            self.store.set_word(Lpn(lpn), word);
        }
        self.store.count.moves_batched += self.store.enter_moves(tp);
        let first = self.store.shape.span(tp).start as usize;
        let wrong = self.store.page(tp).iter().zip(&self.truth[first..]).position(|(has, is)| has != is);
        if let Some(at) = wrong {
            let lpn = first + at;
            let (has, is) = (place_of(self.store.page(tp)[at]), place_of(self.truth[lpn]));
            return Err(format!(
                "leaves page {lpn} at {has:?} in translation page {}, and it lies at {is:?}",
                tp.0
            ));
        }
        self.changed[tp.0 as usize] = false;
        self.ops.push(MapOp::Write(tp));
        Ok(())
    }
}

/// The word of an entry; `None` for what is no place.
fn word_of(place: Option<u32>) -> Option<u32> {
    place.map_or(Some(0), |place| place.checked_add(1))
}

fn place_of(word: u32) -> Option<u32> {
    word.checked_sub(1)
}

/// The flash of a drive, as a map sees it while it is asked something.
#[pyclass(module = "nandu._nandu")]
pub struct Flash {
    state: Option<Box<State>>,
    /// The method `changed` of the class.
    changed: Py<PyAny>,
    class: String,
    whole_pages: bool,
}

impl Flash {
    fn state(&mut self) -> PyResult<&mut State> {
        let gone =
            || PyRuntimeError::new_err("the flash can be used while a method of the map runs, and no longer");
        self.state.as_deref_mut().ok_or_else(gone)
    }

    fn checked(&mut self, tp: u32) -> PyResult<Tp> {
        let pages = self.state()?.store.shape.translation_pages();
        let why = || PyIndexError::new_err(format!("translation page {tp} is none of the map's {pages}"));
        if tp < pages { Ok(Tp(tp)) } else { Err(why()) }
    }

    /// Writes a translation page with what `changed` names of it. The class may use the flash meanwhile.
    fn written(flash: &Bound<'_, Flash>, tp: Tp, must_read: bool) -> PyResult<()> {
        let py = flash.py();
        let changed = flash.borrow().changed.clone_ref(py);
        let named = changed.bind(py).call1((tp.0,))?;
        let own: Vec<(u32, Option<u32>)> = match named.cast::<TranslationPage>() {
            Ok(page) => {
                let page = page.borrow();
                (page.first..).zip(page.words.iter().map(|&word| place_of(word))).collect()
            }
            Err(_) => named
                .call_method0("items")?
                .try_iter()?
                .map(|item| item?.extract())
                .collect::<PyResult<_>>()?,
        };
        let mut flash = flash.borrow_mut();
        let done = flash.state()?.write(tp, &own, must_read);
        let class = &flash.class;
        done.map_err(|how| PyValueError::new_err(format!("`changed` of the policy `{class}` {how}")))
    }
}

#[pymethods]
impl Flash {
    /// The number of the translation page that has the entry of a logical page.
    fn translation_page(&mut self, lpn: u32) -> PyResult<u32> {
        let state = self.state()?;
        let pages = state.truth.len();
        let why = || PyIndexError::new_err(format!("page {lpn} is none of the drive's {pages}"));
        state.tp(lpn).map(|tp| tp.0).ok_or_else(why)
    }

    /// Reads a translation page, which costs a read of the flash where it was ever written. Moves that wait for it are entered in what is returned. For a map
    /// that has whole translation pages in RAM they wait no longer: `entered` of them are in it, and it counts as changed. For others they go on waiting.
    fn read(&mut self, tp: u32) -> PyResult<TranslationPage> {
        let tp = self.checked(tp)?;
        let takes = self.whole_pages;
        let state = self.state()?;
        let is_read = state.directory.read(tp, &mut state.ops);
        if state.asked.is_some_and(|asked| state.tp(asked.lpn) == Some(tp)) {
            state.store.count.loads += u64::from(is_read);
            state.asked.iter_mut().for_each(|asked| asked.missed = true);
        }
        let span = state.store.shape.span(tp);
        let mut words = state.store.page(tp).to_vec();
        // The last one has room for entries that no page has.
        words.truncate(state.truth.len().saturating_sub(span.start as usize));
        let mut entered = 0;
        while takes && let Some((lpn, ppn)) = state.store.take_any_move(tp) {
            words[(lpn.0 - span.start) as usize] = ppn.0 + 1;
            state.changed[tp.0 as usize] = true;
            entered += 1;
        }
        if state.store.has_moves(tp) {
            for (lpn, word) in span.clone().zip(&mut words) {
                if let Some(ppn) = state.store.moved_to(Lpn(lpn)) {
                    *word = ppn.0 + 1;
                    entered += 1;
                }
            }
        }
        Ok(TranslationPage { first: span.start, words, entered })
    }

    /// Writes a translation page with all entries of it that were changed: it asks `changed` for them. A map that does not have whole translation pages in RAM
    /// reads it first, which is added here.
    fn write(slf: &Bound<'_, Flash>, tp: u32) -> PyResult<()> {
        let (tp, must_read) = {
            let mut flash = slf.borrow_mut();
            let tp = flash.checked(tp)?;
            flash.state()?.store.count.write_backs += 1;
            (tp, !flash.whole_pages)
        };
        Flash::written(slf, tp, must_read)
    }

    /// Takes the waiting move of a page: where it lies, or `None` where none waits. Its entry is in RAM and changed from here on.
    fn take_move(&mut self, lpn: u32) -> PyResult<Option<u32>> {
        let tp = Tp(self.translation_page(lpn)?);
        let state = self.state()?;
        let place = state.store.take_move(Lpn(lpn));
        if place.is_some() {
            state.asked.iter_mut().filter(|asked| asked.lpn == lpn).for_each(|asked| asked.missed = true);
            state.changed[tp.0 as usize] = true;
        }
        Ok(place.map(|ppn| ppn.0))
    }
}

/// The entries of a translation page, by logical page: where each lies, or `None`.
#[pyclass(module = "nandu._nandu")]
pub struct TranslationPage {
    first: u32,
    words: Vec<u32>,
    entered: u32,
}

impl TranslationPage {
    fn at(&self, lpn: u32) -> PyResult<usize> {
        let at = lpn.checked_sub(self.first).map(|at| at as usize).filter(|&at| at < self.words.len());
        let end = self.first as usize + self.words.len();
        let why = || format!("page {lpn} has no entry here: {} to below {end} have", self.first);
        at.ok_or_else(|| PyIndexError::new_err(why()))
    }
}

#[pymethods]
impl TranslationPage {
    fn __getitem__(&self, lpn: u32) -> PyResult<Option<u32>> {
        Ok(place_of(self.words[self.at(lpn)?]))
    }

    fn __setitem__(&mut self, lpn: u32, place: Option<u32>) -> PyResult<()> {
        let at = self.at(lpn)?;
        let why = || PyValueError::new_err(format!("{place:?} is not a place"));
        self.words[at] = word_of(place).ok_or_else(why)?;
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.words.len()
    }

    /// The first logical page that it has an entry of.
    #[getter]
    fn first(&self) -> u32 {
        self.first
    }

    /// Moves of collection that were entered when it was read.
    #[getter]
    fn entered(&self) -> u32 {
        self.entered
    }
}

/// An instance of the class, and its methods.
struct Questions {
    object: Object,
    flash: Py<Flash>,
    lookup: Py<PyAny>,
    update: Py<PyAny>,
    moved: Py<PyAny>,
    begins: Option<Py<PyAny>>,
    /// What it says that its RAM has room for.
    slots: u32,
}

impl Questions {
    fn new(
        py: Python<'_>,
        options: &Options,
        state: &State,
        block_pages: u32,
        seed: u64,
    ) -> PyResult<Questions> {
        let shape = &state.store.shape;
        let ram = options.paged.cmt_size.0;
        let entries = shape.entries() as u64;
        let figures =
            [shape.pages.into(), entries, shape.translation_pages().into(), ram, block_pages.into(), seed];
        let object = options.class.object(py, "MapSize", &figures)?;
        let flash = Flash {
            state: None,
            changed: object.method(py, "changed")?,
            class: object.name.clone(),
            whole_pages: options.whole_pages,
        };
        Ok(Questions {
            flash: Py::new(py, flash)?,
            lookup: object.method(py, "lookup")?,
            update: object.method(py, "update")?,
            moved: object.method(py, "moved")?,
            begins: object.own(py, "Map", "begins")?,
            slots: object.object.call_method0(py, "slots")?.extract(py)?,
            object,
        })
    }
}

/// The map of a drive.
struct Instance {
    options: Options,
    block_pages: u32,
    seed: u64,
    /// Away while the class is asked something.
    state: Option<Box<State>>,
    asked: Questions,
}

impl Instance {
    fn state(&self) -> &State {
        self.state.as_deref().expect("it is away while a question is under way only")
    }

    fn state_mut(&mut self) -> &mut State {
        self.state.as_deref_mut().expect("it is away while a question is under way only")
    }

    /// Asks the class something that may use the flash; what it asks for there is added to `ops`.
    fn with_flash<R>(
        &mut self,
        ops: &mut MapOps,
        question: impl FnOnce(Python<'_>, &Questions) -> PyResult<R>,
    ) -> R {
        let mut state = self.state.take().expect("one question at a time is under way");
        std::mem::swap(&mut state.ops, ops);
        let asked = &self.asked;
        let (answer, mut state) = ask(|py| {
            asked.flash.borrow_mut(py).state = Some(state);
            let answer = question(py, asked);
            let state = asked.flash.borrow_mut(py).state.take();
            Ok((answer?, state.expect("nobody else takes it")))
        });
        std::mem::swap(&mut state.ops, ops);
        self.state = Some(state);
        answer
    }

    /// Asks for the entry of a page, counts the question, and holds the answer against where the page lies.
    fn ask_entry(
        &mut self,
        method: &str,
        lpn: Lpn,
        ops: &mut MapOps,
        question: impl FnOnce(Python<'_>, &Questions) -> PyResult<Option<u32>>,
    ) -> Option<Ppn> {
        self.state_mut().asked = Some(Asked { lpn: lpn.0, missed: false });
        let answer = self.with_flash(ops, question);
        let state = self.state_mut();
        match state.asked.take() {
            Some(Asked { missed: true, .. }) => state.store.count.misses += 1,
            _ => state.store.count.hits += 1,
        }
        let is = self.get(lpn).map(|ppn| ppn.0);
        if answer != is {
            let how = format!("answers {answer:?} for page {}, which lies at {is:?}", lpn.0);
            ask(|_| Err::<(), _>(self.asked.object.broke(method, how)));
        }
        answer.map(Ppn)
    }

    /// Writes a translation page that was changed, outside of a question for an entry.
    fn write(&mut self, tp: Tp, must_read: bool, ops: &mut MapOps) {
        self.with_flash(ops, |py, asked| Flash::written(asked.flash.bind(py), tp, must_read));
    }
}

impl Mapping for Instance {
    fn get(&self, lpn: Lpn) -> Option<Ppn> {
        place_of(self.state().truth[lpn.0 as usize]).map(Ppn)
    }

    fn set(&mut self, lpn: Lpn, ppn: Ppn) -> Option<Ppn> {
        let state = self.state_mut();
        state.truth[lpn.0 as usize] = ppn.0 + 1;
        state.store.set_stored(lpn, Some(ppn))
    }

    fn clear(&mut self, lpn: Lpn) -> Option<Ppn> {
        let state = self.state_mut();
        state.truth[lpn.0 as usize] = 0;
        state.store.set_stored(lpn, None)
    }

    fn reset(&mut self) {
        let (block_pages, seed) = (self.block_pages, self.seed);
        let state = self.state_mut();
        state.store.reset();
        let pages = state.store.shape.translation_pages();
        state.directory = Directory::new(pages);
        state.truth.fill(0);
        state.changed = vec![false; pages as usize];
        // What was in RAM is lost: another instance begins.
        self.asked = ask(|py| Questions::new(py, &self.options, self.state(), block_pages, seed));
    }

    fn prefetch(&self, _lpn: Lpn) {}

    fn begin(&mut self, end: Lpn) {
        if let Some(begins) = &self.asked.begins {
            ask(|py| begins.call1(py, (end.0,)));
        }
    }

    fn lookup(&mut self, lpn: Lpn, ops: &mut MapOps) -> Option<Ppn> {
        self.ask_entry("lookup", lpn, ops, |py, asked| {
            asked.lookup.bind(py).call1((lpn.0, &asked.flash))?.extract()
        })
    }

    fn update(&mut self, lpn: Lpn, to: Option<Ppn>, ops: &mut MapOps) -> Option<Ppn> {
        let place = to.map(|ppn| ppn.0);
        let old = self.ask_entry("update", lpn, ops, |py, asked| {
            asked.update.bind(py).call1((lpn.0, place, &asked.flash))?.extract()
        });
        let state = self.state_mut();
        state.truth[lpn.0 as usize] = place.map_or(0, |place| place + 1);
        state.entered(lpn);
        old
    }

    fn relocate(&mut self, lpn: Lpn, to: Ppn, ops: &mut MapOps) {
        let truth =
            |map: &mut Instance, word| std::mem::replace(&mut map.state_mut().truth[lpn.0 as usize], word);
        // What the class writes while it is told holds the new place already.
        let old = truth(self, to.0 + 1);
        let is_here: bool = self
            .with_flash(ops, |py, asked| asked.moved.bind(py).call1((lpn.0, to.0, &asked.flash))?.extract());
        if is_here {
            self.state_mut().entered(lpn);
            return;
        }
        if let Some(due) = self.state_mut().store.batch_due() {
            truth(self, old);
            self.write(due, true, ops);
            truth(self, to.0 + 1);
        }
        self.state_mut().store.put_move(lpn, to);
    }

    /// The old page of every update was known at once.
    fn is_live(&mut self, _lpn: Lpn, _ppn: Ppn, _ops: &mut MapOps) -> bool {
        true
    }

    fn write_back_all(&mut self, ops: &mut MapOps) {
        for tp in (0..self.translation_pages()).map(Tp) {
            let state = self.state();
            let (changed, waits) = (state.changed[tp.0 as usize], state.store.has_moves(tp));
            if changed || waits {
                self.write(tp, !self.options.whole_pages || !changed, ops);
            }
        }
    }

    fn store(&self) -> Option<&Store> {
        Some(&self.state().store)
    }

    fn store_mut(&mut self) -> Option<&mut Store> {
        Some(&mut self.state_mut().store)
    }

    fn directory(&self) -> Option<&Directory> {
        Some(&self.state().directory)
    }

    fn directory_mut(&mut self) -> Option<&mut Directory> {
        Some(&mut self.state_mut().directory)
    }

    fn cache_slots(&self) -> u32 {
        self.asked.slots
    }

    fn ram(&self) -> u64 {
        let state = self.state();
        self.options.paged.cmt_size.0 + state.directory.ram() + state.store.moves_ram()
    }

    fn check(&self) -> Result<(), String> {
        asserted(&self.asked.object).map_err(|broken| broken.what)
    }
}

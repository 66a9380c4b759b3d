//! The story of a growth: the legs become longer while requests run, an operator asks for more, and whatever is cut or lost meanwhile, the array
//! has its old size or its new one, with all that it promised. What differs from array to array is in [`Grows`].

use super::{CREATE, PLAIN, Subject, World};
use nandu_array::member::Superblock;
use nandu_array::member::moved::have_moved;
use nandu_base::{Admin, ByteLen, Notice, Op, Rng, SECTOR};

/// Bytes by which each leg becomes longer.
const MORE: u64 = 256 << 10;
/// The first sector that only the larger array has.
pub const NEW: u64 = (256 << 10) / SECTOR;
/// One that is written to.
pub const BEYOND: u64 = NEW + 300;

/// An array that grows.
pub trait Grows: Subject<Layout: Copy + PartialEq> {
    /// Whether what is new reads as zeros; then the command may say that it does already.
    const ZEROES: bool;
    /// Of so many steps of a story one seed tries something at one; with so many seeds it is tried at each.
    const STRIDE: u64;

    /// Where things lie on a leg of so many bytes.
    fn layout_of(&self, leg: ByteLen) -> Self::Layout;
    /// Bytes of a leg, and those that can hold data.
    fn sizes(layout: &Self::Layout) -> (ByteLen, ByteLen);
    /// Where the records of a leg begin.
    fn records_at(layout: &Self::Layout) -> [u64; 2];
    fn read_record(bytes: &[u8]) -> Option<Superblock>;
    /// From here on each leg has so many bytes of data.
    fn set_data(&mut self, data: ByteLen);
    /// How much is served of so many bytes of data on each leg.
    fn served_of(&self, data: ByteLen) -> ByteLen;
    /// Whether all legs are used and have everything.
    fn is_whole(world: &mut World<Self>) -> bool;
    /// Checks what holds on the legs when all is quiet.
    fn check_legs(world: &mut World<Self>);
    /// A leg without which the array starts once more at the end.
    fn can_miss(&self) -> Option<usize>;
}

/// A story: the array, and whether what its legs get holds rubbish.
#[derive(Clone)]
pub struct Growth<S> {
    pub setup: S,
    pub is_soiled: bool,
}

/// Where things lie on each leg before a growth and after it.
pub struct Layouts<L> {
    pub before: Vec<L>,
    pub after: Vec<L>,
}

pub fn layouts<S: Grows>(w: &World<S>) -> Layouts<S::Layout> {
    let before = vec![w.layout; w.legs()];
    let after = longer(w, &before);
    Layouts { before, after }
}

pub fn longer<S: Grows>(w: &World<S>, layouts: &[S::Layout]) -> Vec<S::Layout> {
    let longer = |layout| w.setup.layout_of(ByteLen(S::sizes(layout).0.0 + MORE));
    layouts.iter().map(longer).collect()
}

/// From here on the legs have this size, as far as anybody but the growth knows.
pub fn take<S: Grows>(w: &mut World<S>, layouts: &[S::Layout]) {
    w.setup.set_data(least_data::<S>(layouts));
    w.layout = layouts[0];
    for (leg, layout) in layouts.iter().enumerate() {
        let (size, data) = S::sizes(layout);
        let mut disk = w.disk(leg);
        (disk.size, disk.data_end) = (size, data.sectors());
    }
}

fn least_data<S: Grows>(layouts: &[S::Layout]) -> ByteLen {
    layouts.iter().map(|layout| S::sizes(layout).1).min().expect("there are legs")
}

pub fn served<S: Grows>(w: &World<S>, layouts: &[S::Layout]) -> ByteLen {
    w.setup.served_of(least_data::<S>(layouts))
}

pub fn records<S: Grows>(w: &World<S>, leg: usize, layout: &S::Layout) -> Vec<Superblock> {
    let records = S::records_at(layout).map(|at| w.disk(leg).record(at));
    records.iter().filter_map(|record| S::read_record(record)).collect()
}

/// What whoever starts an array does whose legs are longer than they were: looks where the records are that count.
pub fn settle<S: Grows>(w: &mut World<S>, Layouts { before, after }: &Layouts<S::Layout>) -> bool {
    let there = |leg: &usize| !w.disk(*leg).lost;
    let places = |leg: usize| (records(w, leg, &before[leg]), records(w, leg, &after[leg]));
    let places: Vec<_> = (0..w.legs()).filter(there).map(places).collect();
    let moved = have_moved(places.iter().map(|(before, now)| (&before[..], &now[..])));
    take(w, if moved { after } else { before });
    moved
}

pub fn lengthen<S: Grows>(w: &mut World<S>, after: &[S::Layout], is_soiled: bool) {
    for (leg, layout) in after.iter().enumerate() {
        let (size, _) = S::sizes(layout);
        if is_soiled {
            let new = w.disk(leg).size.sectors()..size.sectors();
            w.disk(leg).soil_unwritten(new, 900 + leg as u32);
        }
        w.lengthen(leg, size);
    }
}

/// What the array has grown to.
pub fn grown<S: Grows>(w: &World<S>) -> Option<ByteLen> {
    w.notices.iter().rev().find_map(|notice| match notice {
        Notice::Grown(size) => Some(*size),
        _ => None,
    })
}

/// The command; `has_holes`: nothing lies in what is new.
pub fn command<S: Grows>(has_holes: bool) -> Admin {
    Admin::Grow { is_equal: has_holes && S::ZEROES }
}

/// Why the array does not grow.
pub fn refusal<S: Grows>(w: &mut World<S>) -> String {
    w.admin(command::<S>(true)).expect_err("it does not grow").to_string()
}

/// Writes, a flush, and one write more, which is under way.
pub fn begin<S: Subject>(w: &mut World<S>) -> u64 {
    let a = w.write(0, 20);
    let b = w.write(130, 20);
    w.wait_unless_over(&[a, b]);
    let f = w.flush();
    let c = w.write(4, 9);
    w.wait_unless_over(&[f]);
    c
}

/// Writes, a growth with requests before, beside and behind it, writes into what is new, a flush.
pub fn story<S: Grows>(w: &mut World<S>, after: &[S::Layout], is_soiled: bool) {
    let c = begin(w);
    lengthen(w, after, is_soiled);
    if w.is_over() || w.admin(command::<S>(!is_soiled)).is_err() {
        return; // a leg was lost before
    }
    let d = w.write(135, 6);
    let r = w.read(0, 20);
    let f = w.flush();
    w.wait_unless_over(&[c, d, r, f]);
    let told = |w: &World<S>| w.notices.iter().any(|n| matches!(n, Notice::Grown(_) | Notice::NotGrown));
    let mut more = 0;
    while !w.is_over() && !told(w) && w.step() {
        more += 1;
        if more % 16 == 1 {
            w.write(200 + more % 40, 5);
        }
    }
    if w.is_over() {
        return;
    }
    let end = match grown(w) {
        Some(size) => {
            assert_eq!(size, served(w, after), "all of it is served");
            take(w, after);
            BEYOND
        }
        None => 300,
    };
    let e = w.write(end, 12);
    let g = w.change(Op::Write, 2, 3, true);
    let f = w.flush();
    w.wait_unless_over(&[e, g, f]);
    let r = w.read(end, 12);
    w.wait_unless_over(&[r]);
    w.run(20_000);
}

/// The start after it, and all that was promised is there; then, if it has not grown, it can.
fn recover<S: Grows>(w: &mut World<S>, sizes: &Layouts<S::Layout>, is_soiled: bool) -> Result<(), String> {
    let had_grown = settle(w, sizes);
    w.open(PLAIN).map_err(|e| e.to_string())?;
    w.read_all();
    w.run(50_000);
    if w.wrong.is_none() {
        S::check_legs(w);
    }
    if !had_grown && w.wrong.is_none() {
        w.notices.clear();
        lengthen(w, &sizes.after, is_soiled);
        // The growth that was cut off has left something there.
        w.admin(command::<S>(false)).map_err(|e| format!("it does not grow afterwards: {e}"))?;
        w.run(50_000);
        if grown(w) != Some(served(w, &sizes.after)) {
            return Err("it has not grown afterwards".into());
        }
        take(w, &sizes.after);
        let a = w.write(BEYOND, 4);
        w.wait(&[a]);
        w.run(20_000);
        S::check_legs(w);
    }
    read_new(w);
    // What was read must be there after one more cut, without any leg where it can do without one.
    w.cut();
    settle(w, sizes);
    let missed = w.setup.can_miss();
    if let Some(leg) = missed {
        w.disk(leg).lost = true;
    }
    w.open(PLAIN).map_err(|e| e.to_string())?;
    w.read_all();
    read_new(w);
    if missed.is_none() && w.wrong.is_none() {
        w.run(50_000);
        S::check_legs(w);
    }
    w.wrong.take().map_or(Ok(()), Err)
}

fn read_new<S: Grows>(w: &mut World<S>) {
    if S::ZEROES {
        let new = w.read(NEW, 300);
        w.wait(&[new]);
    }
}

/// What comes with the cut, or behind it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// Nothing.
    Start,
    /// The start is cut short as well.
    Twice,
    /// A leg is lost, the others go on, and are cut again; then it is back.
    Without,
}

fn steps<S: Grows>(setup: &S) -> impl Iterator<Item = u64> + use<S> {
    (1 + setup.seed() % S::STRIDE..).step_by(S::STRIDE as usize)
}

/// The power is cut at each step, or at many. How often the array was as before after it, and how often it had grown.
pub fn cut_everywhere<S: Grows>(growth: &Growth<S>, then: Then) -> Result<[u64; 2], String> {
    let Growth { setup, is_soiled } = growth;
    let mut outcomes = [0; 2];
    for n in steps(setup) {
        let told = |e: String| format!("seed {}, cut after {n} events, {then:?}: {e}", setup.seed());
        let mut w = World::new(setup.clone());
        let sizes = layouts(&w);
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.run(20_000);
        w.fuse = Some(n);
        story(&mut w, &sizes.after, *is_soiled);
        let ended = !w.is_over();
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        w.cut();
        let mut rng = Rng::new(setup.seed() ^ n << 8);
        match then {
            Then::Start => {}
            Then::Twice => {
                settle(&mut w, &sizes);
                w.boot(PLAIN);
                w.run(rng.between(1, 150) as usize);
                w.cut();
            }
            Then::Without => {
                let leg = rng.below(w.legs() as u64) as usize;
                w.disk(leg).lost = true;
                settle(&mut w, &sizes);
                w.open(PLAIN).map_err(|e| told(format!("without leg {leg}: {e}")))?;
                w.read_all();
                let a = w.write(7, 3);
                w.wait(&[a]);
                w.cut();
                w.disk(leg).lost = false;
            }
        }
        outcomes[usize::from(settle(&mut w, &sizes))] += 1;
        recover(&mut w, &sizes, *is_soiled).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(outcomes)
}

/// A leg is lost at each step, or at many; `then` says what happens until the cut, after which the leg is back.
pub fn lose_everywhere<S: Grows>(
    growth: &Growth<S>,
    leg: usize,
    then: impl Fn(&mut World<S>, u64, &Layouts<S::Layout>),
) -> Result<(), String> {
    let Growth { setup, is_soiled } = growth;
    for n in steps(setup) {
        let told = |e: String| format!("seed {}, leg {leg} is lost after {n} events: {e}", setup.seed());
        let mut w = World::new(setup.clone());
        let sizes = layouts(&w);
        w.open(CREATE).map_err(|e| told(e.to_string()))?;
        w.run(20_000);
        w.ambush = Some((n, leg));
        story(&mut w, &sizes.after, *is_soiled);
        let ended = w.ambush.take().is_some();
        w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        if !ended {
            then(&mut w, n, &sizes);
            w.wrong.take().map_or(Ok(()), Err).map_err(told)?;
        }
        w.cut();
        (0..w.legs()).for_each(|leg| w.disk(leg).lost = false);
        recover(&mut w, &sizes, *is_soiled).map_err(told)?;
        if ended {
            break;
        }
    }
    Ok(())
}

/// Nothing changes before the command, also where all legs but the last are longer, and all of it is served after it. `w` has just been made; `meanwhile`
/// happens before the command.
pub fn grows_on_command<S: Grows>(mut w: World<S>, meanwhile: impl Fn(&mut World<S>)) {
    let sizes = layouts(&w);
    let full = format!("its legs have room for {}", served(&w, &sizes.before));
    let why = refusal(&mut w);
    assert!(why.contains(&full), "nothing is longer: {why}");
    let last = w.legs() - 1;
    lengthen(&mut w, &sizes.after[..last], false);
    let why = refusal(&mut w);
    assert!(why.contains(&full), "one leg is not: {why}");
    meanwhile(&mut w);
    // A start before the command finds what was there.
    w.cut();
    assert!(!settle(&mut w, &sizes));
    w.open(PLAIN).expect("the records are where they were");
    w.read_all();
    lengthen(&mut w, &sizes.after, false);
    w.run(20_000);
    assert_eq!(grown(&w), None);
    w.admin(command::<S>(true)).expect("all are longer");
    let why = refusal(&mut w);
    assert!(why.contains("it is growing"), "it is under way: {why}");
    w.run(20_000);
    assert_eq!(grown(&w), Some(served(&w, &sizes.after)));
    take(&mut w, &sizes.after);
    let a = w.write(BEYOND, 20);
    w.wait(&[a]);
    assert!(w.is_ok(a));
    w.read_all();
    w.run(20_000);
    S::check_legs(&mut w);
    assert_eq!((w.counter("growths"), w.wrong.take()), (1, None));
    w.close();
    w.cut();
    assert!(settle(&mut w, &sizes));
    w.open(PLAIN).expect("it keeps its size");
    w.read_all();
    assert_eq!(w.wrong, None);
}

/// An array without a leg does not grow; why.
pub fn refusal_without_a_leg<S: Grows>(mut w: World<S>) -> String {
    let sizes = layouts(&w);
    w.lose(1);
    let a = w.write(0, 4);
    w.wait(&[a]);
    lengthen(&mut w, &sizes.after, false);
    refusal(&mut w)
}

/// A leg that does not take its new record ends the growth, and nothing else; the next one comes out.
pub fn new_record_is_refused<S: Grows>(mut w: World<S>, leg: usize) {
    let sizes = layouts(&w);
    let all = served(&w, &sizes.after);
    lengthen(&mut w, &sizes.after, false);
    w.disk(leg).rejects.insert(S::records_at(&sizes.after[leg])[0] / SECTOR);
    w.admin(command::<S>(true)).expect("all are longer");
    let a = w.write(0, 4);
    w.wait(&[a]);
    w.run(20_000);
    assert!(w.notices.contains(&Notice::NotGrown) && w.is_ok(a) && S::is_whole(&mut w));
    w.disk(leg).rejects.clear();
    w.admin(command::<S>(true)).expect("all are longer");
    w.run(20_000);
    assert_eq!((grown(&w), w.wrong), (Some(all), None));
}

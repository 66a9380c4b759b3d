//! Older copies of a leg (R-FRESH): at any stop one is made, the set goes on, and the copy is put in the leg's
//! place.
//!
//! An older copy is refused or copied over. What was flushed is shown, or the start says no; and without a copy it
//! never says no.

use crate::harness::{CREATE, PLAIN};
use crate::random::seeds;
use crate::scenarios::refusal;
use crate::world::{A, B, Setup, World};
use nandu_array::mirror::hetero::{AckMode, FlushMode};
use nandu_base::{OpenOptions, Rng, Span};

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stop {
    Clean,
    Cut,
    /// The process dies after so many events of its start.
    InStart(usize),
}

fn stop(w: &mut World, how: Stop) {
    match how {
        Stop::Clean => w.close(),
        Stop::Cut | Stop::InStart(_) => w.cut(),
    }
}

fn some_writes(w: &mut World, rng: &mut Rng) {
    for _ in 0..rng.between(1, 3) {
        let a = w.write(rng.below(40), 8);
        let b = w.write(rng.between(120, 300), 4);
        w.wait(&[a, b]);
    }
    let f = w.flush();
    w.wait(&[f]);
}

/// One leg is copied at a stop, the set goes on for some openings, and the copy is put back.
fn put_back(setup: Setup) -> Result<(), String> {
    let mut rng = Rng::new(setup.seed ^ 0x01D);
    let mut w = World::new(setup);
    let told = |e: nandu_base::OpenError| e.to_string();
    w.open(CREATE).map_err(told)?;
    some_writes(&mut w, &mut rng);
    let stops = [Stop::Clean, Stop::Cut, Stop::InStart(rng.between(1, 60) as usize)];
    let first = *rng.pick(&stops);
    stop(&mut w, first);
    if let Stop::InStart(events) = first {
        w.boot(PLAIN);
        w.run(events);
        w.cut();
    }
    let leg = rng.below(2) as usize;
    let copy = w.disk(leg).copy();
    let openings = rng.below(3);
    for _ in 0..openings {
        w.open(PLAIN).map_err(|e| format!("refused without any copy: {e}"))?;
        some_writes(&mut w, &mut rng);
        if rng.below(2) == 0 {
            w.run(20_000);
        }
        stop(&mut w, *rng.pick(&[Stop::Clean, Stop::Cut]));
    }
    // An opening that is cut promises nothing new, and is told from an older copy.
    let cut_at = rng.below(80) as usize;
    w.boot(PLAIN);
    w.run(cut_at);
    let served = w.opened() == Some(Ok(()));
    if served && rng.below(2) == 0 {
        some_writes(&mut w, &mut rng);
    }
    w.cut();
    *w.disk(leg) = copy;
    let opened = w.open(PLAIN);
    if openings > 0 && opened.is_ok() {
        return Err(format!("a copy of leg {leg} from {openings} openings before is believed"));
    }
    if opened.is_err() {
        refusal(opened);
        // The other one goes on when it is told to, and the copy is copied over when that is asked for.
        w.disk(leg).lost = true;
        w.may_lose = true;
        if w.open(OpenOptions { alone: true, ..PLAIN }).is_err() {
            return w.wrong.take().map_or(Ok(()), Err);
        }
        w.read_all();
        w.back(leg);
    }
    finish(w)
}

/// A leg leaves, is copied, and comes back; the copy is put in its place, or in that of the other leg's.
fn while_out(setup: Setup) -> Result<(), String> {
    let mut rng = Rng::new(setup.seed ^ 0x0FF);
    let mut w = World::new(setup);
    w.open(CREATE).map_err(|e| e.to_string())?;
    some_writes(&mut w, &mut rng);
    let leg = rng.below(2) as usize;
    w.lose(leg);
    some_writes(&mut w, &mut rng);
    w.run(200);
    let copied = if rng.below(2) == 0 { leg } else { 1 - leg };
    if copied != leg || rng.below(2) == 0 {
        w.cut();
    }
    w.run(2000);
    let copy = w.disk(copied).copy();
    if w.opened().is_none() {
        w.open(PLAIN).map_err(|e| format!("the survivor is refused: {e}"))?;
    }
    w.back(leg);
    w.run(rng.between(1, 400) as usize);
    some_writes(&mut w, &mut rng);
    if rng.below(2) == 0 {
        w.run(20_000);
    }
    let joined = w.is_whole();
    stop(&mut w, *rng.pick(&[Stop::Clean, Stop::Cut]));
    if !joined && copied != leg {
        return Ok(()); // the only member is put back before the other one has joined: nobody can notice
    }
    *w.disk(copied) = copy;
    w.disk(copied).lost = false;
    let opened = w.open(PLAIN);
    match (opened, joined) {
        (Ok(()), true) => Err(format!("a copy of leg {copied} from before the return of {leg} is believed")),
        (Err(_), true) => Ok(()),
        // The cut may have come after the record that made both members again, and before anybody heard of it.
        (Err(why), false) if why.to_string().contains("is old") => Ok(()),
        (Err(why), false) => Err(format!("a leg that was out is refused: {why}")),
        (Ok(()), false) => finish(w),
    }
}

/// A copy is in the place of a leg while the other one serves alone: it is copied in full.
fn added(setup: Setup) -> Result<(), String> {
    let mut rng = Rng::new(setup.seed ^ 0xADD);
    let mut w = World::new(setup);
    w.open(CREATE).map_err(|e| e.to_string())?;
    some_writes(&mut w, &mut rng);
    w.run(20_000);
    w.close();
    let leg = rng.below(2) as usize;
    let copy = w.disk(leg).copy();
    w.open(PLAIN).map_err(|e| e.to_string())?;
    some_writes(&mut w, &mut rng);
    w.run(20_000);
    w.lose(leg);
    some_writes(&mut w, &mut rng);
    w.run(1000);
    if rng.below(2) == 0 {
        *w.disk(leg) = copy;
    } else {
        w.cut();
        *w.disk(leg) = copy;
        w.open(PLAIN).map_err(|e| format!("the survivor is refused: {e}"))?;
    }
    w.back(leg);
    w.run(20_000);
    if !w.is_whole() {
        return Err("an old copy is not copied over".into());
    }
    finish(w)
}

fn finish(mut w: World) -> Result<(), String> {
    w.read_all();
    w.run(20_000);
    w.read_all();
    w.run(20_000);
    if w.wrong.is_none() && w.is_whole() && !w.may_lose {
        w.check_equal();
    }
    w.wrong.take().map_or(Ok(()), Err)
}

fn setups(seed: u64) -> [Setup; 3] {
    let hetero = |flush| {
        let mut setup = Setup::small(seed);
        (setup.slow, setup.slow_leg) = (30, seed % 2);
        setup.hetero(|h| {
            (h.flush_scope, h.write_ack) = (flush, AckMode::First);
            h.max_exposed_time = Span::from_ms(1);
        })
    };
    [Setup::small(seed), hetero(FlushMode::AllLegs), hetero(FlushMode::Leader)]
}

type Story = fn(Setup) -> Result<(), String>;

const STORIES: [(&str, Story); 3] = [("put back", put_back), ("while out", while_out), ("added", added)];

#[test]
fn an_older_copy_of_a_leg_is_never_believed() {
    for seed in seeds(150) {
        for (name, story) in STORIES {
            for (kind, setup) in setups(seed).into_iter().enumerate() {
                story(setup).unwrap_or_else(|wrong| panic!("`{name}`, kind {kind}, seed {seed}: {wrong}"));
            }
        }
    }
}

/// Whether a planted fault shows.
pub fn finds(plant: &str) -> Option<(u64, String)> {
    (0..200).find_map(|seed| {
        let mut setups = setups(seed).into_iter().flat_map(|s| STORIES.map(|(_, story)| (story, s.clone())));
        setups.find_map(|(story, setup)| Some((seed, story(setup.plant(plant)).err()?)))
    })
}

/// What a start says of an old leg, and of both legs put back to one stop: the set is what it was then.
#[test]
fn a_start_says_how_old_a_leg_is() {
    let mut w = World::new(Setup::small(7));
    let mut rng = Rng::new(1);
    w.open(CREATE).expect("blank legs");
    some_writes(&mut w, &mut rng);
    w.close();
    let copies = [A, B].map(|leg| w.disk(leg).copy());
    for _ in 0..3 {
        w.open(PLAIN).expect("both legs");
        some_writes(&mut w, &mut rng);
        w.close();
    }
    let newest = w.disk(B).copy();
    *w.disk(B) = copies[B].clone();
    let why = refusal(w.open(PLAIN));
    assert!(why.contains("leg `b` is old: `a` was opened, or went on alone, 3 times since"), "{why}");
    assert!(why.contains("start with --force-degraded to go on from `a`"), "{why}");
    *w.disk(B) = newest;
    w.open(PLAIN).expect("nothing was written to either");
    w.read_all();
    assert_eq!(w.wrong, None);
    w.close();
    for _ in 0..9 {
        w.open(PLAIN).expect("both legs");
        w.close();
    }
    *w.disk(A) = copies[A].clone();
    let why = refusal(w.open(PLAIN));
    assert!(why.contains("one of them is an old copy"), "older than the history: {why}");
    *w.disk(B) = copies[B].clone();
    w.open(PLAIN).expect("nobody can notice that both are of one stop");
    assert!(w.is_whole());
}

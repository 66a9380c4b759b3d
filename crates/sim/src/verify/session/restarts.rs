//! Power cuts, deaths of the process, clean ends, and the starts after them.

use super::{Broken, STARTS, Session, broken};
use crate::engine::{Engine, Media};
use crate::verify::case::{Close, PowerCut, Tear};
use crate::verify::judge::Judge;
use crate::verify::oracle::Oracle;
use nandu_base::{Absence, Ask, Content, Instant, OpenError, OpenOptions, Rng, Span};
use nandu_stack::Built;

impl Session<'_> {
    /// Cuts the power before the next event, and starts again.
    pub(super) fn cut(&mut self, cut: &PowerCut) -> Result<(), Broken> {
        let now = self.engine.now();
        let next = self.engine.next_at().map_or(now, |at| at.later(now));
        self.engine.advance((now + cut.delay).min(next));
        self.tear = cut.tear;
        let missing = cut.missing.as_deref().and_then(|leg| self.leg_misses(leg));
        if missing.is_none()
            && let Some(ring) = self.given_up.take()
        {
            (self.replaced, self.wipe) = (Some(ring), true);
        }
        if cut.process && missing.is_none() && self.watch.stands_on_files() {
            self.process_dies()?;
        } else {
            self.power_off(missing.iter().map(|&(leg, _)| leg).collect())?;
        }
        let mut again = cut.again.iter();
        let mut calm = false;
        for turn in 0..STARTS {
            let cut_again = again.next();
            let mut events = cut_again.map_or(u64::MAX, |&n| u64::from(n));
            if self.start(&mut events)? {
                if cut.look {
                    self.read_everything()?;
                }
                return Ok(());
            }
            let mut missing_still = std::mem::take(&mut self.engine.missing);
            if self.tally.not_created > 0 {
                return Ok(());
            }
            calm |= cut_again.is_none() && self.watch.strikes() == 0;
            // A follower may refuse to start alone, for it cannot know what it lacks: then the leader comes back.
            if turn > 6 && missing.is_some_and(|(_, is_leader)| is_leader) {
                missing_still.clear();
            }
            self.power_off(missing_still)?;
        }
        self.cannot_start("again", calm)
    }

    /// No start was complete. When faults have struck in each of them they come faster than a start takes, which is no fault of
    /// the stack: nothing more can be verified.
    fn cannot_start(&mut self, when: &str, calm: bool) -> Result<(), Broken> {
        if calm {
            return Err(broken("open", format!("the stack cannot start {when}: {}", self.refusal)));
        }
        self.tally.not_created = 1;
        Ok(())
    }

    /// The leg of this name is missing, if one of its kind may be; whether it is the leader.
    fn leg_misses(&mut self, name: &str) -> Option<(u32, bool)> {
        let (how, legs) = self.watch.may_be_missing()?;
        let leg = self.node(name).filter(|leg| legs.contains(leg))?;
        if !self.may_miss_while_it_grows(leg) {
            return None;
        }
        let is_leader = match how {
            // That it is missing explains nothing.
            Absence::Copy | Absence::None => return Some((leg, false)),
            Absence::GivenUp => {
                self.given_up = Some(leg);
                false
            }
            // All others must last through the start then; where faults are too frequent for that the leg comes back.
            Absence::Any => true,
            Absence::Follower { .. } => leg == legs[0],
        };
        self.watch.misses(leg);
        Some((leg, is_leader))
    }

    /// Cuts the power and puts new machines onto the media.
    fn power_off(&mut self, missing: Vec<u32>) -> Result<(), Broken> {
        self.machines_die("the power was cut", missing, Engine::crash)
    }

    /// The process is killed and starts again; what lies in caches of the system stays there.
    fn process_dies(&mut self) -> Result<(), Broken> {
        self.machines_die("the process died", Vec::new(), Engine::die)
    }

    fn machines_die(
        &mut self,
        how: &str,
        missing: Vec<u32>,
        end: fn(Engine<Judge>, &mut Rng) -> (Media, Judge),
    ) -> Result<(), Broken> {
        self.check()?;
        self.tally.crashes += 1;
        let now = self.engine.now() + Span::from_ms(1);
        let mut rng = self.tear.rng(self.ground.seed, Tear::CUTS).fork(self.tear.number);
        self.tear.number += 1;
        self.replace(now, missing, |engine| end(engine, &mut rng));
        let sink = self.engine.sink();
        sink.note(now, || how.into());
        sink.oracles.iter_mut().for_each(Oracle::cut);
        sink.digest.add(now.0);
        Ok(())
    }

    /// Ends the machines, and puts new ones onto the media, of which these leaves are `missing`.
    fn replace(
        &mut self,
        now: Instant,
        missing: Vec<u32>,
        end: impl FnOnce(Engine<Judge>) -> (Media, Judge),
    ) {
        let nothing = Built { parts: Vec::new(), exports: Vec::new(), tenants: Vec::new() };
        let empty = Media::fresh(&nothing, false);
        let spare = Engine::new(nothing, empty, Content::Stamps, Judge::new(Vec::new()), now);
        let (mut media, judge) = end(std::mem::replace(&mut self.engine, spare));
        if let (Some(leg), true) = (self.replaced, std::mem::take(&mut self.wipe)) {
            media.blank(leg);
        }
        let built = self.rebuilt(&mut media, &missing);
        self.engine = Engine::new(built, media, Content::Stamps, judge, now);
        self.engine.missing = missing;
        self.watch.restart();
        (self.quiet_for, self.answers) = (0, self.engine.sink().answers);
    }

    /// Starts the stack; false when the power is to be cut again, or an injected error was in the way.
    pub(super) fn start(&mut self, events: &mut u64) -> Result<bool, Broken> {
        let (alone, create) = (!self.engine.missing.is_empty(), self.replaced.is_some());
        let how = OpenOptions { alone, create, ..OpenOptions::default() };
        let began = self.engine.now();
        let (watch, roots) = (&mut self.watch, &self.roots);
        // After each event: who is a member changes while a stack starts, and so does what a loss may take.
        let started = self.engine.open_within(how, roots, events, |engine| {
            if watch.look(&mut engine.graph, roots) {
                engine.sink().oracles.iter_mut().for_each(Oracle::device_cut);
            }
        });
        self.look()?;
        match started {
            None => Ok(false),
            Some(Ok(())) => {
                self.tally.recoveries += 1;
                let took = self.engine.now().since(began);
                self.tally.start_longest = self.tally.start_longest.longer(took);
                self.tally.from_checkpoint += self.sum_of("recovery_from_checkpoint");
                self.tally.fell_back += self.sum_of("recovery_fell_back");
                self.check_spaces()?;
                self.check_size()?;
                self.check()?;
                Ok(true)
            }
            // The first record of a leg that was replaced was cut in two: the operator wipes it, as he is told.
            Some(Err((_, OpenError::Unknown { .. }))) if self.replaced.is_some() => {
                self.wipe = true;
                Ok(false)
            }
            // An array without a journal that has lost a leg on the way to its rebuild says that its data may be wrong, and starts when it
            // is told that this is known. Nobody can say what a read may find then: there is nothing more to verify.
            Some(Err((_, OpenError::Doubtful { why, .. }))) if self.replaced.is_some() => {
                self.tally.not_created = 1;
                self.refusal = why;
                Ok(false)
            }
            Some(Err((node, error))) if !self.watch.explains_start(node) => {
                let name = self.engine.graph.name(node);
                Err(broken("open", format!("{name} does not start again: {error}")))
            }
            Some(Err((_, error))) => {
                self.refusal = error.to_string();
                Ok(false)
            }
        }
    }

    /// A counter, summed over all machines.
    fn sum_of(&mut self, name: &str) -> u64 {
        let graph = &mut self.engine.graph;
        (0..graph.len() as u32).filter_map(|node| graph.report(node, Ask::Counters).counter(name)).sum()
    }

    /// Ends the stack cleanly, or cuts the power on the way, and starts again.
    pub(super) fn close_and_start(&mut self, close: Close) -> Result<(), Broken> {
        self.tear = close.tear;
        let mut events = close.within.unwrap_or(u64::MAX);
        if !self.engine.close_within(&mut events) {
            self.look()?;
            self.power_off(Vec::new())?;
        } else {
            self.look()?;
            self.check_leaks()?;
            let complete = self.engine.graph.complete_at();
            if complete > self.engine.now() {
                let what = format!(
                    "the stack has ended, and flash is busy with its last operations until {complete}"
                );
                return Err(broken("I-21", what));
            }
            let now = self.engine.now() + Span::from_ms(1);
            self.tally.recoveries += 1;
            // What a volatile cache above a worn-out drive holds is lost with its end.
            let may_lose = self.may_lose_what_is_cached();
            self.replace(now, Vec::new(), Engine::into_parts);
            if !may_lose && !self.watch.explains(self.roots[0]) {
                self.engine.sink().oracles.iter_mut().for_each(Oracle::closed);
            }
            self.engine.sink().oracles.iter_mut().for_each(Oracle::cut);
        }
        let mut calm = false;
        for _ in 0..STARTS {
            if self.start(&mut u64::MAX.clone())? {
                return Ok(());
            }
            if self.tally.not_created > 0 {
                return Ok(());
            }
            calm |= self.watch.strikes() == 0;
            self.power_off(Vec::new())?;
        }
        self.cannot_start("after its end", calm)
    }
}

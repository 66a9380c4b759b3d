//! A leg that works is replaced: the new file is filled from the old one while that serves, and then takes its place ([`crate::backend`]).
//!
//! The device above hears nothing of it: the leg is a member all the time, and a loss of any leg is what it always was. One after the other: the
//! new file is a copy of the old one, and gets every change; the stack file names it; the old one is left alone, and its records are taken
//! off it, so that no start believes it. A server that ends or is killed before the stack file names the new file starts with the old one, and after
//! that with the new one: until the last step both hold the same.

use super::Reactor;
use super::control::refusal;
use super::legs::LegState;
use super::maintenance::Told;
use super::slab::Key;
use super::{LegNews, News};
use nandu_base::{ByteLen, ChildUse};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A leg on its way to another file.
pub(super) struct Move {
    pub leg: u32,
    with: PathBuf,
    /// Where the stack file is kept as it was before it named the new file.
    copy: Option<PathBuf>,
}

impl Reactor {
    /// Whether a leg moves.
    pub(super) fn moves(&self, leg: u32) -> bool {
        self.moves.iter().any(|one| one.leg == leg)
    }

    /// Whether a leg works, so that another file can be filled from it.
    pub(super) fn may_move(&self, leg: u32) -> bool {
        let is_active = self.host.legs[leg as usize]
            .as_ref()
            .is_some_and(|leg| leg.state == LegState::Active && !leg.is_emulated);
        let use_of = self.user_of(leg).and_then(|(device, child)| self.graph.child_use(device, child));
        is_active && use_of.is_none_or(|of| of == ChildUse::Used)
    }

    /// Begins to fill what was looked at.
    pub(super) fn begin_move(&mut self, leg: u32, with: &Path, client: Key) -> Option<Value> {
        let tell = self.teller(move |result| Told::Filled(leg, result));
        let rate = Arc::clone(&self.host.leg(leg).replace_rate);
        let backend = &mut self.host.leg(leg).backend;
        let begun = backend.prepare(Some(with)).map_err(|error| error.to_string());
        if let Err(why) = begun.and_then(|()| backend.begin_move(rate, tell)) {
            self.host.leg(leg).backend.forget_prepared();
            return Some(refusal(&why));
        }
        self.moves.push(Move { leg, with: with.into(), copy: None });
        self.wait_for_leg(leg, client);
        None
    }

    /// How many bytes a second a move of this leg copies from now on, also one that is under way.
    pub(super) fn set_replace_rate(&mut self, name: &str, rate: Option<ByteLen>) -> Value {
        let node = match self.leg_number(name) {
            Ok(node) => node,
            Err(why) => return why,
        };
        if rate.is_some_and(|rate| rate.0 < 4096) {
            return refusal("`replace_rate` is at least 4 KiB in a second, or `max`");
        }
        self.host.leg(node).replace_rate.store(rate.map_or(0, |rate| rate.0), Ordering::Relaxed);
        json!({ "ok": true, "leg": name, "replace_rate": rate.map(|rate| rate.0) })
    }

    /// The new file is a copy of the old one, or will not be.
    pub(super) fn filled(&mut self, leg: u32, result: Result<(), String>) {
        let Some(one) = self.moves.iter().find(|one| one.leg == leg) else { return };
        let with = one.with.clone();
        if let Err(why) = result.and_then(|()| self.still_works(leg)) {
            return self.stay(leg, &why);
        }
        if !self.name_in_stack_file(leg, with) {
            self.end_move(leg, None);
        }
    }

    fn still_works(&self, leg: u32) -> Result<(), String> {
        match self.host.legs[leg as usize].as_ref().map(|leg| leg.state) {
            Some(LegState::Active) => Ok(()),
            _ => Err("it was lost meanwhile".into()),
        }
    }

    /// The stack file names the new file of a leg that moves, or why not.
    pub(super) fn end_move(&mut self, leg: u32, named: Option<Result<PathBuf, String>>) {
        let copy = match named.transpose() {
            Ok(copy) => copy,
            Err(why) => {
                return self.stay(leg, &format!("the stack file would name its old file still: {why}"));
            }
        };
        let tell = self.teller(move |result| Told::Wiped(leg, result));
        let works = self.still_works(leg);
        let old = self.host.leg(leg).backend.path();
        match works.and_then(|()| self.host.leg(leg).backend.end_move(tell)) {
            Ok(()) => {
                if let Some(one) = self.moves.iter_mut().find(|one| one.leg == leg) {
                    one.copy = copy;
                }
            }
            Err(why) => {
                self.stay(leg, &why);
                if let (Some(_), Some(old)) = (copy, old) {
                    self.name_in_stack_file(leg, old); // as it was
                }
            }
        }
    }

    /// The leg goes on with its old file.
    fn stay(&mut self, leg: u32, why: &str) {
        self.moves.retain(|one| one.leg != leg);
        self.host.leg(leg).backend.stop_move();
        let name = self.graph.name(leg).to_string();
        let why = format!("`{name}` is not replaced: {why}");
        self.answer_leg(leg, &refusal(&why));
        self.news.push(News::Leg(name, LegNews::Stays(why)));
    }

    /// The records are off the old file, or not.
    pub(super) fn wiped(&mut self, leg: u32, result: Result<(), String>) {
        let Some(at) = self.moves.iter().position(|one| one.leg == leg) else { return };
        let Move { with, copy, .. } = self.moves.swap_remove(at);
        let name = self.graph.name(leg).to_string();
        let mut answer = json!({ "ok": true, "leg": name, "state": "active" });
        if let Some(copy) = &copy {
            answer["stack_file"] = json!("names the new file");
            answer["stack_file_before"] = json!(copy.display().to_string());
        }
        if let Err(why) = &result {
            answer["old_file"] = json!(format!("keeps its records, do not start with it: {why}"));
        }
        self.answer_leg(leg, &answer);
        self.news.push(News::Leg(name.clone(), LegNews::Replaced(with, result.err())));
        if let Some(copy) = copy {
            self.news.push(News::Moved { leg: name, result: Ok(copy) });
        }
    }

    fn teller(&self, what: impl FnOnce(Result<(), String>) -> Told + Send + 'static) -> crate::backend::Tell {
        let (sender, completions) = (self.looks_sender(), Arc::clone(&self.completions));
        Box::new(move |result| {
            let _ = sender.send(what(result)); // nobody listens any more: the server has ended
            completions.wake();
        })
    }
}

//! Hot spares: blank files or devices that wait to take the place of a leg that fails.
//!
//! One is taken when a device leaves out a leg of which a request failed, or whose medium is gone; not for one that was given up by command, nor for one that is
//! taken back by itself. It becomes the file of that leg as with `replace LEG with FILE`: what holds something is refused, the device fills it from the others, and
//! the stack file names it. What is refused is said, is no spare any more, and the next one is tried.

use super::slab::Key;
use super::{News, Reactor};
use nandu_base::ChildUse;
use serde_json::Value;
use std::path::PathBuf;

/// No control client waits for what a spare comes to.
const NOBODY: Key = Key { slot: u32::MAX, generation: u32::MAX };

/// The spares of a server.
#[derive(Debug, Default)]
pub(super) struct Spares {
    /// In the order in which they are taken.
    files: Vec<PathBuf>,
    /// Legs that have failed and have no other file yet.
    wanted: Vec<u32>,
    /// What is being put in place of which leg.
    under_way: Option<(u32, PathBuf)>,
}

impl Reactor {
    /// These take the places of legs that fail.
    pub fn keep_spares(&mut self, files: Vec<PathBuf>) {
        self.spares.files = files;
    }

    /// Those that are left, for the status.
    pub(super) fn spares_status(&self) -> Vec<String> {
        self.spares.files.iter().map(|file| file.display().to_string()).collect()
    }

    /// A device has left out this leg, because it failed.
    pub(super) fn want_spare(&mut self, leg: u32) {
        if !self.spares.files.is_empty() && !self.spares.wanted.contains(&leg) {
            self.spares.wanted.push(leg);
        }
    }

    /// Whether there is something to do for [`take_spares`](Reactor::take_spares).
    pub(super) fn spare_may_be_taken(&self) -> bool {
        self.spares.under_way.is_none() && !self.spares.wanted.is_empty() && !self.draining && !self.wants_end
    }

    /// Puts a spare in the place of the next leg that wants one.
    pub(super) fn take_spares(&mut self) {
        while self.spare_may_be_taken() {
            if self.spares.files.is_empty() {
                self.spares.wanted.clear();
                return;
            }
            let leg = self.spares.wanted.remove(0);
            let is_out = self
                .user_of(leg)
                .is_some_and(|(device, child)| self.graph.child_use(device, child) == Some(ChildUse::Out));
            if !is_out {
                continue; // an operator was faster
            }
            let file = self.spares.files.remove(0);
            let name = self.graph.name(leg).to_string();
            self.spares.under_way = Some((leg, file.clone()));
            // A spare is there: nothing is made under its name.
            let answer = match std::fs::metadata(&file) {
                Ok(_) => self.replace_leg(&name, Some(&file), NOBODY),
                Err(error) => Some(super::control::refusal(&error.to_string())),
            };
            if let Some(answer) = answer {
                self.spare_answered(leg, &answer);
            }
        }
    }

    /// What became of a leg is known: of a spare in its place too.
    pub(super) fn spare_answered(&mut self, leg: u32, answer: &Value) {
        let Some((_, file)) = self.spares.under_way.take_if(|(of, _)| *of == leg) else { return };
        let result = match answer["ok"] == Value::Bool(true) {
            true => Ok(()),
            false => Err(answer["error"].as_str().unwrap_or("it was refused").to_string()),
        };
        if result.is_err() {
            self.spares.wanted.insert(0, leg);
        }
        self.news.push(News::Spare { leg: self.graph.name(leg).to_string(), file, result });
    }
}

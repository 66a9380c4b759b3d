//! What an operator does to legs while they serve: giving up, taking back, replacing.
//!
//! *Looking first.* A file that is to become a leg is looked at on a thread of its own, for that may take long
//! ([`crate::backend::candidate`]); nothing changes before, and the command goes on when that is over.
//!
//! *The stack file* names the new file of a leg that was replaced as soon as the device above has taken it ([`crate::stack_file`]).
//!
//! *The answer* to `add` and `replace` says what became of the leg: it comes when the device above has taken the leg, or has refused it,
//! or cannot use it for now. A device that does not say ([`nandu_base::Machine::child_use`]) is believed to use what is open.

use super::control::refusal;
use super::legs::LegState;
use super::slab::Key;
use super::{News, Reactor};
use crate::backend::candidate::FileId;
use crate::backend::{LegError, Look};
use nandu_base::{Admin, AdminError, ByteLen, ChildUse, DeviceEvent, Notice};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// A file that was looked at, and for what.
pub(super) struct Looked {
    leg: u32,
    client: Key,
    why: Look,
    result: Result<(), LegError>,
}

/// What a thread beside this one has to tell.
pub(super) enum Told {
    /// A file was looked at.
    Looked(Looked),
    /// The stack file names the file of this leg, or why not; with where it is kept as it was.
    Moved(u32, Result<PathBuf, String>),
    /// The stack file says the sizes of a device that has grown to so much, or why not.
    Sized(u32, ByteLen, Result<Option<PathBuf>, String>),
    /// The new file of a leg that moves is a copy of the old one, or why not.
    Filled(u32, Result<(), String>),
    /// The file of a leg that is to be added was looked at.
    LookedAtNew(Result<(), LegError>),
    /// The stack file names the leg that is added, or why not; with where it is kept as it was, if there is one.
    NamedNew(Result<Option<PathBuf>, String>),
    /// The records of ours are off the old file of a leg that has moved, or why not.
    Wiped(u32, Result<(), String>),
}

/// Where a thread that writes the stack file tells how it went.
pub(super) struct Teller(Sender<Told>);

impl Teller {
    pub fn sizes(&self, device: u32, size: ByteLen, result: Result<Option<PathBuf>, String>) {
        let _ = self.0.send(Told::Sized(device, size, result)); // nobody listens any more: the server has ended
    }

    pub fn named_new(&self, result: Result<PathBuf, String>) {
        let _ = self.0.send(Told::NamedNew(result.map(Some))); // as above
    }
}

/// Files that are being looked at or written.
pub(super) struct Looks {
    sender: Sender<Told>,
    receiver: Receiver<Told>,
    /// Legs that have another file, which the stack file does not name yet.
    moved: Vec<(u32, PathBuf)>,
    /// The stack file, where there is one.
    stack_file: Option<PathBuf>,
    /// The legs they are for.
    legs: Vec<u32>,
    stop: Arc<AtomicBool>,
}

impl Looks {
    pub fn new() -> Looks {
        let (sender, receiver) = channel();
        Looks {
            sender,
            receiver,
            moved: Vec::new(),
            stack_file: None,
            legs: Vec::new(),
            stop: Arc::default(),
        }
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A leg that is open and waits to be taken by a device.
pub(super) struct Joining {
    leg: u32,
    device: u32,
    child: u8,
}

impl Reactor {
    /// The file that the stack was read from: it is refused as a leg, and a leg that moves to another file is named in it.
    pub fn keep_stack_file(&mut self, path: &Path) {
        if path.is_file() {
            self.looks.stack_file = Some(path.into());
        }
    }

    pub(super) fn looks_sender(&self) -> Sender<Told> {
        self.looks.sender.clone()
    }

    /// What threads that look at files look at themselves: whether the server has ended.
    pub(super) fn looks_stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.looks.stop)
    }

    /// Has the stack file name another file of a leg. False: there is no stack file.
    pub(super) fn name_in_stack_file(&mut self, leg: u32, file: PathBuf) -> bool {
        self.looks.moved.retain(|(other, _)| *other != leg);
        self.looks.moved.push((leg, file));
        self.move_in_stack_file(leg)
    }

    /// The stack file, if there is one, and whom to tell when it is written.
    pub(super) fn where_to_write(&self) -> Option<(PathBuf, Teller)> {
        Some((self.looks.stack_file.clone()?, Teller(self.looks.sender.clone())))
    }

    /// Begins to look at a file for a leg. False: there is nothing to look at.
    fn look(&mut self, leg: u32, client: Key, why: Look) -> Result<bool, Value> {
        let Some(job) = self.host.leg(leg).backend.look_at(&why) else { return Ok(false) };
        let (sender, stop) = (self.looks.sender.clone(), Arc::clone(&self.looks.stop));
        let completions = Arc::clone(&self.completions);
        let thread = std::thread::Builder::new().name("nandu-look".into());
        let begun = thread.spawn(move || {
            let result = job(&stop);
            let _ = sender.send(Told::Looked(Looked { leg, client, why, result })); // nobody listens any more: the server has ended
            completions.wake();
        });
        begun.map_err(|error| refusal(&format!("the file cannot be looked at: {error}")))?;
        self.looks.legs.push(leg);
        self.wait_for_leg(leg, client);
        Ok(true)
    }

    /// Goes on with the commands whose files were looked at.
    pub(super) fn finish_looks(&mut self) {
        while let Ok(told) = self.looks.receiver.try_recv() {
            let Looked { leg, client, why, result } = match told {
                Told::Looked(looked) => looked,
                Told::Moved(leg, result) if self.moves(leg) => {
                    self.end_move(leg, Some(result));
                    continue;
                }
                Told::Moved(leg, result) => {
                    self.say_moved(leg, result);
                    continue;
                }
                Told::Filled(leg, result) => {
                    self.filled(leg, result);
                    continue;
                }
                Told::Wiped(leg, result) => {
                    self.wiped(leg, result);
                    continue;
                }
                Told::LookedAtNew(result) => {
                    self.looked_at_new(result);
                    continue;
                }
                Told::NamedNew(result) => {
                    self.named_new(result);
                    continue;
                }
                Told::Sized(device, size, result) => {
                    self.say_grown(device, size, result);
                    continue;
                }
            };
            self.looks.legs.retain(|&other| other != leg);
            let refused = match (result, why) {
                (Err(error), _) => {
                    self.host.leg(leg).backend.forget_prepared();
                    Some(refusal(&error.to_string()))
                }
                (Ok(()), Look::Return) => self.await_leg(leg, client),
                (Ok(()), Look::Replacement(with)) => self.put_in_place(leg, with.as_deref(), client),
            };
            if let Some(answer) = refused {
                self.answer_leg(leg, &answer);
            }
        }
    }

    /// Gives a leg up. Unless forced, not the one without which a device above could not serve.
    pub(super) fn fail_leg(&mut self, name: &str, is_forced: bool) -> Value {
        let node = match self.leg_number(name) {
            Ok(node) => node,
            Err(refusal) => return refusal,
        };
        let (is_active, was) = (self.host.leg(node).state == LegState::Active, self.host.leg(node).state);
        if let Some((device, child)) = self.user_of(node).filter(|_| is_active && !is_forced)
            && self.graph.members(device).is_some_and(|of| of.needs_child(child))
        {
            let device = self.graph.name(device);
            return refusal(&format!(
                "`{device}` cannot serve without `{name}`: the others are out or not brought up to date; \
                     wait until it is healthy, or send `fail {name} --force`"
            ));
        }
        if !self.host.leg(node).give_up(0) {
            if was == LegState::Returning {
                self.leg_answer(node, Err("it was failed again before it was back".into()));
                return json!({ "ok": true, "leg": name, "state": "faulty" });
            }
            return refusal(&format!("`{name}` is {} already", was.word()));
        }
        self.leg_lost(node, 0, self.clock.now());
        json!({ "ok": true, "leg": name, "state": "faulty" })
    }

    /// Begins to take a leg back. The answer comes when it is known.
    pub(super) fn add_leg(&mut self, name: &str, client: Key) -> Option<Value> {
        let node = match self.leg_number(name) {
            Ok(node) => node,
            Err(refusal) => return Some(refusal),
        };
        let state = self.host.leg(node).state;
        // The file may be in order for the server, and the device above has given it up: a write or a flush has
        // failed, or what it holds is old.
        let is_left = state == LegState::Active
            && self
                .user_of(node)
                .is_some_and(|(device, child)| self.graph.child_use(device, child) == Some(ChildUse::Out));
        if matches!(state, LegState::Active | LegState::Returning) && !is_left {
            return Some(refusal(&format!("`{name}` is {} already", state.word())));
        }
        if self.looks.legs.contains(&node) {
            return Some(refusal(&format!("a file for `{name}` is being looked at already")));
        }
        if is_left && self.host.leg(node).give_up(0) {
            // Layers between it and the device above take it back only if they have heard that it was gone.
            self.graph.device_event(node, DeviceEvent::Lost, self.clock.now(), &mut self.host);
        }
        // Only a start with `create` lets devices fill what is blank.
        if self.how.create && self.user_of(node).is_some() {
            match self.look(node, client, Look::Return) {
                Ok(true) => return None,
                Ok(false) => {}
                Err(refusal) => return Some(refusal),
            }
        }
        self.await_leg(node, client)
    }

    /// Begins to put something blank in place of a leg. The answer comes when the device above has taken it.
    pub(super) fn replace_leg(&mut self, name: &str, with: Option<&Path>, client: Key) -> Option<Value> {
        let node = match self.leg_number(name) {
            Ok(node) => node,
            Err(refusal) => return Some(refusal),
        };
        let state = self.host.leg(node).state;
        if state == LegState::Returning {
            return Some(refusal(&format!("`{name}` is {} already", state.word())));
        }
        if self.looks.legs.contains(&node) {
            return Some(refusal(&format!("a file for `{name}` is being looked at already")));
        }
        if self.moves(node) {
            return Some(refusal(&format!("`{name}` is being replaced already; `fail {name}` calls it off")));
        }
        if let Some(what) = with.and_then(|path| self.who_has(node, path)) {
            let path = with.unwrap_or(Path::new("")).display();
            return Some(refusal(&format!("{path}: it is {what}; name another file")));
        }
        match self.look(node, client, Look::Replacement(with.map(PathBuf::from))) {
            Ok(true) => None,
            Ok(false) => self.put_in_place(node, with, client),
            Err(refusal) => Some(refusal),
        }
    }

    /// What a file is to this server already.
    fn who_has(&mut self, node: u32, path: &Path) -> Option<String> {
        let id = self.host.leg(node).backend.id_of(path)?;
        self.whose_is(id)
    }

    /// What the file of this number is to this server already.
    pub(super) fn whose_is(&self, id: FileId) -> Option<String> {
        let legs = (0u32..).zip(&self.host.legs);
        let mut in_use =
            legs.filter(|(_, leg)| leg.as_ref().is_some_and(|leg| leg.backend.file_id() == Some(id)));
        if let Some((leg, _)) = in_use.next() {
            return Some(format!("leg `{}` of this server already", self.graph.name(leg)));
        }
        // Another file may have the number of the one that was the stack file before a leg moved.
        let stack_file = self.looks.stack_file.as_deref().and_then(FileId::of);
        (stack_file == Some(id)).then(|| "the stack file".into())
    }

    /// Replaces a leg by what was looked at. Says why not; then nothing has changed.
    fn put_in_place(&mut self, node: u32, with: Option<&Path>, client: Key) -> Option<Value> {
        if let Some(with) = with.filter(|_| self.may_move(node)) {
            return self.begin_move(node, with, client);
        }
        let leg = self.host.leg(node);
        if leg.state == LegState::Returning {
            leg.backend.forget_prepared();
            return Some(refusal("it is returning already"));
        }
        if let Err(error) = leg.backend.prepare(with) {
            return Some(refusal(&error.to_string()));
        }
        if let Err(error) = self.ask_above(node, Admin::Replace) {
            self.host.leg(node).backend.forget_prepared();
            let name = self.graph.name(node);
            return Some(refusal(&match error {
                AdminError::Unknown => {
                    format!("`{name}` is not replaced: no device above it can fill another leg")
                }
                error => format!("`{name}` is not replaced: {error}"),
            }));
        }
        if self.host.leg(node).give_up(0) {
            self.leg_lost(node, 0, self.clock.now());
        }
        self.looks.moved.retain(|(leg, _)| *leg != node);
        self.looks.moved.extend(with.map(|with| (node, with.into())));
        self.await_leg(node, client)
    }

    /// Has the stack file name the file of a leg that was taken, on a thread of its own. False: there is nothing to do.
    fn move_in_stack_file(&mut self, leg: u32) -> bool {
        let Some(at) = self.looks.moved.iter().position(|(other, _)| *other == leg) else { return false };
        let (_, file) = self.looks.moved.swap_remove(at);
        let Some(stack_file) = self.looks.stack_file.clone() else { return false };
        let (device, sender) = (self.graph.name(leg).to_string(), self.looks.sender.clone());
        let completions = Arc::clone(&self.completions);
        let thread = std::thread::Builder::new().name("nandu-stack-file".into());
        let begun = thread.spawn(move || {
            let result = crate::stack_file::move_leg(&stack_file, &device, &file);
            let _ = sender.send(Told::Moved(leg, result)); // nobody listens any more: the server has ended
            completions.wake();
        });
        if let Err(error) = begun {
            self.say_moved(leg, Err(error.to_string()));
        }
        true
    }

    /// A leg was taken with another file: what the stack file says of it now.
    fn say_moved(&mut self, leg: u32, result: Result<PathBuf, String>) {
        let name = self.graph.name(leg).to_string();
        let mut answer = json!({ "ok": true, "leg": name, "state": "active" });
        match &result {
            Ok(copy) => {
                answer["stack_file"] = json!("names the new file");
                answer["stack_file_before"] = json!(copy.display().to_string());
            }
            Err(why) => answer["stack_file"] = json!(format!("names the old file still: {why}")),
        }
        self.answer_leg(leg, &answer);
        self.news.push(News::Moved { leg: name, result });
    }

    pub(super) fn wait_for_leg(&mut self, node: u32, client: Key) {
        if let Some(conn) = self.controls.get_mut(client) {
            conn.waits_for = Some(node);
        }
    }

    /// Takes a leg back as soon as that can be, and lets a client wait for it.
    pub(super) fn await_leg(&mut self, node: u32, client: Key) -> Option<Value> {
        self.host.leg(node).state = LegState::Returning;
        self.wait_for_leg(node, client);
        self.try_return(node, self.clock.now());
        None
    }

    /// The device above a leg that says what it does with it, and as which child it knows it.
    pub(super) fn user_of(&self, leg: u32) -> Option<(u32, u8)> {
        let mut node = leg;
        loop {
            let (parent, child) = self.only_parent(node)?;
            if self.graph.child_use(parent, child).is_some() {
                return Some((parent, child));
            }
            node = parent;
        }
    }

    /// A leg is open again: who waits for it hears so when it is used.
    pub(super) fn leg_opened(&mut self, leg: u32) {
        match self.user_of(leg) {
            None => self.leg_answer(leg, Ok(())),
            Some((device, child)) => {
                self.joining.retain(|joining| joining.leg != leg);
                self.joining.push(Joining { leg, device, child });
            }
        }
    }

    /// Answers those whose legs were taken, refused, or are left waiting.
    pub(super) fn answer_joined(&mut self) {
        let mut at = 0;
        while at < self.joining.len() {
            let Joining { leg, device, child } = self.joining[at];
            match self.became(leg, device, child) {
                None => at += 1,
                Some(answer) => {
                    self.joining.swap_remove(at);
                    if answer["state"] != "active" || !self.move_in_stack_file(leg) {
                        self.answer_leg(leg, &answer);
                    }
                }
            }
        }
    }

    /// What became of a leg. `None` while that is not known.
    fn became(&self, leg: u32, device: u32, child: u8) -> Option<Value> {
        let (name, above) = (self.graph.name(leg), self.graph.name(device));
        let is_refused = self.host.notices.contains(&(device, Notice::Refused(child)));
        let state = self.host.legs[leg as usize].as_ref().map(|leg| leg.state);
        if state != Some(LegState::Active) {
            return Some(refusal(&format!("`{name}` failed again before `{above}` used it")));
        }
        if is_refused {
            return Some(refusal(&format!(
                "`{above}` does not take `{name}`: its records are not those of `{above}`; see `replace`"
            )));
        }
        match self.graph.child_use(device, child) {
            Some(ChildUse::Used) => Some(json!({ "ok": true, "leg": name, "state": "active" })),
            Some(ChildUse::Out) if self.reopening.is_empty() => {
                let why = format!("`{name}` is open, but `{above}` cannot use it before others are back");
                Some(json!({ "ok": true, "leg": name, "state": "waiting", "why": why }))
            }
            _ => None,
        }
    }

    /// Tells whoever waits for the return of a leg how it went.
    pub(super) fn leg_answer(&mut self, node: u32, result: Result<(), String>) {
        let answer = match result {
            Ok(()) => json!({ "ok": true, "leg": self.graph.name(node), "state": "active" }),
            Err(why) => refusal(&why),
        };
        self.answer_leg(node, &answer);
    }

    pub(super) fn answer_leg(&mut self, node: u32, answer: &Value) {
        self.spare_answered(node, answer);
        let mut answer = answer.clone();
        self.end_extension(node, &mut answer);
        for key in self.controls.keys() {
            if let Some(conn) = self.controls.get_mut(key).filter(|conn| conn.waits_for == Some(node)) {
                conn.waits_for = None;
                conn.say(&answer);
            }
        }
    }
}

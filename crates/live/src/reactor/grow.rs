//! Files and devices that have become longer: on command more of them is served.
//!
//! *A mirror or a parity array* whose legs are files takes their new lengths by itself ([`nandu_array::mirror`], [`nandu_array::parity`]); what is served
//! changes when it says so, and the answer comes then. What all legs have more is a hole where it reads as zeros on all: then nothing of it is copied, or zeroed.
//! *A file* that is exported as it is has nothing to move. Afterwards the stack file says the new sizes, as it names new legs
//! ([`crate::stack_file`]); a start before that finds out where the records of an array are ([`crate::examine::moved_sizes`]).
//!
//! *Clients.* Whoever connects from then on sees the new size; an open connection keeps the one that it was told.
//!
//! *Layers above* were built for the old size. A `queue` and a `cache` are as large as what they stand on at every start, so theirs changes at the
//! next one. All others keep records or a layout that depends on the size, and a device below one does not grow.

use super::control::refusal;
use super::slab::Key;
use super::{News, Reactor};
use crate::examine::grows;
use crate::nbd::Exports;
use nandu_base::{Admin, ByteLen, ByteOffset, Notice};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// A device that grows, or has grown and is written down.
pub(super) struct Growth {
    device: u32,
    /// Its files and their new sizes.
    sizes: Vec<(u32, ByteLen)>,
}

impl Reactor {
    /// Begins to serve more. The answer comes when that holds.
    pub(super) fn grow(&mut self, name: Option<&str>, client: Key) -> Option<Value> {
        let device = match self.to_grow(name) {
            Ok(device) => device,
            Err(refusal) => return Some(refusal),
        };
        self.grow_device(device, client).unwrap_or_else(|why| Some(refusal(&why)))
    }

    /// The device that is meant.
    fn to_grow(&self, name: Option<&str>) -> Result<u32, Value> {
        if let Some(name) = name {
            let found = (0..self.graph.len() as u32).find(|&node| self.graph.name(node) == name);
            return found.ok_or_else(|| refusal(&format!("unknown device `{name}`")));
        }
        let may_grow = |&node: &u32| {
            let kind = self.kinds[node as usize];
            (grows(kind) || kind == "file")
                && (0..self.graph.len() as u32)
                    .all(|above| !self.children[above as usize].contains(&node) || self.is_passing(above))
        };
        let all: Vec<u32> = (0..self.graph.len() as u32).filter(may_grow).collect();
        match all[..] {
            [device] => Ok(device),
            [] => Err(refusal(
                "no device of this stack can grow: only a mirror or a parity array of files, and a file that is exported, can",
            )),
            _ => {
                let names: Vec<&str> = all.iter().map(|&node| self.graph.name(node)).collect();
                Err(refusal(&format!("say which device: {}", names.join(", "))))
            }
        }
    }

    /// Whether a device is as large as what it stands on, at every start.
    fn is_passing(&self, node: u32) -> bool {
        matches!(self.kinds[node as usize], "queue" | "cache")
    }

    fn grow_device(&mut self, device: u32, client: Key) -> Result<Option<Value>, String> {
        let name = self.graph.name(device).to_string();
        let kind = self.kinds[device as usize];
        let legs = match kind {
            kind if grows(kind) => self.children[device as usize].clone(),
            "file" => vec![device],
            kind => {
                return Err(format!(
                    "`{name}` keeps its size: a `{kind}` does not grow; only a mirror or a parity array of files, and a file that is exported, \
                     can"
                ));
            }
        };
        let above = (0..self.graph.len() as u32)
            .find(|&above| !self.is_passing(above) && above != device && self.stands_on(above, device, true));
        if let Some(above) = above {
            let (above, kind) = (self.graph.name(above), self.kinds[above as usize]);
            return Err(format!(
                "`{name}` does not grow below `{above}`: devices of kind `{kind}` keep the size with which they were made"
            ));
        }
        if self.growths.iter().any(|growth| growth.device == device) {
            return Err(format!("`{name}` is growing already"));
        }
        if let Some(&leg) = legs.iter().find(|&&leg| self.moves(leg)) {
            let leg = self.graph.name(leg);
            return Err(format!("`{leg}` is being replaced; wait until that is over"));
        }
        let mut sizes = Vec::new();
        let (mut are_holes, mut used_of_all) = (true, None);
        for &leg in &legs {
            let size = self.length_of(leg)?;
            // A growth that was refused, or did not come about, left legs longer than what is used of them.
            let used = self.unused.get(&leg).copied().unwrap_or(self.graph.limits(leg).capacity);
            if size < used {
                let leg = self.graph.name(leg);
                return Err(format!("`{leg}` has {size} now, and {used} are used; make it as long again"));
            }
            let more = ByteLen(size.0 - used.0);
            self.host.leg(leg).backend.holes(ByteOffset(used.0), more, &mut |_, is_hole| {
                are_holes &= is_hole;
                is_hole
            });
            are_holes &= *used_of_all.get_or_insert(used) == used;
            sizes.push((leg, size));
        }
        let capacity = |reactor: &Reactor, leg: u32| reactor.graph.limits(leg).capacity;
        let others: Vec<(u32, ByteLen)> =
            sizes.iter().copied().filter(|&(leg, size)| size != capacity(self, leg)).collect();
        if others.is_empty() && kind == "file" {
            let size = capacity(self, device);
            return Err(format!("`{name}` has {size}, and all of it is served; make it longer first"));
        }
        for &(leg, size) in &others {
            self.unused.entry(leg).or_insert(self.graph.limits(leg).capacity);
            self.host.leg(leg).backend.lengthen(size);
            self.graph.lengthen(leg, size);
        }
        if kind != "file" {
            let now = self.clock.now();
            let asked = self.graph.admin(device, Admin::Grow { is_equal: are_holes }, now, &mut self.host);
            asked.map_err(|error| format!("`{name}` does not grow: {error}"))?;
        }
        self.growths.push(Growth { device, sizes });
        self.wait_for_leg(device, client);
        if kind == "file" {
            let size = capacity(self, device);
            self.host.notices.push((device, Notice::Grown(size)));
        }
        Ok(None)
    }

    /// How long the file of a leg is now, in whole sectors.
    fn length_of(&mut self, leg: u32) -> Result<ByteLen, String> {
        let align = u64::from(self.graph.limits(leg).align);
        let name = self.graph.name(leg).to_string();
        let length = self.host.legs[leg as usize].as_ref().and_then(|leg| leg.backend.length());
        let length = length.ok_or_else(|| format!("`{name}` is not a file or block device that is open"))?;
        Ok(ByteLen(length.0 / align * align))
    }

    /// Goes on with growths of which devices have told how they went.
    pub(super) fn answer_growths(&mut self) {
        self.offer_late_growths();
        let mut at = 0;
        while at < self.growths.len() {
            let device = self.growths[at].device;
            let told = self.host.notices.iter().rev().find_map(|(node, notice)| match notice {
                Notice::Grown(_) | Notice::NotGrown if *node == device => Some(*notice),
                _ => None,
            });
            match told {
                None => at += 1,
                Some(Notice::Grown(size)) => {
                    let Growth { sizes, .. } = self.growths.swap_remove(at);
                    self.offer_more(device, size);
                    self.write_sizes(device, size, &sizes);
                }
                Some(_) => {
                    self.growths.swap_remove(at);
                    let name = self.graph.name(device);
                    let why = format!(
                        "`{name}` has not grown: a leg was lost or did not take its new records; it serves what it did"
                    );
                    self.answer_leg(device, &refusal(&why));
                }
            }
        }
    }

    /// A parity array that too few legs kept from its new size has it when it is back, and nobody waits for it by then.
    fn offer_late_growths(&mut self) {
        let is_asked = |device: u32| self.growths.iter().any(|growth| growth.device == device);
        let late = self.host.notices.iter().filter_map(|&(device, notice)| match notice {
            Notice::Grown(size) if !is_asked(device) => Some((device, size)),
            _ => None,
        });
        for (device, size) in late.collect::<Vec<(u32, ByteLen)>>() {
            self.offer_more(device, size);
        }
    }

    /// Whoever connects from now on sees the new size of a device, which uses all of its legs.
    fn offer_more(&mut self, device: u32, size: ByteLen) {
        let legs = &self.children[device as usize];
        self.unused.retain(|leg, _| *leg != device && !legs.contains(leg));
        let mut exports = self.exports.all().to_vec();
        for (export, target) in exports.iter_mut().zip(&self.targets) {
            if target.node == device {
                export.size = ByteLen(size.0 / export.blocks.minimum.0 * export.blocks.minimum.0);
            }
        }
        // Nothing else has changed: what could be offered still can.
        if let Ok(exports) = Exports::new(exports) {
            self.exports = Arc::new(exports);
        }
    }

    /// Has the stack file say the new sizes, on a thread of its own.
    fn write_sizes(&mut self, device: u32, size: ByteLen, sizes: &[(u32, ByteLen)]) {
        let sizes: Vec<(String, ByteLen)> =
            sizes.iter().map(|&(leg, size)| (self.graph.name(leg).to_string(), size)).collect();
        let Some((stack_file, sender)) = self.where_to_write() else {
            return self.say_grown(device, size, Ok(None));
        };
        let completions = Arc::clone(&self.completions);
        let thread = std::thread::Builder::new().name("nandu-stack-file".into());
        let begun = thread.spawn(move || {
            let result = crate::stack_file::set_sizes(&stack_file, &sizes);
            sender.sizes(device, size, result);
            completions.wake();
        });
        if let Err(error) = begun {
            self.say_grown(device, size, Err(error.to_string()));
        }
    }

    /// A device has grown: what the stack file says of it now.
    pub(super) fn say_grown(&mut self, device: u32, size: ByteLen, result: Result<Option<PathBuf>, String>) {
        let name = self.graph.name(device).to_string();
        let mut answer = json!({ "ok": true, "device": name, "bytes": size.0 });
        match &result {
            Ok(Some(copy)) => {
                answer["stack_file"] = json!("says the new sizes");
                answer["stack_file_before"] = json!(copy.display().to_string());
            }
            Ok(None) => {}
            Err(why) => answer["stack_file"] = json!(format!("says the old sizes still: {why}")),
        }
        self.answer_leg(device, &answer);
        if let Some(result) = result.transpose() {
            self.news.push(News::Sized { device: name, result });
        }
    }
}

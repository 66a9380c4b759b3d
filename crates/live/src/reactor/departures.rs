//! Who left whom, why, and since when.
//!
//! A device leaves out one that it stands on when that fails: a failed write of one leg of a mirror is no error for anybody
//! else, and the leg stays in order for the server. So what devices do with those they stand on is compared with what they
//! did, whenever something has failed or a device has something to say, and once a second; the last failure of a leg is
//! the reason.

use super::legs::LegState;
use super::{News, Reactor};
use nandu_base::{ChildUse, Op};
use serde_json::{Value, json};
use std::time::SystemTime;

/// A request that failed on a leg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Failed {
    pub op: Op,
    pub errno: i32,
}

/// One device and one that it stands on.
#[derive(Debug)]
pub(super) struct Bond {
    device: u32,
    child: u8,
    leg: u32,
    was: ChildUse,
    left: Option<Departure>,
}

/// A departure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Departure {
    /// Why, in words.
    pub why: String,
    /// The `errno` that said so; 0 when there is none.
    pub errno: i32,
    /// When that was seen.
    pub since: SystemTime,
    /// It is not in use, but on its way: it needs no command.
    pub comes: bool,
}

pub(super) fn error_text(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

impl Reactor {
    /// Looks at who uses whom. `says`: a change is news.
    pub(super) fn look_at_bonds(&mut self, says: bool) {
        self.look_at_bonds = false;
        if self.bonds.is_empty() && !says {
            self.bonds = self.find_bonds();
        }
        for at in 0..self.bonds.len() {
            let Bond { device, child, leg, was, .. } = self.bonds[at];
            let Some(now) = self.use_of(device, child, leg) else { continue };
            if now == was || !self.graph.is_open(device) {
                continue;
            }
            self.bonds[at].was = now;
            if was == ChildUse::Used {
                let left = self.departure(leg, now);
                if says {
                    self.say_departure(device, leg, &left);
                    let leaf = self.leaf_below(leg);
                    if now == ChildUse::Out && left.errno != 0 && self.host.legs[leaf as usize].is_some() {
                        self.want_spare(leaf);
                    }
                }
                self.bonds[at].left = Some(left);
            } else if now == ChildUse::Used {
                if self.bonds[at].left.take().is_some() && says {
                    let (device, leg) = (self.graph.name(device).into(), self.graph.name(leg).into());
                    self.news.push(News::UsedAgain { device, leg });
                }
            } else if let Some(left) = &mut self.bonds[at].left {
                left.comes = now == ChildUse::Coming;
            } else {
                self.bonds[at].left = Some(self.departure(leg, now));
            }
        }
    }

    fn say_departure(&mut self, device: u32, leg: u32, left: &Departure) {
        let is_leg = self.host.legs[leg as usize].is_some();
        let (device, leg) = (self.graph.name(device).into(), self.graph.name(leg).into());
        self.news.push(News::Left { device, leg, left: left.clone(), is_leg });
    }

    /// A device has one more that it stands on, which is not there yet.
    pub(super) fn add_bond(&mut self, device: u32, child: u8, leg: u32) {
        let left = Some(self.departure(leg, ChildUse::Out));
        self.bonds.push(Bond { device, child, leg, was: ChildUse::Out, left });
    }

    fn find_bonds(&self) -> Vec<Bond> {
        let mut bonds = Vec::new();
        for (device, children) in (0u32..).zip(&self.children) {
            for (child, &leg) in (0u8..=u8::MAX).zip(children) {
                if self.graph.child_use(device, child).is_some() {
                    // What is not used from the start on has left before: it is told in the status.
                    bonds.push(Bond { device, child, leg, was: ChildUse::Used, left: None });
                }
            }
        }
        bonds
    }

    /// The leaf that a row of layers ends in, each with one below it.
    fn leaf_below(&self, mut node: u32) -> u32 {
        while let [below] = self.children[node as usize][..] {
            node = below;
        }
        node
    }

    /// What a device does with one that it stands on. A leg that is given up or missing is not on its way, whatever the device is at.
    fn use_of(&self, device: u32, child: u8, leg: u32) -> Option<ChildUse> {
        let now = self.graph.child_use(device, child)?;
        let state = self.host.legs[self.leaf_below(leg) as usize].as_ref().map(|leg| leg.state);
        let is_away = matches!(state, Some(LegState::Faulty { .. } | LegState::Missing));
        Some(if is_away && now == ChildUse::Coming { ChildUse::Out } else { now })
    }

    fn departure(&self, leg: u32, now: ChildUse) -> Departure {
        let since = SystemTime::now();
        let comes = now == ChildUse::Coming;
        let without = || "the device above it does without it".to_string();
        let waits = || "it is taken back by itself when it has answered everything".to_string();
        let Some(leg) = &self.host.legs[self.leaf_below(leg) as usize] else {
            return Departure { why: if comes { waits() } else { without() }, errno: 0, since, comes };
        };
        let (why, errno) = match (leg.state, leg.last_failure) {
            (LegState::Missing, _) => ("its file is missing".into(), 0),
            (LegState::Faulty { errno: 0 }, _) => ("it was given up by command".into(), 0),
            (LegState::Faulty { errno }, Some(failed)) if failed.errno == errno => {
                (format!("a {} failed: {}", failed.op.name(), error_text(errno)), errno)
            }
            (LegState::Faulty { errno }, _) => (error_text(errno), errno),
            (LegState::Active | LegState::Returning, Some(Failed { op, errno })) => {
                (format!("a {} failed: {}", op.name(), error_text(errno)), errno)
            }
            (LegState::Active | LegState::Returning, None) if comes => (waits(), 0),
            (LegState::Active | LegState::Returning, None) => (without(), 0),
        };
        Departure { why, errno, since, comes }
    }

    /// What a device does with those it stands on; nothing for one that does not say.
    pub(super) fn members_status(&self, device: u32) -> Option<Value> {
        let bonds = self.bonds.iter().filter(|bond| bond.device == device);
        let members: Vec<Value> = bonds
            .map(|bond| {
                let now = self.use_of(device, bond.child, bond.leg);
                let mut member = json!({
                    "name": self.graph.name(bond.leg),
                    "use": match now {
                        Some(ChildUse::Used) => "used",
                        Some(ChildUse::Coming) => "coming",
                        Some(ChildUse::Out) | None => "out",
                    },
                });
                if let Some(left) = bond.left.as_ref().filter(|_| now != Some(ChildUse::Used)) {
                    member["why"] = json!(left.why);
                    member["since"] = json!(crate::wall::rfc3339(left.since));
                    if left.errno != 0 {
                        member["errno"] = json!(left.errno);
                    }
                }
                member
            })
            .collect();
        (!members.is_empty()).then(|| json!(members))
    }
}

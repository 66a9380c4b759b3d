//! Tenants of an emulated drive that come, grow, shrink and go while it is served.
//!
//! A drive takes a deal when nothing of what changes is under way. So requests to exports that stand on the drive are left in their sockets from the
//! command on, the deal is made when the last of those under way is answered, and they go on at once. Other exports notice nothing. The answer comes when the deal holds whatever happens:
//! when the drive says so, and its store is durable.

use super::Reactor;
use super::slab::Key;
use nandu_base::{Ask, Deal, Instant};
use serde_json::{Value, json};

/// A command that is not answered yet.
#[derive(Debug)]
pub(crate) struct Dealing {
    /// Who waits for the answer.
    client: Key,
    node: u32,
    deal: Deal,
    /// Which exports stand on the device.
    exports: Vec<bool>,
    /// The number of the tenant and when the deal holds, once it is made.
    made: Option<(u32, Instant)>,
}

impl Reactor {
    /// Begins a deal; the answer comes later.
    pub(super) fn begin_deal(&mut self, name: &str, deal: Deal, client: Key) -> Option<Value> {
        let Some(node) = (0..self.graph.len() as u32).find(|&n| self.graph.name(n) == name) else {
            return Some(json!({ "ok": false, "error": format!("unknown device `{name}`") }));
        };
        let exports = self.targets.iter().map(|target| self.stands_on(target.node, node, true)).collect();
        self.deals.push_back(Dealing { client, node, deal, exports, made: None });
        if let Some(conn) = self.controls.get_mut(client) {
            conn.deals = true;
        }
        None
    }

    fn due(&self) -> Option<&Dealing> {
        self.deals.front().filter(|dealing| dealing.made.is_none())
    }

    /// Whether requests of a client have to wait.
    pub(super) fn waits_for_deal(&self, client: Key) -> bool {
        let session = self.clients.get(client).and_then(|conn| conn.session);
        session.is_some_and(|session| self.target_waits_for_deal(session.export))
    }

    /// Whether requests to an export have to wait.
    pub(super) fn target_waits_for_deal(&self, target: usize) -> bool {
        self.due().is_some_and(|due| due.exports[self.targets[target].export as usize])
    }

    /// Whether a deal is due and nothing of what it changes is under way.
    pub(super) fn deal_may_be_made(&self) -> bool {
        let is_under_way = |due: &Dealing| self.host.ops.any(|op| due.exports[op.target.export as usize]);
        self.due().is_some_and(|due| !is_under_way(due))
    }

    /// When the deal that was made holds.
    pub(super) fn deal_holds_at(&self) -> Option<Instant> {
        self.deals.front().and_then(|dealing| dealing.made).map(|(_, at)| at)
    }

    /// Makes the deal that is due when nothing is under way any more, and answers one that holds.
    pub(super) fn go_on_with_deals(&mut self, now: Instant) {
        let is_free = self.deal_may_be_made();
        let Some(dealing) = self.deals.front_mut() else { return };
        let node = dealing.node;
        match dealing.made {
            None if is_free => {
                match self.graph.deal(node, dealing.deal, now, &mut self.host) {
                    Ok(dealt) => dealing.made = Some((dealt.number, dealt.holds_at)),
                    Err(error) => {
                        let why = format!("`{}`: {error}", self.graph.name(node));
                        self.answer_deal(&json!({ "ok": false, "error": why }));
                    }
                }
                for key in self.clients.keys() {
                    self.list(key);
                }
            }
            Some((number, holds_at)) if holds_at <= now => {
                self.graph.settle_media(now);
                let leg = self.host.legs[node as usize].as_mut();
                let answer = match leg.map_or(Ok(()), |leg| leg.backend.sync_now()) {
                    Ok(()) => self.dealt(node, number),
                    Err(errno) => {
                        let error = std::io::Error::from_raw_os_error(errno);
                        json!({ "ok": false, "error": format!("it is done, but its store cannot be synced: {error}") })
                    }
                };
                self.answer_deal(&answer);
            }
            _ => {}
        }
    }

    fn dealt(&mut self, node: u32, number: u32) -> Value {
        let spaces = self.graph.report(node, Ask::Spaces).spaces;
        let space = spaces.iter().find(|space| space.number == number);
        json!({
            "ok": true,
            "device": self.graph.name(node),
            "number": number,
            "first": space.map(|space| space.first.0),
            "bytes": space.map_or(0, |space| space.size.0),
        })
    }

    fn answer_deal(&mut self, answer: &Value) {
        let Some(dealing) = self.deals.pop_front() else { return };
        if let Some(conn) = self.controls.get_mut(dealing.client) {
            conn.deals = false;
            conn.say(answer);
        }
    }
}

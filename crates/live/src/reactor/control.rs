//! Control connections of the reactor; [`crate::ctl`] has the words.

use super::Reactor;
use super::legs::LegState;
use super::poll::{Interest, Source};
use super::slab::Key;
use crate::ctl::{Command, LINE_MAX, Scrub, Setting};
use nandu_base::{
    Admin, AdminError, Ask, ByteLen, ByteOffset, Instant, Op, Span, TenantId, TenantShare, TenantSpace,
};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use serde_json::{Map, Value, json};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::Ordering;

/// Unsent answers from which on no more commands are read.
const OUT_MAX: usize = 256 << 10;

/// A control connection.
#[derive(Debug)]
pub(crate) struct Conn {
    socket: UnixStream,
    input: Vec<u8>,
    out: Vec<u8>,
    /// The leg whose return the client waits for.
    pub(super) waits_for: Option<u32>,
    /// The client waits for a deal.
    pub deals: bool,
    over: bool,
    interest: Interest,
    /// When it said something last.
    heard: Instant,
    /// It waits for the end of the server.
    waits_for_end: bool,
    /// Its other end is in this process.
    is_inside: bool,
}

impl Conn {
    pub(super) fn say(&mut self, answer: &Value) {
        self.out.extend_from_slice(answer.to_string().as_bytes());
        self.out.push(b'\n');
    }

    fn receive(&mut self) {
        let mut buffer = [0; LINE_MAX];
        while self.input.len() <= LINE_MAX {
            match rustix::io::read(&self.socket, &mut buffer) {
                Ok(0) => self.over = true,
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    continue;
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {}
                Err(_) => self.over = true,
            }
            return;
        }
    }

    /// The next whole line, unless an earlier command is not answered yet.
    fn line(&mut self) -> Option<String> {
        if self.waits_for.is_some() || self.deals || self.out.len() > OUT_MAX {
            return None;
        }
        let Some(end) = self.input.iter().position(|&byte| byte == b'\n') else {
            if self.input.len() > LINE_MAX {
                self.say(&refusal("the line is too long"));
                self.input.clear();
                self.over = true;
            }
            return None;
        };
        let line: Vec<u8> = self.input.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).into_owned())
    }

    fn send(&mut self) {
        while !self.out.is_empty() {
            match send(&self.socket, &self.out, SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.out.drain(..count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => {
                    self.out.clear();
                    self.over = true;
                }
            }
        }
    }
}

pub(super) fn refusal(why: &str) -> Value {
    json!({ "ok": false, "error": why })
}

impl Reactor {
    /// Takes commands at `listener`.
    ///
    /// # Errors
    /// The listener cannot be waited for.
    pub fn control(&mut self, listener: UnixListener) -> io::Result<()> {
        listener.set_nonblocking(true)?;
        self.poll.add(listener.as_fd(), Source::ControlListener, Interest::READ)?;
        self.control_listener = Some(listener);
        Ok(())
    }

    pub(super) fn accept_control(&mut self) {
        while let Some(Ok((socket, _))) = self.control_listener.as_ref().map(UnixListener::accept) {
            if socket.set_nonblocking(true).is_err() {
                continue; // dropped: the client sees the end of the stream
            }
            let most = self.caps.controls;
            if self.controls.len() - self.inside >= most {
                let why = format!(
                    "the server has {most} control connections, its limit; try again, or raise --max-control"
                );
                let line = format!("{}\n", refusal(&why));
                // A new socket has room for a line; who is gone already need not be told.
                let _ = send(&socket, line.as_bytes(), SendFlags::NOSIGNAL);
                continue;
            }
            self.take_control(socket, false);
        }
    }

    /// One end of a control connection from inside the process; it does not count among those of clients.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn inside_control(&mut self) -> io::Result<UnixStream> {
        let (inside, socket) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        self.take_control(socket, true);
        Ok(inside)
    }

    fn take_control(&mut self, socket: UnixStream, is_inside: bool) {
        let interest = Interest::READ;
        let conn = Conn {
            socket,
            input: Vec::new(),
            out: Vec::new(),
            waits_for: None,
            deals: false,
            over: false,
            interest,
            heard: self.clock.now(),
            waits_for_end: false,
            is_inside,
        };
        let key = self.controls.insert(conn);
        let conn = self.controls.get(key).expect("just inserted");
        if self.poll.add(&conn.socket, Source::Control(key), interest).is_err() {
            self.controls.remove(key);
        } else {
            self.inside += usize::from(is_inside);
        }
    }

    pub(super) fn control_ready(&mut self, key: Key) {
        let Some(conn) = self.controls.get_mut(key) else { return };
        conn.receive();
        conn.heard = self.clock.now();
        self.obey(key);
    }

    /// Hangs up on control clients that say nothing for too long, unless they wait for an answer.
    pub(super) fn sweep_controls(&mut self, now: Instant) {
        if self.caps.idle == Span::ZERO {
            return;
        }
        for key in self.controls.keys() {
            let Some(conn) = self.controls.get_mut(key) else { continue };
            let waits = conn.waits_for.is_some() || conn.deals || conn.waits_for_end || conn.is_inside;
            if !waits && now.since(conn.heard) > self.caps.idle {
                conn.out.clear();
                conn.over = true;
            }
        }
    }

    fn obey(&mut self, key: Key) {
        while let Some(line) = self.controls.get_mut(key).and_then(Conn::line) {
            let answer = match line.parse::<Command>() {
                Err(error) => Some(refusal(&error.to_string())),
                Ok(Command::Status) => {
                    self.look_at_maintenance();
                    if self.look_at_bonds {
                        self.look_at_bonds(true); // who has just left is told with the reason
                    }
                    Some(self.status())
                }
                Ok(Command::Metrics) => {
                    self.look_at_maintenance();
                    Some(json!({ "ok": true, "metrics": self.metrics() }))
                }
                Ok(Command::Stop) => Some(self.begin_end(key)),
                Ok(Command::Fail(leg, is_forced)) => Some(self.fail_leg(&leg, is_forced)),
                Ok(Command::Add(leg)) => self.add_leg(&leg, key),
                Ok(Command::Extend { leg, device, file }) => self.extend(&leg, &device, &file, key),
                Ok(Command::Replace(leg, file)) => self.replace_leg(&leg, file.as_deref(), key),
                Ok(Command::Grow(device)) => self.grow(device.as_deref(), key),
                Ok(Command::Lead(leg)) => Some(self.lead(&leg)),
                Ok(Command::Scrub(device, what)) => Some(self.scrub(&device, what)),
                Ok(Command::AcceptLoss(device)) => Some(self.ask_device(&device, Admin::AcceptLost)),
                Ok(Command::Tenant(device, deal)) => self.begin_deal(&device, deal, key),
                Ok(Command::Set(tenant, settings)) => Some(self.set_share(&tenant, &settings)),
            };
            if let (Some(answer), Some(conn)) = (answer, self.controls.get_mut(key)) {
                conn.say(&answer);
            }
        }
    }

    fn begin_end(&mut self, key: Key) -> Value {
        self.wants_end = true;
        if let Some(conn) = self.controls.get_mut(key) {
            conn.waits_for_end = true;
        }
        json!({ "ok": true, "stop": "begun" })
    }

    /// Whether a control client wants the server to end.
    pub fn wants_end(&self) -> bool {
        self.wants_end
    }

    /// Tells those who wanted the end that everything is durable.
    pub fn say_closed(&mut self) {
        for key in self.controls.keys() {
            if let Some(conn) = self.controls.get_mut(key).filter(|conn| conn.waits_for_end) {
                conn.say(&json!({ "ok": true, "closed": true }));
                conn.send();
            }
        }
    }

    /// Sends answers and ends connections that are over.
    pub(super) fn serve_controls(&mut self) {
        self.finish_looks();
        for key in self.controls.keys() {
            self.obey(key);
        }
        self.answer_joined();
        self.answer_growths();
        self.take_spares();
        for key in self.controls.keys() {
            let Some(conn) = self.controls.get_mut(key) else { continue };
            conn.send();
            if conn.over && conn.out.is_empty() && conn.waits_for.is_none() && !conn.deals {
                if let Some(conn) = self.controls.remove(key) {
                    self.inside -= usize::from(conn.is_inside);
                    self.poll.remove(&conn.socket);
                }
                continue;
            }
            let read = !conn.over && conn.input.len() <= LINE_MAX;
            let wanted = Interest { read, write: !conn.out.is_empty() };
            if conn.over && conn.out.is_empty() {
                self.poll.remove(&conn.socket); // it only waits: its hang-up would be reported for ever
            } else if wanted != conn.interest {
                conn.interest = wanted;
                conn.over |= self.poll.change(&conn.socket, Source::Control(key), wanted).is_err();
            }
        }
    }

    pub(super) fn leg_number(&self, name: &str) -> Result<u32, Value> {
        let legs = (0..self.graph.len() as u32).filter(|&n| self.host.legs[n as usize].is_some());
        let names: Vec<(u32, &str)> = legs.map(|n| (n, self.graph.name(n))).collect();
        let found = names.iter().find(|(_, known)| *known == name);
        found.map(|&(node, _)| node).ok_or_else(|| {
            let known: Vec<&str> = names.iter().map(|&(_, known)| known).collect();
            refusal(&format!("unknown leg `{name}`; there are: {}", known.join(", ")))
        })
    }

    /// The one device that stands on `node`, and as which child it knows it.
    pub(super) fn only_parent(&self, node: u32) -> Option<(u32, u8)> {
        let place = |children: &Vec<u32>| children.iter().position(|&child| child == node);
        let mut above =
            (0u32..).zip(&self.children).filter_map(|(at, children)| Some((at, place(children)?)));
        match (above.next(), above.next()) {
            (Some((parent, child)), None) => Some((parent, child as u8)),
            _ => None,
        }
    }

    /// Asks the nearest device above a leg that knows such a command.
    pub(super) fn ask_above(&mut self, leg: u32, admin: impl Fn(u8) -> Admin) -> Result<(), AdminError> {
        let now = self.clock.now();
        let mut node = leg;
        loop {
            let (parent, child) = self.only_parent(node).ok_or(AdminError::Unknown)?;
            match self.graph.admin(parent, admin(child), now, &mut self.host) {
                Err(AdminError::Unknown) => node = parent,
                result => return result,
            }
        }
    }

    fn lead(&mut self, name: &str) -> Value {
        let node = match self.leg_number(name) {
            Ok(node) => node,
            Err(refusal) => return refusal,
        };
        match self.ask_above(node, Admin::Lead) {
            Ok(()) => json!({ "ok": true, "leg": name }),
            Err(error) => refusal(&format!("`{name}` does not lead: {error}")),
        }
    }

    fn scrub(&mut self, name: &str, what: Scrub) -> Value {
        let admin = match what {
            Scrub::Begin => Admin::Scrub { mends: None },
            Scrub::Mend => Admin::Scrub { mends: Some(true) },
            Scrub::Report => Admin::Scrub { mends: Some(false) },
            Scrub::Stop => Admin::StopScrub,
        };
        self.ask_device(name, admin)
    }

    fn ask_device(&mut self, name: &str, admin: Admin) -> Value {
        let Some(node) = (0..self.graph.len() as u32).find(|&n| self.graph.name(n) == name) else {
            return refusal(&format!("unknown device `{name}`"));
        };
        match self.graph.admin(node, admin, self.clock.now(), &mut self.host) {
            Ok(()) => json!({ "ok": true, "device": name }),
            Err(error) => refusal(&format!("`{name}`: {error}")),
        }
    }

    /// Changes what a tenant may ask for. All settings hold, or none.
    fn set_share(&mut self, name: &str, settings: &[Setting]) -> Value {
        if let [Setting::ReplaceRate(rate)] = *settings {
            return self.set_replace_rate(name, rate);
        }
        if settings.iter().any(|setting| matches!(setting, Setting::ReplaceRate(_))) {
            return refusal("`replace_rate` is a setting of a leg, and stands alone");
        }
        let Some(place) = self.shares.iter().skip(1).position(|share| share.name == name) else {
            let known: Vec<&str> = self.shares.iter().skip(1).map(|share| share.name.as_str()).collect();
            return refusal(&format!("`{name}` is not a tenant; there are: {}", known.join(", ")));
        };
        if !self.is_queued(TenantId((place + 1) as u16)) {
            return refusal(&format!(
                "no `queue` serves the exports of `{name}`, so nothing weighs or limits its requests; put one above what they share"
            ));
        }
        let mut share = self.shares[place + 1].clone();
        settings.iter().for_each(|setting| setting.apply(&mut share));
        if let Some(flaw) = share.flaw() {
            return refusal(&flaw);
        }
        let now = self.clock.now();
        self.graph.change_share(TenantId((place + 1) as u16), &share, now, &mut self.host);
        self.shares[place + 1] = share;
        let mut answer = self.tenant_status(place + 1);
        answer["ok"] = json!(true);
        answer
    }

    /// From here on tenants may ask for what `shares` say, by their names. Returns those for whom something has changed.
    ///
    /// # Errors
    /// What is wrong; then nothing has changed.
    pub fn take_shares(&mut self, shares: &[TenantShare]) -> Result<Vec<String>, String> {
        if let Some((share, flaw)) = shares.iter().find_map(|share| Some((share, share.flaw()?))) {
            return Err(format!("tenant `{}`: {flaw}", share.name));
        }
        let mut changed = Vec::new();
        for place in 1..self.shares.len() {
            let Some(share) = shares.iter().find(|share| share.name == self.shares[place].name) else {
                continue;
            };
            let tenant = TenantId(place as u16);
            if *share == self.shares[place] || !self.is_queued(tenant) {
                continue;
            }
            let now = self.clock.now();
            self.graph.change_share(tenant, share, now, &mut self.host);
            self.shares[place] = share.clone();
            changed.push(share.name.clone());
        }
        Ok(changed)
    }

    /// The server ends: what limits of tenants hold is to be answered now, not when it is due.
    pub(super) fn lift_limits(&mut self) {
        for place in 1..self.shares.len() {
            let share = &self.shares[place];
            let limits = [share.rbps, share.wbps, share.riops, share.wiops];
            if limits.iter().any(Option::is_some) {
                let free = TenantShare { rbps: None, wbps: None, riops: None, wiops: None, ..share.clone() };
                let now = self.clock.now();
                self.graph.change_share(TenantId(place as u16), &free, now, &mut self.host);
            }
        }
    }

    /// Whether requests of a tenant pass a queue.
    fn is_queued(&self, tenant: TenantId) -> bool {
        let mut nodes: Vec<u32> =
            self.targets.iter().filter(|t| t.tenant == tenant).map(|t| t.node).collect();
        while let Some(node) = nodes.pop() {
            if self.kinds[node as usize] == "queue" {
                return true;
            }
            nodes.extend(&self.children[node as usize]);
        }
        false
    }

    fn tenant_status(&self, tenant: usize) -> Value {
        let share = &self.shares[tenant];
        json!({
            "tenant": share.name,
            "number": tenant,
            "weight": share.weight,
            "rbps": share.rbps,
            "wbps": share.wbps,
            "riops": share.riops,
            "wiops": share.wiops,
            "target_latency_ns": share.target_latency.map(|target| target.0),
        })
    }

    /// How everything stands.
    pub fn status(&mut self) -> Value {
        let devices: Map<String, Value> = (0..self.graph.len() as u32)
            .map(|node| (self.graph.name(node).to_string(), self.device_status(node)))
            .collect();
        let exports: Vec<Value> = self
            .exports
            .all()
            .iter()
            .map(|e| json!({ "name": e.name, "bytes": e.size.0, "read_only": e.read_only }))
            .collect();
        let mut status = json!({
            "ok": true,
            "schema": nandu_base::JSON_SCHEMA,
            "exports": exports,
            "connections": self.clients(),
            "connections_max": self.caps.connections,
            "memory_used": self.memory.used(),
            "memory_max": self.caps.memory.0,
            "requests_in_flight": self.host.ops.alive(),
            "draining": self.draining,
            "spares": self.spares_status(),
            "tenants": (1..self.shares.len()).map(|tenant| self.tenant_status(tenant)).collect::<Vec<_>>(),
            "devices": devices,
        });
        if let Some(pace) = &self.pace {
            status["lateness"] = pace.status();
        }
        status
    }

    fn device_status(&mut self, node: u32) -> Value {
        let counters = self.graph.report(node, Ask::Counters).counters;
        let spaces = self.graph.report(node, Ask::Spaces).spaces;
        let stats = self.graph.stats(node);
        let by_op = |of: &dyn Fn(usize) -> u64| -> Map<String, Value> {
            let used = Op::ALL.iter().filter(|op| of(**op as usize) > 0);
            used.map(|op| (op.name().to_string(), json!(of(*op as usize)))).collect()
        };
        let counters: Map<String, Value> =
            counters.iter().map(|counter| (counter.name.to_string(), json!(counter.value))).collect();
        let mut status = json!({
            "kind": self.kinds[node as usize],
            "open": self.graph.is_open(node),
            "requests": by_op(&|op| stats.requests[op]),
            "bytes": by_op(&|op| stats.bytes[op]),
            "failed": stats.failed,
            "counters": counters,
        });
        // A device that hands requests on sees no end of them: it has no latency of its own to tell.
        if let Some(mean) = stats.latency_total.0.checked_div(stats.finished) {
            status["latency_mean_ns"] = json!(mean);
            status["latency_max_ns"] = json!(stats.latency_max.0);
        }
        if let Some(health) = self.graph.members(node).and_then(|of| of.health()) {
            status["health"] = json!(health.word());
        }
        let mut lost = Vec::new();
        if let Some(members) = self.graph.members(node) {
            members.lost(&mut lost);
        }
        if !lost.is_empty() {
            let range = |(from, len): &(ByteOffset, ByteLen)| json!({ "from_bytes": from.0, "to_bytes": from.0 + len.0 });
            status["lost"] = lost.iter().map(range).collect();
        }
        if let Some(members) = self.members_status(node) {
            status["members"] = members;
        }
        if let Some(maintenance) = self.maintenance_status(node) {
            status["maintenance"] = maintenance;
        }
        if !spaces.is_empty() {
            let space = |space: &TenantSpace| json!({ "number": space.number, "first": space.first.0, "bytes": space.size.0 });
            status["spaces"] = spaces.iter().map(space).collect();
        }
        if let Some(leg) = &self.host.legs[node as usize] {
            status["state"] = json!(leg.state.word());
            if let Some(left) = leg.backend.moving() {
                let rate = match leg.replace_rate.load(Ordering::Relaxed) {
                    0 => Value::Null,
                    rate => json!(rate),
                };
                status["moving"] = json!({ "left_bytes": left.0, "replace_rate": rate });
            }
            status["in_flight"] = json!(leg.in_flight);
            if let LegState::Faulty { errno } = leg.state {
                status["errno"] = json!(errno);
                status["error"] = json!(match errno {
                    0 => "given up by command".into(),
                    errno => super::departures::error_text(errno),
                });
            }
            if let Some(since) = leg.since {
                status["since"] = json!(crate::wall::rfc3339(since));
            }
        }
        status
    }
}

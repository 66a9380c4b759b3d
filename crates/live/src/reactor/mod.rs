//! One thread that runs a stack: the graph, its timers, its media and its clients, who come by NBD or as block devices of the kernel.
//!
//! Each turn does what is due, hands jobs to the backends, sends replies, and waits for sockets and completions. The
//! graph is called from here alone; threads of backends only put ends of requests into a list. What one turn does for
//! one client is bounded, so that no client starves the others.
//!
//! The reactor does not decide when to start or stop: [`crate::serve()`] opens and closes the machines through it.

mod blocks;
mod clients;
mod conn;
mod control;
mod departures;
mod extend;
mod grow;
mod host;
mod legs;
mod look;
mod maintenance;
mod memory;
mod metrics;
mod moves;
mod ops;
mod pace;
mod poll;
mod progress;
mod slab;
mod space_changes;
mod spares;
mod unsure;
pub mod watchdog;

pub(crate) use blocks::BlockOffer;
pub use clients::{Listener, OfferError};
pub use conn::Caps;
pub use departures::Departure;
pub use extend::Leaves;

use crate::backend::{BlockBackend, BlockIo, Completions, Done, Failure};
use crate::clock::Clock;
use crate::nbd::{Exports, Tls};
use crate::tls::Acceptor;
use conn::Conn;
pub(crate) use conn::WIDEST_BLOCK;
use host::{Due, Host};
use legs::{Leg, LegState};
use memory::Memory;
use nandu_base::{
    ByteLen, ByteOffset, DeviceEvent, Gone, Health, Instant, Notice, Op, OpenError, OpenOptions, ReqId, Span,
    TenantShare, TimerKey,
};
use nandu_stack::{Graph, LayerStats};
use ops::Target;
use pace::Pace;
use poll::{Interest, Poll, Ready, Source};
use slab::{Key, Slab};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::Arc;

/// Due events handled in one turn.
const DUE_PER_TURN: usize = 1024;
/// Rounds of completions handled in one turn.
const ROUNDS_PER_TURN: usize = 64;
/// How often slow clients are looked for.
const SWEEP: Span = Span::from_secs(1);

/// What happened to a leg, for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LegNews {
    /// Given up, for this `errno` (0: an administrator wanted it).
    Faulty(i32),
    /// In use again.
    Back,
    /// It should have come back but could not be opened.
    StillGone(String),
    /// It has another file, and why the old one keeps its records, if it does.
    Replaced(std::path::PathBuf, Option<String>),
    /// It was to have another file, and keeps its own.
    Stays(String),
}

/// Something for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum News {
    /// A leg.
    Leg(String, LegNews),
    /// A device says how it stands, or what it has found.
    Device(String, Notice),
    /// A hybrid disk says whether its rings are in use.
    Cache(String, Health),
    /// A device does not take back one that has come: its name, and that of the one.
    NotTaken(String, String),
    /// A start that salvages went on without something of a member; the names are the device's and the member's.
    Gone(String, String, Gone),
    /// A device has left out one that it stands on.
    Left {
        /// The device.
        device: String,
        /// Whom.
        leg: String,
        /// Why.
        left: Departure,
        /// It is a leaf with a medium, so that `add` takes it back.
        is_leg: bool,
    },
    /// A device uses one again that it had left out.
    UsedAgain {
        /// The device.
        device: String,
        /// Whom.
        leg: String,
    },
    /// A leg has another file: where the stack file is kept as it was before it named that one, or why it still names the old one.
    Moved {
        /// The leg.
        leg: String,
        /// What became of the stack file.
        result: Result<std::path::PathBuf, String>,
    },
    /// A device has grown: where the stack file is kept as it was before it said the new sizes, or why it says the old ones.
    Sized {
        /// The device.
        device: String,
        /// What became of the stack file.
        result: Result<std::path::PathBuf, String>,
    },
    /// A mirror has one more leg.
    Extended {
        /// The mirror.
        device: String,
        /// The leg.
        leg: String,
        /// Its file.
        file: std::path::PathBuf,
        /// Where the stack file is kept as it was before it named the leg, if there is one.
        copy: Option<std::path::PathBuf>,
    },
    /// A spare took the place of a leg that failed, or why it did not.
    Spare {
        /// The leg.
        leg: String,
        /// The spare.
        file: std::path::PathBuf,
        /// Whether it is its file now.
        result: Result<(), String>,
    },
    /// A block device was taken away by another program.
    BlockGone(String),
    /// A client was hung up on.
    Client(String),
    /// A client went without a word, as many do.
    HungUp(String),
    /// So many clients came within a second although there were as many as there may be.
    TurnedAway {
        /// How many.
        clients: u64,
        /// The limit.
        most: usize,
    },
}

/// What the reactor is made of.
pub struct Setup {
    /// The machines, built for real bytes. None is open.
    pub graph: Graph,
    /// The kind of each machine.
    pub kinds: Vec<&'static str>,
    /// The children of each machine.
    pub children: Vec<Vec<u32>>,
    /// For each machine its medium, and whether the medium is there.
    pub media: Vec<Option<(Box<dyn BlockBackend>, bool)>>,
    /// Where backends put the ends of requests.
    pub completions: Arc<Completions>,
    /// How machines are opened.
    pub how: OpenOptions,
    /// Limits for clients.
    pub caps: Caps,
    /// Block devices that hold memory beside connections.
    pub devices: usize,
    /// What each tenant may ask for, SYSTEM first.
    pub shares: Vec<TenantShare>,
    /// For each machine whether it models a device whose medium is in the graph; such a machine has a [`crate::drive::link::Link`].
    pub emulated: Vec<bool>,
    /// How long a wait polls before the thread sleeps; zero for never.
    pub poll_max: Span,
    /// What leaves are made of that are added later.
    pub leaves: Leaves,
    /// Whether sessions are encrypted, and by whom.
    pub(crate) tls: (Tls, Option<Acceptor>),
}

/// A running stack.
pub struct Reactor {
    graph: Graph,
    kinds: Vec<&'static str>,
    children: Vec<Vec<u32>>,
    host: Host,
    completions: Arc<Completions>,
    clock: Clock,
    /// How late the ends of emulated drives are; `None` where there are none.
    pace: Option<Pace>,
    poll: Poll,
    ready: Vec<Ready>,
    how: OpenOptions,
    caps: Caps,
    /// What connections hold.
    memory: Rc<Memory>,
    shares: Vec<TenantShare>,
    exports: Arc<Exports>,
    tls: (Tls, Option<Acceptor>),
    targets: Vec<Target>,
    /// What was answered, for each target.
    served: Vec<metrics::Tally>,
    /// What was written to exports since their last flush.
    unsure: Vec<unsure::Unsure>,
    listeners: Vec<Listener>,
    control_listener: Option<UnixListener>,
    /// Block devices of the kernel that are served.
    blocks: Vec<blocks::Block>,
    /// The kernel did not take all that it is told of them.
    blocks_stay_staged: bool,
    clients: Slab<Conn>,
    /// Clients among them that came when there were too many, and are told so.
    turned_away: usize,
    /// Clients that came when there were too many, since that was said last.
    turned: u64,
    controls: Slab<control::Conn>,
    /// Control connections whose other end is in this process.
    inside: usize,
    /// Connections to look at in this turn.
    listed: Vec<Key>,
    /// Accepting has stopped because there are too many clients.
    full: bool,
    /// New requests are refused.
    draining: bool,
    /// A control client wants the server to end.
    wants_end: bool,
    drain_began: Instant,
    next_sweep: Instant,
    /// When whoever turns it wants to look, whatever happens.
    look_again: Option<Instant>,
    /// Machines that are opened again because a leg came back.
    reopening: Vec<u32>,
    /// Changes of tenants' space that are not answered yet.
    deals: VecDeque<space_changes::Dealing>,
    /// Files that are looked at before they become legs.
    looks: maintenance::Looks,
    spares: spares::Spares,
    /// Legs that move to another file.
    moves: Vec<moves::Move>,
    /// What new leaves are made of, and the one on its way.
    leaves: Leaves,
    extension: Option<extend::Extension>,
    /// Devices that grow.
    growths: Vec<grow::Growth>,
    /// Legs that are longer than what the device above them uses, and where that ends.
    unused: BTreeMap<u32, ByteLen>,
    /// Legs that are open and wait to be used.
    joining: Vec<maintenance::Joining>,
    outside: Vec<u32>,
    /// Who stands on whom, where devices say what they do with them.
    bonds: Vec<departures::Bond>,
    /// What devices do beside serving.
    courses: Vec<progress::Course>,
    /// Something has failed since they were looked at.
    look_at_bonds: bool,
    news: Vec<News>,
    spare: Vec<Done>,
    spare_list: Vec<Key>,
}

impl Reactor {
    /// A reactor without clients, and whose machines are closed.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn new(setup: Setup) -> io::Result<Reactor> {
        let mut poll = Poll::new(setup.poll_max)?;
        if setup.emulated.contains(&true) {
            poll.be_precise()?;
        }
        poll.add(setup.completions.fd(), Source::Wake, Interest::READ)?;
        let legs = setup.media.into_iter().zip(&setup.emulated).map(|(medium, &is_emulated)| {
            medium.map(|(backend, there)| {
                Leg::new(backend, if there { LegState::Active } else { LegState::Missing }, is_emulated)
            })
        });
        Ok(Reactor {
            graph: setup.graph,
            kinds: setup.kinds,
            children: setup.children,
            host: Host::new(legs.collect()),
            completions: setup.completions,
            clock: Clock::start(),
            pace: setup.emulated.contains(&true).then(Pace::new),
            poll,
            ready: Vec::new(),
            how: setup.how,
            memory: Rc::new(Memory::new(&setup.caps, setup.devices)),
            caps: setup.caps,
            shares: setup.shares,
            exports: Arc::default(),
            tls: setup.tls,
            targets: Vec::new(),
            served: Vec::new(),
            unsure: Vec::new(),
            listeners: Vec::new(),
            control_listener: None,
            blocks: Vec::new(),
            blocks_stay_staged: false,
            clients: Slab::new(),
            turned_away: 0,
            turned: 0,
            controls: Slab::new(),
            inside: 0,
            listed: Vec::new(),
            full: false,
            draining: false,
            wants_end: false,
            drain_began: Instant::ZERO,
            next_sweep: Instant::ZERO + SWEEP,
            look_again: None,
            reopening: Vec::new(),
            deals: VecDeque::new(),
            looks: maintenance::Looks::new(),
            spares: spares::Spares::default(),
            moves: Vec::new(),
            leaves: setup.leaves,
            extension: None,
            growths: Vec::new(),
            unused: BTreeMap::new(),
            joining: Vec::new(),
            outside: Vec::new(),
            bonds: Vec::new(),
            courses: Vec::new(),
            look_at_bonds: false,
            news: Vec::new(),
            spare: Vec::new(),
            spare_list: Vec::new(),
        })
    }

    /// The marks that a watchdog looks at.
    pub fn beat(&self) -> Arc<watchdog::Beat> {
        Arc::clone(&self.host.beat)
    }

    /// The machines.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Figures of one layer.
    pub fn stats(&self, node: u32) -> &LayerStats {
        self.graph.stats(node)
    }

    /// Has `number` reported by [`Reactor::take_outside`] when `fd` becomes readable.
    ///
    /// # Errors
    /// The descriptor cannot be waited for.
    pub fn watch(&self, fd: impl AsFd, number: u32) -> io::Result<()> {
        self.poll.add(fd, Source::Outside(number), Interest::READ)
    }

    /// What becomes readable to wake it: ends that it takes in its next turn.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.completions.fd()
    }

    /// No longer waits for a descriptor.
    pub fn unwatch(&self, fd: BorrowedFd<'_>) {
        self.poll.remove(fd);
    }

    /// Numbers of watched descriptors that became readable.
    pub fn take_outside(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.outside)
    }

    /// What happened since the last call.
    pub fn take_news(&mut self) -> Vec<News> {
        if self.look_at_bonds || !self.host.notices.is_empty() {
            self.look_at_bonds(true);
        }
        for (node, notice) in std::mem::take(&mut self.host.notices) {
            let device = self.graph.name(node).to_string();
            self.news.push(match notice {
                Notice::Refused(child) => {
                    let child = self.children[node as usize][usize::from(child)];
                    News::NotTaken(device, self.graph.name(child).to_string())
                }
                Notice::Gone(child, gone) => {
                    let child = self.children[node as usize][usize::from(child)];
                    News::Gone(device, self.graph.name(child).to_string(), gone)
                }
                Notice::Health(health @ (Health::Healthy | Health::Degraded))
                    if self.kinds[node as usize] == "hybrid" =>
                {
                    News::Cache(device, health)
                }
                notice => News::Device(device, notice),
            });
        }
        std::mem::take(&mut self.news)
    }

    /// The time of the clock that machines go by.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Has a turn end by then; `None`: when something happens.
    pub fn look_again(&mut self, at: Option<Instant>) {
        self.look_again = at;
    }

    /// Legs that have not ended requests, and how many.
    pub fn legs_that_owe(&self) -> Vec<(String, u32)> {
        let legs = self.host.legs.iter().enumerate();
        let owed = legs.filter_map(|(node, leg)| Some((node, leg.as_ref()?.in_flight)));
        let owed = owed.filter(|&(_, requests)| requests > 0);
        owed.map(|(node, requests)| (self.graph.name(node as u32).to_string(), requests)).collect()
    }

    /// Begins to open machine `node`, whose children have been opened or are known to be absent. Its
    /// [`Graph::open_result`] comes in this or a later turn.
    pub fn open(&mut self, node: u32) {
        let missing = matches!(&self.host.legs[node as usize], Some(leg) if leg.state != LegState::Active);
        if missing {
            let device = self.graph.name(node).to_string();
            self.graph.open_failed(node, OpenError::Gone { device });
        } else {
            let now = self.clock.now();
            self.graph.open(node, self.how, now, &mut self.host);
        }
    }

    /// Begins to close machine `node`, whose parents are closed. It is no longer open in this or a later turn.
    pub fn close(&mut self, node: u32) {
        let now = self.clock.now();
        self.graph.close(node, now, &mut self.host);
    }

    /// Waits until something happens, unless there is something to do already, and does what follows from it. What the
    /// caller waits for is to be looked at after each turn.
    ///
    /// # Errors
    /// The operating system refuses to wait: nothing can go on.
    pub fn turn(&mut self) -> io::Result<()> {
        self.kick();
        let timeout = self.timeout();
        self.host.beat.wait(true);
        let mut ready = std::mem::take(&mut self.ready);
        let waited = self.poll.wait(timeout, &mut ready);
        self.host.beat.wait(false);
        waited?;
        for event in ready.drain(..) {
            self.dispatch(event);
        }
        self.ready = ready;
        let now = self.clock.now();
        self.do_what_is_due(now);
        self.settle(now);
        self.serve_listed(now);
        self.serve_blocks(now);
        self.settle(now);
        self.go_on_with_deals(now);
        self.store(now);
        self.host.beat.leave();
        self.kick();
        self.send_listed();
        self.note_lateness();
        self.serve_controls();
        Ok(())
    }

    fn do_what_is_due(&mut self, now: Instant) {
        for _ in 0..DUE_PER_TURN {
            let Some((at, due)) = self.host.take_due(now) else { break };
            let now = self.pace.as_mut().map_or(now, |pace| pace.model_time(at));
            match due {
                Due::Finish(id) => {
                    if let Some(pace) = &mut self.pace {
                        pace.ends(at);
                    }
                    self.graph.complete(ReqId(id), now, &mut self.host);
                }
                Due::Timer(node, key, generation) => {
                    self.graph.timer(node, TimerKey(key), generation, now, &mut self.host);
                }
            }
        }
        if let Some(pace) = &mut self.pace {
            pace.model_time(now);
        }
    }

    /// What has ended in emulated drives is stored before anybody hears of it, and what must be durable is synced.
    fn store(&mut self, now: Instant) {
        if self.pace.is_none() {
            return;
        }
        self.graph.settle_media(now);
        for (node, id) in std::mem::take(&mut self.host.held) {
            let len = self.graph.requests[id].len;
            let io = BlockIo { id, op: Op::Flush, fua: false, offset: ByteOffset(0), len, data: None };
            self.host.submit(node, io);
        }
        for node in 0..self.host.legs.len() as u32 {
            let Some(leg) = self.host.legs[node as usize].as_mut().filter(|leg| leg.is_emulated) else {
                continue;
            };
            let Some(errno) = leg.backend.failure() else { continue };
            if leg.give_up(errno) {
                self.leg_lost(node, errno, now);
            }
        }
    }

    fn note_lateness(&mut self) {
        if let Some(pace) = &mut self.pace {
            pace.told(self.clock);
        }
    }

    /// Makes durable what the files of leaves hold, those of emulated drives up to the end of everything that they have begun, and waits for
    /// that. Every machine is closed. Devices that have left are passed over.
    ///
    /// # Errors
    /// The name of the first device whose file could not be made durable, and the errno.
    pub fn finish_stores(&mut self) -> Result<(), (String, i32)> {
        self.graph.settle_media(Instant(u64::MAX));
        let mut result = Ok(());
        // A mirror or a parity array has flushed its members, and knows which of them it has given up.
        let is_alone =
            |node: usize| self.targets.iter().any(|to| self.stands_on(to.node, node as u32, false));
        let alone: Vec<bool> = (0..self.host.legs.len()).map(is_alone).collect();
        for (node, leg) in self.host.legs.iter_mut().enumerate() {
            let is_asked = |leg: &&mut Leg| leg.is_emulated || leg.state == LegState::Active && alone[node];
            let Some(leg) = leg.as_mut().filter(is_asked) else { continue };
            if let Err(errno) = leg.backend.sync_now() {
                result = result.and(Err((self.graph.name(node as u32).to_string(), errno)));
            }
        }
        result
    }

    fn timeout(&self) -> Option<Span> {
        let to_do =
            !self.listed.is_empty() || !self.host.done.is_empty() || !self.host.ops.touched.is_empty();
        if to_do
            || self.deal_may_be_made()
            || self.blocks_have_work()
            || self.spare_may_be_taken()
            || !self.host.held.is_empty()
            || self.reopening.iter().any(|&n| self.graph.open_result(n).is_some())
        {
            return Some(Span::ZERO);
        }
        let now = self.clock.now();
        let sweeps =
            self.full || self.turned > 0 || self.clients.len() > 0 || self.controls.len() > self.inside;
        let sweep = sweeps.then_some(self.next_sweep);
        let silence = (self.draining && self.clients.len() > 0).then_some(now + self.caps.farewell);
        let next = [self.host.next_due(), sweep, silence, self.deal_holds_at(), self.look_again]
            .into_iter()
            .flatten()
            .min()?;
        let wait = if next > now { next.since(now) } else { Span::ZERO };
        Some(self.pace.as_ref().map_or(wait, |pace| pace.sleep(wait)))
    }

    fn dispatch(&mut self, event: Ready) {
        match event.source {
            Source::Wake => self.completions.take(&mut self.host.done),
            Source::Listener(number) => self.accept(number),
            Source::ControlListener => self.accept_control(),
            Source::Client(key) => self.client_ready(key, event),
            Source::Control(key) => self.control_ready(key),
            Source::Outside(number) => self.outside.push(number),
            Source::Alarm => {}
        }
    }

    /// Hands on what has ended, until nothing more follows from it.
    fn settle(&mut self, now: Instant) {
        for _ in 0..ROUNDS_PER_TURN {
            if self.host.done.is_empty() && self.host.ops.touched.is_empty() {
                break;
            }
            let mut done = std::mem::replace(&mut self.host.done, std::mem::take(&mut self.spare));
            for end in done.drain(..) {
                self.complete(end, now);
            }
            self.spare = done;
            let mut touched = std::mem::take(&mut self.host.ops.touched);
            for slot in touched.drain(..) {
                self.go_on(slot, now);
            }
            if self.host.ops.touched.is_empty() {
                self.host.ops.touched = touched;
            }
        }
        self.finish_reopening(now);
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP;
            self.sweep(now);
        }
    }

    fn kick(&mut self) {
        for leg in self.host.legs.iter_mut().flatten() {
            leg.backend.kick();
        }
    }

    /// A backend has ended a request.
    fn complete(&mut self, end: Done, now: Instant) {
        let leg = self.host.leg(end.node);
        leg.in_flight -= 1;
        let mut result = end.result;
        let fatal = match result {
            Err(failure) if failure.device => leg.give_up(failure.errno).then_some(failure.errno),
            _ => None,
        };
        if let Some(errno) = fatal {
            self.leg_lost(end.node, errno, now);
        } else if self.host.leg(end.node).state != LegState::Active && result.is_ok() {
            // The device is gone for everybody: no request may come out of it alive.
            result = Err(Failure::gone(self.graph.requests[end.id].len));
        }
        if let Err(failure) = result {
            let request = &mut self.graph.requests[end.id];
            request.error = Some(failure.error);
            let op = request.op;
            if failure.errno != 0 {
                self.host.leg(end.node).last_failure = Some(departures::Failed { op, errno: failure.errno });
            }
            self.look_at_bonds = true;
        }
        let request = &self.graph.requests[end.id];
        let (op, len, took) = (request.op, request.len, now.since(request.entered));
        let is_failed = request.error.is_some();
        let leg = self.host.leg(end.node);
        leg.ended.ended(op, len, took, is_failed);
        if leg.is_emulated {
            self.host.proven.push(end.id);
        }
        self.graph.complete(end.id, now, &mut self.host);
        self.try_return(end.node, now);
    }

    fn leg_lost(&mut self, node: u32, errno: i32, now: Instant) {
        self.look_at_bonds = true;
        self.news.push(News::Leg(self.graph.name(node).to_string(), LegNews::Faulty(errno)));
        self.graph.device_event(node, DeviceEvent::Lost, now, &mut self.host);
    }

    /// Opens a leg that is to return, once its last straggler has ended.
    fn try_return(&mut self, node: u32, now: Instant) {
        let Some(opened) = self.host.leg(node).try_return() else { return };
        let name = self.graph.name(node).to_string();
        if let Err(error) = &opened {
            self.news.push(News::Leg(name, LegNews::StillGone(error.to_string())));
            return self.leg_answer(node, Err(error.to_string()));
        }
        self.news.push(News::Leg(name, LegNews::Back));
        if self.graph.is_open(node) {
            self.graph.device_event(node, DeviceEvent::Back, now, &mut self.host);
        } else {
            self.reopen(node, now);
        }
        self.leg_opened(node);
    }

    fn reopen(&mut self, node: u32, now: Instant) {
        self.graph.open(node, self.how, now, &mut self.host);
        self.reopening.push(node);
    }

    /// Machines that were opened again tell their parents. A parent that could not start without them starts now.
    fn finish_reopening(&mut self, now: Instant) {
        let ended = |graph: &Graph, node: u32| graph.open_result(node).is_some();
        while let Some(at) = self.reopening.iter().position(|&node| ended(&self.graph, node)) {
            let node = self.reopening.swap_remove(at);
            if !self.graph.is_open(node) {
                continue;
            }
            self.graph.device_event(node, DeviceEvent::Back, now, &mut self.host);
            let parents = (0..self.graph.len() as u32).filter(|&p| self.children[p as usize].contains(&node));
            for parent in parents.collect::<Vec<u32>>() {
                if matches!(self.graph.open_result(parent), Some(Err(_))) {
                    self.reopen(parent, now);
                }
            }
        }
    }
}

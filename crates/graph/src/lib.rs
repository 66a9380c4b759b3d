//! The graph of machines, and the one place where steps are followed. Both drivers use it.
//!
//! Machines are numbered so that children come before their parents, but for leaves that are added while the graph runs. The graph owns the machines, the requests, the
//! payload buffers and the media; a [`Driver`] gives it time, timers and block media, and hears of the requests it
//! submitted. Nothing here knows a clock, a file or a thread.
//!
//! **Order.** One call into a machine yields a step and further effects. The step is followed to its end first; effects
//! are queued behind those of earlier calls and taken first in, first out.
//!
//! **An end.** What one event sets off ends within [`STEPS_MAX`] steps (I-18). Machines that answer each other at once, for ever,
//! would stop the clock: no check that counts events would see it. It is an assertion, here and in the server.
//!
//! [`testkit`] is the smallest driver: machines of any kind on a virtual clock, for tests.
//!
//! **What is stable.** What the crate `nandu` names of it, from the first release on. The rest is for the other crates of Nandu and may
//! change in any version.

mod commands;
mod inspect;
pub mod testkit;

use nandu_base::{
    Ask, ByteLen, ByteOffset, ChargeTable, Content, Cx, DeviceEvent, Effect, Flags, Instant, LayerStats,
    Machine, Medium, Node, Notice, Op, OpenError, OpenOptions, Owner, Payload, PayloadPool, Peek, Phase,
    Report, ReqId, Request, RequestTable, State, Step, TenantId, TenantStats, TimerKey, Violation, Window,
};
use std::collections::VecDeque;

/// Most finished requests and effects that one event may set off. A request of 32 MiB in pieces of a sector takes 65,536.
pub const STEPS_MAX: u32 = 1 << 20;

/// What the graph needs from the simulator or the server.
pub trait Driver {
    /// Complete `id` at `at`, by calling [`Graph::complete`].
    fn finish_at(&mut self, id: ReqId, at: Instant);

    /// Call [`Graph::timer`] with these at `at`.
    fn wake(&mut self, node: u32, key: TimerKey, generation: u64, at: Instant);

    /// Serve `id` on the block medium of leaf `node`, then complete it.
    fn medium(&mut self, node: u32, id: ReqId, requests: &mut RequestTable, pool: &mut PayloadPool);

    /// Leaf `id` is at is about to finish it, in a run with contents. True when it is not done yet: the driver calls
    /// [`Graph::complete`] later, and is asked again then. It may put an error into the request.
    fn holds(&mut self, _id: ReqId, _request: &mut Request) -> bool {
        false
    }

    /// Machine `node` says something for people.
    fn notice(&mut self, _node: u32, _notice: Notice) {}

    /// Machine `node` was lost: what it had answered and nobody had flushed may be gone.
    fn lost(&mut self, _node: u32) {}

    /// Machine `node` is about to be called: for a driver that wants to know who holds it up.
    #[inline(always)]
    fn entering(&mut self, _node: u32) {}

    /// A request that the driver submitted is done. Its slot is freed when this returns.
    fn host_done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool);
}

/// One device of a stack, ready to run.
pub struct Part {
    /// Its name in the stack file.
    pub name: String,
    /// The machine.
    pub machine: Box<dyn Machine>,
    /// Numbers of its children; all smaller than its own.
    pub children: Vec<u32>,
    /// Its computed medium, when the run stores content.
    pub medium: Option<Box<dyn Medium>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    /// Not started: hears of no event.
    Made,
    Started,
    Closing,
}

/// The machine that is called, and its figures.
struct Callee<'a> {
    machine: &'a mut dyn Machine,
    stats: &'a mut LayerStats,
}

/// A path that does not add up to its request's latency.
#[cold]
fn unexplained(request: &Request, names: &[String], now: Instant) -> Violation {
    let what = format!(
        "{} at {} took {} but its path explains {}",
        request.op.name(),
        names[request.node as usize],
        now.since(request.submitted),
        request.path.total()
    );
    Violation { invariant: "I-13", what }
}

/// A stack of machines in operation.
pub struct Graph {
    nodes: Vec<Node>,
    parents: Vec<Vec<(u32, u8)>>,
    names: Vec<String>,
    life: Vec<Life>,
    results: Vec<Option<Result<(), OpenError>>>,
    timers: Vec<Vec<u64>>,
    queue: VecDeque<(u32, Effect)>,
    effects: Vec<Effect>,
    /// Every living request.
    pub requests: RequestTable,
    /// The payload buffers.
    pub pool: PayloadPool,
    /// Set by the first request whose path does not add up to its latency; checked when content is verified.
    violation: Option<Violation>,
    check_paths: bool,
    /// Contents are stored: what is finished is looked at.
    looks: bool,
    /// By machine and tenant, SYSTEM first; empty where there is one tenant.
    by_tenant: Vec<Vec<TenantStats>>,
    /// Tenants with SYSTEM.
    tenants: usize,
    /// Machines that it was built of; those behind were added.
    built: u32,
}

impl Graph {
    /// A graph of `parts` whose payloads hold `content`, for `tenants` tenants with SYSTEM.
    pub fn new(parts: Vec<Part>, content: Content, tenants: usize) -> Graph {
        let n = parts.len();
        let mut graph = Graph {
            nodes: Vec::with_capacity(n),
            parents: Vec::with_capacity(n),
            names: Vec::with_capacity(n),
            life: Vec::with_capacity(n),
            results: Vec::with_capacity(n),
            timers: Vec::with_capacity(n),
            queue: VecDeque::with_capacity(64),
            effects: Vec::with_capacity(64),
            requests: RequestTable::new(),
            pool: PayloadPool::new(content),
            violation: None,
            check_paths: content == Content::Stamps,
            looks: content != Content::Nothing,
            by_tenant: Vec::new(),
            tenants,
            built: n as u32,
        };
        for part in parts {
            let number = graph.nodes.len() as u32;
            for (k, &child) in part.children.iter().enumerate() {
                assert!(child < number, "device {} stands before its child", part.name);
                graph.parents[child as usize].push((number, k as u8));
            }
            graph.push(part);
        }
        graph
    }

    /// One more machine.
    fn push(&mut self, part: Part) {
        let Part { name, machine, children, medium } = part;
        let (charges, stats) = (ChargeTable::new(self.tenants), LayerStats::EMPTY);
        self.nodes.push(Node { machine, children, grown: None, open: false, medium, charges, stats });
        self.parents.push(Vec::new());
        self.names.push(name);
        self.life.push(Life::Made);
        self.results.push(None);
        self.timers.push(Vec::new());
        if self.tenants > 2 {
            self.by_tenant.push(vec![TenantStats::default(); self.tenants]);
        }
    }

    /// Takes the last machine away, which nothing has called.
    fn pop(&mut self) {
        self.nodes.pop();
        self.parents.pop();
        self.names.pop();
        self.life.pop();
        self.results.pop();
        self.timers.pop();
        self.by_tenant.pop();
    }

    /// The numbers of all machines, children before their parents.
    pub fn order(&self) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let (built, all) = (self.built, self.nodes.len() as u32);
        (built..all).chain(0..built)
    }

    /// Every machine notes from now on what its lanes do between these two moments.
    pub fn watch_lanes(&mut self, from: Instant, to: Instant) {
        let mut report = Report::new(Ask::Watch { from, to });
        self.nodes.iter_mut().for_each(|node| node.machine.report(&mut report));
    }

    /// A request reaches a layer of a stack with several tenants.
    #[inline(never)]
    fn enter_for_tenant(&mut self, node: u32, id: ReqId) {
        let request = &self.requests[id];
        let stats = &mut self.by_tenant[node as usize][usize::from(request.cause.0)];
        stats.requests += 1;
        stats.bytes += request.len.0;
    }

    /// A layer of a stack with several tenants finishes a request.
    #[inline(never)]
    fn finish_for_tenant(&mut self, id: ReqId, now: Instant) {
        let request = &self.requests[id];
        let latency = now.since(request.entered);
        let stats = &mut self.by_tenant[request.node as usize][usize::from(request.cause.0)];
        stats.finished += 1;
        stats.latency_total += latency;
        stats.latency_max = stats.latency_max.longer(latency);
    }

    /// Starts counting anew in every layer.
    pub fn reset_counters(&mut self) {
        self.by_tenant.iter_mut().for_each(|tenants| tenants.fill(TenantStats::default()));
        for node in &mut self.nodes {
            node.stats = LayerStats::EMPTY;
            node.charges.clear();
            node.machine.report(&mut Report::new(Ask::Anew));
        }
    }

    /// Takes the media away, as a crash or the end of a run does. The graph cannot run afterwards.
    pub fn take_media(&mut self) -> Vec<Option<Box<dyn Medium>>> {
        self.nodes.iter_mut().map(|node| node.medium.take()).collect()
    }

    /// Tells the machines below and at `node` what comes.
    pub fn foresee(&mut self, mut node: u32, op: Op, mut offset: ByteOffset, len: ByteLen) {
        loop {
            let machine = &mut self.nodes[node as usize].machine;
            let further = match machine.hints() {
                Some(hints) => hints.foresee(op, offset, len),
                None => machine.prepare(op, offset, len),
            };
            let Some((child, below)) = further else { return };
            node = self.nodes[node as usize].children[usize::from(child)];
            offset = below;
        }
    }

    /// Starts one machine. The driver starts them in the order of their numbers and waits for each
    /// ([`Graph::open_result`]) before the next.
    pub fn open<D: Driver>(&mut self, node: u32, how: OpenOptions, now: Instant, driver: &mut D) {
        self.life[node as usize] = Life::Started;
        self.results[node as usize] = None;
        driver.entering(node);
        let step = self.call_alone(node, now, |me, cx| me.machine.open(how, cx));
        self.follow(node, step, now, driver);
    }

    /// Says that leaf `node` is not there, in place of [`Graph::open`]. It may be opened later, when it has come; a
    /// parent that started without it hears of it by [`DeviceEvent::Back`].
    pub fn open_failed(&mut self, node: u32, error: OpenError) {
        self.nodes[node as usize].open = false;
        self.results[node as usize] = Some(Err(error));
    }

    /// Closes one machine. The driver closes parents before children and waits for each (it is no longer open).
    pub fn close<D: Driver>(&mut self, node: u32, now: Instant, driver: &mut D) {
        self.life[node as usize] = Life::Closing;
        driver.entering(node);
        let step = self.call_alone(node, now, |me, cx| me.machine.close(cx));
        self.follow(node, step, now, driver);
    }

    /// Sends a request of the driver to the machine `node`. The caller gives up its hold on the payload.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // the fields of a request
    pub fn submit<D: Driver>(
        &mut self,
        node: u32,
        op: Op,
        flags: Flags,
        offset: ByteOffset,
        len: ByteLen,
        payload: Payload,
        tenant: TenantId,
        cookie: u64,
        arrival: Instant,
        now: Instant,
        driver: &mut D,
    ) -> ReqId {
        let id = self.requests.allocate();
        let request = &mut self.requests[id];
        request.offset = offset;
        request.len = len;
        request.payload = payload;
        request.arrival = arrival;
        request.submitted = arrival;
        request.entered = now;
        request.cookie = cookie;
        request.owner = Owner::HOST;
        request.node = node;
        request.tenant = tenant;
        request.cause = tenant;
        request.op = op;
        request.flags = flags;
        request.state = State::Sent;
        if arrival < now {
            request.path.add(Phase::Queue, now.since(arrival));
        }
        self.deliver(node, id, now, driver);
        id
    }

    /// A request whose end the driver was told ahead, or that a block medium served, is done.
    #[inline]
    pub fn complete<D: Driver>(&mut self, id: ReqId, now: Instant, driver: &mut D) {
        if let Some((owner, step)) = self.finish(id, now, driver) {
            self.follow(owner, step, now, driver);
        }
        if !self.queue.is_empty() {
            self.drain(now, driver);
        }
    }

    /// A timer is due. A timer that was set again since is dropped here.
    pub fn timer<D: Driver>(
        &mut self,
        node: u32,
        key: TimerKey,
        generation: u64,
        now: Instant,
        driver: &mut D,
    ) {
        if self.timers[node as usize][key.0 as usize] == generation {
            driver.entering(node);
            let step = self.call_alone(node, now, |me, cx| me.machine.timer(key, cx));
            self.follow(node, step, now, driver);
        }
    }

    /// The driver has seen something happen to leaf `node` (a file went away, came back) and tells its parents.
    pub fn device_event<D: Driver>(&mut self, node: u32, event: DeviceEvent, now: Instant, driver: &mut D) {
        self.queue.push_back((node, Effect::Event(event)));
        self.drain(now, driver);
    }

    #[inline(always)]
    fn deliver<D: Driver>(&mut self, node: u32, id: ReqId, now: Instant, driver: &mut D) {
        driver.entering(node);
        let step = self.request_alone(node, id, now);
        self.follow(node, step, now, driver);
    }

    /// Hands a request to machine `node` and queues its further effects.
    #[inline(always)]
    fn request(&mut self, node: u32, id: ReqId, now: Instant) -> Step {
        let step = self.request_alone(node, id, now);
        if !self.effects.is_empty() {
            self.queue_effects(node);
        }
        step
    }

    /// The same while nothing is queued.
    #[inline(always)]
    fn request_alone(&mut self, node: u32, id: ReqId, now: Instant) -> Step {
        let request = &self.requests[id];
        let (op, len) = (request.op, request.len);
        if !self.by_tenant.is_empty() {
            self.enter_for_tenant(node, id);
        }
        self.call_alone(node, now, |me, cx| {
            me.stats.enter(op, len);
            me.machine.request(id, cx)
        })
    }

    /// Calls one machine and queues its further effects.
    #[inline(always)]
    fn call(&mut self, node: u32, now: Instant, event: impl FnOnce(Callee<'_>, &mut Cx<'_>) -> Step) -> Step {
        let step = self.call_alone(node, now, event);
        if !self.effects.is_empty() {
            self.queue_effects(node);
        }
        step
    }

    /// Calls one machine while nothing is queued; [`follow`](Graph::follow) sees to its further effects.
    #[inline(always)]
    fn call_alone(
        &mut self,
        node: u32,
        now: Instant,
        event: impl FnOnce(Callee<'_>, &mut Cx<'_>) -> Step,
    ) -> Step {
        let (below, rest) = self.nodes.split_at_mut(node as usize);
        let (called, above) = rest.split_first_mut().expect("the machine is there");
        let Node { machine, children, medium, charges, stats, .. } = called;
        let mut cx = Cx {
            now,
            requests: &mut self.requests,
            pool: &mut self.pool,
            medium: medium.as_deref_mut(),
            charges,
            peek: Peek::new(below, above, children, now),
            effects: &mut self.effects,
        };
        event(Callee { machine: &mut **machine, stats }, &mut cx)
    }

    #[inline(never)]
    fn queue_effects(&mut self, node: u32) {
        self.queue.extend(self.effects.drain(..).map(|effect| (node, effect)));
    }

    /// Sees to the further effects of the machine that was called, while nothing is queued. Nearly always they are timers and requests
    /// whose end is known, which call nobody; from the first other one on they are queued.
    #[inline(never)]
    fn take_effects<D: Driver>(&mut self, node: u32, driver: &mut D) {
        for at in 0..self.effects.len() {
            match self.effects[at] {
                Effect::Wake(key, at) => self.wake(node, key, at, driver),
                Effect::Step(Step::FinishAt(id, at)) => driver.finish_at(id, at),
                _ => {
                    self.effects.drain(..at);
                    return self.queue_effects(node);
                }
            }
        }
        self.effects.clear();
    }

    /// Follows `step` of machine `node` to its end, then everything that was queued. The two steps with which most calls
    /// end need no chase.
    #[inline(always)]
    fn follow<D: Driver>(&mut self, node: u32, step: Step, now: Instant, driver: &mut D) {
        match step {
            Step::Idle => {}
            Step::FinishAt(id, at) => driver.finish_at(id, at),
            _ => return self.follow_further(node, step, now, driver),
        }
        if !self.effects.is_empty() {
            self.take_effects(node, driver);
            if !self.queue.is_empty() {
                self.drain(now, driver);
            }
        }
    }

    /// A step that calls others.
    #[inline(always)]
    fn follow_further<D: Driver>(&mut self, node: u32, step: Step, now: Instant, driver: &mut D) {
        if !self.effects.is_empty() {
            self.queue_effects(node);
        }
        self.chase(node, step, now, driver);
        if !self.queue.is_empty() {
            self.drain(now, driver);
        }
    }

    /// Follows `step` of machine `node` until no machine has a next step. Effects stay in the queue.
    /// How many requests it has finished on the way.
    #[inline(never)]
    fn chase<D: Driver>(&mut self, mut node: u32, mut step: Step, now: Instant, driver: &mut D) -> u32 {
        let mut finished = 0;
        loop {
            match step {
                Step::Idle => break,
                Step::Send(child, id) => {
                    let below = self.nodes[node as usize].children[usize::from(child)];
                    let request = &mut self.requests[id];
                    debug_assert!(request.owner == Owner(node), "only the owner sends a request");
                    request.state = State::Sent;
                    request.child = child;
                    request.node = below;
                    request.submitted = now;
                    request.entered = now;
                    node = below;
                    driver.entering(node);
                    step = self.request(node, id, now);
                }
                Step::Forward(child, id) => {
                    let from = &mut self.nodes[node as usize];
                    from.stats.forwarded += 1;
                    let below = from.children[usize::from(child)];
                    let request = &mut self.requests[id];
                    request.explain_until(now, Phase::Hold);
                    request.node = below;
                    request.entered = now;
                    node = below;
                    driver.entering(node);
                    step = self.request(node, id, now);
                }
                Step::Finish(id) => {
                    finished += 1;
                    match self.finish_further(id, now, driver) {
                        Some((owner, next)) => (node, step) = (owner, next),
                        None => break,
                    }
                    if finished > STEPS_MAX {
                        self.never_ends(node, now);
                    }
                }
                Step::FinishAt(id, at) => {
                    driver.finish_at(id, at);
                    break;
                }
                Step::Medium(id) => {
                    driver.medium(node, id, &mut self.requests, &mut self.pool);
                    break;
                }
            }
        }
        finished
    }

    /// One event has set off too much.
    #[cold]
    #[inline(never)]
    fn never_ends(&self, node: u32, now: Instant) -> ! {
        let name = &self.names[node as usize];
        panic!("I-18: one event at {now} has set off more than {STEPS_MAX} steps, the last of `{name}`");
    }

    /// As [`finish`](Graph::finish), for the chase: one copy in line is enough.
    #[inline(never)]
    fn finish_further<D: Driver>(&mut self, id: ReqId, now: Instant, driver: &mut D) -> Option<(u32, Step)> {
        self.finish(id, now, driver)
    }

    /// In a run with contents: whether the driver holds a request back. Where contents are verified its path must add up.
    #[inline(never)]
    fn is_held<D: Driver>(&mut self, id: ReqId, now: Instant, driver: &mut D) -> bool {
        let request = &mut self.requests[id];
        if driver.holds(id, request) {
            return true;
        }
        if self.check_paths {
            request.explain_until(now, Phase::Hold);
            if request.path.total() != now.since(request.submitted) {
                let violation = unexplained(request, &self.names, now);
                self.violation.get_or_insert(violation);
            }
        }
        false
    }

    /// Tells the computed media the time, so that what has ended is stored.
    pub fn settle_media(&mut self, now: Instant) {
        self.nodes.iter_mut().filter_map(|node| node.medium.as_mut()).for_each(|medium| medium.settle(now));
    }

    /// Copies of the computed media.
    pub fn copy_media(&self) -> Vec<Option<Box<dyn Medium>>> {
        self.nodes.iter().map(|node| node.medium.as_ref().and_then(|medium| medium.copy())).collect()
    }

    /// The part between `from` and `to` of an erase of a computed medium that is under way.
    pub fn erasing(&self, from: Instant, to: Instant) -> Option<Window> {
        self.nodes.iter().filter_map(|node| node.medium.as_ref()).find_map(|medium| medium.erasing(from, to))
    }

    /// When everything is complete that was begun on flash.
    pub fn complete_at(&self) -> Instant {
        let media = self.nodes.iter().filter_map(|node| node.medium.as_ref());
        media.map(|medium| medium.complete_at()).fold(Instant::ZERO, Instant::later)
    }

    /// Accounts for a finished request and tells its owner, whose next step is returned.
    #[inline(always)]
    fn finish<D: Driver>(&mut self, id: ReqId, now: Instant, driver: &mut D) -> Option<(u32, Step)> {
        if self.looks && self.is_held(id, now, driver) {
            return None;
        }
        if !self.by_tenant.is_empty() {
            self.finish_for_tenant(id, now);
        }
        let request = &mut self.requests[id];
        debug_assert!(request.state == State::Sent, "request {id:?} is finished while {:?}", request.state);
        request.explain_until(now, Phase::Hold);
        self.nodes[request.node as usize].stats.finish(request, now);
        let (owner, payload) = (request.owner, request.payload);
        if owner == Owner::HOST {
            driver.host_done(request, now, &mut self.pool);
            self.pool.release(payload);
            self.requests.free(id);
            return None;
        }
        request.state = State::Done;
        driver.entering(owner.0);
        let step = self.child_done(owner.0, id, now);
        let sent_again = matches!(step, Step::Send(_, again) if again == id);
        if !sent_again && self.requests[id].state == State::Done {
            self.pool.release(payload);
            self.requests.free(id);
        }
        Some((owner.0, step))
    }

    #[inline(never)]
    fn child_done(&mut self, owner: u32, id: ReqId, now: Instant) -> Step {
        self.call(owner, now, |me, cx| me.machine.child_done(id, cx))
    }

    /// Sets a timer of machine `node`.
    #[inline(always)]
    fn wake<D: Driver>(&mut self, node: u32, key: TimerKey, at: Instant, driver: &mut D) {
        let timers = &mut self.timers[node as usize];
        if timers.len() <= key.0 as usize {
            timers.resize(key.0 as usize + 1, 0);
        }
        timers[key.0 as usize] += 1;
        driver.wake(node, key, timers[key.0 as usize], at);
    }

    /// Takes queued effects until none is left.
    #[inline(never)]
    fn drain<D: Driver>(&mut self, now: Instant, driver: &mut D) {
        let mut steps = 0;
        while let Some((node, effect)) = self.queue.pop_front() {
            steps += 1;
            if steps > STEPS_MAX {
                self.never_ends(node, now);
            }
            match effect {
                Effect::Step(step) => steps += self.chase(node, step, now, driver),
                Effect::Wake(key, at) => self.wake(node, key, at, driver),
                Effect::CancelWake(key) => {
                    if let Some(generation) = self.timers[node as usize].get_mut(key.0 as usize) {
                        *generation += 1;
                    }
                }
                Effect::Event(event) => {
                    if let DeviceEvent::Notice(notice) = event {
                        driver.notice(node, notice);
                    }
                    if event == DeviceEvent::Lost {
                        driver.lost(node);
                    }
                    self.tell_parents(node, event, now, driver);
                }
                Effect::Used(child, offset, len) => self.tell_use(node, child, offset, len),
                Effect::Opened(result) => {
                    let result = result.map_err(|error| self.named(node, error));
                    self.nodes[node as usize].open = result.is_ok();
                    self.results[node as usize] = Some(result);
                }
                Effect::Closed => self.nodes[node as usize].open = false,
            }
        }
    }

    /// The error of a start, with names where the machine knows numbers.
    fn named(&self, node: u32, error: OpenError) -> OpenError {
        match error {
            OpenError::Child(k) => {
                let child = self.nodes[node as usize].children[usize::from(k)];
                OpenError::Gone { device: self.names[child as usize].clone() }
            }
            error => error,
        }
    }

    /// A child hears that an extent is used, and whoever it passes its requests on to.
    fn tell_use(&mut self, mut node: u32, mut child: u8, mut offset: ByteOffset, len: ByteLen) {
        loop {
            node = self.nodes[node as usize].children[usize::from(child)];
            let hints = self.nodes[node as usize].machine.hints();
            match hints.and_then(|hints| hints.used(offset, len)) {
                Some(below) => (child, offset) = below,
                None => return,
            }
        }
    }

    /// Parents that are running hear of a child's event, in the order of their numbers. One that is closing still makes
    /// things durable, so until it has closed it hears of what may have been lost, and of nothing else.
    fn tell_parents<D: Driver>(&mut self, node: u32, event: DeviceEvent, now: Instant, driver: &mut D) {
        for at in 0..self.parents[node as usize].len() {
            let (parent, child) = self.parents[node as usize][at];
            let hears = match self.life[parent as usize] {
                Life::Made => false,
                Life::Started => true,
                Life::Closing => {
                    let is_loss = matches!(event, DeviceEvent::Lost | DeviceEvent::Back);
                    is_loss && self.nodes[parent as usize].open
                }
            };
            if !hears {
                continue;
            }
            let step = self.call(parent, now, |me, cx| me.machine.child_event(child, event, cx));
            self.chase(parent, step, now, driver);
        }
    }
}

//! The simulator's driver: a stack of machines on a virtual clock.
//!
//! Completions and timers come from one queue in a total order. Arrivals are not in it: whoever replays a trace asks
//! when the next event is due ([`Engine::next_at`]) and submits what comes before. Events of an instant come before its
//! arrivals.

use crate::block::BlockMedium;
use crate::queue::{Event, EventQueue};
use nandu_base::{
    Admin, AdminError, ByteLen, ByteOffset, Content, Deal, DealError, Dealt, DeviceEvent, Flags, Instant,
    Medium, MediumSpec, Op, OpenError, OpenOptions, Payload, PayloadPool, ReqId, Request, RequestTable, Rng,
    TenantId, TenantShare, TimerKey, Window,
};
use nandu_device::hdd::Platter;
use nandu_device::nand::Cells;
use nandu_stack::{Built, Change, Changed, Driver, Graph, Stack, StackError};
use std::ops::Range;

/// Hears of every request that came from outside, when it is done.
pub trait Sink {
    /// `request` is done; its payload may be read.
    fn done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool);
}

/// What survives a power cut.
pub struct Media {
    computed: Vec<Option<Box<dyn Medium>>>,
    block: Vec<Option<BlockMedium>>,
}

impl Media {
    /// The block medium of a leaf, for checks that compare media.
    pub fn block(&self, node: u32) -> Option<&BlockMedium> {
        self.block[node as usize].as_ref()
    }

    /// Durably zeroes a part of leaf `node`, where it has a block medium.
    pub fn zero(&mut self, node: u32, bytes: Range<u64>) {
        self.block[node as usize].iter_mut().for_each(|block| block.zero(bytes.clone()));
    }

    /// Another medium is put in place of that of leaf `node`, where it has a block medium.
    pub fn blank(&mut self, node: u32) {
        self.block[node as usize].iter_mut().for_each(BlockMedium::blank);
    }

    /// Power is cut at `at`, while the requests of `graph` are under way.
    fn lose_power(&mut self, graph: &Graph, at: Instant, rng: &mut Rng) {
        for block in self.block.iter_mut().flatten() {
            block.crash(&graph.requests, &graph.pool, rng);
        }
        self.computed.iter_mut().flatten().for_each(|medium| medium.crash(at, rng));
    }

    /// Files lie in a cache from here on: what is not flushed may come undone.
    pub fn cache_files(&mut self, built: &Built) {
        let files = built.parts.iter().zip(&mut self.block).filter(|(part, _)| part.kind == "file");
        files.flat_map(|(_, block)| block).for_each(BlockMedium::cached);
    }

    /// Fresh media for every leaf of `built`. Computed media exist only when the run stores content.
    pub fn fresh(built: &Built, stores: bool) -> Media {
        Media::with_cells(built, stores, Cells::new)
    }

    /// The same for a run whose power is never cut and that never starts again.
    pub fn for_one_session(built: &Built, stores: bool) -> Media {
        Media::with_cells(built, stores, Cells::for_one_session)
    }

    fn with_cells(built: &Built, stores: bool, cells: fn(u64, u32, u32) -> Cells) -> Media {
        let mut media = Media { computed: Vec::new(), block: Vec::new() };
        for part in &built.parts {
            let (computed, block): (Option<Box<dyn Medium>>, _) = match &part.medium {
                MediumSpec::None => (None, None),
                MediumSpec::Flash { .. } | MediumSpec::Platter { .. } if !stores => (None, None),
                MediumSpec::Platter { sectors } => (Some(Box::new(Platter::new(*sectors))), None),
                MediumSpec::Flash { units, unit_sectors, units_per_block, .. } => {
                    (Some(Box::new(cells(*units, *unit_sectors, *units_per_block))), None)
                }
                MediumSpec::Block(spec) => (None, Some(BlockMedium::new(spec))),
            };
            media.computed.push(computed);
            media.block.push(block);
        }
        media
    }
}

/// The side of the engine that machines act upon.
struct World<S> {
    queue: EventQueue,
    block: Vec<Option<BlockMedium>>,
    sink: S,
    now: Instant,
}

impl<S: Sink> Driver for World<S> {
    #[inline(always)]
    fn finish_at(&mut self, id: ReqId, at: Instant) {
        self.queue.push(at, Event::Complete(id));
    }

    fn wake(&mut self, node: u32, key: TimerKey, generation: u64, at: Instant) {
        self.queue.push(at, Event::Timer { node, key, generation });
    }

    fn medium(&mut self, node: u32, id: ReqId, requests: &mut RequestTable, _pool: &mut PayloadPool) {
        let block = self.block[node as usize].as_mut().expect("a leaf that asks for its medium has one");
        let end = block.begin(id, self.now, requests);
        self.queue.push(end, Event::Served(id));
    }

    #[inline(always)]
    fn host_done(&mut self, request: &Request, now: Instant, pool: &mut PayloadPool) {
        self.sink.done(request, now, pool);
    }
}

/// A request from outside.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    /// The machine that takes it.
    pub node: u32,
    /// What is asked.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// Where.
    pub offset: ByteOffset,
    /// How much.
    pub len: ByteLen,
    /// The data; the engine takes over one hold on it.
    pub payload: Payload,
    /// Whose request it is.
    pub tenant: TenantId,
    /// The submitter's note.
    pub cookie: u64,
    /// When it arrived; not later than now.
    pub arrival: Instant,
}

/// A stack that runs on a virtual clock.
pub struct Engine<S> {
    /// The machines.
    pub graph: Graph,
    /// Devices that are not there when the stack starts.
    pub missing: Vec<u32>,
    world: World<S>,
    /// What changes about tenants, and what came of it.
    changes: Vec<(Change, Option<ChangeOutcome>)>,
}

/// What came of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeOutcome {
    /// A weight or limits: they hold from there on.
    Done,
    /// The space of tenants in a device.
    Dealt(Dealt),
    /// It could not be made.
    Refused(DealError),
}

impl<S: Sink> Engine<S> {
    /// An engine on `media`, which are as a cut left them or [fresh](Media::fresh). The clock starts at `now`.
    pub fn new(built: Built, mut media: Media, content: Content, sink: S, now: Instant) -> Engine<S> {
        let tenants = built.tenants.len() + 1;
        let parts = built.into_parts(|node, _| media.computed[node as usize].take());
        let world = World { queue: EventQueue::default(), block: media.block, sink, now };
        Engine { graph: Graph::new(parts, content, tenants), missing: Vec::new(), world, changes: Vec::new() }
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.world.now
    }

    /// The sink.
    #[inline]
    pub fn sink(&mut self) -> &mut S {
        &mut self.world.sink
    }

    /// The machines to read, and the sink.
    pub fn graph_and_sink(&mut self) -> (&mut Graph, &mut S) {
        (&mut self.graph, &mut self.world.sink)
    }

    /// The sink, and the buffers from which it takes the data of requests.
    #[inline]
    pub fn sink_and_pool(&mut self) -> (&mut S, &mut PayloadPool) {
        (&mut self.world.sink, &mut self.graph.pool)
    }

    /// When the next event is due.
    #[inline]
    pub fn next_at(&self) -> Option<Instant> {
        self.world.queue.next_at()
    }

    /// The part until the next event of an erase that is under way, or of what clears a part of a block medium.
    pub fn erasing(&self) -> Option<Window> {
        let (start, end) = (self.world.now, self.next_at()?);
        let clears = |block: &BlockMedium| block.is_clearing(&self.graph.requests, &self.graph.pool);
        match self.world.block.iter().flatten().any(clears) {
            true => Some(Window { start, end }),
            false => self.graph.erasing(start, end),
        }
    }

    /// Whether an event is due at `at` or before.
    #[inline(always)]
    pub fn is_due(&self, at: Instant) -> bool {
        self.world.queue.is_due(at)
    }

    /// Takes the next event, if there is one, and moves the clock to it.
    #[inline(never)]
    pub fn step(&mut self) -> bool {
        self.step_here()
    }

    /// As [`step`](Engine::step), in line: for the one loop in which a run spends its time.
    #[inline(always)]
    pub(crate) fn step_here(&mut self) -> bool {
        let Some((at, event)) = self.world.queue.pop() else { return false };
        debug_assert!(at >= self.world.now, "time runs backwards");
        self.world.now = at;
        match event {
            Event::Complete(id) => self.graph.complete(id, at, &mut self.world),
            Event::Served(id) => self.served(id, at),
            Event::Change(number) => self.change(number),
            Event::Timer { node, key, generation } => {
                self.graph.timer(node, key, generation, at, &mut self.world)
            }
        }
        true
    }

    #[inline(never)]
    fn served(&mut self, id: ReqId, at: Instant) {
        let node = self.graph.requests[id].node as usize;
        let block = self.world.block[node].as_mut().expect("only a leaf with a medium is served");
        block.end(id, &mut self.graph.requests, &mut self.graph.pool);
        self.graph.complete(id, at, &mut self.world);
    }

    /// Moves the clock forward to `at`, before any event that is due later.
    #[inline]
    pub fn advance(&mut self, at: Instant) {
        debug_assert!(
            at >= self.world.now && self.next_at().is_none_or(|next| next >= at),
            "events are passed over"
        );
        self.world.now = at;
    }

    /// Sends a request in, now.
    #[inline(always)]
    pub fn submit(&mut self, s: Submission) -> ReqId {
        let now = self.world.now;
        self.graph.submit(
            s.node,
            s.op,
            s.flags,
            s.offset,
            s.len,
            s.payload,
            s.tenant,
            s.cookie,
            s.arrival,
            now,
            &mut self.world,
        )
    }

    /// Asks a machine for something on behalf of an operator.
    pub fn admin(&mut self, node: u32, admin: Admin) -> Result<(), AdminError> {
        self.graph.admin(node, admin, self.world.now, &mut self.world)
    }

    /// Whether leaf `node` has a block medium.
    pub fn has_block_medium(&self, node: u32) -> bool {
        self.world.block[node as usize].is_some()
    }

    /// Whether leaf `node` has a block medium, and nothing is under way there.
    pub fn is_idle_leaf(&self, node: u32) -> bool {
        self.world.block[node as usize].as_ref().is_some_and(BlockMedium::is_idle)
    }

    /// Puts a medium on which nothing was ever written in place of that of a leaf, and says that it is there.
    pub fn replace_medium(&mut self, node: u32) {
        self.world.block[node as usize].iter_mut().for_each(BlockMedium::blank);
        self.graph.device_event(node, DeviceEvent::Back, self.world.now, &mut self.world);
    }

    /// The medium of a leaf becomes longer, and machines above see that.
    pub fn lengthen(&mut self, node: u32, capacity: ByteLen) {
        self.world.block[node as usize].iter_mut().for_each(|block| block.lengthen(capacity));
        self.graph.lengthen(node, capacity);
    }

    /// Makes these changes at their times, counted from now.
    pub fn plan_changes(&mut self, changes: &[Change]) {
        for change in changes {
            self.world.queue.push(self.world.now + change.at, Event::Change(self.changes.len() as u32));
            self.changes.push((change.clone(), None));
        }
    }

    /// The changes that were planned, and what came of those whose time has come.
    pub fn changes(&self) -> &[(Change, Option<ChangeOutcome>)] {
        &self.changes
    }

    #[cold]
    fn change(&mut self, number: u32) {
        let what = self.changes[number as usize].0.what.clone();
        let outcome = match what {
            Changed::Share(tenant, share) => {
                self.change_share(tenant, &share);
                ChangeOutcome::Done
            }
            Changed::Space(node, deal) => match self.deal(node, deal) {
                Ok(dealt) => ChangeOutcome::Dealt(dealt),
                Err(error) => ChangeOutcome::Refused(error),
            },
        };
        self.changes[number as usize].1 = Some(outcome);
    }

    /// From here on `tenant` may ask for this.
    pub fn change_share(&mut self, tenant: TenantId, share: &TenantShare) {
        self.graph.change_share(tenant, share, self.world.now, &mut self.world);
    }

    /// Changes the space that tenants have inside the device `node`.
    ///
    /// # Errors
    /// As [`nandu_base::Administer::deal`].
    pub fn deal(&mut self, node: u32, deal: Deal) -> Result<Dealt, DealError> {
        self.graph.deal(node, deal, self.world.now, &mut self.world)
    }

    /// Starts every machine, children first. Whatever a machine reports, its parents are started: a mirror can do with
    /// one leg. Fails with the first machine among `roots` that cannot start.
    pub fn open(&mut self, how: OpenOptions, roots: &[u32]) -> Result<(), (u32, OpenError)> {
        self.open_within(how, roots, &mut u64::MAX.clone(), |_| {}).expect("so many events never come")
    }

    /// As [`Engine::open`], but stops when `events` have been taken: `None` then, and the start is not complete. `each` looks
    /// at the engine after each event and after each machine's call.
    pub fn open_within(
        &mut self,
        how: OpenOptions,
        roots: &[u32],
        events: &mut u64,
        mut each: impl FnMut(&mut Engine<S>),
    ) -> Option<Result<(), (u32, OpenError)>> {
        for node in 0..self.graph.len() as u32 {
            let now = self.world.now;
            if self.missing.contains(&node) {
                let device = self.graph.name(node).to_string();
                self.graph.open_failed(node, OpenError::Gone { device });
                continue;
            }
            self.graph.open(node, how, now, &mut self.world);
            each(self);
            while self.graph.open_result(node).is_none() {
                *events = events.checked_sub(1)?;
                assert!(self.step(), "{} never finishes its start", self.graph.name(node));
                each(self);
            }
        }
        for &root in roots {
            if let Some(Err(error)) = self.graph.open_result(root) {
                return Some(Err((root, error.clone())));
            }
        }
        Some(Ok(()))
    }

    /// Ends every machine, parents first. Nothing may be outstanding from outside.
    pub fn close(&mut self) {
        self.close_within(&mut u64::MAX.clone());
    }

    /// As [`Engine::close`], but stops when `events` have been taken: false then, and the end is not complete.
    pub fn close_within(&mut self, events: &mut u64) -> bool {
        for node in self.graph.order().rev() {
            if !self.graph.is_open(node) {
                continue;
            }
            let now = self.world.now;
            self.graph.close(node, now, &mut self.world);
            while self.graph.is_open(node) {
                let Some(left) = events.checked_sub(1) else { return false };
                *events = left;
                assert!(self.step(), "{} never finishes its end", self.graph.name(node));
            }
        }
        true
    }

    /// Cuts the power now: every machine is gone, the media keep what had reached them.
    pub fn crash(mut self, rng: &mut Rng) -> (Media, S) {
        let block = std::mem::take(&mut self.world.block);
        let mut media = Media { computed: self.graph.take_media(), block };
        media.lose_power(&self.graph, self.world.now, rng);
        (media, self.world.sink)
    }

    /// What a power cut at `at`, before the next event, would leave. Nothing happens to the media themselves.
    pub fn media_after_a_cut(&self, at: Instant, rng: &mut Rng) -> Media {
        let mut media = Media { computed: self.graph.copy_media(), block: self.world.block.clone() };
        media.lose_power(&self.graph, at, rng);
        media
    }

    /// The process dies: every machine is gone, the media lose nothing that had reached them.
    pub fn die(mut self, rng: &mut Rng) -> (Media, S) {
        for block in self.world.block.iter_mut().flatten() {
            block.die(&self.graph.requests, &self.graph.pool, rng);
        }
        self.into_parts()
    }

    /// Ends the engine without a cut.
    pub fn into_parts(mut self) -> (Media, S) {
        (Media { computed: self.graph.take_media(), block: self.world.block }, self.world.sink)
    }
}

/// Builds the machines of `stack` for one session, with every leaf's medium fresh.
pub fn build(
    stack: &Stack,
    options: &nandu_stack::BuildOptions,
    content: Content,
) -> Result<(Built, Media), StackError> {
    let built = stack.build(options)?;
    // Plain simulation stores only what machines put on record for themselves.
    let stores = content != Content::Nothing || built.parts.iter().any(|p| p.machine.needs().keeps_records);
    let media = Media::for_one_session(&built, stores);
    Ok((built, media))
}

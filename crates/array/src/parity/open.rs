//! The start: which legs are current, what the journal says, and only then requests.
//!
//! All legs are flushed first, so that what is read stays. Then it is decided which of them are current
//! ([`super::decide`]).
//!
//! When a leg is missing that the superblock calls current, a new generation without it is written before anything is
//! replayed: what is replayed makes its part old, and a start that is cut short may find it there again.
//!
//! Then the journal is replayed ([`super::replay`]), all legs are flushed, and the array is opened under a fresh
//! generation in two phases ([`crate::member`]). The first says of the journal what the legs said before: who is
//! put back from a copy of the last stop needs it still. The second says that it is empty. A cut on the way
//! changes nothing: the same is found again, by the same legs.
//!
//! A new set is written down twice before it is used, so a record with number 1 means that nothing was ever stored.

use super::layout::{OUT, PAGE};
use super::piece::FLUSH;
use super::replay::Part;
use super::{Parity, Run, Tag, bits};
use crate::member::InitialSync;
use crate::member::set::{Seat, Set};
use crate::member::{self, State};
use nandu_base::{ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, Op, OpenError, ReqId, Rng};

/// Failed requests of a start that are tried again.
const TRIES: u32 = 32;

/// Steps of a start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Step {
    #[default]
    None,
    /// Stragglers come back.
    Begin,
    /// All legs flush: after a process died their caches hold what a cut could still remove.
    Settle,
    Superblocks,
    /// A new set is written down for the first time.
    Create,
    /// Legs that were one generation behind get the one that is believed: they are never two apart.
    Agree,
    /// A generation says that the legs which are missing are out.
    Exclude,
    Headers,
    /// Parts of the current entry are read.
    Load,
    /// What a part without its checksum is made from is read.
    Make,
    /// The part that was made is written into the journal.
    Keep,
    /// They are written to their places.
    Redo,
    Flush,
    /// A growth is ended: what is new is zeroed.
    Zero,
    /// All legs say durably that the array is being opened.
    Announce,
    /// The superblocks under which requests are served are durable.
    Record,
}

/// A start under way.
#[derive(Debug, Default)]
pub(super) struct Opening {
    pub(super) step: Step,
    /// Requests that are not back.
    pub(super) left: u32,
    tries: u32,
    /// A leg that it uses went: begin anew.
    pub(super) again: bool,
    /// The legs that it uses. One that comes later joins after the start.
    pub(super) uses: u16,
    /// Legs that went while it used them. It does without them unless it needs them: a leg that comes and goes faster than a
    /// start takes must not keep it from ending.
    went: u16,
    /// The next slot of each leg whose header is read.
    pub(super) next: Vec<u32>,
    /// What was found in the journals; the end is the current entry's.
    pub(super) parts: Vec<Part>,
    pub(super) current: Vec<Part>,
    /// The current part that is being made.
    pub(super) made: usize,
}

impl Opening {
    /// A leg goes.
    pub(super) fn interrupt(&mut self, leg: usize) {
        if self.step != Step::None && self.uses >> leg & 1 != 0 {
            self.again = true;
            self.went |= 1 << leg;
        }
    }

    pub(super) fn is_flushing(&self) -> bool {
        matches!(self.step, Step::Settle | Step::Flush)
    }
}

impl Parity {
    pub(super) fn start_open(&mut self) {
        self.opening.went = 0;
        self.open_anew();
    }

    fn open_anew(&mut self) {
        self.opening.step = Step::Begin;
        self.opening.again = false;
        self.opening.tries = TRIES;
        self.stir();
    }

    pub(super) fn drop_opening(&mut self, cx: &mut Cx<'_>) {
        for part in self.opening.current.drain(..) {
            cx.pool.release(part.payload);
        }
        self.opening.step = Step::None;
        self.opening.parts.clear();
    }

    pub(super) fn pump_open(&mut self, cx: &mut Cx<'_>) {
        let busy = self.opening.left > 0 || self.members.flying > 0;
        if self.opening.step == Step::None || busy || self.closing {
            return;
        }
        if self.opening.again {
            self.drop_opening(cx);
            self.open_anew();
            return self.pump_open(cx);
        }
        let next = match self.opening.step {
            Step::Begin if self.is_quiet() => Ok(self.open_begin(cx)),
            Step::Settle => Ok(self.read_superblocks(cx)),
            Step::Superblocks => self.decide(cx),
            Step::Create | Step::Redo => Ok(self.next_entry(cx)),
            Step::Agree => Ok(self.exclude(cx)),
            Step::Exclude => Ok(self.read_journal(cx)),
            Step::Headers => Ok(self.order_entries(cx)),
            Step::Load => Ok(self.redo(cx)),
            Step::Make => Ok(self.keep_made(cx)),
            Step::Keep => Ok(self.write_places(cx)),
            Step::Flush if self.is_short() => {
                self.lost.flushed();
                self.begin_zeroing();
                Ok(self.open_zero(cx))
            }
            Step::Zero => Ok(self.open_zero(cx)),
            Step::Flush => Ok(self.open_announce(cx)),
            Step::Announce => Ok(self.open_record(cx)),
            Step::Record => return self.serve(cx),
            _ => return,
        };
        match next {
            Ok(step) => {
                self.opening.step = step;
                self.stir();
            }
            Err(error) => self.not_opened(error, cx),
        }
    }

    fn open_begin(&mut self, cx: &mut Cx<'_>) -> Step {
        self.locks.clear();
        self.rebuild = super::rebuild::Rebuild::default();
        self.members.checkpoint = super::member::Checkpoint::None;
        self.opening.next = vec![0; self.legs.len()];
        self.lost.clear();
        let usable = bits(self.all()).filter(|&l| self.is_usable(l, cx)).fold(0u16, |m, l| m | 1 << l);
        let steady = usable & !self.opening.went;
        let few = steady.count_ones() as usize + 1 < self.legs.len();
        self.opening.uses = if few { usable } else { steady };
        for leg in 0..self.legs.len() {
            let l = &mut self.legs[leg];
            (l.upto, l.durable) = (OUT, OUT);
            // What it does without joins later.
            l.slots.forget();
            self.roster[leg].waits_no_more();
            self.roster[leg].waits_if((usable & !self.opening.uses) >> leg & 1 != 0);
            if self.opening.uses >> leg & 1 != 0 && !self.planted.no_flush_at_open {
                self.opening.left += 1;
                self.send(leg, ReqId::NONE, Draft { cookie: Tag::Checkpoint.cookie(leg, 0), ..FLUSH }, cx);
            }
        }
        Step::Settle
    }

    fn read_superblocks(&mut self, cx: &mut Cx<'_>) -> Step {
        for leg in bits(self.opening.uses) {
            self.opening.left += 2;
            self.load_superblocks(leg, cx);
        }
        Step::Superblocks
    }

    fn is_usable(&self, leg: usize, cx: &Cx<'_>) -> bool {
        let l = &self.legs[leg];
        let right_size = cx.peek.limits(leg as u8).capacity >= l.layout.leg;
        cx.peek.is_open(leg as u8) && right_size && !self.roster[leg].has_failed()
    }

    pub(super) fn load_superblocks(&mut self, leg: usize, cx: &mut Cx<'_>) {
        for slot in 0..2 {
            let offset = ByteOffset(self.legs[leg].layout.superblocks[slot]);
            let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
            let cookie = Tag::SbRead.cookie(leg, slot as u32);
            let draft =
                Draft { op: Op::Read, flags: Flags::NONE, offset, len: ByteLen(PAGE), payload, cookie };
            self.send(leg, ReqId::NONE, draft, cx);
            cx.pool.release(payload);
        }
    }

    /// Sends a failed request of a start again, or gives its leg up. True when it was sent.
    pub(super) fn once_more(&mut self, id: ReqId, leg: usize, kind: ErrorKind, cx: &mut Cx<'_>) -> bool {
        if kind == ErrorKind::Gone || self.opening.tries == 0 || self.opening.again {
            self.roster[leg].fails();
            self.opening.again = true;
            return false;
        }
        self.opening.tries -= 1;
        let r = &cx.requests[id];
        let (tag, _, index) = Tag::of(r.cookie);
        let offset = self.place_of(tag, leg, index);
        let draft =
            Draft { op: r.op, flags: r.flags, offset, len: r.len, payload: r.payload, cookie: r.cookie };
        self.send(leg, ReqId::NONE, draft, cx);
        true
    }

    /// Where on its leg a request of a start is. The request does not tell once it is back: a stripe, a slice or a concatenation
    /// passed it on with an offset of its own.
    fn place_of(&self, tag: Tag, leg: usize, index: u32) -> ByteOffset {
        let layout = &self.legs[leg].layout;
        let part = || &self.opening.current[index as usize];
        match tag {
            Tag::SbRead => ByteOffset(layout.superblocks[index as usize]),
            Tag::Header => layout.slot(index),
            Tag::Replay => self.part_at(part()),
            Tag::Redo => ByteOffset(part().entry.start),
            Tag::Part
            | Tag::Flush
            | Tag::Checkpoint
            | Tag::Settle
            | Tag::SbWrite
            | Tag::Grow
            | Tag::Straggler => {
                unreachable!("no such request is tried again by a start")
            }
        }
    }

    pub(super) fn superblock_read(&mut self, id: ReqId, leg: usize, slot: u32, cx: &mut Cx<'_>) {
        self.stir();
        let request = &cx.requests[id];
        let error = request.error;
        let bytes = error.is_none().then(|| cx.pool.bytes(request.payload, ByteLen(PAGE)));
        let is_mended = self.legs[leg].slots.saw(slot as usize, bytes);
        self.count.records_mended += u64::from(is_mended);
        if self.opening.step != Step::Superblocks {
            return self.join_seen(leg, cx);
        }
        if let Some(error) = error
            && self.once_more(id, leg, error.kind, cx)
        {
            return;
        }
        self.opening.left -= 1;
    }

    /// What is replayed without a leg makes its part of the row old: should this start not end, the next one must not take the
    /// leg for current. So its absence is put on record first.
    pub(super) fn exclude(&mut self, cx: &mut Cx<'_>) -> Step {
        let called_in = |l: &usize| self.members.sb.upto[*l] != OUT;
        let all_are_here = (0..self.legs.len()).filter(called_in).all(|l| self.legs[l].is_in());
        let says_nothing = !self.journaled || all_are_here || self.planted.replayed_before_out;
        if says_nothing && !self.is_short() {
            return self.read_journal(cx);
        }
        self.next_generation(State::Pair, cx.now);
        self.write_superblocks(cx);
        Step::Exclude
    }

    /// Blank legs become a new set.
    pub(super) fn create(&mut self, cx: &mut Cx<'_>) -> Result<Step, OpenError> {
        if !self.how.create {
            let why = "the legs are blank".to_string();
            return Err(OpenError::Refused { why, remedy: "create the array first".into() });
        }
        let mut rng = Rng::new(self.seed);
        if self.how.salvage {
            // Entries of the journal that stands there are not of this set, whatever the seed.
            rng = rng.fork(1);
        }
        self.members.sb.head.set = [rng.bits(), rng.bits()];
        self.members.sb.head.seq = 0;
        self.members.sb.since = [0; 16];
        self.geometry.data = self.room;
        let data = self.geometry.data;
        self.legs.iter_mut().for_each(|l| {
            (l.upto, l.durable) = (data, data);
            l.slots.written(1);
        });
        if self.initial_sync == InitialSync::Resync && !self.how.assume_clean {
            if self.journaled {
                // The last leg counts as not rebuilt: it becomes what makes every row right.
                let last = self.legs.last_mut().expect("there are legs");
                (last.upto, last.durable) = (0, 0);
            } else {
                self.rebuild.parity_upto = 0;
            }
        }
        self.next_generation(State::Pair, cx.now);
        self.write_superblocks(cx);
        Ok(Step::Create)
    }

    pub(super) fn open_flush(&mut self, cx: &mut Cx<'_>) -> Step {
        self.lost.flushing();
        for leg in bits(self.legs_in()) {
            self.opening.left += 1;
            self.send(leg, ReqId::NONE, Draft { cookie: Tag::Checkpoint.cookie(leg, 0), ..FLUSH }, cx);
        }
        Step::Flush
    }

    /// More of what is new is zeroed; then all legs flush, and the array has its new size.
    fn open_zero(&mut self, cx: &mut Cx<'_>) -> Step {
        if self.zero_on(cx) {
            return Step::Zero;
        }
        self.take_room();
        if self.planted.grown_unflushed {
            return self.open_announce(cx);
        }
        self.open_flush(cx)
    }

    /// A flush of a start is back, or what it zeroes. One that failed is not tried again: success would prove nothing.
    pub(super) fn opening_flushed(&mut self, leg: usize, error: Option<ErrorKind>) {
        self.opening.left -= 1;
        if error.is_some() {
            self.roster[leg].fails();
            self.opening.again = true;
        }
    }

    /// First phase: all legs say which generation is to be in force, and which one they had.
    fn open_announce(&mut self, cx: &mut Cx<'_>) -> Step {
        self.lost.flushed();
        let had = self.members.sb.head;
        self.next_generation(State::Opening, cx.now);
        if self.planted.opening_keeps_gen {
            self.members.sb.head = member::Superblock { state: State::Opening, ..had };
        }
        if self.planted.opening_forgets_journal {
            self.members.sb.floor = self.members.epoch << 40;
        }
        if self.planted.opening_in_one_phase {
            return self.open_record(cx);
        }
        self.write_superblocks(cx);
        Step::Announce
    }

    /// Second phase: from now on whatever says less is old.
    fn open_record(&mut self, cx: &mut Cx<'_>) -> Step {
        let next = self.members.epoch << 40;
        self.journal.restart(next);
        self.members.sb.floor = next;
        self.members.sb.head.clean = false;
        if self.planted.opening_in_one_phase {
            self.members.sb.head.state = State::Pair;
        } else if !self.planted.served_while_opening {
            self.members.sb.head.end_opening();
        }
        self.write_superblocks(cx);
        Step::Record
    }

    fn serve(&mut self, cx: &mut Cx<'_>) {
        self.opening.step = Step::None;
        self.members.settled = self.members.version;
        self.stir();
        if self.lacking() > 1 {
            // Legs went with the last answer.
            return self.start_open();
        }
        match std::mem::replace(&mut self.run, Run::Running) {
            Run::Failed => cx.event(DeviceEvent::Back),
            Run::Growing => {}
            _ => cx.opened(Ok(())),
        }
        self.grown(cx);
    }

    fn not_opened(&mut self, error: OpenError, cx: &mut Cx<'_>) {
        self.drop_opening(cx);
        self.stir();
        self.legs.iter_mut().for_each(|l| (l.upto, l.durable) = (OUT, OUT));
        self.roster.iter_mut().for_each(Seat::waits_no_more);
        match self.run {
            Run::Opening => {
                self.run = Run::Closed;
                cx.opened(Err(error));
            }
            Run::Growing => {
                cx.event(DeviceEvent::Lost);
                self.grown_in_vain(cx);
            }
            _ => {}
        }
    }
}

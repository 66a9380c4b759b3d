//! The start: which legs are current, what the journal says, and only then requests.
//!
//! All legs are flushed first, so that what is read stays. The superblock with the highest generation that can be right is believed: every leg that it calls a full member and that is
//! present carries the same generation or the one before it (a cut between two legs leaves that; they are made the same
//! before anything else is written). All but one of its full
//! members must be present. A leg that it does not call current, and a blank one where that is allowed, is rebuilt.
//!
//! When a leg is missing that the superblock calls current, a new generation without it is written before anything is
//! replayed: what is replayed makes its part old, and a start that is cut short may find it there again.
//!
//! Then every slot of the journal is read. An entry counts when its number is not below the floor and each of its legs
//! that is present and was a leg already when it was written has its part whole. Those entries are written to their places in order, all legs are
//! flushed, and new superblocks with a new generation say that the journal is empty. A cut on the way changes nothing: the
//! same is found again, by the same legs.
//!
//! A new set is written down twice before it is used, so a record with number 1 means that nothing was ever stored.

use super::config::Fresh;
use super::journal::sum_of;
use super::layout::{Entry, Superblock, OUT, PAGE};
use super::lost::Lost;
use super::member::Seen;
use super::write::FLUSH;
use super::{bits, Parity, Run, Tag};
use nandu_base::{
    ByteLen, ByteOffset, Cx, DeviceEvent, Draft, ErrorKind, Flags, Op, OpenError, Payload, ReqId, Rng,
};

/// Headers read at once on a leg.
const AHEAD: u32 = 8;
/// Failed requests of a start that are tried again.
const TRIES: u32 = 32;

/// What a superblock slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant)] // two for each leg, while it starts
enum Slot {
    Blank,
    Foreign,
    Valid(Superblock),
}

/// Steps of a start.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Step {
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
    /// They are written to their places.
    Redo,
    Flush,
    Record,
}

/// A part of an entry.
#[derive(Clone, Copy, Debug)]
struct Part {
    leg: usize,
    slot: u32,
    entry: Entry,
    payload: Payload,
}

/// A start under way.
#[derive(Debug, Default)]
pub(super) struct Opening {
    step: Step,
    /// Requests that are not back.
    left: u32,
    tries: u32,
    /// A leg that it uses went: begin anew.
    again: bool,
    /// The legs that it uses. One that comes later joins after the start.
    uses: u16,
    /// Legs that went while it used them. It does without them unless it needs them: a leg that comes and goes faster than a
    /// start takes must not keep it from ending.
    went: u16,
    slots: Vec<[Slot; 2]>,
    /// The lists of lost sectors in them.
    lists: Vec<[Vec<u64>; 2]>,
    /// The next slot of each leg whose header is read.
    next: Vec<u32>,
    /// What was found in the journals; the end is the current entry's.
    parts: Vec<Part>,
    current: Vec<Part>,
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
        self.stir = true;
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
            Step::Flush => Ok(self.open_record(cx)),
            Step::Record => return self.serve(cx),
            _ => return,
        };
        match next {
            Ok(step) => {
                self.opening.step = step;
                self.stir = true;
            }
            Err(error) => self.not_opened(error, cx),
        }
    }

    fn open_begin(&mut self, cx: &mut Cx<'_>) -> Step {
        self.locks.clear();
        self.rebuild = super::rebuild::Rebuild::default();
        self.members.checkpoint = super::member::Checkpoint::None;
        self.opening.slots = vec![[Slot::Foreign; 2]; self.legs.len()];
        self.opening.lists = vec![Default::default(); self.legs.len()];
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
            l.back = (usable & !self.opening.uses) >> leg & 1 != 0;
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
        let right_size = cx.peek.limits(leg as u8).capacity == l.layout.leg;
        cx.peek.is_open(leg as u8) && right_size && !l.failed && !l.lost
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
    fn once_more(&mut self, id: ReqId, leg: usize, kind: ErrorKind, cx: &mut Cx<'_>) -> bool {
        if kind == ErrorKind::Gone || self.opening.tries == 0 || self.opening.again {
            self.legs[leg].failed |= kind != ErrorKind::Gone;
            self.legs[leg].lost |= kind == ErrorKind::Gone;
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
            Tag::Replay => ByteOffset(layout.slot(part().slot).0 + PAGE),
            Tag::Redo => ByteOffset(part().entry.start),
            Tag::Part | Tag::Flush | Tag::Checkpoint | Tag::SbWrite => {
                unreachable!("no such request is tried again by a start")
            }
        }
    }

    pub(super) fn superblock_read(&mut self, id: ReqId, leg: usize, slot: u32, cx: &mut Cx<'_>) {
        self.stir = true;
        let request = &cx.requests[id];
        let error = request.error;
        let bytes = cx.pool.bytes(request.payload, ByteLen(PAGE));
        let whole = Superblock::decode(bytes).and_then(|sb| Some((sb, Lost::decode(bytes, sb.lost)?)));
        let mut list = Vec::new();
        let found = match whole {
            Some((sb, lost)) => {
                list = lost;
                Slot::Valid(sb)
            }
            None if bytes.iter().all(|&b| b == 0) => Slot::Blank,
            None => Slot::Foreign,
        };
        if self.opening.step != Step::Superblocks {
            let ours = |sb: &Superblock| sb.set == self.members.sb.set && usize::from(sb.leg) == leg;
            let (seen, epoch) = match found {
                _ if error.is_some() => (Seen::Refused, 0),
                Slot::Valid(sb) => (if ours(&sb) { Seen::Ours } else { Seen::Refused }, sb.gen.epoch),
                Slot::Foreign => (Seen::Unknown, 0),
                Slot::Blank => (Seen::Blank, 0),
            };
            return self.join_seen(leg, seen, epoch);
        }
        if let Some(error) = error {
            if self.once_more(id, leg, error.kind, cx) {
                return;
            }
        }
        self.opening.slots[leg][slot as usize] = found;
        self.opening.lists[leg][slot as usize] = list;
        self.opening.left -= 1;
    }

    /// The newest superblock of a leg.
    fn newest(&self, leg: usize) -> Option<(u8, Superblock)> {
        let valid = |k: u8| match self.opening.slots[leg][usize::from(k)] {
            Slot::Valid(sb) => Some((k, sb)),
            _ => None,
        };
        [valid(0), valid(1)].into_iter().flatten().max_by_key(|(_, sb)| sb.seq)
    }

    fn decide(&mut self, cx: &mut Cx<'_>) -> Result<Step, OpenError> {
        let legs = self.legs.len();
        let refused = |why: String, remedy: &str| OpenError::Refused { why, remedy: remedy.into() };
        let mut blank = 0u16;
        let mut found: Vec<Option<Superblock>> = vec![None; legs];
        for (leg, place) in found.iter_mut().enumerate() {
            if self.opening.uses >> leg & 1 == 0 {
                continue;
            }
            let name = &self.legs[leg].name;
            match self.newest(leg) {
                Some((_, sb)) if usize::from(sb.leg) != leg => {
                    let why = format!("`{name}` is leg {} of its array", sb.leg);
                    return Err(refused(why, "name the legs in their order"));
                }
                Some((_, sb)) if sb.shape != self.shape || sb.data != self.geometry.data => {
                    let why = format!("`{name}` belongs to an array of another shape");
                    return Err(refused(why, "give the options with which the array was made"));
                }
                Some((slot, sb)) => {
                    self.legs[leg].slot = slot;
                    *place = Some(sb);
                }
                None if self.opening.slots[leg] == [Slot::Blank; 2] => blank |= 1 << leg,
                None => {
                    let why = format!("`{name}` holds something else where the array keeps its records");
                    return Err(refused(why, "clear the last 68 KiB of it if nothing there is needed"));
                }
            }
        }
        let epoch = found.iter().flatten().map(|sb| sb.gen.epoch).max().unwrap_or(0);
        self.members.epoch = self.members.epoch.max(epoch);
        // A simulation that stores nothing reads blanks: what was written last counts then.
        let stored = cx.pool.content() != nandu_base::Content::Nothing;
        if !stored && self.members.sb.seq > 1 {
            let mut sb = self.members.sb;
            sb.upto[..legs].fill(self.geometry.data);
            found.fill(Some(sb));
            blank = 0;
        }
        let sets: Vec<[u64; 2]> = found.iter().flatten().map(|sb| sb.set).collect();
        if sets.iter().any(|set| *set != sets[0]) {
            return Err(refused("the legs belong to different arrays".into(), "give the legs of one array"));
        }
        let unfinished = found.iter().flatten().all(|sb| sb.seq == 1);
        if unfinished && (blank | mask(&found)) == self.all() && blank != 0 {
            return self.create(cx);
        }
        if unfinished && blank | mask(&found) != self.all() && sets.is_empty() {
            let missing = bits(self.all() & !blank).next().unwrap_or(0);
            return Err(OpenError::Child(missing as u8));
        }
        let sb = self.believe(&found).ok_or_else(|| {
            let present = found.iter().flatten().count();
            let why = format!("too few current legs: {present} of {legs} are there, one may be missing");
            refused(why, "add the legs that were used last")
        })?;
        self.adopt(sb, &found, blank)?;
        if bits(self.legs_in()).any(|l| found[l].is_some_and(|other| other.gen != sb.gen)) {
            self.write_superblocks(cx);
            return Ok(Step::Agree);
        }
        Ok(self.exclude(cx))
    }

    /// What is replayed without a leg makes its part of the row old: should this start not end, the next one must not take the
    /// leg for current. So its absence is put on record first.
    fn exclude(&mut self, cx: &mut Cx<'_>) -> Step {
        let called_in = |l: &usize| self.members.sb.upto[*l] != OUT;
        let all_are_here = (0..self.legs.len()).filter(called_in).all(|l| self.legs[l].is_in());
        if !self.journaled || all_are_here || self.planted.replayed_before_out {
            return self.read_journal(cx);
        }
        self.next_generation();
        self.write_superblocks(cx);
        Step::Exclude
    }

    /// The superblock that is right: see the module's page.
    fn believe(&self, found: &[Option<Superblock>]) -> Option<Superblock> {
        let mut candidates: Vec<Superblock> = found.iter().flatten().copied().collect();
        candidates.sort_by_key(|sb| std::cmp::Reverse((sb.gen.epoch, sb.seq)));
        if self.planted.stale_leg_believed {
            let mut sb = candidates.first().copied()?;
            for (upto, found) in sb.upto.iter_mut().zip(found) {
                *upto = if found.is_some() { sb.data } else { *upto };
            }
            return Some(sb);
        }
        candidates.into_iter().find(|sb| {
            let full = |leg: usize| sb.upto[leg] == sb.data;
            let fits = |other: &Superblock| other.gen == sb.gen || other.gen == sb.before;
            let agreed = (0..found.len()).all(|l| !full(l) || found[l].is_none_or(|other| fits(&other)));
            let present = (0..found.len()).filter(|&l| full(l) && found[l].is_some()).count();
            agreed && present + 1 >= found.len()
        })
    }

    fn adopt(&mut self, sb: Superblock, found: &[Option<Superblock>], blank: u16) -> Result<(), OpenError> {
        self.members.sb = sb;
        // The floor moves without a new generation: the highest counts, for all legs had flushed before it was written.
        let same = found.iter().flatten().filter(|other| other.gen == sb.gen);
        self.members.sb.floor = same.map(|other| other.floor).max().unwrap_or(sb.floor);
        // So does the list of lost sectors: it grows before a mark moves on, and shrinks after a flush.
        let newest = (0..found.len()).filter(|&l| found[l].is_some_and(|other| other.gen == sb.gen));
        if let Some(l) = newest.max_by_key(|&l| found[l].map(|other| other.seq)) {
            let list = &self.opening.lists[l][usize::from(self.legs[l].slot)];
            self.lost.restore(list, self.legs.len(), self.geometry.data);
        }
        for (leg, found) in found.iter().enumerate() {
            let fits = found.is_some_and(|o| {
                o.gen == sb.gen
                    || o.gen == sb.before && sb.upto[leg] == sb.data
                    || self.planted.stale_leg_believed
            });
            let l = &mut self.legs[leg];
            if fits && sb.upto[leg] != OUT {
                (l.upto, l.durable) = (sb.upto[leg], sb.upto[leg]);
            } else {
                l.back |= found.is_some() || self.how.create && blank >> leg & 1 != 0;
            }
        }
        for leg in bits(!self.legs_in()) {
            self.lost.drop_leg(leg);
        }
        if !self.journaled && !sb.clean {
            if self.not_full() > 0 && !self.how.alone {
                return Err(OpenError::Refused {
                    why: "the array has not ended in order, it has no journal, and a leg is missing or not rebuilt: \
                          blocks of that leg may come back wrong"
                        .into(),
                    remedy: "add the leg, or start with `alone` and check the data".into(),
                });
            }
            self.rebuild.parity_upto = if self.not_full() > 0 { u64::MAX } else { 0 };
        }
        Ok(())
    }

    /// Blank legs become a new set.
    fn create(&mut self, cx: &mut Cx<'_>) -> Result<Step, OpenError> {
        if !self.how.create {
            let why = "the legs are blank".to_string();
            return Err(OpenError::Refused { why, remedy: "create the array first".into() });
        }
        let mut rng = Rng::new(self.seed);
        self.members.sb.set = [rng.bits(), rng.bits()];
        self.members.sb.seq = 0;
        self.members.sb.since = [0; 16];
        let data = self.geometry.data;
        self.legs.iter_mut().for_each(|l| (l.upto, l.durable, l.slot) = (data, data, 1));
        if self.fresh == Fresh::Compute && !self.how.assume_clean {
            if self.journaled {
                // The last leg counts as not rebuilt: it becomes what makes every row right.
                let last = self.legs.last_mut().expect("there are legs");
                (last.upto, last.durable) = (0, 0);
            } else {
                self.rebuild.parity_upto = 0;
            }
        }
        self.next_generation();
        self.write_superblocks(cx);
        Ok(Step::Create)
    }

    fn read_journal(&mut self, cx: &mut Cx<'_>) -> Step {
        if !self.journaled {
            return self.open_flush(cx);
        }
        for leg in bits(self.legs_in()) {
            for _ in 0..AHEAD {
                self.read_header(leg, cx);
            }
        }
        Step::Headers
    }

    fn read_header(&mut self, leg: usize, cx: &mut Cx<'_>) {
        let slot = self.opening.next[leg];
        if slot >= self.journal.len() {
            return;
        }
        self.opening.next[leg] += 1;
        self.opening.left += 1;
        let payload = cx.pool.allocate_metadata(ByteLen(PAGE));
        let (offset, cookie) = (self.legs[leg].layout.slot(slot), Tag::Header.cookie(leg, slot));
        let draft = Draft { op: Op::Read, flags: Flags::NONE, offset, len: ByteLen(PAGE), payload, cookie };
        self.send(leg, ReqId::NONE, draft, cx);
        cx.pool.release(payload);
    }

    /// A header or a part of an entry was read, or a part was written to its place.
    pub(super) fn open_part_done(&mut self, id: ReqId, tag: Tag, leg: usize, index: u32, cx: &mut Cx<'_>) {
        self.stir = true;
        if let Some(error) = cx.requests[id].error {
            if self.once_more(id, leg, error.kind, cx) {
                return;
            }
        } else if tag == Tag::Header {
            let bytes = cx.pool.bytes(cx.requests[id].payload, ByteLen(PAGE));
            let sb = &self.members.sb;
            let entry = Entry::decode(bytes).filter(|e| e.set == sb.set && e.seq >= sb.floor);
            if let Some(entry) = entry {
                self.opening.parts.push(Part { leg, slot: index, entry, payload: Payload::NONE });
            }
            if !self.opening.again {
                self.read_header(leg, cx);
            }
        }
        self.opening.left -= 1;
    }

    /// Every header is there: newest last, so that the oldest is taken from the end.
    fn order_entries(&mut self, cx: &mut Cx<'_>) -> Step {
        self.opening.parts.sort_by_key(|p| std::cmp::Reverse((p.entry.seq, p.leg)));
        self.next_entry(cx)
    }

    /// Takes the oldest entry whose parts are all there; when there is none, all legs are flushed.
    fn next_entry(&mut self, cx: &mut Cx<'_>) -> Step {
        for part in self.opening.current.drain(..) {
            cx.pool.release(part.payload);
        }
        while let Some(&Part { entry, .. }) = self.opening.parts.last() {
            let parts = &self.opening.parts;
            let from = parts.iter().rposition(|p| p.entry.seq != entry.seq).map_or(0, |at| at + 1);
            let current: Vec<Part> = self.opening.parts.drain(from..).collect();
            let there = current.iter().fold(0u16, |m, p| m | 1 << p.leg);
            let bounds = entry.end <= self.geometry.data && entry.end - entry.start <= self.piece;
            let due = entry.legs & self.legs_since(entry.seq);
            if bounds && there & due == due && current.iter().all(|p| same(&p.entry, &entry)) {
                self.opening.current = current;
                self.opening.current.retain(|p| due >> p.leg & 1 != 0);
                self.load_parts(cx);
                return Step::Load;
            }
        }
        self.open_flush(cx)
    }

    /// The legs that are in and were so when entry `seq` was written. One that came later may have come blank.
    fn legs_since(&self, seq: u64) -> u16 {
        let since = &self.members.sb.since;
        bits(self.legs_in()).filter(|&l| since[l] <= seq >> 40).fold(0, |m, l| m | 1 << l)
    }

    fn load_parts(&mut self, cx: &mut Cx<'_>) {
        for k in 0..self.opening.current.len() {
            let part = self.opening.current[k];
            if part.entry.zeros {
                continue;
            }
            let len = ByteLen(part.entry.end - part.entry.start);
            let payload = cx.pool.allocate_unfilled(len);
            self.opening.current[k].payload = payload;
            self.opening.left += 1;
            let offset = ByteOffset(self.legs[part.leg].layout.slot(part.slot).0 + PAGE);
            let cookie = Tag::Replay.cookie(part.leg, k as u32);
            let draft = Draft { op: Op::Read, flags: Flags::NONE, offset, len, payload, cookie };
            self.send(part.leg, ReqId::NONE, draft, cx);
        }
    }

    /// Writes the current entry to its place, unless a part of it is torn.
    fn redo(&mut self, cx: &mut Cx<'_>) -> Step {
        let whole = |p: &Part| {
            p.entry.zeros || sum_of(cx.pool, p.payload, ByteLen(p.entry.end - p.entry.start)) == p.entry.sum
        };
        if !self.opening.current.iter().all(whole) {
            return self.next_entry(cx);
        }
        self.count.replays += 1;
        for k in 0..self.opening.current.len() {
            let Part { leg, entry, payload, .. } = self.opening.current[k];
            let op = if entry.zeros { Op::WriteZeroes } else { Op::Write };
            let (offset, len) = (ByteOffset(entry.start), ByteLen(entry.end - entry.start));
            let cookie = Tag::Redo.cookie(leg, k as u32);
            self.opening.left += 1;
            self.lost.mend(leg, entry.start, entry.end);
            self.send(leg, ReqId::NONE, Draft { op, flags: Flags::NONE, offset, len, payload, cookie }, cx);
        }
        Step::Redo
    }

    fn open_flush(&mut self, cx: &mut Cx<'_>) -> Step {
        self.lost.flushing();
        for leg in bits(self.legs_in()) {
            self.opening.left += 1;
            self.send(leg, ReqId::NONE, Draft { cookie: Tag::Checkpoint.cookie(leg, 0), ..FLUSH }, cx);
        }
        Step::Flush
    }

    /// A flush of a start is back. One that failed is not tried again: success would prove nothing.
    pub(super) fn opening_flushed(&mut self, leg: usize, error: Option<ErrorKind>) {
        self.opening.left -= 1;
        if let Some(kind) = error {
            self.legs[leg].failed |= kind != ErrorKind::Gone;
            self.legs[leg].lost |= kind == ErrorKind::Gone;
            self.opening.again = true;
        }
    }

    fn open_record(&mut self, cx: &mut Cx<'_>) -> Step {
        self.lost.flushed();
        self.next_generation();
        let next = self.members.epoch << 40;
        self.journal.restart(next);
        self.members.sb.floor = next;
        self.members.sb.clean = false;
        self.write_superblocks(cx);
        Step::Record
    }

    fn serve(&mut self, cx: &mut Cx<'_>) {
        self.opening.step = Step::None;
        self.members.settled = self.members.version;
        self.stir = true;
        let again = std::mem::replace(&mut self.run, Run::Running) == Run::Failed;
        if self.not_full() > 1 {
            // The legs went with the last answer.
            self.run = if again { Run::Failed } else { Run::Opening };
            return self.start_open();
        }
        if again {
            cx.event(DeviceEvent::Back);
        } else {
            cx.opened(Ok(()));
        }
    }

    fn not_opened(&mut self, error: OpenError, cx: &mut Cx<'_>) {
        self.drop_opening(cx);
        self.stir = true;
        self.legs.iter_mut().for_each(|l| (l.upto, l.durable, l.back) = (OUT, OUT, false));
        if self.run == Run::Opening {
            self.run = Run::Closed;
            cx.opened(Err(error));
        }
    }
}

/// The legs that were found.
fn mask(found: &[Option<Superblock>]) -> u16 {
    (0..found.len()).filter(|&l| found[l].is_some()).fold(0, |m, l| m | 1 << l)
}

/// Whether two parts are of one entry.
fn same(a: &Entry, b: &Entry) -> bool {
    (a.start, a.end, a.legs) == (b.start, b.end, b.legs)
}

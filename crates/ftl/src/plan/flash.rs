//! Who carries out what is planned: the doors through which a planner gives operations on the flash.
//!
//! A planner says what is done, in what order, for whom and behind what. When that is, it does not know: [`After`] and what the doors return are tokens that it
//! hands on. An executor prices each operation when nothing stands before it; a test writes them down.
//!
//! The doors of one page are [`read`](Flash::read), [`program`](Flash::program), [`copy`](Flash::copy), [`carry`](Flash::carry) and [`erase`](Flash::erase).
//! Pages that nothing can stand before may come as a *run*, which adds up at less cost what they have in common.

use super::pages::Pages;
use crate::mapping::Tp;
use crate::{BlockId, Cursor, Ppn, Units};
use nandu_base::{Cx, Instant, Oob, Overlay, Report, ReqId, Step, TenantId, Work};

/// No operation.
pub const NONE: u32 = 0;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// A page of a read.
    Read,
    /// A page of which a part will be replaced.
    PreRead,
    /// A page of the host's data.
    Program,
    /// A record of the trim journal.
    Record,
    /// The mark of a trim in a log-block map.
    Mark,
    /// Garbage collection reads a page.
    MoveRead,
    /// Garbage collection writes it.
    MoveProgram,
    /// A page moves inside its die, in one operation.
    MoveWithin,
    /// The blocks of a unit are erased.
    Erase,
    /// A translation page that is read.
    MapRead,
    /// A translation page that is written.
    MapProgram,
    /// A page that is copied into a block of its own because the map wants it there.
    Gathered,
    /// A page of a checkpoint.
    Anchor,
    /// The end of a request.
    Answer,
    /// Everything that was issued before is done.
    Barrier,
    /// A page of the write buffer is programmed; its slot is where blocks have their number.
    Destaged,
}

impl Job {
    /// Whether a die does it.
    pub fn is_operation(self) -> bool {
        !matches!(self, Job::Answer | Job::Barrier | Job::Destaged)
    }

    /// Whether it is a part of collection.
    pub fn is_gc(self) -> bool {
        matches!(self, Job::MoveRead | Job::MoveProgram | Job::MoveWithin | Job::Erase)
    }

    /// Whether pages are read, and nothing else.
    pub fn is_read(self) -> bool {
        matches!(self, Job::Read | Job::PreRead | Job::MoveRead | Job::MapRead)
    }

    /// Whether a power cut could find it half done.
    pub fn changes_flash(self) -> bool {
        self.is_operation() && !self.is_read()
    }

    /// Whether what waits for it waits for the map.
    pub fn is_of_map(self) -> bool {
        matches!(self, Job::MapRead | Job::MapProgram)
    }
}

/// What an operation waits for: a moment that its executor knows, and perhaps an operation that waits itself. A planner compares it and hands it on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct After {
    /// The moment.
    pub at: Instant,
    /// The operation, or [`NONE`].
    pub node: u32,
}

impl After {
    /// Nothing but the time.
    #[inline(always)]
    pub fn at(at: Instant) -> After {
        After { at, node: NONE }
    }

    /// Nothing: what is given now may begin.
    #[inline(always)]
    pub fn now(cx: &Cx<'_>) -> After {
        After::at(cx.now)
    }

    /// Whichever of two known moments is later.
    pub fn later(self, other: After) -> After {
        debug_assert!(self.node == NONE && other.node == NONE, "two known moments");
        After::at(self.at.later(other.at))
    }

    /// The same, and not before the moment of another, whatever that one waits for besides.
    pub fn not_before(self, other: After) -> After {
        After { at: self.at.later(other.at), ..self }
    }

    /// An operation that waits itself, and the time.
    pub fn node(node: u32, at: Instant) -> After {
        After { at, node }
    }
}

/// Something that will be waited for later, when the operation that stands for it may be over and its number somebody else's.
#[derive(Clone, Copy, Debug)]
pub struct Awaited {
    /// What it was when it was given.
    pub after: After,
    /// The number of the operation, which no other one has.
    pub number: u64,
}

/// A page to read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// What for.
    pub job: Job,
    /// Where it lies.
    pub ppn: Ppn,
    /// The logical page of the host's, or the translation page.
    pub key: u32,
    /// What it waits for.
    pub after: After,
    /// Its block is in SLC mode.
    pub is_slc: bool,
    /// What the write buffer has over it.
    pub overlay: Option<Overlay>,
}

impl Reading {
    /// A page in the common mode.
    #[inline(always)]
    pub fn of(job: Job, ppn: Ppn, key: u32, after: After) -> Reading {
        Reading { job, ppn, key, after, is_slc: false, overlay: None }
    }

    /// A page that will be written once more, elsewhere.
    #[inline(always)]
    pub fn of_moved(job: Job, from: Ppn, is_slc: bool, after: After) -> Reading {
        Reading { is_slc, ..Reading::of(job, from, 0, after) }
    }
}

/// A page to program. `G` is what the executor returned for a page that was read.
#[derive(Clone, Copy, Debug)]
pub struct Programming<G> {
    /// What for.
    pub job: Job,
    /// Where it goes.
    pub ppn: Ppn,
    /// What is on record with it.
    pub oob: Oob,
    /// Where the rest of it lies, if it is programmed in part or moved.
    pub base: Option<Ppn>,
    /// What is programmed over that. The executor lets the bytes of the drive's own pages go.
    pub overlay: Option<Overlay>,
    /// Its block is in SLC mode.
    pub is_slc: bool,
    /// The page that is superseded: its block is not erased before.
    pub older: Option<Ppn>,
    /// What it waits for.
    pub after: After,
    /// The entry of the map that the page waits for.
    pub entry: After,
    /// The page of which a part is replaced, as it was read, and whether it lay in a block in SLC mode.
    pub read: Option<(G, bool)>,
    /// Whether it is a translation page, which is written to units that were opened at any time.
    pub is_map: bool,
}

impl<G> Programming<G> {
    /// A page in the common mode that supersedes nothing and brings nothing.
    #[inline(always)]
    pub fn of(job: Job, ppn: Ppn, oob: Oob, after: After) -> Programming<G> {
        let (base, overlay, older, read, entry) = (None, None, None, None, after);
        let (is_slc, is_map) = (false, false);
        Programming { job, ppn, oob, base, overlay, is_slc, older, after, entry, read, is_map }
    }
}

impl<G> Programming<G> {
    /// A page that was read to be written once more, behind `after`, and behind its entry of the map.
    #[inline(always)]
    pub fn of_moved(job: Job, copying: &Copying, read: G, after: After, entry: After) -> Programming<G> {
        let Copying { from, to, oob, from_slc, to_slc, is_map, .. } = *copying;
        Programming {
            base: Some(from),
            is_slc: to_slc,
            older: Some(from),
            entry,
            read: Some((read, from_slc)),
            is_map,
            ..Programming::of(job, to, oob, after)
        }
    }
}

/// A page to write once more, elsewhere.
#[derive(Clone, Copy, Debug)]
pub struct Copying {
    /// Where it lies.
    pub from: Ppn,
    /// Where it goes.
    pub to: Ppn,
    /// What is on record with the copy.
    pub oob: Oob,
    /// Whether it lies in a block in SLC mode.
    pub from_slc: bool,
    /// Whether it goes to one.
    pub to_slc: bool,
    /// What the read of it waits for.
    pub after: After,
    /// Whether it is a translation page.
    pub is_map: bool,
}

/// A unit to erase.
#[derive(Clone, Copy, Debug)]
pub struct Erasing {
    /// Which.
    pub unit: BlockId,
    /// What it waits for beside what the executor knows.
    pub after: After,
    /// It is in SLC mode.
    pub is_slc: bool,
    /// Who pays.
    pub cause: TenantId,
    /// What for.
    pub work: Work,
}

/// Whose pages are given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// A request's.
    Request(ReqId),
    /// The write buffer's, in this slot.
    Slot(u32),
    /// No request's: nobody waits for all of them together.
    Nobody,
}

/// Pages that are given for one request, one slot or one step of the drive's own.
pub struct Pieces<F: Flash> {
    /// Whose they are.
    pub whose: Whose,
    /// Who pays.
    pub cause: TenantId,
    /// What for.
    pub work: Work,
    /// What the next page waits for: the entries of the map so far.
    pub after: After,
    /// What the executor adds up.
    pub tally: F::Tally,
}

impl<F: Flash> Clone for Pieces<F> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Flash> Copy for Pieces<F> {}

impl<F: Flash> Pieces<F> {
    /// Pages of somebody.
    #[inline(always)]
    pub fn new(whose: Whose, cx: &Cx<'_>, cause: TenantId, work: Work) -> Pieces<F> {
        Pieces { whose, cause, work, after: After::now(cx), tally: F::tally(cx) }
    }

    /// The pages of a request.
    #[inline(always)]
    pub fn of_request(id: ReqId, cx: &Cx<'_>, cause: TenantId, work: Work) -> Pieces<F> {
        Pieces::new(Whose::Request(id), cx, cause, work)
    }

    /// The page in a slot of the write buffer.
    #[inline(always)]
    pub fn of_slot(slot: u32, cx: &Cx<'_>, cause: TenantId) -> Pieces<F> {
        Pieces::new(Whose::Slot(slot), cx, cause, Work::Write)
    }

    /// Pages that the drive reads and writes for itself.
    #[inline(always)]
    pub fn of_nobody(cx: &Cx<'_>, cause: TenantId, work: Work) -> Pieces<F> {
        Pieces::new(Whose::Nobody, cx, cause, work)
    }

    /// The request whose pages they are.
    pub fn request(&self) -> ReqId {
        match self.whose {
            Whose::Request(id) => id,
            Whose::Slot(_) | Whose::Nobody => unreachable!("only a request's pages are brought to it"),
        }
    }

    /// Charges what they take to the one that caused them; they have taken nothing then.
    #[inline(always)]
    pub fn charge(&mut self, cx: &mut Cx<'_>) {
        F::charge(&mut self.tally, self.cause, self.work, cx);
    }

    /// The same for other work.
    pub fn charge_as(&mut self, work: Work, cx: &mut Cx<'_>) {
        F::charge(&mut self.tally, self.cause, work, cx);
    }
}

/// The doors.
pub trait Flash {
    /// What is added up of pages that are given together.
    type Tally: Copy;
    /// What is known of an operation when it was given.
    type Given: Copy;
    /// Pages that nothing stands before, and that are given together.
    type Run: Copy;
    /// A page of a run as it was given.
    type Placed: Copy;

    /// Nothing yet.
    fn tally(cx: &Cx<'_>) -> Self::Tally;
    /// Charges what was added up to who caused it.
    fn charge(tally: &mut Self::Tally, cause: TenantId, work: Work, cx: &mut Cx<'_>);

    /// Where the blocks of units are.
    fn units(&self) -> &Units;
    /// The same, for a start that finds out how far each is written.
    fn units_mut(&mut self) -> &mut Units;
    /// The page of the medium.
    fn unit(&self, ppn: Ppn) -> u64;
    /// The die of a page.
    fn die_of(&self, ppn: Ppn) -> u32;
    /// Whether a unit has more than one block.
    fn is_wide(&self) -> bool;

    /// What the next operations are done for; returns what those before were.
    fn work_for(&mut self, work: Work) -> Work;
    /// What is given from here on shares no array operation with what was given before.
    fn begin_group(&mut self);
    /// The number of the group.
    fn group(&self) -> u32;
    /// Whether anything waits: what is given then may have to wait too.
    fn holds_back(&self) -> bool;

    /// Reads a page.
    fn read(&mut self, reading: Reading, pieces: &mut Pieces<Self>, cx: &mut Cx<'_>) -> Self::Given
    where
        Self: Sized;
    /// Programs a page.
    fn program(
        &mut self,
        programming: Programming<Self::Given>,
        pieces: &mut Pieces<Self>,
        cx: &mut Cx<'_>,
    ) -> Self::Given
    where
        Self: Sized;
    /// Copies a page within its pool.
    fn copy(&mut self, copying: Copying, pieces: &mut Pieces<Self>, cx: &mut Cx<'_>) -> Self::Given
    where
        Self: Sized;
    /// The same within a plane and a mode, where nothing waits.
    fn move_now(&mut self, copying: Copying, pieces: &mut Pieces<Self>, cx: &mut Cx<'_>) -> Self::Given
    where
        Self: Sized;
    /// Reads a page and programs it anywhere, each for a job of its own.
    fn carry(
        &mut self,
        copying: Copying,
        jobs: [Job; 2],
        pieces: &mut Pieces<Self>,
        cx: &mut Cx<'_>,
    ) -> Self::Given
    where
        Self: Sized;
    /// Erases the blocks of a unit when nothing stands before it: the newer versions of its pages are complete, and for one with data also the records of trims.
    fn erase(&mut self, erasing: Erasing, cx: &mut Cx<'_>);

    /// No page of a run yet.
    fn run(cx: &Cx<'_>) -> Self::Run;
    /// Reads one page.
    fn read_at_once(&mut self, ppn: Ppn, run: &mut Self::Run);
    /// Programs a page of a block of one `plane` that shares array operations with its `group`.
    fn program_at_once(&mut self, ppn: Ppn, plane: u32, group: u32, run: &mut Self::Run) -> Self::Placed;
    /// Moves a page within a `plane`.
    fn move_at_once(&mut self, from: Ppn, to: Ppn, plane: u32, run: &mut Self::Run) -> Self::Placed;
    /// The unit whose page a placed one supersedes is not erased before that is complete.
    fn keep_behind(&mut self, unit: BlockId, placed: Self::Placed);
    /// Stores a page that was placed: what is over its `base`.
    fn store(
        &self,
        ppn: Ppn,
        base: Option<Ppn>,
        overlay: Option<Overlay>,
        oob: Oob,
        placed: Self::Placed,
        cx: &mut Cx<'_>,
    );
    /// All pages of a request that are programmed and that nothing stood before were placed: so many.
    fn programmed(&mut self, pages: u32, run: &mut Self::Run);
    /// All pages of a step of collection have moved away from a unit. They are charged.
    fn moved_away(&mut self, unit: BlockId, run: &Self::Run, cause: TenantId, cx: &mut Cx<'_>);
    /// Pages that were placed belong to others that something stood before.
    fn join(&mut self, run: &Self::Run, pieces: &mut Pieces<Self>)
    where
        Self: Sized;

    /// Fetches the data of one page of a request from a page of the medium, zeros where there is none.
    fn fetch(&self, id: ReqId, pages: &Pages, lpn: u32, at: Option<u64>, cx: &mut Cx<'_>);

    /// All pages of a request were placed: it ends when the last is complete.
    fn finish_run(
        &mut self,
        id: ReqId,
        run: &Self::Run,
        cause: TenantId,
        work: Work,
        cx: &mut Cx<'_>,
    ) -> Step;
    /// All pages of a request were given. It ends at a moment that is known now, or when its answer has it.
    fn finish_pieces(&mut self, id: ReqId, pieces: Pieces<Self>, cx: &mut Cx<'_>) -> Step
    where
        Self: Sized;
    /// The same with pages that did not wait beside them.
    fn finish_all(&mut self, id: ReqId, pieces: Pieces<Self>, run: Self::Run, cx: &mut Cx<'_>) -> Step
    where
        Self: Sized;
    /// All pages of a trim were given. It ends when that is done and all trims so far are on record.
    fn finish_recorded(&mut self, id: ReqId, pieces: Pieces<Self>, recorded: After, cx: &mut Cx<'_>) -> Step
    where
        Self: Sized;
    /// A flush ends when all trims so far are on record.
    fn finish_flush(&mut self, id: ReqId, recorded: After, cause: TenantId, cx: &mut Cx<'_>) -> Step;
    /// A block of a log-block map goes from one pool to another: what is programmed in it there comes behind everything that changes the pool it comes from.
    fn hand_over(&mut self, block: BlockId, from: u32, to: u32);
    /// A start has found the pool of each block of such a map; [`NOBODY`](crate::log_block::map::NOBODY) has the rest.
    fn pools_are(&mut self, pools: &[u32]);
    /// A request does not end before everything that changes a pool is done.
    fn wait_for_pool(&mut self, pool: u32, pieces: &mut Pieces<Self>)
    where
        Self: Sized;

    /// What an operation that was given stands for, for those that wait for it.
    fn behind(&self, given: Self::Given, pieces: &Pieces<Self>) -> After
    where
        Self: Sized;
    /// What stands for all records of trims so far, as far as their ends are known.
    fn recorded(&self, cx: &Cx<'_>) -> After;
    /// The same for a record that was just given.
    fn recorded_behind(&self, given: Self::Given, cx: &Cx<'_>) -> After;
    /// Every program and erase that was given so far, as far as their ends are known.
    fn all_given(&self) -> After;
    /// Every program and erase that waits.
    fn all_changes(&mut self, cx: &Cx<'_>) -> After;
    /// Both.
    fn behind_all(&mut self, cx: &Cx<'_>) -> After;
    /// The same operation, behind all pages of checkpoints.
    fn behind_anchors(&self, after: After) -> After;
    /// The same, behind the erases of all blocks that were opened for data.
    fn behind_opened(&self, after: After) -> After;
    /// No die begins anything before this is over, nor before everything is complete that was given. Returns when that is.
    fn fence(&mut self, after: After) -> After;
    /// A block is opened for data, whose erase may not be complete yet.
    fn opened(&mut self, cursor: Cursor);

    /// Whether every entry of the map that is being fetched has come when `after` is over.
    fn entries_are_there(&self, after: After) -> bool;
    /// The entries of a translation page have come, and `after` is over.
    fn entry_comes(&mut self, tp: Tp, after: After) -> After;
    /// Something that was given, for operations that come later.
    fn await_later(&self, after: After) -> Awaited;
    /// What is still to wait for.
    fn still_awaited(&self, awaited: &Awaited, cx: &Cx<'_>) -> After;

    /// The unit is not erased before this is over.
    fn keep_until(&mut self, unit: BlockId, after: After);
    /// The block of a page is not erased before everything that was given so far is over.
    fn keep_until_all_is_done(&mut self, ppn: Ppn, cx: &Cx<'_>);
    /// The block of a page is not erased before everything that changes the flash and waits now is over; `changes` is what stands for that, once it was asked
    /// for.
    fn keep_until_changes(&mut self, ppn: Ppn, changes: &mut Option<After>, cx: &Cx<'_>);
    /// Tells the medium until when it must keep a record of trims that is on it.
    fn say_given_up(&self, record: Ppn, until: After, cx: &mut Cx<'_>);
    /// Whether the program of a page waits.
    fn writer_waits(&self, ppn: Ppn) -> bool;

    /// Lets everything have its time that can.
    fn serve(&mut self, cx: &mut Cx<'_>);
    /// Senses so many pages of a die for their records, at a start, and charges it.
    fn scan(&mut self, die: u32, pages: u64, cx: &mut Cx<'_>) -> After;
    /// Forgets the units that a loss of power takes.
    fn restart_units(&mut self);
    /// Forgets which entries of the map are coming, and what checkpoints were written.
    fn restart_entries(&mut self);

    /// Erases that ended SLC mode since the counters were reset.
    fn slc_erases(&self) -> u64;
    /// Puts in the figures of SLC mode, or counts them anew.
    fn report_slc(&mut self, report: &mut Report);
}

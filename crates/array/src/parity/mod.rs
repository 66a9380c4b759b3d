//! `parity`: RAID-3 and RAID-5. One leg of each row of chunks holds the xor of the others (Patterson, Gibson, Katz: A Case
//! for Redundant Arrays of Inexpensive Disks, SIGMOD 1988).
//!
//! **Writes.** A request is cut into *pieces*: an extent of leg offsets within one row and the chunks of it that change
//! there. A piece locks its extent, reads what the new parity needs, journals, and then writes data and parity at once. A
//! piece of all chunks reads nothing, and one that trims or zeroes them does the same to the parity, which is zeros then. Otherwise the parity comes from the old data and the old parity (read-modify-write)
//! or from the chunks that do not change (reconstruct-write), whichever needs fewer reads and can be read.
//!
//! **Reads** go straight to the leg that has the data, without a lock. When it is missing, not rebuilt there or cannot
//! read, the piece is locked and is the xor of all other legs; what could not be read is written back. When that fails it
//! is tried once more sector by sector, so that bad sectors at different places of two legs cost nothing.
//!
//! **Write hole.** Before a piece is written in its place every leg of it has its own part in its own journal, durably, with a
//! number that orders entries ([`journal`]). A start writes again each entry whose parts are there on all legs that are
//! present: then the row is new as a whole, and a leg that is missing reads as the new data or as what it was. An entry
//! that lacks a part was never sent to its place. This holds over volatile caches: an entry is kept until all legs have
//! flushed what it wrote. So a write is durable when it is acknowledged, and a flush has nothing to wait for. With
//! `write_hole = "resync"` none of this is done: [`config::WriteHole`] says what it leaves open. Linux md's partial parity log
//! writes less (parity only) and leaves the chunks under way on a lost leg as garbage; here they are old or new.
//!
//! **Legs.** Every leg says on itself which generation of the set it belongs to and which legs are current up to where
//! ([`layout::Superblock`]). When a leg goes, the others say so durably before anything that it lacks is acknowledged
//! ([`member`]). A leg that comes back, or a blank one in its place, gets all writes from then on and is rebuilt from the
//! front ([`rebuild`]); it is read only below the mark that the rebuild has reached. The mark survives a cut. With more than
//! one leg missing or not rebuilt every request fails with `Gone` until enough are back; then the journal is looked at
//! anew ([`open`]). A parity that is not computed counts as one leg that is not rebuilt: the others cannot make up for a leg.
//!
//! **RAID-3.** The parity is on the last leg and one request is served at a time. A leg that has no part in a request
//! stays idle meanwhile: it does not turn along, for nothing here turns.
//!
//! **Lost sectors.** What a rebuild cannot make, for another leg cannot read it, is put on record and reads as an error until
//! it is written ([`lost`]). A write fails there as long as its parity needs what is lost and what cannot be read: one of all
//! chunks of the row needs neither.
//!
//! **Growth.** On command the array takes the new length of its legs ([`grow`]).
//!
//! **Maintenance.** Legs are compared by command or from time to time ([`scrub`]), and replaced by command ([`admin`]). One that hangs is left out ([`crate::stall`]).
//!
//! **Not done.** Reads of what is left when two legs are lost. No bitmap of regions for "resync". With "resync" a
//! rebuild stops at a sector that another leg cannot read, and tries again each second.
//!
//! **Bounds.** Work per event: the pieces under way when a leg goes, all slots of the journal at a checkpoint and a start,
//! otherwise a few. A request has at most [`WINDOW`] pieces under way. RAM: 120 B for each piece under way with one
//! buffer of its length, 24 B for each slot of the journal.

mod admin;
pub mod config;
pub mod decide;
mod figures;
mod grow;
mod journal;
pub mod layout;
mod lost;
mod machine;
mod member;
mod open;
mod piece;
mod read;
mod rebuild;
mod replay;
mod scrub;
mod work;
mod write;

pub use config::{PLANTS, ParityConfig, STORY_PLANTS, WriteHole, kind};

use crate::locks::{Locks, Pass};
use crate::member::InitialSync;
use crate::member::set::Roster;
use crate::member::slots::Slots;
use crate::member::work::Work;
use config::Planted;
use figures::Counts;
use journal::Journal;
use layout::{Geometry, LegLayout, OUT};
use lost::Written;
use nandu_base::{BuildContext, Cx, Limits, OpenOptions, ReqId, TimerKey};
use piece::{Job, Piece};
use std::collections::VecDeque;
use work::Ready;

/// Marks no job, piece or slot.
const NONE: u32 = u32::MAX;
/// Pieces of one request under way at once.
pub const WINDOW: u32 = 64;
/// The timer that goes on with a rebuild.
const REBUILD: TimerKey = TimerKey(0);
/// The timer of scrubs.
const SCRUB: TimerKey = TimerKey(1);
/// The timer of legs that hang.
const STALL: TimerKey = TimerKey(2);

/// What a child request of the array is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Tag {
    /// Part of a piece.
    Part = 0,
    /// A client's flush.
    Flush,
    /// The flush of a checkpoint or a start.
    Checkpoint,
    /// The flush of a leg that comes, before its superblock is looked at.
    Settle,
    /// A superblock is written.
    SbWrite,
    /// A superblock is read.
    SbRead,
    /// The header of a journal entry is read.
    Header,
    /// A part of a journal entry is read.
    Replay,
    /// A part of a journal entry is written to its place.
    Redo,
    /// What a growth zeroes, flushes and writes.
    Grow,
    /// Whatever it was: nobody waits for it any more.
    Straggler,
}

impl Tag {
    const ALL: [Tag; 11] = [
        Tag::Part,
        Tag::Flush,
        Tag::Checkpoint,
        Tag::Settle,
        Tag::SbWrite,
        Tag::SbRead,
        Tag::Header,
        Tag::Replay,
        Tag::Redo,
        Tag::Grow,
        Tag::Straggler,
    ];

    fn cookie(self, leg: usize, index: u32) -> u64 {
        (self as u64) << 48 | (leg as u64) << 40 | u64::from(index)
    }
    fn of(cookie: u64) -> (Tag, usize, u32) {
        (Tag::ALL[(cookie >> 48) as usize], (cookie >> 40 & 0xFF) as usize, cookie as u32)
    }
}

/// Whether requests are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Run {
    /// Not open.
    Closed,
    /// The first start is under way.
    Opening,
    /// Requests are served.
    Running,
    /// It is opened anew with records at the new ends of its legs, while requests wait.
    Growing,
    /// More than one leg is missing: requests fail until enough are back.
    Failed,
    /// Being closed.
    Closing,
}

/// One leg.
#[derive(Debug)]
struct Leg {
    layout: LegLayout,
    /// How far it is current: [`OUT`], or the leg offset below which it may be read.
    upto: u64,
    /// The part of that which is known to be durable; what superblocks say.
    durable: u64,
    /// What the flush of a checkpoint covers.
    covered: u64,
    /// What the superblocks being written say of it, and what they all say.
    naming: u64,
    recorded: u64,
    /// The slots of its superblock, with the list of lost sectors behind each.
    slots: Slots<Written>,
}

impl Leg {
    #[inline]
    fn is_in(&self) -> bool {
        self.upto != OUT
    }
}

/// The machine.
pub struct Parity {
    limits: Limits,
    geometry: Geometry,
    /// Bytes of each leg that can hold data; more than do while a growth is ended.
    room: u64,
    planted: Planted,
    seed: u64,
    shape: [u8; 5],
    /// Longest extent of leg offsets that one write covers.
    piece: u64,
    serial: bool,
    journaled: bool,
    retries: bool,
    initial_sync: InitialSync,
    rebuild_chunk: u64,
    rebuild_rate: u64,
    maintenance: config::Maintenance,

    run: Run,
    closing: bool,
    how: OpenOptions,
    roster: Roster,
    legs: Vec<Leg>,
    /// Whether a leg has left or joined that the superblocks do not name so yet.
    members: member::Members,
    opening: open::Opening,
    rebuild: rebuild::Rebuild,
    scrub: scrub::Scrub,
    growing: grow::Growing,
    lost: lost::Lost,
    journal: Journal,

    jobs: Vec<Job>,
    free_jobs: Vec<u32>,
    /// Jobs in the order of arrival, where one is served at a time.
    line: VecDeque<u32>,
    /// Jobs that are done and may not be answered before the superblocks are right.
    held_jobs: Vec<u32>,
    pieces: Vec<Piece>,
    free_pieces: Vec<u32>,
    /// Pieces that wait until the superblocks are right.
    held: Vec<u32>,
    locks: Locks,
    /// What events have made possible.
    work: Work<Ready>,
    count: Counts,
}

impl Parity {
    #[allow(clippy::too_many_arguments)] // what `build` has found out, used once
    fn new(
        config: &ParityConfig,
        cx: &BuildContext<'_>,
        limits: Limits,
        geometry: Geometry,
        layouts: Vec<LegLayout>,
        piece: u64,
        slots: u32,
        planted: Planted,
    ) -> Parity {
        let leg = |layout: LegLayout| Leg {
            layout,
            upto: OUT,
            durable: OUT,
            covered: 0,
            naming: OUT,
            recorded: OUT,
            slots: Slots::new(),
        };
        let journaled = config.write_hole == WriteHole::Journal;
        let rotation = if geometry.fixed { 4 } else { config.layout as u8 };
        Parity {
            lost: lost::Lost::new(limits.align),
            rebuild_chunk: config.rebuild_chunk.0.min(limits.max_io.0 / layout::PAGE * layout::PAGE),
            limits,
            room: geometry.data,
            geometry,
            planted,
            seed: cx.seed ^ u64::from(crc32c::crc32c(cx.name.as_bytes())) << 32,
            shape: [geometry.legs, config.level, rotation, geometry.chunk_bits as u8, u8::from(journaled)],
            piece,
            serial: config.level == 3,
            journaled,
            retries: config.write_retries > 0,
            initial_sync: config.initial_sync,
            rebuild_rate: config.rebuild_rate.0,
            maintenance: config.maintenance(),
            run: Run::Closed,
            closing: false,
            how: OpenOptions::default(),
            roster: Roster::new(&config.legs, config.request_timeout, STALL),
            legs: layouts.into_iter().map(leg).collect(),
            members: member::Members::default(),
            opening: open::Opening::default(),
            rebuild: rebuild::Rebuild::default(),
            scrub: scrub::Scrub::default(),
            growing: grow::Growing::default(),
            journal: Journal::new(slots),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            line: VecDeque::new(),
            held_jobs: Vec::new(),
            pieces: Vec::new(),
            free_pieces: Vec::new(),
            held: Vec::new(),
            locks: Locks::new(Pass { writes: planted.no_lock, copies: false, reads: planted.read_unlocked }),
            work: Work::none(),
            count: Counts::default(),
        }
    }

    /// Every leg, one bit each.
    #[inline]
    fn all(&self) -> u16 {
        ((1u32 << self.geometry.legs) - 1) as u16
    }

    /// The legs that are used.
    #[inline]
    fn legs_in(&self) -> u16 {
        let bits = self.legs.iter().enumerate().filter(|(_, l)| l.is_in());
        bits.fold(0, |bits, (l, _)| bits | 1 << l)
    }

    /// The legs that may be read below leg offset `end`.
    #[inline]
    fn readable(&self, end: u64) -> u16 {
        let early = self.planted.read_before_rebuild;
        let can = |l: &Leg| l.is_in() && (end <= l.upto || early);
        self.legs.iter().enumerate().filter(|(_, l)| can(l)).fold(0, |bits, (l, _)| bits | 1 << l)
    }

    /// Legs that are missing or not rebuilt.
    fn not_full(&self) -> usize {
        self.legs.iter().filter(|l| l.durable != self.geometry.data).count()
    }

    /// The same, and a parity that is not computed counts as one more: without it no leg can be made from the others.
    fn lacking(&self) -> usize {
        self.not_full() + usize::from(!self.parity_is_right(self.geometry.data))
    }

    /// Sends a request of the array's own to a leg.
    fn send(&mut self, leg: usize, parent: ReqId, draft: nandu_base::Draft, cx: &mut Cx<'_>) {
        let id = match parent {
            ReqId::NONE => cx.own(nandu_base::TenantId::SYSTEM, draft),
            parent => cx.child(parent, draft),
        };
        self.roster.sends(leg, cx);
        cx.send(leg as u8, id);
    }

    fn is_idle(&self) -> bool {
        self.pieces.len() == self.free_pieces.len() && self.jobs.len() == self.free_jobs.len()
    }
}

/// The legs of a mask.
fn bits(mask: u16) -> impl Iterator<Item = usize> {
    (0..16).filter(move |l| mask >> l & 1 != 0)
}

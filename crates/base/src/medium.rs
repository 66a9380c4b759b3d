//! What a leaf stores its data on. The driver owns it: it survives a crash that drops every machine.
//!
//! There are two kinds. A *computed* medium ([`Medium`]) belongs to a leaf that models its own time (flash, disk): the
//! leaf calls it when it issues an operation and names the window in which the operation runs, so that a crash can undo
//! or tear what had not finished. There are two computed media: flash, whose units are programmed and erased, and the
//! platters of a disk, whose sectors are written over. A *block* medium ([`BlockSpec`]) belongs to a leaf without a model (a file, memory): the
//! leaf hands the whole request over and the driver finishes it, after real I/O or after a modelled time.

use crate::payload::{Payload, PayloadPool};
use crate::request::Op;
use crate::rng::Rng;
use crate::units::{ByteLen, Instant, Span};

/// What is written beside the data of a flash page, in its out-of-band area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Oob {
    /// What the page holds, in the words of the leaf (a logical page number, or the mark of a record).
    pub key: u64,
    /// Position in the order of all programs of this drive.
    pub seq: u64,
}

impl Oob {
    /// The bit of a key that says that the page was programmed in SLC mode: one bit in a cell that can hold more.
    pub const SLC: u64 = 1 << 63;
}

/// How pages that a drive programs for itself (its map, trims, checkpoints, a saved buffer) are told from those of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnKeys {
    /// Their keys are this one or a greater one, without [`Oob::SLC`].
    From(u64),
    /// This bit of their keys is set.
    Marked(u64),
    /// It programs none.
    None,
}

impl OwnKeys {
    /// Whether a page with this key is the drive's own.
    pub fn has(self, key: u64) -> bool {
        match self {
            OwnKeys::From(first) => key & !Oob::SLC >= first,
            OwnKeys::Marked(bit) => key & bit != 0,
            OwnKeys::None => false,
        }
    }
}

/// State of one unit (a flash page).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitState {
    /// Erased and ready to be programmed.
    Erased,
    /// A program or erase was cut off: unreadable until erased.
    Torn,
    /// Holds data.
    Programmed(Oob),
}

/// When an operation runs on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// First instant at which the medium changes.
    pub start: Instant,
    /// From here on the change is complete.
    pub end: Instant,
}

impl Window {
    /// Of what was complete before anything began.
    pub const PAST: Window = Window { start: Instant::ZERO, end: Instant::ZERO };
}

/// New data over part of a unit.
#[derive(Clone, Copy, Debug)]
pub struct Overlay {
    /// First sector of the unit that changes.
    pub first: u32,
    /// Sectors that change.
    pub count: u32,
    /// Their data; [`Payload::NONE`] means zeros.
    pub payload: Payload,
}

/// One program of one unit: the sectors of `base`, with `overlay` over them.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The unit to program; must be erased.
    pub unit: u64,
    /// Where the sectors outside the overlay come from; zeros when there is none.
    pub base: Option<u64>,
    /// What the request brings; nothing when data only moves.
    pub overlay: Option<Overlay>,
    /// Out-of-band record.
    pub oob: Oob,
    /// When.
    pub window: Window,
}

/// The contents of a computed medium. Programs, erases and states are for flash; `write` is for disks, whose units are
/// single sectors. A leaf that calls the wrong one panics.
pub trait Medium: Send {
    /// Programs one unit. Panics when the unit is not erased: the leaf broke the order of flash.
    fn program(&mut self, pool: &PayloadPool, program: &Program);

    /// A read of `unit` follows soon. A hint.
    fn prefetch(&self, _unit: u64) {}

    /// Reads `count` sectors of `unit` from sector `first` into `into`. False when the unit is torn.
    fn read(&mut self, pool: &mut PayloadPool, unit: u64, first: u32, count: u32, into: Payload) -> bool;

    /// Writes `count` sectors from sector `first` of a disk; [`Payload::NONE`] means zeros. The window is that of the whole
    /// write, in which sectors pass in no particular order.
    fn write(&mut self, _pool: &PayloadPool, first: u64, _count: u64, _payload: Payload, _window: Window) {
        unreachable!("flash is programmed, not written over, at {first}")
    }

    /// Erases `units` units from `first`.
    fn erase(&mut self, first: u64, units: u64, window: Window);

    /// The program of `unit`, or the erase of the units from `unit` on, is suspended or goes on: it is complete at `end`.
    fn prolong(&mut self, _unit: u64, _end: Instant) {}

    /// What was issued so far and is complete at `until` takes the place of `unit`, without being built on it. A medium that checks
    /// what an erase takes holds the controller to it.
    fn given_up(&mut self, _unit: u64, _until: Instant) {}

    /// State of a unit, as a scan after a restart sees it.
    fn state(&self, unit: u64) -> UnitState;

    /// How often the block that holds `unit` was erased: flash wears whether its controller remembers or not.
    fn erases(&self, unit: u64) -> u32;

    /// How many of these erases found a page of the block programmed in SLC mode ([`Oob::SLC`]).
    fn slc_erases(&self, _unit: u64) -> u32 {
        0
    }

    /// Whether nothing was ever programmed, written or erased here: what is new may be initialised.
    fn is_blank(&self) -> bool;

    /// The part between `from` and `to` of an erase that is not complete at `from`, if there is one. A power cut there finds a unit
    /// that is neither what it was nor erased.
    fn erasing(&self, _from: Instant, _to: Instant) -> Option<Window> {
        None
    }

    /// When everything is complete that was begun here.
    fn complete_at(&self) -> Instant {
        Instant::ZERO
    }

    /// Tells the medium the time, so that it may forget how to undo what is complete.
    fn settle(&mut self, now: Instant);

    /// Another medium with the same contents, and the same operations under way. None of one that lies in files.
    fn copy(&self) -> Option<Box<dyn Medium>> {
        None
    }

    /// Power is cut at `at`: what had not begun is undone, what was under way is torn or complete, by `rng`.
    fn crash(&mut self, at: Instant, rng: &mut Rng);
}

/// A medium that serves whole requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockSpec {
    /// Bytes that can be stored.
    pub capacity: ByteLen,
    /// The file behind it in the server; `None` for memory.
    pub path: Option<String>,
    /// Whether the server bypasses the page cache.
    pub direct: bool,
    /// Modelled time of one request in the simulator, before its data moves.
    pub latency: Span,
    /// Modelled transfer in the simulator, in bytes per second, at least 1; requests take turns.
    pub bytes_per_second: u64,
}

impl BlockSpec {
    /// The time the data of a request takes to move. Trims and flushes move none.
    #[inline]
    pub fn transfer(&self, op: Op, len: ByteLen) -> Span {
        if !matches!(op, Op::Read | Op::Write) {
            return Span::ZERO;
        }
        match len.0.checked_mul(1_000_000_000) {
            Some(ns) => Span(ns / self.bytes_per_second),
            None => Span((u128::from(len.0) * 1_000_000_000 / u128::from(self.bytes_per_second)) as u64),
        }
    }
}

/// What medium a leaf asks its driver for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MediumSpec {
    /// None: the machine is no leaf.
    None,
    /// Units of flash pages.
    Flash {
        /// Pages in all.
        units: u64,
        /// 512 B sectors in a page.
        unit_sectors: u32,
        /// Page numbers from one erase block to the next.
        units_per_block: u32,
        /// Which pages the drive programs for itself.
        own: OwnKeys,
    },
    /// Sectors of a disk, which may be written over.
    Platter {
        /// Sectors of 512 B.
        sectors: u64,
    },
    /// Whole requests.
    Block(BlockSpec),
}

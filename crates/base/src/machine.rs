//! The machine contract: what every layer of a stack is, from a fair queue to a drive.
//!
//! A machine is told the time and does no I/O. The driver (simulator or server) calls it with one event: a request came,
//! a child's request is done, a timer fired, a child says something about itself. The machine answers with one [`Step`]
//! by value, and puts further effects into the [`Cx`]. It has no clock, file, thread, OS randomness or hash order inside.
//!
//! **Order.** The driver takes the returned step first and follows it to its end, then the further effects in the order
//! in which they were given. Completions due at one instant come in the order in which they were scheduled, before
//! arrivals of that instant.
//!
//! **Requests.** A machine that answers a request by others makes *child requests* ([`Cx::child`], [`Cx::own`]) and hears
//! of each in [`Machine::child_done`]; the driver frees a child request when that call returns, unless it was sent again.
//! A machine that need not hear of the end passes the request itself on with [`Step::Forward`], often at another offset. So a
//! child request that is back need not have the offset that it was sent with: who sends it again says where. Every request
//! is finished exactly once, by the machine that holds it.
//!
//! **Time.** When a request is finished, its path adds up to its latency: the machine explains what it knows
//! ([`Request::absorb`](crate::request::Request::absorb)) and the driver puts the rest down to [`Phase::Hold`](crate::path::Phase::Hold).
//!
//! **Bounds.** The work of one call is bounded. Spurious timers do no harm.

use crate::admin::{Administer, Notice};
use crate::advise::{Advise, Hints};
use crate::context::Cx;
use crate::medium::MediumSpec;
use crate::members::Members;
use crate::report::Report;
use crate::request::{Op, ReqId};
use crate::units::{ByteLen, ByteOffset, Instant};

/// The main effect of one call, returned by value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing now.
    Idle,
    /// Send a request of one's own making to child `.0`.
    Send(u8, ReqId),
    /// Pass the request on to child `.0` and step out of the way: its completion skips this machine.
    Forward(u8, ReqId),
    /// The request is done now.
    Finish(ReqId),
    /// The request will be done at `.1`; a leaf has computed it.
    FinishAt(ReqId, Instant),
    /// Hand the request to the block medium of this leaf, which finishes it.
    Medium(ReqId),
}

/// A further effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// What could also be returned.
    Step(Step),
    /// Call [`Machine::timer`] with `.0` at `.1`; an earlier call for the same timer is forgotten.
    Wake(TimerKey, Instant),
    /// Forget the timer.
    CancelWake(TimerKey),
    /// Tell every parent.
    Event(DeviceEvent),
    /// Tell child `.0` that this extent is used ([`Hints::used`]).
    Used(u8, ByteOffset, ByteLen),
    /// [`Machine::open`] is complete.
    Opened(Result<(), OpenError>),
    /// [`Machine::close`] is complete.
    Closed,
}

/// One of a machine's own timers, numbered from 0 without gaps. Setting it again replaces it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimerKey(pub u32);

/// What a device says of itself to its parents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceEvent {
    /// The device no longer answers; what it holds in volatile memory is gone.
    Lost,
    /// The device answers again, with what it held durably.
    Back,
    /// Garbage collection is (or is no longer) in the way of writes.
    GcPressure(bool),
    /// The device stands still to save power (true) or runs (false).
    Standby(bool),
    /// The capacity changed.
    Resized(ByteLen),
    /// Something for people; parents do not hand it on.
    Notice(Notice),
}

/// Why a machine cannot start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// A child that is needed is not there.
    #[error("{device} {} not there", if .device.contains(" and ") { "are" } else { "is" })]
    Gone {
        /// The missing device or leg, or several of them with "and".
        device: String,
    },
    /// As [`OpenError::Gone`], from a machine, which knows its children by number; the graph puts the name in.
    #[error("child {0} is not there")]
    Child(u8),
    /// What is found on the children does not allow a start.
    #[error("{why}; {remedy}")]
    Refused {
        /// What was found.
        why: String,
        /// What would help.
        remedy: String,
    },
    /// A member holds something that is no record of this machine's: another device's, or a record that is damaged.
    #[error("{why}; {remedy}")]
    Unknown {
        /// What was found.
        why: String,
        /// What would help.
        remedy: String,
    },
    /// Some of the data may be wrong. It starts when it is told that this is known ([`OpenOptions::alone`]).
    #[error("{why}; {remedy}")]
    Doubtful {
        /// What was found.
        why: String,
        /// What would help.
        remedy: String,
    },
    /// A member belongs to another set: its records are sound, and not those of this one.
    #[error("`{device}` belongs to another set; {remedy}")]
    Foreign {
        /// The member.
        device: String,
        /// What would help.
        remedy: String,
    },
    /// Reading or writing one's own records failed.
    #[error("own records: {0}")]
    Records(#[from] crate::request::IoError),
}

/// How a stack is started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpenOptions {
    /// Blank members may be initialised. Without it a blank member is refused. What holds data already is opened as without
    /// it: a drive begins anew only where its medium is blank ([`Medium::is_blank`](crate::medium::Medium::is_blank)).
    pub create: bool,
    /// A redundant machine may start on the members it finds, although the others may hold newer data.
    pub alone: bool,
    /// Blank members are known to hold the same data everywhere, as fresh media of the simulator do: nothing is copied.
    pub assume_clean: bool,
    /// Damaged records are no reason to refuse: the machine goes on without them, at the operator's risk, and says what is gone
    /// ([`Gone`](crate::Gone)). Where others of its members have what is needed it goes on with these, as with `alone`.
    pub salvage: bool,
}

/// A part of a device with an erase unit of its own: blocks of a flash chip in one mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Area {
    /// Its name.
    pub name: String,
    /// Its first byte.
    pub offset: ByteOffset,
    /// Bytes of it, a whole number of erase units.
    pub len: ByteLen,
    /// Size of the unit that `reset` erases.
    pub erase_unit: ByteLen,
}

/// What a machine can take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes that can be addressed.
    pub capacity: ByteLen,
    /// Offsets and lengths are multiples of this many bytes; a power of two, at least 512.
    pub align: u32,
    /// Offsets and lengths that avoid reading before writing are multiples of this many bytes.
    pub preferred: u32,
    /// Longest read or write.
    pub max_io: ByteLen,
    /// Alignment of real buffers in bytes.
    pub dma_align: u32,
    /// Requests that may usefully be outstanding.
    pub depth: u32,
    /// Size of the unit that `reset` erases; `None` for overwritable devices.
    pub erase_unit: Option<ByteLen>,
    /// Whether writes within an erase unit must be in order.
    pub program_order: bool,
    /// Whether a completed write may be lost without a flush.
    pub volatile_cache: bool,
    /// Parts with erase units of their own; empty where all is alike. Only a device that names one of them
    /// ([`DeviceConfig::region`](crate::registry::DeviceConfig::region)) may stand on a device that has some; `erase_unit` is
    /// then the shortest.
    pub areas: Vec<Area>,
}

impl Limits {
    /// An overwritable device of `capacity` bytes with 512 B sectors and no further restriction.
    pub fn plain(capacity: ByteLen) -> Limits {
        Limits {
            capacity,
            align: 512,
            preferred: 4096,
            max_io: ByteLen::mib(32),
            dma_align: 512,
            depth: 256,
            erase_unit: None,
            program_order: false,
            volatile_cache: false,
            areas: Vec::new(),
        }
    }
}

/// Where data lies inside a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The lane (die, head) that serves it.
    pub lane: u32,
    /// The physical unit (flash page, track) that holds its first byte.
    pub unit: u64,
}

/// One named figure of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Name with its unit as suffix, for example `host_bytes_written`, `gc_moved_pages`.
    pub name: &'static str,
    /// The value.
    pub value: u64,
}

impl Counter {
    /// The value of the counter `name` among those of a machine.
    ///
    /// # Panics
    /// The machine has none of that name: read as 0, a mistyped or renamed counter would say that nothing happened.
    pub fn of(counters: &[Counter], name: &str) -> u64 {
        Counter::find(counters, name).unwrap_or_else(|| panic!("no counter is called `{name}`"))
    }

    /// The value of the counter `name`; nothing where the machine has none, as one of loans in a drive that lends nothing.
    pub fn find(counters: &[Counter], name: &str) -> Option<u64> {
        counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }
}

/// A broken invariant: a fault of Nandu, never of its input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{invariant} is broken: {what}")]
pub struct Violation {
    /// The number of the invariant, for example "I-5".
    pub invariant: &'static str,
    /// What was found.
    pub what: String,
}

/// What a machine must be given to run, and what its driver must know of it before.
#[derive(Clone, PartialEq, Debug)]
pub struct Needs {
    /// The medium of a leaf.
    pub medium: MediumSpec,
    /// It reads back what it wrote to its children: then they keep their content even in a run without data.
    pub keeps_records: bool,
    /// How many requests ahead it wants to be told what comes ([`Hints::foresee`]). Only a simulation of a given trace can tell;
    /// elsewhere nobody does, and the machine does without.
    pub foresight: u32,
    /// It fails requests and loses what it holds by plan, so that whoever judges a stack expects failures.
    pub injects_faults: bool,
    /// It answers a change only when its children have: what it has answered outlives the process where what they have answered does.
    pub answers_from_below: bool,
}

impl Needs {
    /// Nothing.
    pub const NOTHING: Needs = Needs {
        medium: MediumSpec::None,
        keeps_records: false,
        foresight: 0,
        injects_faults: false,
        answers_from_below: false,
    };

    /// Nothing, for a machine that answers when its children have.
    pub const PASSING: Needs = Needs { answers_from_below: true, ..Needs::NOTHING };

    /// A leaf's medium.
    pub fn medium(medium: MediumSpec) -> Needs {
        Needs { medium, ..Needs::NOTHING }
    }

    /// Children that keep records.
    pub fn records() -> Needs {
        Needs { keeps_records: true, ..Needs::NOTHING }
    }
}

/// A layer of a stack. See the module's page for the rules.
///
/// A request needs [`limits`](Machine::limits), [`request`](Machine::request), [`child_done`](Machine::child_done), [`timer`](Machine::timer) and
/// [`child_event`](Machine::child_event), between [`open`](Machine::open) and [`close`](Machine::close). All else is optional: what a machine can
/// say beside serving stands in traits of its own, and a method here leads to each.
pub trait Machine: Send {
    /// What this machine can take. Constant between [`open`](Machine::open) and a [`DeviceEvent::Resized`].
    fn limits(&self) -> &Limits;

    /// What it must be given to run.
    fn needs(&self) -> Needs {
        Needs::NOTHING
    }

    /// Reads its own records and recovers. Children are open already, or known to be absent ([`Peek::is_open`](crate::Peek::is_open)).
    /// Ends with [`Cx::opened`]; no request comes from above before that.
    fn open(&mut self, _how: OpenOptions, cx: &mut Cx<'_>) -> Step {
        cx.opened_if_children_are();
        Step::Idle
    }

    /// Makes everything durable and marks a clean end. No request comes from above any more. Ends with [`Cx::closed`];
    /// until then the machine hears of [`DeviceEvent::Lost`] and `Back`, for what a child has lost is not durable.
    fn close(&mut self, cx: &mut Cx<'_>) -> Step {
        cx.closed();
        Step::Idle
    }

    /// A request came from above. It lies within the capacity and is aligned.
    fn request(&mut self, id: ReqId, cx: &mut Cx<'_>) -> Step;

    /// A request that this machine sent is done; its slot is freed when this call returns.
    fn child_done(&mut self, id: ReqId, _cx: &mut Cx<'_>) -> Step {
        unreachable!("this machine sends no requests, yet {id:?} came back")
    }

    /// A timer fired.
    fn timer(&mut self, _key: TimerKey, _cx: &mut Cx<'_>) -> Step {
        Step::Idle
    }

    /// A child says something about itself. By default [`DeviceEvent::Lost`], `Back` and `Standby` go on upwards.
    fn child_event(&mut self, _child: u8, event: DeviceEvent, cx: &mut Cx<'_>) -> Step {
        if !matches!(event, DeviceEvent::Resized(_) | DeviceEvent::Notice(_)) {
            cx.event(event);
        }
        Step::Idle
    }

    /// A request like this will come soon: touch what it will need. Changes nothing. The machine names the extent below
    /// that it would use, and the driver passes the hint on.
    #[inline]
    fn prepare(&self, _op: Op, _offset: ByteOffset, _len: ByteLen) -> Option<(u8, ByteOffset)> {
        None
    }

    /// Puts its figures into the report, or begins to count anew, as the report asks.
    fn report(&mut self, _report: &mut Report) {}

    /// Checks the machine's own invariants, however long it takes. Called by the verified simulation.
    fn check(&self) -> Result<(), Violation> {
        Ok(())
    }

    /// What it can say of requests that have not come.
    fn advise(&self) -> Option<&dyn Advise> {
        None
    }

    /// Who takes hints in it.
    fn hints(&mut self) -> Option<&mut dyn Hints> {
        None
    }

    /// What it can say of its children, if it uses them in other ways than to pass requests on.
    fn members(&self) -> Option<&dyn Members> {
        None
    }

    /// Who obeys an operator in it.
    fn administer(&mut self) -> Option<&mut dyn Administer> {
        None
    }
}

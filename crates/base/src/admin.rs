//! What an operator asks of one machine while it runs, and what a machine has to say to an operator.
//!
//! An [`Admin`] reaches a machine through its driver: from the control socket of a server, or from a plan of the verified
//! simulation. A [`Notice`] goes the other way as a [`DeviceEvent`](crate::machine::DeviceEvent). It is about the machine that sends
//! it: its parents hear of it and do not hand it on, its driver says it to people.

use crate::context::Cx;
use crate::machine::Step;
use crate::registry::TenantShare;
use crate::request::TenantId;
use crate::tenancy::{Deal, DealError, Dealt};
use crate::units::{ByteLen, ByteOffset};

/// How safely a device holds its data, beside how safely it is built to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Health {
    /// As it should be.
    Healthy,
    /// Some acknowledged data have been on one member alone for longer than they may be.
    Exposed,
    /// A member is out, or is not brought up to date: one more failure may lose data.
    Degraded,
    /// Nothing is served.
    Failed,
}

impl Health {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Health::Healthy => "healthy",
            Health::Exposed => "exposed",
            Health::Degraded => "degraded",
            Health::Failed => "failed",
        }
    }
}

/// What a machine has to say to an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// From now on it stands like this.
    Health(Health),
    /// Legs were found to disagree where they should not: two copies differ, or a parity is not that of its row.
    Differ {
        /// First byte that differs; of a parity array that of the row's first chunk.
        at: ByteOffset,
        /// Bytes in the blocks of 4 KiB that differ, of one leg.
        len: ByteLen,
        /// Whether one of them is rewritten.
        mends: bool,
    },
    /// All of the device was compared.
    Scrubbed {
        /// Blocks of 4 KiB that differed.
        differing: u64,
        /// Blocks that could not be compared, nor made from the other legs.
        unreadable: u64,
    },
    /// What was read does not have the checksum that belongs to it, and is not handed out.
    Mismatch {
        /// Its first byte.
        at: ByteOffset,
        /// Bytes of it.
        len: ByteLen,
    },
    /// Regions were being written when the device stopped: their checksums were made anew from what is there.
    Retaken {
        /// How many.
        regions: u64,
        /// Blocks in them that differed from their old checksum: what was in flight, and what was damaged since.
        differing: u64,
    },
    /// A child that came back is not taken: what it holds does not allow it.
    Refused(u8),
    /// A start that salvages has gone on without something of a child.
    Gone(u8, Gone),
    /// Its children have become longer, and it serves so many bytes from now on.
    Grown(ByteLen),
    /// It was asked to grow, and serves what it did: a child was lost before the new size held.
    NotGrown,
}

/// What a start that salvages goes on without ([`OpenOptions::salvage`](crate::OpenOptions::salvage)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// The records of a leg: it is left alone until it is replaced, and the other legs serve.
    Leg,
    /// The records of all legs: this one leads a new set with the data that it has. What only the others had is gone, and which data were
    /// lost before.
    Set,
    /// The records of a member that cannot be left out: it is taken for what the stack file says, as it is. What it has missed is not known.
    Member,
    /// A list of data that were lost before: they may read as something old.
    List,
    /// A member is older than the others, and is taken as it is: what was written to it since is gone.
    Openings(u64),
    /// Groups of a ring that were durable, from the first number to the last: what is in them may read as something older.
    Groups(u64, u64),
    /// A page of a ring that cannot be read, at this byte: if a group stood there, what is in it may read as something older.
    Page(u64),
    /// A ring that may have had something newer of so many bytes of the device: they fail until they are written whole
    /// ([`Members::lost`](crate::Members::lost)).
    Dirty(u64),
}

/// What a machine does with its data beside serving.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MaintenanceKind {
    /// A leg of a mirror gets what it lacks.
    Resync,
    /// A leg of a parity array gets what it lacks, or parity is computed.
    Rebuild,
    /// The legs are compared.
    Scrub,
}

impl MaintenanceKind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            MaintenanceKind::Resync => "resync",
            MaintenanceKind::Rebuild => "rebuild",
            MaintenanceKind::Scrub => "scrub",
        }
    }
}

/// How far such work is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Maintenance {
    /// What it is.
    pub kind: MaintenanceKind,
    /// Bytes that are still to be done. They may become more while clients write.
    pub left: ByteLen,
    /// Bytes of the whole of it.
    pub of: ByteLen,
}

/// What a machine does with one of its children.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChildUse {
    /// It is a member.
    Used,
    /// That is being found out: it has come, or the machine starts.
    Coming,
    /// It is left out.
    Out,
}

/// What an operator asks of one machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Admin {
    /// Compare all copies, or all parity, now.
    Scrub {
        /// Whether what differs is rewritten, by the machine's rule; `None` as its options say.
        mends: Option<bool>,
    },
    /// End the comparison that is under way.
    StopScrub,
    /// Let this child lead.
    Lead(u8),
    /// Give this child up for good: what comes in its place holds nothing.
    Replace(u8),
    /// A child of this name was added behind the others; it is not open yet. When it is, and is blank, it becomes a member and is filled.
    Extend(String),
    /// What the device has of data that were lost counts from now on, old as it may be ([`Members::lost`](crate::Members::lost)).
    AcceptLost,
    /// The children have become longer, and say so in their limits: serve more. Answered by [`Notice::Grown`] or
    /// [`Notice::NotGrown`].
    Grow {
        /// What they have more reads the same on all of them: as zeros.
        is_equal: bool,
    },
}

/// A machine that obeys an operator ([`Machine::administer`](crate::machine::Machine::administer)). What follows from a command goes into the
/// effects.
pub trait Administer {
    /// An operator asks for something.
    ///
    /// # Errors
    /// Why it is not done; then nothing has changed.
    fn admin(&mut self, _admin: Admin, _cx: &mut Cx<'_>) -> Result<(), AdminError> {
        Err(AdminError::Unknown)
    }

    /// From here on `tenant` may ask for this. Every machine of a stack hears of it.
    fn share_changed(&mut self, _tenant: TenantId, _share: &TenantShare, _cx: &mut Cx<'_>) -> Step {
        Step::Idle
    }

    /// Changes the space that tenants have inside this device. Requests of the range that changes must not be under way.
    ///
    /// # Errors
    /// Why it is not done.
    fn deal(&mut self, _deal: Deal, _cx: &mut Cx<'_>) -> Result<Dealt, DealError> {
        Err(DealError::Fixed)
    }
}

/// Why a machine does not do what it is asked.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AdminError {
    /// This kind of machine has no such command.
    #[error("this device has no such command")]
    Unknown,
    /// It cannot be done now.
    #[error("{why}; {remedy}")]
    Refused {
        /// What is in the way.
        why: String,
        /// What would help.
        remedy: &'static str,
    },
}

//! The oracle of the seeds: for every sector, the set of values that a read may return, power cuts included.
//!
//! The rules are those of `history`. This oracle keeps the versions of every sector that was written since it was last
//! flushed, which is right for thousands of requests; a long replay without power cuts uses the `ledger`.
//!
//! Invariant I-1 is checked here.

use super::history::{Fate, History, Horizon, Version};
use super::window::{Flight, Window};
use nandu_base::{ByteLen, ByteOffset, Flags, IoError, Op, Payload, PayloadPool, Sector, Stamp, Violation};

/// A request of the host, as the oracle sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    /// What.
    pub op: Op,
    /// How.
    pub flags: Flags,
    /// Where.
    pub offset: ByteOffset,
    /// How much.
    pub len: ByteLen,
}

impl Asked {
    /// First sector and number of sectors.
    pub(super) fn sectors(&self) -> (u64, u64) {
        (self.offset.sector(), self.len.sectors())
    }
}

/// What every sector of one address space may hold.
#[derive(Clone)]
pub struct Oracle {
    sectors: Vec<History>,
    window: Window,
    /// Changes that have ended, and one: what was there from the start counts as ended.
    ends: u32,
    /// Changes up to here are flushed.
    flushed: u32,
    /// Every write that is acknowledged is durable.
    keeps_writes: bool,
}

impl Oracle {
    /// A device of `capacity` that was never written. Its requests are numbered from `first`, at least 1.
    pub fn new(capacity: ByteLen, first: u32) -> Oracle {
        let sectors = vec![History::default(); capacity.sectors() as usize];
        Oracle { sectors, window: Window::from(first), ends: 1, flushed: 0, keeps_writes: false }
    }

    /// The same, for a device that says of itself that it has no volatile cache.
    pub fn keeping_writes(self, keeps_writes: bool) -> Oracle {
        Oracle { keeps_writes, ..self }
    }

    /// The device serves more: what is new was never written.
    pub fn grow(&mut self, capacity: ByteLen) {
        self.sectors.resize(capacity.sectors() as usize, History::default());
    }

    /// Requests under way.
    pub fn under_way(&self) -> usize {
        self.window.open()
    }

    /// A request comes. Returns its serial number; a write carries it in its stamps.
    pub fn comes(&mut self, asked: Asked) -> u32 {
        let serial = self.window.push(Flight { asked, came: self.ends });
        if asked.op.changes_data() {
            let version = Version::new(serial, asked.op != Op::Write, self.ends);
            let (first, count) = asked.sectors();
            self.sectors[first as usize..(first + count) as usize].iter_mut().for_each(|s| s.push(version));
        }
        serial
    }

    /// What was asked for by a request that has not ended.
    pub fn asked(&self, serial: u32) -> Option<Asked> {
        self.window.get(serial).map(|flight| flight.asked)
    }

    /// Request `serial` has ended. `payload` holds what a read has found.
    pub fn ended(
        &mut self,
        serial: u32,
        error: Option<IoError>,
        payload: Payload,
        pool: &PayloadPool,
    ) -> Result<(), Violation> {
        let Flight { asked, came } = self.window.close(serial);
        match asked.op {
            Op::Read if error.is_none() => self.check(serial, asked, came, payload, pool),
            Op::Read => Ok(()),
            Op::Flush => {
                if error.is_none() {
                    self.flushed = self.flushed.max(came);
                }
                Ok(())
            }
            _ => {
                self.change_ended(serial, asked, error.is_some());
                Ok(())
            }
        }
    }

    /// Change `serial`, which is no request of a machine's, has ended.
    pub fn settled(&mut self, serial: u32, failed: bool) {
        let Flight { asked, .. } = self.window.close(serial);
        self.change_ended(serial, asked, failed);
    }

    fn change_ended(&mut self, serial: u32, asked: Asked, failed: bool) {
        self.ends += 1;
        let fate = if failed { Fate::Failed } else { Fate::Done };
        let is_kept = self.keeps_writes && asked.op == Op::Write;
        let durable = !failed && (is_kept || asked.flags.has(Flags::FUA));
        let horizon = self.horizon();
        let (first, count) = asked.sectors();
        for sector in &mut self.sectors[first as usize..(first + count) as usize] {
            sector.end(serial, self.ends, fate, durable);
            sector.forget(horizon);
        }
    }

    fn horizon(&self) -> Horizon {
        Horizon { oldest: self.window.oldest_came().unwrap_or(self.ends), flushed: Some(self.flushed) }
    }

    fn check(
        &mut self,
        serial: u32,
        asked: Asked,
        came: u32,
        payload: Payload,
        pool: &PayloadPool,
    ) -> Result<(), Violation> {
        let (first, count) = asked.sectors();
        for i in 0..count {
            let sector = first + i;
            let history = &mut self.sectors[sector as usize];
            let value = found(pool.sector(payload, i));
            if !history.observe(value, sector, came, self.ends) {
                let what = format!(
                    "read {serial} of sector {sector} found {}, allowed: {}",
                    describe(value),
                    history.describe(came)
                );
                return Err(Violation { invariant: "I-1", what });
            }
        }
        Ok(())
    }

    /// Power was cut and every machine is gone.
    pub fn cut(&mut self) {
        self.window.close_all();
        self.lose(true);
    }

    /// A device below has lost its volatile memory while the stack runs on, and nothing makes up for it.
    pub fn device_cut(&mut self) {
        self.lose(false);
    }

    fn lose(&mut self, machines_die: bool) {
        self.ends += 1;
        let (flushed, end) = (self.flushed, self.ends);
        let written = self.sectors.iter_mut().filter(|s| !s.versions().is_empty());
        written.for_each(|s| s.cut(flushed, end, machines_die));
    }

    /// The stack was closed: everything acknowledged is durable.
    pub fn closed(&mut self) {
        self.flushed = self.ends;
    }
}

/// What a host finds in a sector. Machines write whole pages: what lies behind a record is zeros like any other.
pub(super) fn found(sector: Option<Sector<'_>>) -> Stamp {
    match sector {
        Some(Sector::Stamp(stamp)) => stamp,
        Some(Sector::Bytes(bytes)) if bytes.iter().any(|&byte| byte != 0) => Stamp::METADATA,
        Some(Sector::Bytes(_)) | None => Stamp::ZERO,
    }
}

/// What a sector held, in words.
pub(super) fn describe(stamp: Stamp) -> String {
    match stamp {
        Stamp::ZERO => "zeros".into(),
        Stamp::METADATA => "metadata of a machine".into(),
        stamp => format!("change {} of sector {}", stamp.serial(), stamp.sector()),
    }
}

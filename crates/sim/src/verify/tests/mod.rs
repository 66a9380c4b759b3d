//! The oracles against obvious models, and histories that they must reject.

mod array_seeds;
mod canaries;
mod cases;
mod controller;
mod device;
mod growth;
mod hybrid;
mod mirrors;
mod power;
mod seeds;
mod slc;
mod slow;
mod stacked;
mod starts;
mod tenants;
mod units;

use super::ledger::Ledger;
use super::oracle::{Asked, Oracle};
use nandu_base::{
    ByteLen, ByteOffset, Content, ErrorKind, Flags, IoError, Op, Payload, PayloadPool, SECTOR, Sector, Stamp,
};

/// An oracle with a pool for what reads find.
struct Bench<O> {
    oracle: O,
    pool: PayloadPool,
}

/// What both oracles can do.
trait Judges {
    fn comes(&mut self, asked: Asked) -> u32;
    fn ended(&mut self, serial: u32, error: Option<IoError>, payload: Payload, pool: &PayloadPool) -> bool;
}

impl Judges for Oracle {
    fn comes(&mut self, asked: Asked) -> u32 {
        self.comes(asked)
    }
    fn ended(&mut self, serial: u32, error: Option<IoError>, payload: Payload, pool: &PayloadPool) -> bool {
        self.ended(serial, error, payload, pool).is_ok()
    }
}

impl Judges for Ledger {
    fn comes(&mut self, asked: Asked) -> u32 {
        self.comes(asked)
    }
    fn ended(&mut self, serial: u32, error: Option<IoError>, payload: Payload, pool: &PayloadPool) -> bool {
        self.ended(serial, error, payload, pool).is_ok()
    }
}

const FAILED: Option<IoError> =
    Some(IoError { kind: ErrorKind::WriteFailed, at: ByteLen::ZERO, len: ByteLen::ZERO });

impl<O: Judges> Bench<O> {
    fn new(oracle: O) -> Bench<O> {
        Bench { oracle, pool: PayloadPool::new(Content::Stamps) }
    }

    fn comes(&mut self, op: Op, flags: Flags, first: u64, count: u64) -> u32 {
        let (offset, len) = (ByteOffset(first * SECTOR), ByteLen(count * SECTOR));
        self.oracle.comes(Asked { op, flags, offset, len })
    }

    fn ends(&mut self, serial: u32) {
        assert!(self.oracle.ended(serial, None, Payload::NONE, &self.pool));
    }

    fn fails(&mut self, serial: u32) {
        assert!(self.oracle.ended(serial, FAILED, Payload::NONE, &self.pool));
    }

    /// The read has found these stamps; whether it may.
    fn finds(&mut self, serial: u32, stamps: &[Stamp]) -> bool {
        let payload = self.pool.allocate(ByteLen(stamps.len() as u64 * SECTOR));
        for (i, &stamp) in (0..).zip(stamps) {
            self.pool.put_sector(payload, i, Sector::Stamp(stamp));
        }
        let fine = self.oracle.ended(serial, None, payload, &self.pool);
        self.pool.release(payload);
        fine
    }
}

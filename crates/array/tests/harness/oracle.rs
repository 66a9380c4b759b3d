//! What every sector may hold: the judge of all reads.

use super::{Subject, World};
use nandu_base::{ByteLen, ErrorKind, Op, Payload, SECTOR, Stamp};
use std::collections::{BTreeMap, BTreeSet};

/// Serial of writes that are zeros.
pub const ZEROS: u32 = 0;
/// Stands for whatever soiled disks held.
pub const ANYTHING: u32 = 1;

/// A request that came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub cookie: u64,
    pub error: Option<nandu_base::IoError>,
    pub data: Vec<Stamp>,
}

/// How a write of this session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Open,
    Acked,
    /// Failed before the request with this number was issued.
    Failed(u64),
}

/// What a sector may hold: `base` from before this session, `live` the writes of this session in their order.
#[derive(Clone, Debug)]
pub struct Possible {
    pub base: BTreeSet<u32>,
    pub live: Vec<(u64, u32, Fate)>,
}

impl Possible {
    /// Writes from the last acknowledged one on; everything when there is none.
    fn candidates(&self) -> BTreeSet<u32> {
        let acked = self.live.iter().rposition(|w| w.2 == Fate::Acked);
        let mut out: BTreeSet<u32> = self.live[acked.unwrap_or(0)..].iter().map(|w| w.1).collect();
        if acked.is_none() {
            out.extend(&self.base);
        }
        out
    }
}

/// A request under way.
#[derive(Clone, Debug)]
pub struct Job {
    pub op: Op,
    pub first: u64,
    pub count: u64,
    pub serial: u32,
    pub fua: bool,
    /// For a read: what each sector could hold when it was issued. For a flush: the last acknowledged write.
    seen: Vec<BTreeSet<u32>>,
    cover: Vec<(u64, u64)>,
    /// Losses of the newest data before it was issued.
    doubts: u64,
}

impl<S: Subject> World<S> {
    fn possible(&mut self, sector: u64) -> &mut Possible {
        let base = if self.setup.is_soiled() { S::SOILED } else { &[ZEROS] };
        let fresh = || Possible { base: base.iter().copied().collect(), live: Vec::new() };
        self.sectors.entry(sector).or_insert_with(fresh)
    }

    fn job(&self, op: Op, first: u64, count: u64) -> Job {
        let (seen, cover, doubts) = (Vec::new(), Vec::new(), self.doubts);
        Job { op, first, count, serial: ZEROS, fua: false, seen, cover, doubts }
    }

    pub fn change(&mut self, op: Op, first: u64, count: u64, fua: bool) -> u64 {
        let mut serial = ZEROS;
        if op == Op::Write {
            self.serial += 1;
            serial = self.serial;
        }
        let cookie = self.next;
        for s in first..first + count {
            self.possible(s).live.push((cookie, serial, Fate::Open));
        }
        let payload = if op == Op::Write { Payload::run(Stamp::new(serial, first)) } else { Payload::NONE };
        self.submit(Job { serial, fua, ..self.job(op, first, count) }, payload)
    }

    pub fn write(&mut self, first: u64, count: u64) -> u64 {
        self.change(Op::Write, first, count, false)
    }

    pub fn read(&mut self, first: u64, count: u64) -> u64 {
        let seen = (first..first + count).map(|s| self.possible(s).candidates()).collect();
        let payload = self.buffer(count);
        self.submit(Job { seen, ..self.job(Op::Read, first, count) }, payload)
    }

    /// A machine above writes a record of one sector, full of `byte`. The sector is no other test's.
    pub fn write_record(&mut self, sector: u64, byte: u8) -> u64 {
        let payload = self.record_buffer(byte);
        self.submit(self.job(Op::Write, sector, 1), payload)
    }

    /// A machine above reads it again. It holds the buffer, until the test releases it.
    pub fn read_record(&mut self, sector: u64) -> (u64, Payload) {
        let payload = self.record_buffer(0);
        self.pool().keep(payload);
        let job = Job { seen: vec![BTreeSet::from([ANYTHING])], ..self.job(Op::Read, sector, 1) };
        (self.submit(job, payload), payload)
    }

    /// The machine above has got its record: what it was full of, and from now on the buffer is used for something else.
    pub fn reuse_record(&mut self, payload: Payload, byte: u8) -> Vec<u8> {
        let bytes = self.pool().bytes_mut(payload, ByteLen(SECTOR));
        let mut was = bytes.to_vec();
        was.dedup();
        bytes.fill(byte);
        was
    }

    fn record_buffer(&mut self, byte: u8) -> Payload {
        let payload = self.pool().allocate_metadata(ByteLen(SECTOR));
        self.pool().bytes_mut(payload, ByteLen(SECTOR)).fill(byte);
        payload
    }

    pub fn flush(&mut self) -> u64 {
        let last = |p: &Possible| p.live.iter().rfind(|w| w.2 == Fate::Acked).map(|w| w.0);
        let cover = self.sectors.iter().filter_map(|(s, p)| Some((*s, last(p)?))).collect();
        self.submit(Job { cover, ..self.job(Op::Flush, 0, 0) }, Payload::NONE)
    }

    pub(super) fn judge(&mut self, job: &Job, answer: Answer) {
        match job.op {
            Op::Read => self.judge_read(job, &answer),
            Op::Flush if answer.error.is_none() => {
                for (s, cookie) in &job.cover {
                    self.floor(*s, *cookie);
                }
            }
            Op::Flush => {}
            _ => {
                let fate = if answer.error.is_none() { Fate::Acked } else { Fate::Failed(self.next) };
                let is_durable = fate == Fate::Acked && (job.fua || self.setup.acknowledges_durably());
                for s in job.first..job.first + job.count {
                    let p = self.possible(s);
                    if let Some(w) = p.live.iter_mut().find(|w| w.0 == answer.cookie) {
                        w.2 = fate;
                    }
                    if is_durable {
                        self.floor(s, answer.cookie);
                    }
                }
            }
        }
        self.answers.insert(answer.cookie, answer);
    }

    /// The write is durable: nothing older may ever be seen.
    fn floor(&mut self, sector: u64, cookie: u64) {
        let p = self.possible(sector);
        if let Some(at) = p.live.iter().position(|w| w.0 == cookie) {
            p.live.drain(..at);
            p.base.clear();
        }
    }

    fn judge_read(&mut self, job: &Job, answer: &Answer) {
        if let Some(error) = answer.error {
            let allowed = matches!(error.kind, ErrorKind::Gone | ErrorKind::Unreadable)
                || self.may_lose && error.kind == ErrorKind::Lost;
            if !allowed || error.at.0 + error.len.0 > job.count * SECTOR {
                self.complain(format!("a read failed oddly: {error:?}"));
            }
            return;
        }
        for (i, stamp) in answer.data.iter().enumerate() {
            let s = job.first + i as u64;
            let (serial, home) = (stamp.serial(), stamp.sector());
            let now = self.possible(s).candidates();
            let seen = &job.seen[i];
            let started: BTreeSet<u32> = self.possible(s).live.iter().map(|w| w.1).collect();
            let fits = seen.contains(&serial) || started.contains(&serial) && now.contains(&serial);
            if seen.contains(&ANYTHING) {
                continue;
            }
            if !fits || (*stamp != Stamp::ZERO && home != s as u32) || *stamp == Stamp::METADATA {
                self.complain(format!(
                    "sector {s} reads {stamp:?} (write {serial}); may hold {seen:?} or {now:?}"
                ));
            } else if job.doubts == self.doubts {
                self.fix(s, serial, answer.cookie);
            }
        }
    }

    /// Read number `read` has shown `serial`: from now on it is that or something newer. Where reads do not wait for writes, what
    /// is older than a write says that it will not show up any more only when the write had failed before the read was issued.
    fn fix(&mut self, sector: u64, serial: u32, read: u64) {
        let p = self.possible(sector);
        if p.live.iter().any(|w| w.2 == Fate::Acked) {
            return; // newer than anything in doubt, or a read that overlapped a write
        }
        let is_over = |fate: Fate| match fate {
            Fate::Failed(before) => S::READS_WAIT_FOR_WRITES || before <= read,
            Fate::Open | Fate::Acked => false,
        };
        if let Some(at) = p.live.iter().position(|w| w.1 == serial && matches!(w.2, Fate::Failed(_))) {
            p.live[at].2 = Fate::Acked;
        } else if p.base.contains(&serial) && !p.live.iter().any(|w| w.1 == serial) {
            p.base = BTreeSet::from([serial]);
            p.live.retain(|w| !is_over(w.2));
        }
    }

    /// A session is over: each of its writes may be found or not.
    pub(super) fn all_in_doubt(sectors: &mut BTreeMap<u64, Possible>) {
        for p in sectors.values_mut() {
            let live = std::mem::take(&mut p.live);
            p.base.extend(live.into_iter().map(|w| w.1));
        }
    }

    /// Reads every sector in doubt twice.
    pub fn read_all(&mut self) {
        let unit = self.setup.unit();
        let mut touched: Vec<u64> = self.sectors.keys().map(|s| s - s % unit).collect();
        touched.dedup();
        for _ in 0..2 {
            for &s in &touched {
                let r = self.read(s, unit);
                self.wait(&[r]);
            }
        }
    }
}

//! What the legs of redundant devices hold at rest: those of a mirror the same, those of a parity array what xors to zero.

use super::{Broken, Session, broken};
use crate::engine::Submission;
use crate::verify::watch::Watch;
use nandu_base::{Ask, ByteLen, ByteOffset, Flags, Op, SECTOR, Span, Stamp, TenantId};

/// Time for a read of one leg: a disk that stands takes ten seconds to turn.
const REST: Span = Span::from_secs(30);

impl Session<'_> {
    /// Waits until each mirror says that its legs are equal, then reads both.
    pub(super) fn compare_mirrors(&mut self) -> Result<(), Broken> {
        let mirrors: Vec<(u32, Vec<u32>)> =
            self.watch.mirrors().map(|(at, legs)| (at, legs.to_vec())).collect();
        for (mirror, legs) in mirrors {
            let end = self.engine.now() + self.ground.rest;
            let quiet = self.idle_until(self.ground.rest, |s| Watch::is_at_rest(&s.engine.graph, mirror))?;
            if !quiet {
                // Frequent events of others may use up the patience before the time is over, and a fault anywhere may
                // keep a mirror above busy.
                if self.engine.next_at().is_some_and(|at| at < end) {
                    continue;
                }
                // A drive may take minutes for a write when it levels its wear with little room.
                if self.watch.has_struck() || self.engine.graph.requests.alive() > 0 {
                    continue;
                }
                let counters = self.engine.graph.report(mirror, Ask::Counters).counters;
                let name = self.engine.graph.name(mirror);
                let state: Vec<String> =
                    counters.iter().take(6).map(|c| format!("{} {}", c.name, c.value)).collect();
                let what = format!("{name} never says that its legs are equal: {}", state.join(", "));
                return Err(broken("I-11", what));
            }
            self.compare(mirror, &legs)?;
        }
        Ok(())
    }

    fn compare(&mut self, mirror: u32, legs: &[u32]) -> Result<(), Broken> {
        let capacity = self.engine.graph.machine(mirror).limits().capacity.0;
        let (mut at, mut is_compared) = (0, false);
        while at < capacity {
            let len = (64 << 10).min(capacity - at);
            let mut found = Vec::new();
            for &leg in legs {
                found.push(self.read_aside(leg, at, len)?);
            }
            if !Watch::is_at_rest(&self.engine.graph, mirror) {
                return Ok(());
            }
            let found: Vec<Vec<Stamp>> = found.into_iter().flatten().collect();
            is_compared |= found.len() > 1;
            for (a, b) in found.iter().zip(&found[1.min(found.len())..]) {
                let Some(i) = (0..a.len()).find(|&i| a[i] != b[i]) else { continue };
                let name = self.engine.graph.name(mirror);
                let sector = at / SECTOR + i as u64;
                let what = format!("the legs of {name} differ at sector {sector}: {:?} and {:?}", a[i], b[i]);
                return Err(broken("quiet_means_equal_and_clean", what));
            }
            at += len;
        }
        self.tally.mirrors_compared += u64::from(is_compared);
        Ok(())
    }

    /// Waits until each parity array says that it is whole, then reads all its legs.
    pub(super) fn check_parity(&mut self) -> Result<(), Broken> {
        let arrays: Vec<(u32, Vec<u32>)> =
            self.watch.parities().map(|(at, legs)| (at, legs.to_vec())).collect();
        for (array, legs) in arrays {
            let end = self.engine.now() + self.ground.rest;
            let quiet = self.idle_until(self.ground.rest, |s| Watch::is_at_rest(&s.engine.graph, array))?;
            if quiet {
                self.xor_legs(array, &legs)?;
                continue;
            }
            let patience_is_over = self.engine.next_at().is_some_and(|at| at < end);
            let strikes = self.watch.has_struck() || self.engine.graph.requests.alive() > 0;
            if !patience_is_over && !strikes {
                let name = self.engine.graph.name(array);
                return Err(broken("I-11", format!("{name} never says that all its legs are rebuilt")));
            }
        }
        Ok(())
    }

    fn xor_legs(&mut self, array: u32, legs: &[u32]) -> Result<(), Broken> {
        let capacity = self.engine.graph.machine(array).limits().capacity.0 / (legs.len() as u64 - 1);
        let changes = Watch::changes(&self.engine.graph, array);
        let mut at = 0;
        while at < capacity {
            let len = (64 << 10).min(capacity - at);
            let sum = self.engine.graph.pool.allocate(ByteLen(len));
            self.engine.sink().sum = Some(sum);
            let mut all = true;
            for &leg in legs {
                all &= self.read_aside(leg, at, len)?.is_some();
            }
            self.engine.sink().sum = None;
            let pool = &mut self.engine.graph.pool;
            let odd = (0..len / SECTOR).find(|&i| !pool.is_zeros(sum, i, 1));
            pool.release(sum);
            let graph = &self.engine.graph;
            // A machine above may have written its records between two of the reads.
            if !Watch::is_at_rest(graph, array) || Watch::changes(graph, array) != changes {
                return Ok(());
            }
            if let Some(i) = odd.filter(|_| all) {
                let (name, sector) = (self.engine.graph.name(array), at / SECTOR + i);
                let what = format!("the legs of {name} do not xor to zero at sector {sector}");
                return Err(broken("parity_is_xor", what));
            }
            at += len;
        }
        self.tally.mirrors_compared += 1;
        Ok(())
    }

    /// Reads part of a leg past the mirror. `None` when the read fails or takes too long.
    fn read_aside(&mut self, node: u32, at: u64, len: u64) -> Result<Option<Vec<Stamp>>, Broken> {
        let now = self.engine.now();
        let payload = self.engine.graph.pool.allocate(ByteLen(len));
        let sink = self.engine.sink();
        sink.asked_aside += 1;
        sink.aside = None;
        let cookie = sink.asked_aside;
        let id = self.engine.submit(Submission {
            node,
            op: Op::Read,
            flags: Flags::NONE,
            offset: ByteOffset(at),
            len: ByteLen(len),
            payload,
            tenant: TenantId::SYSTEM,
            cookie,
            arrival: now,
        });
        let alive = |s: &Session<'_>| {
            let request = s.engine.graph.requests.iter().find(|(i, _)| *i == id);
            request.is_some_and(|(_, r)| r.cookie == cookie)
        };
        self.idle_until(REST, |s| !alive(s))?;
        Ok(self.engine.sink().aside.take())
    }
}

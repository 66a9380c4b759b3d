//! Blocks that say which version they hold, and a client that knows which versions it may find after a crash.

use super::client::{Client, Outcome};
use nandu_base::Rng;
use nandu_live::nbd::wire::{cmd, cmd_flag};

pub const BLOCK: u64 = 4096;

/// What a client knows of every block: the versions that may be found there.
pub struct Knowledge {
    /// The version that was flushed or written with FUA.
    pub durable: Vec<u64>,
    /// The newest version that was acknowledged.
    pub acked: Vec<u64>,
    /// The newest version that was sent and may be there.
    pub sent: Vec<u64>,
    /// The newest version that was ever sent: none is given twice, so that one that was lost cannot come back unseen.
    numbered: Vec<u64>,
}

impl Knowledge {
    pub fn new(blocks: u64) -> Knowledge {
        let none = vec![0; blocks as usize];
        Knowledge { durable: none.clone(), acked: none.clone(), sent: none.clone(), numbered: none }
    }

    /// What is known after a cut of which only the durable versions are told: any later one below `first` may have been sent.
    pub fn after_a_cut(durable: Vec<u64>, first: u64) -> Knowledge {
        let sent = vec![first; durable.len()];
        Knowledge { acked: durable.clone(), numbered: sent.clone(), sent, durable }
    }

    /// The process died: whatever is found now becomes what is known. An error says that it may not be found.
    pub fn check(&mut self, block: u64, found: u64) -> Result<(), String> {
        let at = block as usize;
        let allowed = self.durable[at]..=self.sent[at];
        if !allowed.contains(&found) {
            return Err(format!("block {block} holds version {found}, allowed are {allowed:?}"));
        }
        (self.durable[at], self.acked[at], self.sent[at]) = (found, found, found);
        Ok(())
    }

    /// The same of a block of which a write failed or was cut short: each of its sectors holds a version that may be there.
    pub fn check_sectors(&mut self, block: u64, data: &[u8]) -> Result<(), String> {
        if let Ok(found) = version_of(block, data) {
            return self.check(block, found);
        }
        let at = block as usize;
        let (allowed, unfinished) = (self.durable[at]..=self.sent[at], self.sent[at] > self.acked[at]);
        for (sector, bytes) in data.chunks_exact(512).enumerate() {
            let version = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
            if !unfinished || !allowed.contains(&version) || *bytes != block_of(block, version)[..512] {
                return Err(format!(
                    "sector {sector} of block {block} holds something else than {allowed:?}"
                ));
            }
        }
        Ok(())
    }

    /// The same of each block of a device. The versions that were found.
    pub fn check_all(&mut self, client: &mut Client) -> Result<Vec<u64>, String> {
        let blocks = 0..self.sent.len() as u64;
        let one = |block| {
            let found = version_of(block, &client.read(block * BLOCK, BLOCK as u32))?;
            self.check(block, found).map(|()| found)
        };
        blocks.map(one).collect()
    }

    /// The next version of a block, which is sent now.
    pub fn next(&mut self, block: u64) -> u64 {
        let at = block as usize;
        self.numbered[at] += 1;
        self.sent[at] = self.numbered[at];
        self.sent[at]
    }

    /// The device was cut: what was acknowledged and not durable may be lost, and a later flush does not cover it.
    pub fn cut(&mut self) {
        self.acked.clone_from(&self.durable);
    }

    /// The device came to a clean end: what was acknowledged is durable.
    pub fn closed(&mut self) {
        self.durable.clone_from(&self.acked);
    }
}

pub fn block_of(block: u64, version: u64) -> Vec<u8> {
    if version == 0 {
        return vec![0; BLOCK as usize];
    }
    (0..BLOCK / 16).flat_map(|_| [block.to_le_bytes(), version.to_le_bytes()].concat()).collect()
}

/// The version in a block.
pub fn version_of(block: u64, data: &[u8]) -> Result<u64, String> {
    let version = u64::from_le_bytes(data[8..16].try_into().expect("eight bytes"));
    match data == block_of(block, version) {
        true => Ok(version),
        false => Err(format!("block {block} is torn or holds something else")),
    }
}

/// The version that the device holds.
pub fn stored(client: &mut Client, block: u64) -> u64 {
    version_of(block, &client.read(block * BLOCK, BLOCK as u32)).expect("a whole block")
}

/// Random writes, some with FUA, and flushes, 24 under way, until `stop` requests were answered, each with success. The
/// rest stays under way.
pub fn write_randomly(client: &mut Client, known: &mut Knowledge, rng: &mut Rng, blocks: u64, stop: u64) {
    let failed = write_and_fail(client, known, rng, blocks, stop).expect("the server answers");
    assert_eq!(failed, 0, "requests failed");
}

/// The same where requests may fail: how many have. An error says that the server has hung up.
pub fn write_and_fail(
    client: &mut Client,
    known: &mut Knowledge,
    rng: &mut Rng,
    blocks: u64,
    stop: u64,
) -> std::io::Result<u64> {
    enum Sent {
        Write { block: u64, version: u64, fua: bool },
        Flush { covers: Vec<u64> },
    }
    let mut under_way = std::collections::BTreeMap::new();
    let mut failed = 0;
    for _ in 0..stop {
        while under_way.len() < 24 {
            let busy =
                |b: u64| under_way.values().any(|s| matches!(s, Sent::Write { block, .. } if *block == b));
            let block = rng.below(blocks);
            if rng.below(12) == 0 {
                let cookie = client.try_send(cmd::FLUSH, 0, 0, 0, &[])?;
                under_way.insert(cookie, Sent::Flush { covers: known.acked.clone() });
            } else if !busy(block) {
                let (version, fua) = (known.next(block), rng.below(16) == 0);
                let flags = if fua { cmd_flag::FUA } else { 0 };
                let data = block_of(block, version);
                let cookie = client.try_send(cmd::WRITE, flags, block * BLOCK, BLOCK as u32, &data)?;
                under_way.insert(cookie, Sent::Write { block, version, fua });
            }
        }
        let (cookie, outcome): (u64, Outcome) = client.try_receive()?;
        let sent = under_way.remove(&cookie).expect("it was sent");
        match (outcome, sent) {
            // What was answered before may be lost, and no later flush covers it.
            (Err(_), Sent::Flush { .. }) => {
                failed += 1;
                known.acked.clone_from(&known.durable);
            }
            (Err(_), Sent::Write { .. }) => failed += 1,
            (Ok(_), Sent::Write { block, version, fua }) => {
                known.acked[block as usize] = version;
                if fua {
                    known.durable[block as usize] = version;
                }
            }
            (Ok(_), Sent::Flush { covers }) => {
                known.durable.iter_mut().zip(covers).for_each(|(old, new)| *old = (*old).max(new));
            }
        }
    }
    Ok(failed)
}

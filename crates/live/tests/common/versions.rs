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
    /// The newest version that was sent.
    pub sent: Vec<u64>,
}

impl Knowledge {
    pub fn new(blocks: u64) -> Knowledge {
        let none = vec![0; blocks as usize];
        Knowledge { durable: none.clone(), acked: none.clone(), sent: none }
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

/// Random writes, some with FUA, and flushes, `depth` under way, until `stop` requests were answered. The rest stays
/// under way.
pub fn write_randomly(client: &mut Client, known: &mut Knowledge, rng: &mut Rng, blocks: u64, stop: u64) {
    enum Sent {
        Write { block: u64, version: u64, fua: bool },
        Flush { covers: Vec<u64> },
    }
    let mut under_way = std::collections::BTreeMap::new();
    for _ in 0..stop {
        while under_way.len() < 24 {
            let busy =
                |b: u64| under_way.values().any(|s| matches!(s, Sent::Write { block, .. } if *block == b));
            let block = rng.below(blocks);
            if rng.below(12) == 0 {
                let cookie = client.send(cmd::FLUSH, 0, 0, 0, &[]);
                under_way.insert(cookie, Sent::Flush { covers: known.acked.clone() });
            } else if !busy(block) {
                let (version, fua) = (known.sent[block as usize] + 1, rng.below(16) == 0);
                let flags = if fua { cmd_flag::FUA } else { 0 };
                let data = block_of(block, version);
                let cookie = client.send(cmd::WRITE, flags, block * BLOCK, BLOCK as u32, &data);
                known.sent[block as usize] = version;
                under_way.insert(cookie, Sent::Write { block, version, fua });
            }
        }
        let (cookie, outcome): (u64, Outcome) = client.receive();
        assert_eq!(outcome, Ok(Vec::new()));
        match under_way.remove(&cookie).expect("it was sent") {
            Sent::Write { block, version, fua } => {
                known.acked[block as usize] = version;
                if fua {
                    known.durable[block as usize] = version;
                }
            }
            Sent::Flush { covers } => {
                known.durable.iter_mut().zip(covers).for_each(|(old, new)| *old = (*old).max(new));
            }
        }
    }
}

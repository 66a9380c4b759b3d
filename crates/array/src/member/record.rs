//! The superblock: what a member says of the set. One layout for all kinds of arrays; what only one kind needs
//! lies behind it, in the same sector, under the same checksum.
//!
//! All numbers are little-endian. A superblock has two slots of 4 KiB at the end of a member; an update writes the
//! one that was written longer ago, and is flushed before the next update begins (R-SLOT). Records of version 1
//! are read and never written. Of a record of which a bit has flipped nobody would know that it was the newer one:
//! it is put right from its checksum ([`nandu_base::seal`]).

use nandu_base::{SECTOR, Seal};

/// Bytes that say something: one sector, so that no write is torn inside.
pub const RECORD: usize = SECTOR as usize;
/// The checksum stands at the end of the sector, and covers everything before.
pub const SEAL: Seal = Seal::behind(RECORD - 4);
/// The version that is written.
pub const VERSION: u16 = 2;
/// Earlier generations that a record names.
pub const HISTORY: usize = 8;
/// Most members of a set: one bit each.
pub const MEMBERS: usize = 64;

pub(crate) const BLOCK: u64 = 4096;
/// Bytes from the lower slot to the end of the upper one.
pub const SLOTS: u64 = (64 << 10) + BLOCK;

/// Where the two slots lie on a member of `bytes`, the lower one first; `None` where it has no room for them. The upper one is the last
/// whole block of 4 KiB, so that they are found without knowing anything else.
pub fn slots(bytes: u64) -> Option<[u64; 2]> {
    let upper = (bytes / BLOCK * BLOCK).checked_sub(BLOCK)?;
    Some([upper.checked_sub(SLOTS - BLOCK)?, upper])
}

/// Names one stretch of time in which the set of members did not change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub struct Gen {
    /// Greater than that of every generation that the members knew when it began.
    pub epoch: u64,
    /// Random, so that two generations of one epoch differ.
    pub tag: u64,
}

impl Gen {
    /// None.
    pub const NONE: Gen = Gen { epoch: 0, tag: 0 };
}

/// How a member stands in its set, by its own word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// The members in force serve together, or did so last.
    Pair,
    /// It goes on without the others.
    Solo,
    /// An opening was begun: nothing is served yet.
    Opening,
}

/// What a member says of the set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Superblock {
    /// Which member this is, from 0.
    pub leg: u8,
    /// The set that the members belong to.
    pub set: [u64; 2],
    /// Number of this update.
    pub seq: u64,
    /// The generation in force.
    pub generation: Gen,
    /// The generation that a member may say that missed this change of the set; none where every other one is old.
    /// Of an opening: the generation that all had.
    pub base: Gen,
    /// Earlier generations, newest first.
    pub history: [Gen; HISTORY],
    /// How it stands.
    pub state: State,
    /// The member whose content decides.
    pub leader: u8,
    /// Whether a flush covers all members always.
    pub strict: bool,
    /// Whether the last session ended in order. A hint.
    pub clean: bool,
    /// Bytes of the member.
    pub leg_bytes: u64,
    /// Bytes that the set serves; 0 where that is not known (version 1).
    pub served: u64,
    /// Members of the set.
    pub members: u8,
    /// Those in force, one bit each.
    pub in_force: u64,
    /// Region size as a power of two.
    pub region_shift: u8,
    /// Where the region map begins; of a parity array, where the journal does. 0 where there is none, or an older version wrote the record.
    pub map: u64,
    /// Where the lost list begins; of a parity array, the bytes of one entry of the journal.
    pub lost: u64,
    /// When all were members last, by the driver's time; for people.
    pub together: u64,
}

impl Superblock {
    /// A record of a set that does not exist yet.
    pub const BLANK: Superblock = Superblock {
        leg: 0,
        set: [0; 2],
        seq: 0,
        generation: Gen::NONE,
        base: Gen::NONE,
        history: [Gen::NONE; HISTORY],
        state: State::Pair,
        leader: 0,
        strict: true,
        clean: false,
        leg_bytes: 0,
        served: 0,
        members: 0,
        in_force: 0,
        region_shift: 0,
        map: 0,
        lost: 0,
        together: 0,
    };

    /// Writes the record into a sector of zeros; `rest` puts what only this kind has.
    pub fn encode(&self, magic: [u8; 8], rest: impl FnOnce(&mut Writer<'_>), out: &mut [u8]) {
        let mut w = Writer::new(out);
        w.put(&magic);
        w.put(&VERSION.to_le_bytes());
        w.put(&[self.leg]);
        w.u64(self.set[0]);
        w.u64(self.set[1]);
        w.u64(self.seq);
        w.generation(self.generation);
        w.generation(self.base);
        for generation in self.history {
            w.generation(generation);
        }
        let state = match self.state {
            State::Pair => 0,
            State::Solo => 1,
            State::Opening => 2,
        };
        w.put(&[state, self.leader, u8::from(self.strict), u8::from(self.clean)]);
        w.u64(self.leg_bytes);
        w.u64(self.served);
        w.put(&[self.members]);
        w.u64(self.in_force);
        w.u64(0); // data offset
        w.put(&[self.region_shift, 9]); // blocks are sectors of 512 B
        w.u64(self.map);
        w.u64(self.lost);
        w.u64(self.together);
        rest(&mut w);
        SEAL.put(out);
    }

    /// Reads a record of this version and what lies behind it; `None` when it is not one.
    pub fn decode(magic: [u8; 8], bytes: &[u8]) -> Option<(Superblock, Reader<'_>)> {
        let mut r = Reader::sealed(bytes, magic)?;
        if u16::from_le_bytes(r.take()) != VERSION {
            return None;
        }
        let leg = r.u8();
        let set = [r.u64(), r.u64()];
        let seq = r.u64();
        let (generation, base) = (r.generation(), r.generation());
        let history = std::array::from_fn(|_| r.generation());
        let state = match r.u8() {
            0 => State::Pair,
            1 => State::Solo,
            2 => State::Opening,
            _ => return None,
        };
        let (leader, strict, clean) = (r.u8(), r.u8() != 0, r.u8() != 0);
        let (leg_bytes, served) = (r.u64(), r.u64());
        let (members, in_force) = (r.u8(), r.u64());
        let data_offset = r.u64();
        let (region_shift, block_shift) = (r.u8(), r.u8());
        let (map, lost, together) = (r.u64(), r.u64(), r.u64());
        let sane = usize::from(members) <= MEMBERS
            && leg < members
            && leader < members
            && data_offset == 0
            && block_shift == 9;
        let sb = Superblock {
            leg,
            set,
            seq,
            generation,
            base,
            history,
            state,
            leader,
            strict,
            clean,
            leg_bytes,
            served,
            members,
            in_force,
            region_shift,
            map,
            lost,
            together,
        };
        sane.then_some((sb, r))
    }

    /// Whether it says that it goes on alone.
    #[inline]
    pub fn is_solo(&self) -> bool {
        self.state == State::Solo
    }

    /// Puts a generation that was in force into the history, unless it is the newest there already.
    pub fn remember(&mut self, generation: Gen) {
        if generation != Gen::NONE && self.history[0] != generation {
            self.history.copy_within(0..HISTORY - 1, 1);
            self.history[0] = generation;
        }
    }

    /// Another member holds `generation`, durably: of the history it is the entry to keep. Without this a member
    /// that is lost again and again while it rejoins would be pushed out by generations that it never got.
    pub fn keep(&mut self, generation: Gen) {
        if let Some(at) = self.history.iter().position(|&g| g == generation && g != Gen::NONE) {
            self.history[..=at].rotate_right(1);
        }
    }

    /// Begins an opening of all members under `fresh`: they had `common`, and `history` is that of the one that
    /// decides.
    pub fn begin_opening(&mut self, fresh: Gen, common: Gen, history: [Gen; HISTORY]) {
        self.history = history;
        self.remember(common);
        (self.generation, self.base, self.state) = (fresh, common, State::Opening);
    }

    /// Ends it: from now on whatever says less is old.
    pub fn end_opening(&mut self) {
        (self.base, self.state) = (Gen::NONE, State::Pair);
    }
}

/// Writes numbers one behind the other.
pub struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Writes from the front of `out`.
    pub fn new(out: &'a mut [u8]) -> Writer<'a> {
        Writer { out, at: 0 }
    }
    /// Bytes as they are.
    pub fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }
    /// A number of eight bytes.
    pub fn u64(&mut self, n: u64) {
        self.put(&n.to_le_bytes());
    }
    fn generation(&mut self, generation: Gen) {
        self.u64(generation.epoch);
        self.u64(generation.tag);
    }
}

/// Reads them again.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads from the front of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }
    /// What lies behind the magic of a record whose checksum fits; `None` when it is not one.
    pub fn sealed(bytes: &'a [u8], magic: [u8; 8]) -> Option<Reader<'a>> {
        (bytes[..8] == magic && SEAL.holds(bytes)).then_some(Reader { bytes, at: 8 })
    }
    /// The next bytes.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        self.at += N;
        self.bytes[self.at - N..self.at].try_into().expect("a slice of this length")
    }
    /// The next byte.
    pub fn u8(&mut self) -> u8 {
        let [byte] = self.take();
        byte
    }
    /// The next number of eight bytes.
    pub fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
    /// The next generation.
    pub fn generation(&mut self) -> Gen {
        Gen { epoch: self.u64(), tag: self.u64() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 8] = *b"NanduXX\x01";

    fn sample() -> Superblock {
        Superblock {
            leg: 1,
            set: [3, 4],
            seq: 9,
            generation: Gen { epoch: 5, tag: 77 },
            base: Gen { epoch: 4, tag: 66 },
            history: std::array::from_fn(|i| Gen { epoch: i as u64, tag: 1 }),
            state: State::Opening,
            leader: 1,
            strict: true,
            clean: false,
            leg_bytes: 1 << 30,
            served: 1 << 29,
            members: 3,
            in_force: 0b101,
            region_shift: 20,
            map: 12,
            lost: 13,
            together: 14,
        }
    }

    #[test]
    fn a_record_reads_back_with_what_lies_behind_it_and_any_flipped_byte_is_refused() {
        let mut block = vec![0; RECORD];
        for state in [State::Pair, State::Solo, State::Opening] {
            let sb = Superblock { state, ..sample() };
            block.fill(0);
            sb.encode(MAGIC, |w| w.u64(0xFEED), &mut block);
            let (read, mut rest) = Superblock::decode(MAGIC, &block).expect("what was written");
            assert_eq!((read, rest.u64()), (sb, 0xFEED));
            for i in 0..RECORD {
                block[i] ^= 0x40;
                assert!(Superblock::decode(MAGIC, &block).is_none(), "byte {i}");
                block[i] ^= 0x40;
            }
        }
    }

    #[test]
    fn the_history_keeps_what_others_hold() {
        let mut sb = sample();
        let held = sb.history[3];
        for tag in 0..20 {
            sb.keep(held);
            sb.remember(Gen { epoch: 40, tag });
        }
        assert!(sb.history.contains(&held));
        let before = sb.history;
        sb.remember(before[0]);
        assert_eq!(sb.history, before, "the newest is entered once");
    }
}

//! What lies on files and devices: which set each belongs to and how it stands there ([`examine`]), and what a start of the set would do
//! ([`sets`]). Nothing is changed, and no lock is held.
//!
//! Records are looked for where each kind keeps them: those of a mirror or a parity array, checksums, and those of the disk of a `hybrid` at the
//! end; those of its rings, and what says that a file is an emulated drive, at the front (of an emulated disk at the end). Below checksums a
//! device ends where theirs begin, so records are looked for there too. What an emulated drive holds is inside its own log: nothing is said of it.
//!
//! What a start would do is decided by the functions that decide at a start.

mod assemble;
mod moved;
mod verdict;

pub use assemble::{absolute, is_device, placed, stack_of};
pub use moved::{grows, moved_sizes, zero_void_records};
pub use verdict::{Set, sets};

use crate::backend::LegError;
use crate::backend::file::unlock;
use crate::drive::file::{LABEL, said_by_label};
use nandu_array::{integrity, member, mirror, parity};
use nandu_base::{ByteLen, SECTOR};
use nandu_hybrid::record::{Standing, Super};
use nandu_hybrid::region_map::{Layout, RegionMap, ranges};
use rustix::fs::{FlockOperation, flock, seek};
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a record that is looked at.
const RECORD: usize = 4096;
/// So far before the last data of a file are records looked for.
const LOOKED_BACK: u64 = 1 << 20;
/// Most members of a `hybrid`: two rings and the disk. A record that says more is none of ours, whatever its checksum.
const HYBRID_MEMBERS: u32 = 3;
/// Pages of a `hybrid`.
const PAGES: [u64; 5] = [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];

/// What was found on a file or device.
#[derive(Debug)]
pub struct Examined {
    /// Its path.
    pub path: String,
    /// Its length.
    pub bytes: ByteLen,
    /// A process has it locked, as a server has: what it holds may change at any time.
    pub in_use: bool,
    /// Nothing but zeros stands where any kind keeps records, nor anywhere else as far as the file system tells.
    pub is_blank: bool,
    /// Records that lie before the end: it was so long when it was a member of what they say.
    pub was: Option<(ByteLen, &'static str)>,
    /// Checksums of `integrity` lie over it: the bytes of a block, and those that they leave.
    pub checksums: Option<(ByteLen, ByteLen)>,
    /// What it belongs to.
    pub what: Option<What>,
    /// Of the disk of a `hybrid` with a map of dirty regions: what the map says.
    pub regions: Option<Regions>,
}

/// What a map of dirty regions says, in bytes from the first to one past the last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Regions {
    /// The rings may have something newer of these: they are lost if the rings are.
    pub dirty: Vec<(u64, u64)>,
    /// These were lost with rings, and fail until they are written whole.
    pub lost: Vec<(u64, u64)>,
}

/// What a file or device belongs to.
#[derive(Clone, Debug)]
pub enum What {
    /// A `mirror` or `hetero-mirror`.
    Mirror(Box<mirror::layout::Superblock>),
    /// A `parity` array.
    Parity(Box<parity::layout::Superblock>),
    /// A `hybrid`.
    Hybrid(Box<Super>),
    /// It is an emulated drive, in words.
    Drive(String),
}

impl What {
    /// The kind, as a stack file names it.
    pub fn kind(&self) -> &'static str {
        match self {
            What::Mirror(_) => "mirror",
            What::Parity(_) => "parity",
            What::Hybrid(_) => "hybrid",
            What::Drive(_) => "drive",
        }
    }

    /// The set, in hexadecimal; none for a drive.
    pub fn set(&self) -> Option<String> {
        match self {
            What::Mirror(sb) => Some(format!("{:016x}{:016x}", sb.set[0], sb.set[1])),
            What::Parity(sb) => Some(format!("{:016x}{:016x}", sb.head.set[0], sb.head.set[1])),
            What::Hybrid(sb) => Some(format!("{:016x}", sb.set)),
            What::Drive(_) => None,
        }
    }

    /// Which member it is, from 1, and of how many.
    pub fn member(&self) -> Option<(u32, u32)> {
        match self {
            What::Mirror(sb) => Some((u32::from(sb.leg) + 1, u32::from(sb.members))),
            What::Parity(sb) => Some((u32::from(sb.head.leg) + 1, u32::from(sb.head.members))),
            What::Hybrid(sb) => Some((sb.member + 1, sb.members)),
            What::Drive(_) => None,
        }
    }

    /// How often the set was opened or changed, as far as it knows.
    pub fn generation(&self) -> Option<u64> {
        match self {
            What::Mirror(sb) => Some(sb.generation.epoch),
            What::Parity(sb) => Some(sb.head.generation.epoch),
            What::Hybrid(sb) => Some(sb.claim.generation.number),
            What::Drive(_) => None,
        }
    }

    /// How it stands, by its own word.
    pub fn state(&self) -> &'static str {
        let of = |sb: &member::Superblock| match (sb.state, sb.clean) {
            (member::State::Pair, true) => "clean",
            (member::State::Pair, false) => "not ended in order",
            (member::State::Solo, true) => "alone, clean",
            (member::State::Solo, false) => "alone, not ended in order",
            (member::State::Opening, _) => "being opened",
        };
        match self {
            What::Mirror(sb) => of(sb),
            What::Parity(sb) => of(&sb.head),
            What::Hybrid(sb) if sb.claim.is_open => "opened",
            What::Hybrid(_) => "being opened",
            What::Drive(_) => "",
        }
    }
}

/// Looks at a file or device.
///
/// # Errors
/// It is not there, is no file or block device, or cannot be read.
pub fn examine(path: &Path) -> Result<Examined, LegError> {
    let shown = path.display().to_string();
    let fail = |error: io::Error| LegError {
        path: path.display().to_string(),
        missing: error.kind() == ErrorKind::NotFound,
        remedy: match error.kind() {
            ErrorKind::PermissionDenied => "run as a user who may read it",
            _ => "name files or block devices that a stack uses",
        },
        why: error.to_string(),
    };
    let mut file = File::open(path).map_err(fail)?;
    if file.metadata().map_err(fail)?.is_dir() {
        return Err(fail(io::Error::from(ErrorKind::IsADirectory)));
    }
    let bytes = file.seek(SeekFrom::End(0)).map_err(fail)?;
    let in_use = flock(&file, FlockOperation::NonBlockingLockShared).is_err();
    unlock(&file);
    let image = Image { file, bytes };
    let found = image.found().map_err(fail)?;
    Ok(Examined { path: shown, bytes: ByteLen(bytes), in_use, ..found })
}

/// What is to be said of a file that was made longer since it was a member of an array, where it is to be a leaf of `size`: its records are where it
/// ended then, and no device finds them.
pub(crate) fn made_longer(path: &Path, size: ByteLen) -> Option<String> {
    let (was, kind) = examine(path).ok()?.was.filter(|(was, _)| *was != size)?;
    let bytes = was.0;
    Some(format!(
        "it is longer than it was as a member of a {kind}, whose records are at its end: make it {bytes} bytes long again (`truncate -s {bytes}`), and correct `size`"
    ))
}

/// What is read of a file.
struct Image {
    file: File,
    bytes: u64,
}

impl Image {
    /// `len` bytes at `at`; none where the file does not have them.
    fn read(&self, at: u64, len: usize) -> io::Result<Option<Vec<u8>>> {
        if at.checked_add(len as u64).is_none_or(|end| end > self.bytes) {
            return Ok(None);
        }
        let mut page = vec![0; len];
        self.file.read_exact_at(&mut page, at)?;
        Ok(Some(page))
    }

    fn found(&self) -> io::Result<Examined> {
        let mut is_blank = true;
        let mut read_any = self.bytes == 0;
        let mut look = |at: Option<u64>, len: usize| -> io::Result<Option<Vec<u8>>> {
            let Some(at) = at else { return Ok(None) };
            let page = self.read(at, len)?;
            read_any |= page.is_some();
            is_blank &= page.as_ref().is_none_or(|page| page.iter().all(|&byte| byte == 0));
            Ok(page)
        };
        let mut checksums = None;
        let first = integrity::superblock_at(ByteLen(self.bytes));
        for at in [first, first.map(|at| at + RECORD as u64)] {
            let page = look(at, SECTOR as usize)?;
            checksums = checksums.or_else(|| integrity::recognise(&page?));
        }
        let end = checksums.map_or(self.bytes, |(_, data)| data.0.min(self.bytes));
        let mut what = None;
        for at in [Some(0), self.bytes.checked_sub(LABEL)] {
            let page = look(at, RECORD)?;
            what = what.or_else(|| said_by_label(&page?).map(What::Drive));
        }
        let mut members = Vec::new();
        for at in member::record::slots(end).into_iter().flatten() {
            members.extend(look(Some(at), RECORD)?.and_then(|page| member_of(&page)));
        }
        // Of two records the one that was written last counts.
        what = what.or_else(|| members.into_iter().max_by_key(|(seq, _)| *seq).map(|(_, what)| what));
        let mut supers: Vec<Super> = Vec::new();
        for page in PAGES {
            let last = (end / page * page).checked_sub(2 * page);
            for at in [Some(0), Some(page), last, last.map(|at| at + page)] {
                let found = look(at, page as usize)?.and_then(|bytes| Super::decode(&bytes));
                supers.extend(found.filter(|sb| sb.members <= HYBRID_MEMBERS && sb.member < sb.members));
            }
        }
        what =
            what.or_else(|| supers.into_iter().max_by_key(|sb| sb.seq).map(|sb| What::Hybrid(Box::new(sb))));
        let (path, bytes, in_use) = (String::new(), ByteLen(self.bytes), false);
        let last = if what.is_none() { self.last_data()? } else { None };
        let was = last.map_or(Ok(None), |end| self.records_before(end))?;
        let is_blank = is_blank && read_any && last.is_none();
        let regions = match &what {
            Some(What::Hybrid(sb)) => self.regions(sb)?,
            _ => None,
        };
        Ok(Examined { path, bytes, in_use, is_blank, was, checksums, what, regions })
    }

    /// What the map of dirty regions of this disk says; none where it has none.
    fn regions(&self, disk: &Super) -> io::Result<Option<Regions>> {
        let is_disk = disk.member + 1 == disk.members && disk.unit > 0;
        let Some(layout) = Layout::of(disk.size, disk.page, disk.unit).filter(|_| is_disk) else {
            return Ok(None);
        };
        let mut map = RegionMap::new(&layout);
        for at in 0..layout.map_pages() {
            let page = self.read(layout.at() + u64::from(at) * disk.page, disk.page as usize)?;
            layout.decode(at, &mut map, page.as_deref());
        }
        // Rings that were given up hold nothing that counts; those that are being given up are lost already.
        let dirty = map.dirty.runs();
        let end = layout.at();
        let dirty = match disk.rings {
            Standing::Needed | Standing::Leaving => ranges(&dirty, disk.unit, end),
            Standing::GivenUp => Vec::new(),
        };
        Ok(Some(Regions { dirty, lost: ranges(&map.lost.runs(), disk.page, end) }))
    }

    /// Where the last data end, as the file system has it; none where there are none, or where it does not tell.
    fn last_data(&self) -> io::Result<Option<u64>> {
        let (mut at, mut last) = (0, None);
        while at < self.bytes {
            let Ok(from) = seek(&self.file, rustix::fs::SeekFrom::Data(at)) else { break };
            if from == 0
                && last.is_none()
                && seek(&self.file, rustix::fs::SeekFrom::Hole(0)) == Ok(self.bytes)
            {
                // All of it are data: a device, or a file that was written whole.
                return Ok(None);
            }
            at = seek(&self.file, rustix::fs::SeekFrom::Hole(from))?;
            last = Some(at);
        }
        Ok(last)
    }

    /// The records of a member whose end lay at `end` or shortly before: how long it was, and of what.
    fn records_before(&self, end: u64) -> io::Result<Option<(ByteLen, &'static str)>> {
        let record = RECORD as u64;
        let member = |at: u64| -> io::Result<Option<&'static str>> {
            let found = self.read(at, RECORD)?.and_then(|page| member_of(&page));
            Ok(found.map(|(_, what)| what.kind()))
        };
        let upper = end.div_ceil(record);
        for at in (upper.saturating_sub(LOOKED_BACK / record)..upper).rev().map(|page| page * record) {
            let Some(kind) = member(at)? else { continue };
            let Some([lower, _]) = member::record::slots(at + record) else { continue };
            return Ok(member(lower)?.map(|_| (ByteLen(at + record), kind)));
        }
        Ok(None)
    }
}

/// A record of a member of an array, and its number.
fn member_of(page: &[u8]) -> Option<(u64, What)> {
    let mirror = mirror::layout::read_superblock(page).map(|(sb, _)| (sb.seq, What::Mirror(Box::new(sb))));
    let parity =
        || parity::layout::Superblock::read(page).map(|(sb, _)| (sb.head.seq, What::Parity(Box::new(sb))));
    mirror.or_else(parity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_with_more_members_than_a_hybrid_has_is_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ring");
        let found = |members: u32| {
            let mut page = vec![0; 4096];
            Super { members, page: 4096, seq: 1, ..Super::default() }.encode(&mut page);
            page.resize(1 << 20, 0);
            std::fs::write(&path, page).expect("it is ours");
            sets(&[examine(&path).expect("it can be read")]).len()
        };
        assert_eq!([1, 3, 4, u32::MAX].map(found), [1, 1, 0, 0]);
    }
}

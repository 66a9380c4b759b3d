//! A block device of the kernel whose requests this process serves: `/dev/ublkbN`, by the driver `ublk_drv` (Linux 6.5 and newer).
//!
//! *Commands.* All go through io_uring. Some go to `/dev/ublk-control` and make, start, stop and delete devices; the others to `/dev/ublkcN`, one for each
//! request that may be under way: it comes back when there is a request, which is described in memory that is mapped, and the answer goes with
//! the command that asks for the next one. The kernel ties a queue to the thread that has asked first.
//!
//! *Data* are copied (`UBLK_F_USER_COPY`): a write's are read from `/dev/ublkcN`, a read's are written to it, at a place for each tag.
//!
//! *Waiting.* The start of a device reads the table of partitions from it, and the stop of one waits for what is under way. Both
//! commands are under way beside requests, which must be served meanwhile ([`Port::take`] says when they have ended).
//!
//! *The end.* From the stop on the driver fails all requests of a device that another server may take over. So file systems are asked before to write what
//! they hold ([`WriteBack`]). A device that is mounted or open is taken away all the same; its number is free when nobody uses it any more.
//!
//! *Death.* A device outlives its server (`UBLK_F_USER_RECOVERY`). Its requests wait until another server takes it over, which is asked again for
//! those that the dead one had not answered. A server knows its own devices by a mark.

pub mod abi;
mod kernel;
mod write_back;

use abi::{Control, Descriptor, Info, Params};
use kernel::{Descriptors, Ring};
use nandu_base::ByteLen;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, pread, pwrite};
use std::fmt;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;
use write_back::WriteBack;

/// Requests of a device that may be under way.
pub(crate) const DEPTH: u16 = 128;
/// Most data of one of them.
pub(crate) const MAX_IO: u64 = 1 << 20;
/// The largest block that Linux takes for a device: a page.
const LARGEST_BLOCK: u64 = 4096;
/// What a server needs of the driver.
const NEEDED: u64 = abi::feature::USER_COPY | abi::feature::USER_RECOVERY | abi::feature::ENCODED;
/// What a device is made with.
const FEATURES: u64 = NEEDED | abi::feature::USER_RECOVERY_REISSUE;
/// Marks devices of Nandu in the upper half of a mark.
const OURS: u64 = 0x4E61_6E64;
/// How often, and how long each time, a device is asked again whose dead server is not gone yet.
const TRIES: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(50);
/// How often one that is taken away and still used. Its server has just let go of it, or it is mounted.
const TRIES_WHILE_USED: u32 = 60;
/// The driver's door.
const CONTROL: &str = "/dev/ublk-control";
/// Numbers of commands that are not for a request.
const STARTED: u64 = 1 << 32;
const STOPPED: u64 = 2 << 32;
const WRITTEN: u64 = 3 << 32;

/// Which number a block device gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UblkNumber {
    /// One that is free. Nobody takes such a device over.
    Free,
    /// This one for the first export, and those behind it for the others. A device of a server that died is taken over.
    From(u32),
}

/// Why an export is not offered as a block device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The kernel has no driver, or not for this process.
    #[error(
        "{CONTROL}: {errno}; ublk needs the kernel's driver (`modprobe ublk_drv`, Linux 6.5 or newer) and the right to open this file, which root has"
    )]
    NoDriver {
        /// What the operating system says.
        errno: Errno,
    },
    /// The driver is too old.
    #[error("{CONTROL}: the driver has no {what}; ublk needs Linux 6.5 or newer")]
    OldDriver {
        /// What is missing.
        what: &'static str,
    },
    /// No io_uring.
    #[error(
        "ublk: the kernel refuses io_uring: {error}; see that `kernel.io_uring_disabled` is 0 and that no seccomp filter forbids it"
    )]
    NoRing {
        /// What it says.
        error: std::io::Error,
    },
    /// The number is in use.
    #[error(
        "/dev/ublkb{number} has a server (process {pid}); give another number (--ublk ID), or end that one"
    )]
    InUse {
        /// The number.
        number: u32,
        /// Its server.
        pid: i32,
    },
    /// A device without a server that another program, or another export, has made.
    #[error(
        "/dev/ublkb{number} waits for its server, which was not one of export `{export}`; give another number (--ublk ID), or start what served it"
    )]
    NotOurs {
        /// The number.
        number: u32,
        /// The export.
        export: String,
    },
    /// A device without a server that is not like the export.
    #[error(
        "/dev/ublkb{number} waits for its server, and has {was}, where export `{export}` has {is}; serve the stack as it was, or give another number (--ublk ID)"
    )]
    Differs {
        /// The number.
        number: u32,
        /// The export.
        export: String,
        /// What the device has.
        was: String,
        /// What the export has.
        is: String,
    },
    /// The number is of a device that was taken away while somebody used it.
    #[error(
        "/dev/ublkb{number} was taken away while it was mounted or open, and its number is not free before that ends; unmount it, or give another \
         number (--ublk ID)"
    )]
    StillUsed {
        /// The number.
        number: u32,
    },
    /// File systems could not be asked to write what they hold.
    #[error(
        "{path} is taken away, and what a file system on it held may be lost: `blockdev --flushbufs`: {why}; unmount it before the end, and see \
         that util-linux is installed"
    )]
    NotWritten {
        /// The device.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Blocks that a block device cannot have.
    #[error(
        "export `{export}` has blocks of {block}, and a block device has powers of two from 512 B on; offer it by NBD (-U SOCK)"
    )]
    Blocks {
        /// The export.
        export: String,
        /// Its blocks.
        block: ByteLen,
    },
    /// The driver refuses.
    #[error("ublk: {what}: {errno}; the kernel's log (`dmesg`) may say why")]
    Refused {
        /// What was asked.
        what: String,
        /// What it says.
        errno: Errno,
    },
}

/// What an export is to the kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub export: String,
    pub size: ByteLen,
    /// Bytes of a block of the stack, and of the widest that requests are fitted to.
    pub block: u64,
    pub widest: u64,
    /// What is best moved at once.
    pub preferred: u64,
    pub read_only: bool,
}

impl Shape {
    /// What servers of this export mark their devices with.
    fn mark(&self) -> u64 {
        OURS << 32 | u64::from(crc32c::crc32c(self.export.as_bytes()))
    }

    fn params(&self) -> Result<Params, UblkError> {
        if !self.block.is_power_of_two() || self.block > self.widest {
            return Err(UblkError::Blocks { export: self.export.clone(), block: ByteLen(self.block) });
        }
        // Wider blocks are patched by the reactor.
        let logical = self.block.clamp(512, LARGEST_BLOCK);
        let shift = |bytes: u64| bytes.max(logical).ilog2() as u8;
        let read_only = if self.read_only { abi::attribute::READ_ONLY } else { 0 };
        Ok(Params {
            attributes: abi::attribute::VOLATILE_CACHE | abi::attribute::FUA | read_only,
            logical_shift: shift(logical),
            physical_shift: shift(self.block),
            optimal_shift: shift(self.preferred.next_power_of_two()),
            max_sectors: (MAX_IO / 512) as u32,
            sectors: self.size.0 / logical * (logical / 512),
            discard_bytes: self.block.max(logical) as u32,
            max_discard_sectors: u32::MAX >> 9,
        })
    }
}

/// Whether a device that waits for its server is like the export, or what differs.
fn is_like(was: &Params, is: &Params) -> Result<(), (String, String)> {
    let differs = |was: String, is: String| Err((was, is));
    if was.sectors != is.sectors {
        let size = |params: &Params| format!("{} sectors of 512 B", params.sectors);
        return differs(size(was), size(is));
    }
    if was.logical_shift != is.logical_shift {
        let block = |params: &Params| format!("blocks of {} B", 1_u64 << params.logical_shift);
        return differs(block(was), block(is));
    }
    let is_read_only = |params: &Params| params.attributes & abi::attribute::READ_ONLY != 0;
    if is_read_only(was) != is_read_only(is) {
        let word = |params| if is_read_only(params) { "no writes".to_string() } else { "writes".into() };
        return differs(word(was), word(is));
    }
    Ok(())
}

/// What the kernel says of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Said {
    /// There is a request.
    Request(u16, Descriptor),
    /// No request comes for one of the tags any more.
    Left,
    /// The device is there, or why not.
    Started(Result<(), Errno>),
    /// It is stopped.
    Stopped,
}

/// The kernel's side of one device.
pub(crate) trait Port {
    /// Asks for requests, and has the device made.
    fn start(&mut self);

    /// Has what file systems on it hold written, and then the device taken away.
    fn stop(&mut self);

    /// What the kernel has said since.
    fn take(&mut self) -> Option<Said>;

    /// The data of a write.
    ///
    /// # Errors
    /// The kernel does not give them.
    fn data_of(&self, tag: u16, into: &mut [u8]) -> Result<(), Errno>;

    /// The data of a read.
    ///
    /// # Errors
    /// The kernel does not take them.
    fn give(&self, tag: u16, data: &[u8]) -> Result<(), Errno>;

    /// Answers a request: bytes, or a negative errno.
    fn answer(&mut self, tag: u16, result: i32);

    /// Hands over what was asked and answered. False: it must be called again.
    fn submit(&mut self) -> bool;

    /// Has the kernel forget a device that is stopped, or was never started.
    ///
    /// # Errors
    /// What the kernel says, or why file systems on it were not asked to write what they hold.
    fn delete(self: Box<Self>) -> Result<(), UblkError>;
}

/// The driver.
#[derive(Debug)]
pub(crate) struct Driver {
    file: OwnedFd,
}

impl Driver {
    /// The driver of the kernel, if it can what is needed. This thread and those that it starts later may be what the kernel needs to get memory
    /// free, and are marked so.
    ///
    /// # Errors
    /// There is none, or it is too old.
    pub fn open() -> Result<Driver, UblkError> {
        let file = open(CONTROL, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| UblkError::NoDriver { errno })?;
        let driver = Driver { file };
        let mut features = [0; abi::FEATURES_BYTES];
        let asked = driver.ask(abi::GET_FEATURES, Control { device: u32::MAX, data: 0 }, &mut features)?;
        asked.map_err(|_| UblkError::OldDriver { what: "list of what it can do" })?;
        let features = u64::from_ne_bytes(features);
        let lacks = |feature| features & feature == 0;
        if lacks(abi::feature::USER_COPY) {
            return Err(UblkError::OldDriver { what: "copying by the server (UBLK_F_USER_COPY)" });
        }
        if lacks(abi::feature::USER_RECOVERY) || lacks(abi::feature::ENCODED) {
            return Err(UblkError::OldDriver { what: "take-over of devices (UBLK_F_USER_RECOVERY)" });
        }
        // Whom the kernel does not let is in no other place than a server of any other kind.
        let _ = rustix::process::configure_io_flusher_behavior(true);
        Ok(driver)
    }

    /// Refuses numbers whose devices have a server that lives, before anything else is begun.
    ///
    /// # Errors
    /// The first that has one.
    pub fn refuse_in_use(&self, first: UblkNumber, count: u32) -> Result<(), UblkError> {
        let UblkNumber::From(first) = first else { return Ok(()) };
        for number in first..first + count {
            if let Some(Info { pid, .. }) =
                self.info(number)?.filter(Info::is_live).filter(|info| lives(info.pid))
            {
                return Err(UblkError::InUse { number, pid });
            }
        }
        Ok(())
    }

    /// Has a command done that waits for nobody.
    fn ask(&self, command: u32, control: Control, data: &mut [u8]) -> Result<Result<(), Errno>, UblkError> {
        let mut ring = Ring::new(2, None).map_err(|error| UblkError::NoRing { error })?;
        Ok(ring.ask(&self.file, command, control, data))
    }

    /// Has the kernel forget a device that is stopped, or was never started. Nobody in this process has it open.
    fn delete(&self, number: u32) -> Result<(), UblkError> {
        let control = Control { device: number, data: 0 };
        let mut deleted = self.ask(abi::DEL_DEV_ASYNC, control, &mut [])?;
        if deleted.is_err() {
            // Linux before 6.9 does not know it, and older ones say so in other words. This one waits for who uses the device.
            deleted = self.ask(abi::DEL_DEV, control, &mut [])?;
        }
        match deleted {
            Ok(()) | Err(Errno::NODEV) => Ok(()), // gone already is what was wanted
            Err(errno) => Err(refused(number, "deleting it", errno)),
        }
    }

    /// What a device is, if there is one.
    fn info(&self, number: u32) -> Result<Option<Info>, UblkError> {
        let mut bytes = [0; abi::INFO_BYTES];
        match self.ask(abi::GET_DEV_INFO, Control { device: number, data: 0 }, &mut bytes)? {
            Ok(()) => Ok(Some(Info::of(&bytes))),
            Err(Errno::NODEV) => Ok(None),
            Err(errno) => Err(refused(number, "asking what it is", errno)),
        }
    }
}

fn refused(number: u32, what: &str, errno: Errno) -> UblkError {
    UblkError::Refused { what: format!("device {number}: {what}"), errno }
}

/// A device of the kernel.
pub(crate) struct Device {
    driver: Rc<Driver>,
    number: u32,
    depth: u16,
    /// It is taken over from a dead server.
    is_taken_over: bool,
    ring: Ring,
    /// File systems on it write what they hold, before it is stopped; and why they were not asked to.
    writing: Option<WriteBack>,
    unwritten: Option<String>,
    /// `/dev/ublkcN`, and what is mapped of it. It is unmapped first.
    descriptors: Descriptors,
    file: OwnedFd,
}

impl Device {
    /// A device for each export: of the numbers from `first` on, or of free ones.
    ///
    /// # Errors
    /// What is wrong with a number, or what the kernel says. Devices that were made are taken away again.
    pub fn open_all(
        driver: &Rc<Driver>,
        first: UblkNumber,
        shapes: &[Shape],
        wake: BorrowedFd<'_>,
    ) -> Result<Vec<Device>, UblkError> {
        let mut devices: Vec<Device> = Vec::new();
        for (at, shape) in (0..).zip(shapes) {
            let number = match first {
                UblkNumber::Free => None,
                UblkNumber::From(first) => Some(first + at),
            };
            match Device::open(driver, number, shape, wake) {
                Ok(device) => devices.push(device),
                Err(error) => {
                    for device in devices.into_iter().filter(|device| !device.is_taken_over) {
                        let _ = Box::new(device).delete(); // it is the first failure that counts
                    }
                    return Err(error);
                }
            }
        }
        Ok(devices)
    }

    /// Makes a device for an export, or takes over the one that a dead server of it has left. Nothing is served before [`Port::start`]. `wake`
    /// becomes readable when the kernel has said something.
    fn open(
        driver: &Rc<Driver>,
        number: Option<u32>,
        shape: &Shape,
        wake: BorrowedFd<'_>,
    ) -> Result<Device, UblkError> {
        let params = shape.params()?;
        let left = number.map(|number| Device::left(driver, number, shape, &params)).transpose()?.flatten();
        let (info, is_taken_over) = match left {
            Some(info) => (info, true),
            None => (Device::add(driver, number, shape)?, false),
        };
        let opened = Device::attach(driver, info, is_taken_over, &params, wake);
        if opened.is_err() && !is_taken_over {
            let _ = driver.delete(info.number); // it is the first failure that counts
        }
        opened
    }

    /// The device of this number that a dead server of the export has left. One that never started, or was stopped, is taken away, and one that is
    /// taken away already is waited for.
    fn left(driver: &Driver, number: u32, shape: &Shape, params: &Params) -> Result<Option<Info>, UblkError> {
        let not_ours = || Err(UblkError::NotOurs { number, export: shape.export.clone() });
        for tries in 0..TRIES {
            let Some(info) = driver.info(number)? else { return Ok(None) };
            let control = Control { device: number, data: 0 };
            let is_gone = !Path::new(&requests_of(number)).exists();
            match info.state {
                abi::state::DEAD if is_gone && tries >= TRIES_WHILE_USED => {
                    return Err(UblkError::StillUsed { number });
                }
                abi::state::DEAD if is_gone => {} // its last user may be about to let go
                abi::state::DEAD if info.mark != shape.mark() => return not_ours(),
                abi::state::DEAD => {
                    // Whoever is about to start it has it open, and only one can.
                    drop(open_requests(number)?);
                    driver.delete(number)?;
                }
                abi::state::QUIESCED => {
                    if info.mark != shape.mark() || info.queues != 1 || info.features & NEEDED != NEEDED {
                        return not_ours();
                    }
                    let mut bytes = Params::wanted();
                    driver
                        .ask(abi::GET_PARAMS, control, &mut bytes)?
                        .map_err(|errno| refused(number, "asking for its size", errno))?;
                    is_like(&Params::of(&bytes), params).map_err(|(was, is)| UblkError::Differs {
                        number,
                        export: shape.export.clone(),
                        was,
                        is,
                    })?;
                    match driver.ask(abi::START_USER_RECOVERY, control, &mut [])? {
                        Ok(()) => return Ok(Some(info)),
                        Err(Errno::BUSY) => {} // the dead server is not gone yet
                        Err(errno) => return Err(refused(number, "taking it over", errno)),
                    }
                }
                _ if lives(info.pid) => return Err(UblkError::InUse { number, pid: info.pid }),
                _ => {}
            }
            std::thread::sleep(BETWEEN);
        }
        Err(refused(number, "taking it over", Errno::BUSY))
    }

    fn add(driver: &Driver, number: Option<u32>, shape: &Shape) -> Result<Info, UblkError> {
        let wanted = Info {
            queues: 1,
            depth: DEPTH,
            state: 0,
            max_io: MAX_IO as u32,
            number: number.unwrap_or(u32::MAX),
            pid: 0,
            features: FEATURES,
            mark: shape.mark(),
        };
        let mut bytes = wanted.bytes();
        let added = driver.ask(abi::ADD_DEV, Control { device: wanted.number, data: 0 }, &mut bytes)?;
        let name = number.map_or_else(|| "a new device".into(), |number| format!("device {number}"));
        added.map_err(|errno| UblkError::Refused { what: format!("{name}: adding it"), errno })?;
        Ok(Info::of(&bytes))
    }

    fn attach(
        driver: &Rc<Driver>,
        info: Info,
        is_taken_over: bool,
        params: &Params,
        wake: BorrowedFd<'_>,
    ) -> Result<Device, UblkError> {
        let number = info.number;
        if !is_taken_over {
            let set =
                driver.ask(abi::SET_PARAMS, Control { device: number, data: 0 }, &mut params.bytes())?;
            set.map_err(|errno| refused(number, "setting its size", errno))?;
        }
        let file = open_requests(number)?;
        let mapped = Descriptors::map(&file, info.depth);
        let descriptors = mapped.map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            refused(number, "mapping its requests", errno)
        })?;
        // A command for each request, and one or two for the device.
        let entries = (u32::from(info.depth) + 2).next_power_of_two();
        let ring = Ring::new(entries, Some(wake)).map_err(|error| UblkError::NoRing { error })?;
        Ok(Device {
            driver: Rc::clone(driver),
            number,
            depth: info.depth,
            is_taken_over,
            ring,
            writing: None,
            unwritten: None,
            descriptors,
            file,
        })
    }

    /// Requests that may be under way.
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Whether a server before this one has served it, and died.
    pub fn is_taken_over(&self) -> bool {
        self.is_taken_over
    }

    /// Where it is.
    pub fn path(&self) -> String {
        format!("/dev/ublkb{}", self.number)
    }

    fn stage_control(&mut self, command: u32, data: u64, number: u64) {
        let control = Control { device: self.number, data };
        self.ring.stage_control(&self.driver.file, command, control, number);
    }
}

/// Where a server finds the requests of a device.
fn requests_of(number: u32) -> String {
    format!("/dev/ublkc{number}")
}

fn open_requests(number: u32) -> Result<OwnedFd, UblkError> {
    let path = requests_of(number);
    open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| UblkError::Refused { what: format!("{path} cannot be opened"), errno })
}

/// Whether there is such a process, and it has not ended.
fn lives(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")) else {
        return false;
    };
    // The name in parentheses may hold anything; the state is behind it.
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

impl Port for Device {
    fn start(&mut self) {
        for tag in 0..self.depth {
            self.ring.stage(&self.file, abi::FETCH, tag, 0);
        }
        let command = if self.is_taken_over { abi::END_USER_RECOVERY } else { abi::START_DEV };
        self.stage_control(command, std::process::id().into(), STARTED);
    }

    fn stop(&mut self) {
        match WriteBack::start(&self.path()) {
            Ok(writing) => {
                self.ring.stage_poll(writing.end(), WRITTEN);
                self.writing = Some(writing);
            }
            Err(error) => {
                self.unwritten = Some(error.to_string());
                self.stage_control(abi::STOP_DEV, 0, STOPPED);
            }
        }
    }

    fn take(&mut self) -> Option<Said> {
        let (number, result) = self.ring.take()?;
        let result_of =
            |result: i32| if result < 0 { Err(Errno::from_raw_os_error(-result)) } else { Ok(()) };
        Some(match number {
            STARTED => Said::Started(result_of(result)),
            STOPPED => Said::Stopped,
            WRITTEN => {
                self.unwritten = self.writing.take().and_then(WriteBack::failure);
                self.stage_control(abi::STOP_DEV, 0, STOPPED);
                return self.take();
            }
            tag if result == 0 => Said::Request(tag as u16, self.descriptors.read(tag as u16)),
            _ => Said::Left,
        })
    }

    fn data_of(&self, tag: u16, into: &mut [u8]) -> Result<(), Errno> {
        let count = pread(&self.file, &mut *into, abi::data_at(tag))?;
        if count == into.len() { Ok(()) } else { Err(Errno::IO) }
    }

    fn give(&self, tag: u16, data: &[u8]) -> Result<(), Errno> {
        let count = pwrite(&self.file, data, abi::data_at(tag))?;
        if count == data.len() { Ok(()) } else { Err(Errno::IO) }
    }

    fn answer(&mut self, tag: u16, result: i32) {
        self.ring.stage(&self.file, abi::COMMIT_AND_FETCH, tag, result);
    }

    fn submit(&mut self) -> bool {
        !self.ring.is_staged() || self.ring.submit()
    }

    fn delete(self: Box<Self>) -> Result<(), UblkError> {
        let path = self.path();
        let Device { driver, number, descriptors, file, ring, unwritten, .. } = *self;
        drop((descriptors, ring, file));
        driver.delete(number)?;
        unwritten.map_or(Ok(()), |why| Err(UblkError::NotWritten { path, why }))
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(block: u64) -> Shape {
        let (size, widest) = (ByteLen(10 << 20), 64 << 10);
        Shape { export: "disk".into(), size, block, widest, preferred: 65536, read_only: false }
    }

    #[test]
    fn blocks_of_a_device_are_those_of_the_stack_as_far_as_linux_takes_them() {
        let shifts = |block| {
            let params = shape(block).params().expect("a power of two");
            (params.logical_shift, params.physical_shift, params.sectors, params.discard_bytes)
        };
        assert_eq!(shifts(1), (9, 9, 20480, 512));
        assert_eq!(shifts(512), (9, 9, 20480, 512));
        assert_eq!(shifts(4096), (12, 12, 20480, 4096));
        assert_eq!(shifts(65536), (12, 16, 20480, 65536));
        assert!(matches!(shape(3 << 9).params(), Err(UblkError::Blocks { .. })));
        assert!(matches!(shape(128 << 10).params(), Err(UblkError::Blocks { .. })));
    }

    #[test]
    fn a_device_is_taken_over_by_what_is_like_it_alone() {
        let was = shape(512).params().expect("a power of two");
        let of = |shape: Shape| shape.params().expect("a power of two");
        assert_eq!(is_like(&was, &of(Shape { preferred: 4096, ..shape(512) })), Ok(()));
        for other in [
            Shape { size: ByteLen(11 << 20), ..shape(512) },
            Shape { read_only: true, ..shape(512) },
            shape(4096),
        ] {
            assert!(is_like(&was, &of(other.clone())).is_err(), "{other:?}");
        }
        assert_ne!(shape(512).mark(), Shape { export: "other".into(), ..shape(512) }.mark());
    }

    #[test]
    fn a_process_that_has_ended_is_no_server() {
        assert!(lives(std::process::id() as i32));
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        child.wait().expect("it ends");
        assert!(!lives(child.id() as i32));
        assert!(!lives(0));
    }

    #[test]
    fn a_kernel_without_the_driver_is_named_with_what_would_be_right() {
        if Path::new(CONTROL).exists() {
            return; // this kernel has it
        }
        let error = Driver::open().expect_err("there is none").to_string();
        assert!(error.starts_with("/dev/ublk-control: ") && error.contains("modprobe ublk_drv"), "{error}");
    }
}

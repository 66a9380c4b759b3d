//! What is said between a server and the kernel's ublk driver: numbers and layouts, byte by byte.
//!
//! Source: `include/uapi/linux/ublk_cmd.h` of Linux 6.12. Commands are those with an encoded size, which the driver knows from Linux 6.4 on; data are
//! copied by the server (`UBLK_F_USER_COPY`), which is Linux 6.5. All numbers are in the order of the machine.

/// Bytes of a command to `/dev/ublk-control`.
const CONTROL_BYTES: usize = 32;
/// Bytes of a command for a request, to `/dev/ublkcN`.
const REQUEST_BYTES: usize = 16;
/// Bytes of what a device is.
pub const INFO_BYTES: usize = 64;
/// Bytes of the parameters that are set: head, basic ones, those of discards.
pub const PARAMS_BYTES: usize = 60;
/// Bytes of the answer to [`GET_FEATURES`].
pub const FEATURES_BYTES: usize = 8;
/// Numbers of 64 bits that describe a request.
pub const DESCRIPTOR_WORDS: usize = 3;
/// Bytes of a command in an entry of a ring of wide entries.
pub const ENTRY_BYTES: usize = 80;

const READ: u32 = 2;
const BOTH: u32 = 3;

/// The number of a command: which way it moves how many bytes, as for `ioctl`.
const fn number(way: u32, command: u32, bytes: usize) -> u32 {
    way << 30 | (bytes as u32) << 16 | (b'u' as u32) << 8 | command
}

/// What the driver can do.
pub const GET_FEATURES: u32 = number(READ, 0x13, CONTROL_BYTES);
/// What a device is.
pub const GET_DEV_INFO: u32 = number(READ, 0x02, CONTROL_BYTES);
/// Makes a device.
pub const ADD_DEV: u32 = number(BOTH, 0x04, CONTROL_BYTES);
/// Takes a device away. It waits until nobody has its `/dev/ublkcN` open or mapped, nor `/dev/ublkbN`.
pub const DEL_DEV: u32 = number(BOTH, 0x05, CONTROL_BYTES);
/// Makes `/dev/ublkbN`. It waits until every request is asked for, and then reads the table of partitions from the server.
pub const START_DEV: u32 = number(BOTH, 0x06, CONTROL_BYTES);
/// Takes `/dev/ublkbN` away. What is under way is served before; what file systems on it still hold fails where another server may take it over.
pub const STOP_DEV: u32 = number(BOTH, 0x07, CONTROL_BYTES);
/// Says how large a device is, and what it can do.
pub const SET_PARAMS: u32 = number(BOTH, 0x08, CONTROL_BYTES);
/// Asks for that.
pub const GET_PARAMS: u32 = number(READ, 0x09, CONTROL_BYTES);
/// Another server takes a device over whose own is dead.
pub const START_USER_RECOVERY: u32 = number(BOTH, 0x10, CONTROL_BYTES);
/// It has asked for every request.
pub const END_USER_RECOVERY: u32 = number(BOTH, 0x11, CONTROL_BYTES);
/// Takes a device away and waits for nobody: its number is free when the last has closed it (Linux 6.9).
pub const DEL_DEV_ASYNC: u32 = number(READ, 0x14, CONTROL_BYTES);
/// Asks for the first request of a tag.
pub const FETCH: u32 = number(BOTH, 0x20, REQUEST_BYTES);
/// Answers the request of a tag, and asks for the next.
pub const COMMIT_AND_FETCH: u32 = number(BOTH, 0x21, REQUEST_BYTES);

/// What a device is made with.
pub mod feature {
    /// Another server may take it over when its own dies; requests wait for that.
    pub const USER_RECOVERY: u64 = 1 << 3;
    /// What the dead one had not answered is asked of the new one.
    pub const USER_RECOVERY_REISSUE: u64 = 1 << 4;
    /// Commands have an encoded size.
    pub const ENCODED: u64 = 1 << 6;
    /// Data are read from and written to `/dev/ublkcN`.
    pub const USER_COPY: u64 = 1 << 7;
}

/// How a device stands.
pub mod state {
    /// It is made and not started, or stopped.
    pub const DEAD: u16 = 0;
    /// It is served.
    pub const LIVE: u16 = 1;
    /// Its server is dead, and its requests wait for another.
    pub const QUIESCED: u16 = 2;
}

/// What a device says of itself to the kernel.
pub mod attribute {
    /// Nobody may write.
    pub const READ_ONLY: u32 = 1;
    /// What is written is durable after a flush.
    pub const VOLATILE_CACHE: u32 = 1 << 2;
    /// A write may ask to be durable at its end.
    pub const FUA: u32 = 1 << 3;
}

/// What a request asks for.
pub mod op {
    /// Data.
    pub const READ: u8 = 0;
    /// To store data.
    pub const WRITE: u8 = 1;
    /// To make durable what was answered.
    pub const FLUSH: u8 = 2;
    /// To forget.
    pub const DISCARD: u8 = 3;
    /// Zeros.
    pub const WRITE_ZEROES: u8 = 5;
}

/// How a request is to be served.
pub mod request_flag {
    /// It is durable at its end.
    pub const FUA: u32 = 1 << 13;
    /// Zeros take space.
    pub const NO_UNMAP: u32 = 1 << 15;
}

/// A command to `/dev/ublk-control`, but for memory that it names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Control {
    /// Which device.
    pub device: u32,
    /// The one number of it.
    pub data: u64,
}

impl Control {
    /// The command, with memory of `len` bytes at `address`.
    pub fn bytes(&self, address: u64, len: u16) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[0..4].copy_from_slice(&self.device.to_ne_bytes());
        bytes[4..6].copy_from_slice(&u16::MAX.to_ne_bytes()); // no queue
        bytes[6..8].copy_from_slice(&len.to_ne_bytes());
        bytes[8..16].copy_from_slice(&address.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.data.to_ne_bytes());
        bytes
    }
}

/// [`FETCH`] or [`COMMIT_AND_FETCH`] for a tag of the first queue, with the result of its request: bytes, or a negative `errno`.
pub fn request(tag: u16, result: i32) -> [u8; ENTRY_BYTES] {
    let mut bytes = [0; ENTRY_BYTES];
    bytes[2..4].copy_from_slice(&tag.to_ne_bytes());
    bytes[4..8].copy_from_slice(&result.to_ne_bytes());
    bytes
}

/// Where the data of a request of the first queue lie in `/dev/ublkcN`.
pub fn data_at(tag: u16) -> u64 {
    0x8000_0000 + (u64::from(tag) << 25)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at + if cfg!(target_endian = "little") { 4 } else { 0 })) << 32
        | u64::from(u32_at(bytes, at + if cfg!(target_endian = "little") { 0 } else { 4 }))
}

/// What a device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// Queues.
    pub queues: u16,
    /// Requests of a queue at a time.
    pub depth: u16,
    /// How it stands.
    pub state: u16,
    /// Most data of a request.
    pub max_io: u32,
    /// Its number; `u32::MAX`: the kernel chooses.
    pub number: u32,
    /// The process of its server.
    pub pid: i32,
    /// What it is made with.
    pub features: u64,
    /// A number that its server gave it.
    pub mark: u64,
}

impl Info {
    /// As the kernel takes it.
    pub fn bytes(&self) -> [u8; INFO_BYTES] {
        let mut bytes = [0; INFO_BYTES];
        bytes[0..2].copy_from_slice(&self.queues.to_ne_bytes());
        bytes[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.state.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.max_io.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.number.to_ne_bytes());
        bytes[16..20].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.features.to_ne_bytes());
        bytes[32..40].copy_from_slice(&self.mark.to_ne_bytes());
        bytes
    }

    /// Whether it is served, as far as the kernel knows.
    pub fn is_live(&self) -> bool {
        self.state == state::LIVE
    }

    /// As the kernel gives it.
    pub fn of(bytes: &[u8; INFO_BYTES]) -> Info {
        Info {
            queues: u16_at(bytes, 0),
            depth: u16_at(bytes, 2),
            state: u16_at(bytes, 4),
            max_io: u32_at(bytes, 8),
            number: u32_at(bytes, 12),
            pid: u32_at(bytes, 16) as i32,
            features: u64_at(bytes, 24),
            mark: u64_at(bytes, 32),
        }
    }
}

/// How large a device is, and what it can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params {
    /// [`attribute`]s.
    pub attributes: u32,
    /// Powers of two: the block of requests, that of the medium, and what is best moved at once.
    pub logical_shift: u8,
    /// See above.
    pub physical_shift: u8,
    /// See above.
    pub optimal_shift: u8,
    /// Most sectors of a read or write.
    pub max_sectors: u32,
    /// How long it is.
    pub sectors: u64,
    /// The unit of discards, in bytes.
    pub discard_bytes: u32,
    /// Most sectors of a discard, and of zeros.
    pub max_discard_sectors: u32,
}

/// [`Params`] hold basic ones and those of discards.
const BASIC_AND_DISCARD: u32 = 3;

impl Params {
    /// As the kernel takes them.
    pub fn bytes(&self) -> [u8; PARAMS_BYTES] {
        let mut bytes = Params::wanted();
        bytes[8..12].copy_from_slice(&self.attributes.to_ne_bytes());
        bytes[12..16].copy_from_slice(&[
            self.logical_shift,
            self.physical_shift,
            self.optimal_shift,
            self.physical_shift,
        ]);
        bytes[16..20].copy_from_slice(&self.max_sectors.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.sectors.to_ne_bytes());
        bytes[44..48].copy_from_slice(&self.discard_bytes.to_ne_bytes());
        bytes[48..52].copy_from_slice(&self.max_discard_sectors.to_ne_bytes());
        bytes[52..56].copy_from_slice(&self.max_discard_sectors.to_ne_bytes());
        bytes[56..58].copy_from_slice(&1_u16.to_ne_bytes()); // one range for each discard
        bytes
    }

    /// What [`GET_PARAMS`] is asked with.
    pub fn wanted() -> [u8; PARAMS_BYTES] {
        let mut bytes = [0; PARAMS_BYTES];
        bytes[0..4].copy_from_slice(&(PARAMS_BYTES as u32).to_ne_bytes());
        bytes[4..8].copy_from_slice(&BASIC_AND_DISCARD.to_ne_bytes());
        bytes
    }

    /// As the kernel gives them.
    pub fn of(bytes: &[u8; PARAMS_BYTES]) -> Params {
        Params {
            attributes: u32_at(bytes, 8),
            logical_shift: bytes[12],
            physical_shift: bytes[13],
            optimal_shift: bytes[14],
            max_sectors: u32_at(bytes, 16),
            sectors: u64_at(bytes, 24),
            discard_bytes: u32_at(bytes, 44),
            max_discard_sectors: u32_at(bytes, 48),
        }
    }
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// An [`op`].
    pub op: u8,
    /// [`request_flag`]s.
    pub flags: u32,
    /// Its extent.
    pub sectors: u32,
    /// See above.
    pub start: u64,
}

impl Descriptor {
    /// As the kernel gives it.
    pub fn of(words: [u64; DESCRIPTOR_WORDS]) -> Descriptor {
        let head = words[0].to_ne_bytes();
        let word = u32_at(&head, 0);
        Descriptor { op: word as u8, flags: word & !0xFF, sectors: u32_at(&head, 4), start: words[1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that the macros of the header come to.
    #[test]
    fn commands_have_the_numbers_of_the_header() {
        let controls = [
            (GET_FEATURES, 0x8020_7513),
            (GET_DEV_INFO, 0x8020_7502),
            (ADD_DEV, 0xC020_7504),
            (DEL_DEV, 0xC020_7505),
            (START_DEV, 0xC020_7506),
            (STOP_DEV, 0xC020_7507),
            (SET_PARAMS, 0xC020_7508),
            (GET_PARAMS, 0x8020_7509),
            (START_USER_RECOVERY, 0xC020_7510),
            (END_USER_RECOVERY, 0xC020_7511),
            (DEL_DEV_ASYNC, 0x8020_7514),
            (FETCH, 0xC010_7520),
            (COMMIT_AND_FETCH, 0xC010_7521),
        ];
        for (number, wanted) in controls {
            assert_eq!(number, wanted, "{number:#x}");
        }
    }

    #[test]
    fn a_control_command_has_the_places_of_the_header() {
        let bytes = Control { device: 0x0102_0304, data: 0x1112_1314_1516_1718 }.bytes(0x2122_2324, 0x3132);
        let device = 0x0102_0304_u32.to_ne_bytes();
        assert_eq!(bytes[..4], device);
        assert_eq!(bytes[4..6], [0xFF; 2], "the queue: none");
        assert_eq!(bytes[6..8], 0x3132_u16.to_ne_bytes());
        assert_eq!(bytes[8..16], 0x2122_2324_u64.to_ne_bytes());
        assert_eq!(bytes[16..24], 0x1112_1314_1516_1718_u64.to_ne_bytes());
        assert!(bytes[24..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_command_for_a_request_has_the_places_of_the_header() {
        let bytes = request(0x0102, -5);
        assert_eq!(bytes[..2], [0; 2], "the first queue");
        assert_eq!(bytes[2..4], 0x0102_u16.to_ne_bytes());
        assert_eq!(bytes[4..8], (-5_i32).to_ne_bytes());
        assert!(bytes[8..].iter().all(|&byte| byte == 0), "the address must not be set with user copy");
    }

    #[test]
    fn what_a_device_is_has_the_places_of_the_header() {
        let info = Info {
            queues: 1,
            depth: 128,
            state: 2,
            max_io: 1 << 20,
            number: 7,
            pid: 4711,
            features: 0xF8,
            mark: 1 << 63 | 5,
        };
        let bytes = info.bytes();
        assert_eq!(Info::of(&bytes), info);
        assert_eq!(bytes[2..4], 128_u16.to_ne_bytes());
        assert_eq!(bytes[8..12], (1_u32 << 20).to_ne_bytes());
        assert_eq!(bytes[12..16], 7_u32.to_ne_bytes());
        assert_eq!(bytes[16..20], 4711_u32.to_ne_bytes());
        assert_eq!(bytes[24..32], 0xF8_u64.to_ne_bytes());
        assert_eq!(bytes[32..40], (1_u64 << 63 | 5).to_ne_bytes());
        assert!(bytes[40..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn parameters_have_the_places_of_the_header() {
        let params = Params {
            attributes: attribute::VOLATILE_CACHE | attribute::FUA,
            logical_shift: 9,
            physical_shift: 12,
            optimal_shift: 16,
            max_sectors: 2048,
            sectors: 1 << 33,
            discard_bytes: 4096,
            max_discard_sectors: u32::MAX >> 9,
        };
        let bytes = params.bytes();
        assert_eq!(Params::of(&bytes), params);
        assert_eq!(bytes[..4], 60_u32.to_ne_bytes());
        assert_eq!(bytes[4..8], 3_u32.to_ne_bytes());
        assert_eq!(bytes[8..12], 12_u32.to_ne_bytes());
        assert_eq!(bytes[12..16], [9, 12, 16, 12]);
        assert_eq!(bytes[16..20], 2048_u32.to_ne_bytes());
        assert_eq!(bytes[24..32], (1_u64 << 33).to_ne_bytes());
        assert_eq!(bytes[40..44], [0; 4], "discards are aligned to the start");
        assert_eq!(bytes[44..48], 4096_u32.to_ne_bytes());
        assert_eq!(bytes[48..52], bytes[52..56]);
        assert_eq!(bytes[56..58], 1_u16.to_ne_bytes());
    }

    #[test]
    fn a_descriptor_is_read_as_the_header_says() {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&(u32::from(op::WRITE) | request_flag::FUA).to_ne_bytes());
        head[4..].copy_from_slice(&8_u32.to_ne_bytes());
        let found = Descriptor::of([u64::from_ne_bytes(head), 1 << 40, 99]);
        assert_eq!(found, Descriptor { op: op::WRITE, flags: request_flag::FUA, sectors: 8, start: 1 << 40 });
    }

    #[test]
    fn data_lie_where_the_header_says() {
        assert_eq!(data_at(0), 0x8000_0000);
        assert_eq!(data_at(3), 0x8000_0000 + 3 * (32 << 20));
    }
}

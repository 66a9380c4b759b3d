//! The handshake: from the greeting to the transmission phase ("Fixed newstyle negotiation").
//!
//! This file cuts the byte stream into options; [`options`](super::options) answers them.
//!
//! Memory: one buffer that grows with the option data received, to less than twice [`OPTION_DATA_MAX`]; it is gone
//! when the transmission phase starts. Data that nobody will look at (of unknown, oversize or data-less options) is
//! counted and dropped as it comes.

use super::error::NbdError;
use super::export::Exports;
use super::options::{Answer, Door, Negotiated, Tls};
use super::wire::{self, client_flag, handshake_flag, opt};

/// Longest option data that is kept, in bytes: a name and a handful of queries, each of the longest kind. A longer
/// option is answered with `NBD_REP_ERR_TOO_BIG`.
pub const OPTION_DATA_MAX: u32 = 32 << 10;

/// Appends what the server says first: fixed newstyle, zeroes optional.
pub(super) fn greet(out: &mut Vec<u8>) {
    out.extend_from_slice(&wire::NBD_MAGIC.to_be_bytes());
    out.extend_from_slice(&wire::OPTION_MAGIC.to_be_bytes());
    out.extend_from_slice(&(handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES).to_be_bytes());
}

/// What one call brought about.
#[derive(Debug)]
pub(super) enum Progress {
    /// All input is consumed, no option is complete.
    NeedMore,
    /// One option is answered.
    Answered(Answer),
}

/// Where in the stream the machine stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    ClientFlags,
    OptionHead,
    OptionData,
}

/// The machine that reads the client's flags and options.
#[derive(Debug)]
pub(super) struct Handshake {
    stage: Stage,
    /// The fixed part being read: client flags or the head of an option.
    head: [u8; wire::OPTION_HEAD_BYTES],
    filled: usize,
    /// The option being read, the length of its data, and how much of that is still to come.
    option: u32,
    length: u32,
    owed: u32,
    data: Vec<u8>,
    negotiated: Negotiated,
}

impl Handshake {
    pub(super) fn new() -> Handshake {
        Handshake {
            stage: Stage::ClientFlags,
            head: [0; wire::OPTION_HEAD_BYTES],
            filled: 0,
            option: 0,
            length: 0,
            owed: 0,
            data: Vec::new(),
            negotiated: Negotiated::default(),
        }
    }

    /// Whether sessions are encrypted.
    pub(super) fn set_tls(&mut self, tls: Tls) {
        self.negotiated.tls = tls;
    }

    /// Whether a message is incomplete.
    pub(super) fn mid_message(&self) -> bool {
        self.stage == Stage::OptionData || self.filled > 0
    }

    /// Reads `input` up to the end of the next option and appends its answer to `out`.
    ///
    /// Returns how many bytes were consumed: all of them unless an option was answered.
    pub(super) fn step(
        &mut self,
        exports: &Exports,
        door: &Door,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(usize, Progress), NbdError> {
        let mut rest = input;
        loop {
            let complete = match self.stage {
                Stage::ClientFlags => self.read_client_flags(&mut rest)?,
                Stage::OptionHead => self.read_option_head(&mut rest)?,
                Stage::OptionData => self.read_option_data(&mut rest),
            };
            if !complete {
                return Ok((input.len(), Progress::NeedMore));
            }
            if self.stage == Stage::OptionData && self.owed == 0 {
                self.stage = Stage::OptionHead;
                let answer =
                    self.negotiated.answer(exports, door, self.option, self.length, &self.data, out)?;
                self.data.clear();
                return Ok((input.len() - rest.len(), Progress::Answered(answer)));
            }
        }
    }

    /// Collects `wanted` bytes in `head`; true when they are all there.
    fn fill(&mut self, rest: &mut &[u8], wanted: usize) -> bool {
        let n = rest.len().min(wanted - self.filled);
        let (now, later) = rest.split_at(n);
        self.head[self.filled..self.filled + n].copy_from_slice(now);
        *rest = later;
        self.filled += n;
        let complete = self.filled == wanted;
        if complete {
            self.filled = 0;
        }
        complete
    }

    fn read_client_flags(&mut self, rest: &mut &[u8]) -> Result<bool, NbdError> {
        if !self.fill(rest, wire::CLIENT_FLAGS_BYTES) {
            return Ok(false);
        }
        let flags = u32::from_be_bytes([self.head[0], self.head[1], self.head[2], self.head[3]]);
        if flags & !client_flag::KNOWN != 0 {
            return Err(NbdError::ClientFlags { flags });
        }
        self.negotiated.no_zeroes = flags & client_flag::NO_ZEROES != 0;
        self.stage = Stage::OptionHead;
        Ok(true)
    }

    fn read_option_head(&mut self, rest: &mut &[u8]) -> Result<bool, NbdError> {
        if !self.fill(rest, wire::OPTION_HEAD_BYTES) {
            return Ok(false);
        }
        let (magic, tail) = self.head.split_at(8);
        let found = u64::from_be_bytes(magic.try_into().expect("eight bytes"));
        let (option, length) = tail.split_at(4);
        if found != wire::OPTION_MAGIC {
            return Err(NbdError::OptionMagic { found });
        }
        self.option = u32::from_be_bytes(option.try_into().expect("four bytes"));
        self.length = u32::from_be_bytes(length.try_into().expect("four bytes"));
        if self.option == opt::EXPORT_NAME && self.length as usize > wire::STRING_MAX {
            return Err(NbdError::ExportNameTooLong { length: self.length });
        }
        self.owed = self.length;
        self.stage = Stage::OptionData;
        Ok(true)
    }

    fn read_option_data(&mut self, rest: &mut &[u8]) -> bool {
        let n = rest.len().min(self.owed as usize);
        let (now, later) = rest.split_at(n);
        if Negotiated::reads_data(self.option) && self.length <= OPTION_DATA_MAX {
            self.data.extend_from_slice(now);
        }
        *rest = later;
        self.owed -= n as u32;
        self.owed == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_data_take_bounded_memory() {
        for length in [OPTION_DATA_MAX, OPTION_DATA_MAX + 1, u32::MAX] {
            let (mut handshake, mut out) = (Handshake::new(), Vec::new());
            let mut stream = vec![0, 0, 0, 3];
            stream.extend(wire::OPTION_MAGIC.to_be_bytes());
            stream.extend(opt::GO.to_be_bytes());
            stream.extend(length.to_be_bytes());
            handshake.step(&Exports::default(), &Door::Open, &stream, &mut out).expect("a good start");
            assert_eq!(handshake.data.capacity(), 0, "a claimed length costs nothing");
            let most = 2 * OPTION_DATA_MAX as usize;
            for _ in 0..length.min(300_000) / 1024 {
                handshake.step(&Exports::default(), &Door::Open, &[0xff; 1024], &mut out).expect("more data");
                assert!(handshake.data.capacity() <= most, "{} bytes", handshake.data.capacity());
            }
        }
    }
}

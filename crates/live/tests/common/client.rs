//! A small NBD client for tests: it says exactly what it is told to say, and checks the form of what it hears.

use nandu_live::nbd::wire::{self, chunk, client_flag, cmd, info, opt, rep};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The end of one request: data of a read, nothing otherwise, or the error number.
pub type Outcome = Result<Vec<u8>, u32>;

pub struct Client {
    pub stream: UnixStream,
    next: u64,
    /// Length of reads that are not answered, by cookie.
    asked: BTreeMap<u64, usize>,
    pub size: u64,
    pub flags: u16,
}

pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

pub fn go(export: &str) -> Vec<u8> {
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend(1_u16.to_be_bytes());
    data.extend(info::BLOCK_SIZE.to_be_bytes());
    option(opt::GO, &data)
}

pub fn hello() -> Vec<u8> {
    (client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES).to_be_bytes().to_vec()
}

pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

impl Client {
    pub fn connect(socket: &Path, export: &str) -> Client {
        Client::try_connect(socket, export).expect("the server lets us in")
    }

    pub fn try_connect(socket: &Path, export: &str) -> std::io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(super::DEADLINE))?;
        stream.read_exact(&mut [0; wire::GREETING_BYTES])?;
        let mut client = Client { stream, next: 1, asked: BTreeMap::new(), size: 0, flags: 0 };
        let mut said = hello();
        said.extend(option(opt::STRUCTURED_REPLY, &[]));
        said.extend(go(export));
        client.stream.write_all(&said)?;
        loop {
            let head = client.take(wire::OPTION_REPLY_HEAD_BYTES)?;
            let mut fields = wire::Fields(&head);
            assert_eq!(fields.u64(), Some(wire::OPTION_REPLY_MAGIC));
            let (of, kind, length) = (fields.u32(), fields.u32(), fields.u32());
            let data = client.take(length.expect("a length") as usize)?;
            match (of, kind) {
                (Some(opt::GO), Some(rep::INFO)) => client.learn(&data),
                (Some(opt::GO), Some(rep::ACK)) => return Ok(client),
                (Some(opt::STRUCTURED_REPLY), Some(rep::ACK)) => {}
                other => return Err(std::io::Error::other(format!("refused: {other:?}"))),
            }
        }
    }

    fn learn(&mut self, data: &[u8]) {
        let mut fields = wire::Fields(data);
        if fields.u16() == Some(info::EXPORT) {
            self.size = fields.u64().expect("a size");
            self.flags = fields.u16().expect("flags");
        }
    }

    fn take(&mut self, count: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// Sends a request and returns its cookie.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> u64 {
        self.try_send(command, flags, offset, length, data).expect("the server listens")
    }

    pub fn try_send(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> std::io::Result<u64> {
        let cookie = self.next;
        self.next += 1;
        let mut bytes = request(command, flags, cookie, offset, length);
        bytes.extend(data);
        self.stream.write_all(&bytes)?;
        self.asked.insert(cookie, if command == cmd::READ { length as usize } else { 0 });
        Ok(cookie)
    }

    /// Appends a read to `said`, which the caller sends, and returns its cookie.
    pub fn ask(&mut self, said: &mut Vec<u8>, offset: u64, length: u32) -> u64 {
        let cookie = self.next;
        self.next += 1;
        said.extend(request(cmd::READ, 0, cookie, offset, length));
        self.asked.insert(cookie, length as usize);
        cookie
    }

    /// The next reply, whichever request it belongs to.
    pub fn receive(&mut self) -> (u64, Outcome) {
        self.try_receive().expect("the server answers")
    }

    pub fn try_receive(&mut self) -> std::io::Result<(u64, Outcome)> {
        let magic = self.take(4)?;
        let magic = u32::from_be_bytes(magic.try_into().expect("four bytes"));
        let (cookie, outcome) = match magic {
            wire::SIMPLE_REPLY_MAGIC => {
                let rest = self.take(12)?;
                let mut fields = wire::Fields(&rest);
                let (error, cookie) = (fields.u32().expect("an error"), fields.u64().expect("a cookie"));
                (cookie, if error == 0 { Ok(Vec::new()) } else { Err(error) })
            }
            wire::CHUNK_MAGIC => self.chunk()?,
            other => panic!("a reply starts with {other:#x}"),
        };
        let length = self
            .asked
            .remove(&cookie)
            .unwrap_or_else(|| panic!("{cookie} was not asked, or answered before"));
        if let Ok(data) = &outcome {
            assert_eq!(data.len(), length, "all data come");
        }
        Ok((cookie, outcome))
    }

    /// The server answers reads in one chunk.
    fn chunk(&mut self) -> std::io::Result<(u64, Outcome)> {
        let rest = self.take(16)?;
        let mut fields = wire::Fields(&rest);
        let (flags, kind) = (fields.u16().expect("flags"), fields.u16().expect("a type"));
        let (cookie, length) = (fields.u64().expect("a cookie"), fields.u32().expect("a length"));
        assert_eq!(flags, chunk::FLAG_DONE);
        let data = self.take(length as usize)?;
        let outcome = match kind {
            chunk::OFFSET_DATA => Ok(data[8..].to_vec()),
            chunk::ERROR | chunk::ERROR_OFFSET => Err(wire::Fields(&data).u32().expect("an error")),
            other => panic!("chunk of type {other}"),
        };
        Ok((cookie, outcome))
    }

    /// Receives the replies of all that is under way: how many have failed.
    pub fn drain(&mut self) -> std::io::Result<u64> {
        let mut failed = 0;
        while !self.asked.is_empty() {
            failed += u64::from(self.try_receive()?.1.is_err());
        }
        Ok(failed)
    }

    /// Sends a request and waits for its reply; nothing else is under way.
    pub fn call(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Outcome {
        let cookie = self.send(command, flags, offset, length, data);
        let (answered, outcome) = self.receive();
        assert_eq!(answered, cookie);
        outcome
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        self.call(cmd::READ, 0, offset, length, &[]).expect("a read works")
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.call(cmd::WRITE, 0, offset, data.len() as u32, data).expect("a write works");
    }

    pub fn flush(&mut self) {
        self.call(cmd::FLUSH, 0, 0, 0, &[]).expect("a flush works");
    }

    /// Says good-bye and waits for the end of the stream.
    pub fn disconnect(mut self) {
        self.stream.write_all(&request(cmd::DISC, 0, 0, 0, 0)).expect("the server listens");
        assert_eq!(self.stream.read_to_end(&mut Vec::new()).expect("the server hangs up"), 0);
    }

    /// Whether the server has hung up.
    pub fn is_hung_up(&mut self) -> bool {
        self.stream.read_exact(&mut [0; 1]).is_err()
    }
}

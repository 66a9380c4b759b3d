//! What a client says, for tests.

use super::nbd::wire::{self, client_flag};

/// The client's flags that make it a modern one.
pub fn hello() -> Vec<u8> {
    (client_flag::FIXED_NEWSTYLE | client_flag::NO_ZEROES).to_be_bytes().to_vec()
}

pub fn option(option: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(option.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// A string with its length before it.
pub fn string(text: &[u8]) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_be_bytes().to_vec();
    bytes.extend(text);
    bytes
}

/// Data of `OPT_INFO` and `OPT_GO`.
pub fn info_data(name: &str, asked: &[u16]) -> Vec<u8> {
    let mut bytes = string(name.as_bytes());
    bytes.extend((asked.len() as u16).to_be_bytes());
    asked.iter().for_each(|kind| bytes.extend(kind.to_be_bytes()));
    bytes
}

/// Data of `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`.
pub fn queries(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut bytes = string(name.as_bytes());
    bytes.extend((queries.len() as u32).to_be_bytes());
    queries.iter().for_each(|query| bytes.extend(string(query.as_bytes())));
    bytes
}

/// A request; the data of a write come after it.
pub fn request(flags: u16, command: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = wire::REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// An extended request; its payload comes after it.
pub fn extended(flags: u16, command: u16, cookie: u64, offset: u64, length: u64) -> Vec<u8> {
    let mut bytes = wire::EXTENDED_REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// One option reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionReply {
    pub option: u32,
    pub kind: u32,
    pub data: Vec<u8>,
}

/// Splits what a server sent into option replies; `None` if it is anything else.
pub fn option_replies(bytes: &[u8]) -> Option<Vec<OptionReply>> {
    let mut fields = wire::Fields(bytes);
    let mut replies = Vec::new();
    while !fields.is_empty() {
        if fields.u64()? != wire::OPTION_REPLY_MAGIC {
            return None;
        }
        let (option, kind, length) = (fields.u32()?, fields.u32()?, fields.u32()?);
        replies.push(OptionReply { option, kind, data: fields.bytes(length as usize)?.to_vec() });
    }
    Some(replies)
}

/// A reply of the transmission phase, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    Simple { error: u32, cookie: u64 },
    Chunk { flags: u16, kind: u16, cookie: u64, length: u32 },
    Extended { flags: u16, kind: u16, cookie: u64, offset: u64, length: u64 },
}

/// The reply at the front of `fields`, without its payload; `None` if it is none.
pub fn reply(fields: &mut wire::Fields<'_>) -> Option<Reply> {
    match fields.u32()? {
        wire::SIMPLE_REPLY_MAGIC => Some(Reply::Simple { error: fields.u32()?, cookie: fields.u64()? }),
        wire::CHUNK_MAGIC => Some(Reply::Chunk {
            flags: fields.u16()?,
            kind: fields.u16()?,
            cookie: fields.u64()?,
            length: fields.u32()?,
        }),
        wire::EXTENDED_CHUNK_MAGIC => Some(Reply::Extended {
            flags: fields.u16()?,
            kind: fields.u16()?,
            cookie: fields.u64()?,
            offset: fields.u64()?,
            length: fields.u64()?,
        }),
        _ => None,
    }
}

//! Any bytes where machines keep their records: a record, or none.

use nandu_array::{mirror, parity};

/// Length of a page of records.
const PAGE: usize = 4096;

/// Where the checksum of a superblock stands, over everything before.
const CHECKSUM_AT: usize = 508;

/// The bytes, with zeros behind them, as each kind of record; once as they are, and once with the right checksum.
pub fn check(input: &[u8]) {
    let mut page = [0; PAGE];
    let len = input.len().min(PAGE);
    page[..len].copy_from_slice(&input[..len]);
    decode(&page);
    let sum = crc32c::crc32c(&page[..CHECKSUM_AT]);
    page[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
    decode(&page);
}

fn decode(page: &[u8]) {
    let _ = mirror::layout::decode_superblock(page);
    let _ = mirror::layout::decode_page(0, 0, page);
    let _ = mirror::layout::decode_lost(0, page);
    let _ = parity::layout::Superblock::decode(page);
    let _ = parity::layout::Entry::decode(page);
}

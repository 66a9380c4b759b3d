//! Any bytes where machines keep their records: a record, or none.

use nandu_array::{mirror, parity};
use nandu_base::Seal;

/// Length of a page of records.
const PAGE: usize = 4096;

/// The checksum of a superblock.
const SEAL: Seal = Seal::behind(508);

/// The bytes, with zeros behind them, as each kind of record; once as they are, and once with the right checksum.
pub fn check(input: &[u8]) {
    let mut page = [0; PAGE];
    let len = input.len().min(PAGE);
    page[..len].copy_from_slice(&input[..len]);
    decode(&page);
    SEAL.put(&mut page);
    decode(&page);
}

fn decode(page: &[u8]) {
    let _ = mirror::layout::read_superblock(page);
    let _ = mirror::layout::read_page(0, 0, page);
    let _ = mirror::layout::read_lost(0, page);
    let _ = parity::layout::Superblock::read(page);
    let _ = parity::layout::Entry::read(page);
}

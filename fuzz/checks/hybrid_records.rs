//! Any bytes where a hybrid disk keeps its records: a header of a group, a superblock, or none.

use nandu_base::Seal;
use nandu_hybrid::record::{Header, Super, capacity};

/// Length of a page of records.
const PAGE: usize = 4096;
/// The checksum of a record.
const SEAL: Seal = Seal::inside(68);

/// The bytes, with zeros behind them; once as they are, and once with the right checksum.
pub fn check(input: &[u8]) {
    let mut page = [0; PAGE];
    let len = input.len().min(PAGE);
    page[..len].copy_from_slice(&input[..len]);
    decode(&page);
    SEAL.put(&mut page);
    decode(&page);
}

fn decode(page: &[u8]) {
    if let Some((header, _)) = Header::read(page) {
        assert!(header.entries.len() <= capacity(page.len()), "more entries than fit");
        let mut again = [0; PAGE];
        header.encode(&mut again);
        assert_eq!(Header::read(&again), Some((header, false)));
    }
    if let Some(found) = Super::decode(page) {
        let mut again = [0; PAGE];
        found.encode(&mut again);
        assert_eq!(Super::decode(&again), Some(found));
    }
    let _ = Super::is_before(page);
}

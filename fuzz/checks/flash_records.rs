//! Any bytes where a drive keeps records on its flash: of trims, of tenants, of a checkpoint.

use nandu_ftl::checkpoint::Checkpoint;
use nandu_ftl::isolation::Table;
use nandu_ftl::trim_journal::TrimJournal;

/// The bytes as each kind of record.
pub fn check(input: &[u8]) {
    let mut page = [0; 4096];
    let len = input.len().min(page.len());
    page[..len].copy_from_slice(&input[..len]);
    if let Some(extents) = TrimJournal::decode(&page) {
        assert!(extents.len() <= TrimJournal::extents_per_record(page.len()), "more extents than fit");
    }
    let _ = Table::decode(&page);
    let words: Vec<u32> =
        page.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let _ = Checkpoint::pages(&words);
    let _ = Checkpoint::decode(&words);
}

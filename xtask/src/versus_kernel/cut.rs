//! What a cut loses: one process of a guest writes until the power goes, another one looks after the next start.
//!
//! Write number N has a place of its own and holds N all over. When it and the flush after it have been answered, its number goes to a file of the
//! host, which the cut does not reach.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

const BLOCK: usize = 4096;
/// The blocks that the loads before have filled.
const BLOCKS: u64 = (32 << 20) / BLOCK as u64;
/// Prime to the number of blocks, so that no block is written twice.
const STRIDE: u64 = 3_121;
/// The file of the host: how many writes are durable, in eight bytes.
pub const DURABLE: &str = "durable";

fn place(number: u64) -> u64 {
    number * STRIDE % BLOCKS * BLOCK as u64
}

/// Word by word the number of the write; the first one has number 1, for a blank block has zeros.
fn content(number: u64) -> Vec<u8> {
    (number + 1).to_le_bytes().repeat(BLOCK / 8)
}

/// Writes and flushes `disk`, so many times at most, until the power goes.
pub fn write(disk: &Path, folder: &Path, most: u64) -> std::io::Result<()> {
    let disk = OpenOptions::new().write(true).open(disk)?;
    let durable = File::create(folder.join(DURABLE))?;
    for number in 0..most.min(BLOCKS) {
        disk.write_all_at(&content(number), place(number))?;
        disk.sync_data()?;
        durable.write_all_at(&(number + 1).to_le_bytes(), 0)?;
        durable.sync_data()?;
    }
    Ok(())
}

/// How many writes the host knows to be durable.
pub fn durable(folder: &Path) -> u64 {
    let bytes = std::fs::read(folder.join(DURABLE)).unwrap_or_default();
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// How many of the durable writes `disk` holds, how many it does not hold, and how many it cannot read.
pub fn check(disk: &Path, folder: &Path) -> std::io::Result<[u64; 3]> {
    let disk = File::open(disk)?;
    let mut found = [0; 3];
    let mut block = vec![0; BLOCK];
    for number in 0..durable(folder) {
        let kind = match disk.read_exact_at(&mut block, place(number)) {
            Ok(()) if block == content(number) => 0,
            Ok(()) => 1,
            Err(_) => 2,
        };
        found[kind] += 1;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_is_gone_is_counted() {
        let folder = std::env::temp_dir().join(format!("nandu-versus-kernel-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let disk = folder.join("disk");
        let image = File::create(&disk).expect("a file");
        image.set_len(BLOCKS * BLOCK as u64).expect("room");
        write(&disk, &folder, 10).expect("it can be written");
        assert_eq!(check(&disk, &folder).expect("it can be read"), [10, 0, 0]);
        image.write_all_at(&[0; BLOCK], place(1)).expect("it can be written");
        let farthest = (0..10).map(place).max().expect("there are ten");
        image.set_len(farthest + 1).expect("it can be made shorter");
        assert_eq!(check(&disk, &folder).expect("it can be read"), [8, 1, 1]);
        std::fs::remove_dir_all(&folder).expect("it is ours");
    }
}

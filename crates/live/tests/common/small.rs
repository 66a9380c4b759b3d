//! A file system that can be filled.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own for a leg, small enough to be filled; gone with the value.
pub struct Small(PathBuf);

impl Small {
    /// Mounts it; `None` where this process may not.
    pub fn mount(at: &Path, bytes: u64) -> Option<Small> {
        let size = format!("size={bytes}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(at);
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        mounted.then(|| Small(at.to_path_buf()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status(); // the folder above is temporary
    }
}

const BALLAST: &str = "ballast";

/// Leaves 64 KiB of a small file system.
pub fn fill(dir: &Path) {
    let fs = rustix::fs::statvfs(dir).expect("a file system");
    let room = (fs.f_bavail * fs.f_frsize).saturating_sub(64 << 10);
    std::fs::write(dir.join(BALLAST), vec![1; room as usize]).expect("there is room");
}

/// Makes room again.
pub fn make_room(dir: &Path) {
    let _ = std::fs::remove_file(dir.join(BALLAST)); // there may be none
}

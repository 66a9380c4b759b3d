//! Power cuts of a whole system: a guest of user-mode Linux serves a stack from its block devices and writes to it, and its host kills it.
//!
//! What the guest had in its page cache and in its queues is lost then, and what its block devices were given before a flush is kept in files
//! of the host. After each flush that was answered the guest tells the host what is durable, in a file of the host's own file
//! system; the next boot finds what it must hold.

use crate::common::client::Client;
use crate::common::process::have;
use crate::common::versions::{Knowledge, write_and_fail};
use crate::common::{Served, options};
use crate::faults::{Fault, copy_store};
use crate::kinds::{Kind, LEG};
use crate::life::look;
use crate::tally::{RIGHT, Tally};
use nandu_base::Rng;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where guest and host meet, in the environment of the guest.
const FOLDER: &str = "NANDU_SOAK_GUEST";
const KIND: &str = "NANDU_SOAK_KIND";
const BOOT: &str = "NANDU_SOAK_BOOT";
const PLANT: &str = "NANDU_SOAK_PLANT";
/// The test that is the guest.
const ENTRY: &str = "the_guest";
/// Blocks that were read and right, or what is wrong.
const LOOKED: &str = "looked";
/// How often the guest has told what is durable, and that: numbers of eight bytes.
const DURABLE: &str = "durable";
/// Versions for one boot: none is given twice.
const VERSIONS: u64 = 1 << 20;
/// A boot takes seconds; longer than this is a failure.
const LONGEST: Duration = Duration::from_secs(180);

/// A planted fault, which a soak must find.
pub fn planted() -> Option<String> {
    std::env::var(PLANT).ok().filter(|plant| !plant.is_empty())
}

/// Whether guests can run here.
pub fn is_possible() -> bool {
    have("linux.uml") && have("mkfs.ext4")
}

/// Boots a guest again and again on the same images, each time cut after some flushes; sometimes a leg freezes, and sometimes one is put back to
/// an older copy, which the next guest must refuse.
pub fn live(kind: &Kind, number: usize, cuts: u64, rng: &mut Rng, tally: &mut Tally) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let images = kind.legs.len().max(1);
    for image in 0..images {
        let path = dir.path().join(format!("{image}.img"));
        let bytes = if kind.has_files() { LEG } else { 64 << 20 };
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("an image");
        if !kind.has_files() {
            let made = Command::new("mkfs.ext4").arg("-q").arg(&path).status();
            assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4 works");
        }
    }
    for boot in 0..=cuts {
        let mut guest = Guest::boot(dir.path(), images, number, boot);
        let looked = guest
            .wait(|dir| std::fs::read_to_string(dir.join(LOOKED)).ok().filter(|text| text.ends_with('\n')))?;
        let right = looked.trim().parse::<u64>().map_err(|_| format!("boot {boot}: {looked}"))?;
        tally.count(RIGHT, right);
        let before = told(dir.path());
        let flushes = rng.between(2, 30);
        guest.wait(|dir| (told(dir) >= before + flushes).then_some(()))?;
        guest.cut();
        tally.count("cuts of a guest", 1);
        if fault_of(kind, boot).is_some() {
            tally.count("boots with a freezing leg", 1);
        }
        std::fs::remove_file(dir.path().join(LOOKED)).expect("it was read");
        if kind.has_files() && kind.knows_old && boot > 0 && boot % 3 == 0 {
            put_an_older_copy(dir.path(), images, number, boot, rng)?;
            tally.count("older copies refused in a guest", 1);
        }
        if boot == 1 {
            (0..images)
                .for_each(|image| copy_store(&image_of(dir.path(), image), &older_of(dir.path(), image)));
        }
    }
    Ok(())
}

fn image_of(dir: &Path, image: usize) -> PathBuf {
    dir.join(format!("{image}.img"))
}

fn older_of(dir: &Path, image: usize) -> PathBuf {
    dir.join(format!("{image}.older"))
}

/// A leg as it was some cuts ago: the guest refuses to serve.
fn put_an_older_copy(
    dir: &Path,
    images: usize,
    number: usize,
    boot: u64,
    rng: &mut Rng,
) -> Result<(), String> {
    let saved = |image: usize| dir.join(format!("{image}.saved"));
    (0..images).for_each(|image| copy_store(&image_of(dir, image), &saved(image)));
    let old = rng.below(images as u64) as usize;
    copy_store(&older_of(dir, old), &image_of(dir, old));
    let mut guest = Guest::boot(dir, images, number, boot);
    let said = guest
        .wait(|dir| std::fs::read_to_string(dir.join(LOOKED)).ok().filter(|text| text.ends_with('\n')))?;
    guest.cut();
    std::fs::remove_file(dir.join(LOOKED)).expect("it was read");
    (0..images).for_each(|image| std::fs::rename(saved(image), image_of(dir, image)).expect("it is ours"));
    match said.contains("old") {
        true => Ok(()),
        false => Err(format!("boot {boot}: an older copy of leg {old} is not refused: {said}")),
    }
}

/// Every other boot has a leg that freezes again and again.
fn fault_of(kind: &Kind, boot: u64) -> Option<(usize, Fault)> {
    (kind.has_files() && boot % 2 == 1).then(|| (boot as usize / 2 % kind.legs.len(), Fault::Freeze))
}

/// How often the guest has told what is durable.
fn told(dir: &Path) -> u64 {
    let bytes = std::fs::read(dir.join(DURABLE)).unwrap_or_default();
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

struct Guest<'a> {
    child: Child,
    dir: &'a Path,
}

impl Guest<'_> {
    fn boot(dir: &Path, images: usize, kind: usize, boot: u64) -> Guest<'_> {
        let program = std::env::current_exe().expect("a test program has a path");
        let init = dir.join("init");
        let text = format!(
            "#!/bin/sh\nmount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t tmpfs tmp /mnt -o size=64m\n\
             {FOLDER}={dir} {KIND}={kind} {BOOT}={boot} {PLANT}={plant} {program} --exact {ENTRY} --ignored --nocapture > /dev/console 2>&1\nhalt -f\n",
            dir = dir.display(),
            plant = planted().unwrap_or_default(),
            program = program.display(),
        );
        let program = std::fs::Permissions::from_mode(0o755);
        std::fs::write(&init, text)
            .and_then(|()| std::fs::set_permissions(&init, program))
            .expect("it can be written");
        let log = File::create(dir.join("console")).expect("a log");
        // What the host says of it, memory that it does not get for one, comes here and not from its kernel.
        let errors = log.try_clone().expect("a log");
        let mut linux = Command::new("linux.uml");
        linux.args([
            "mem=256M",
            "root=/dev/root",
            "rootfstype=hostfs",
            "rootflags=/",
            "rw",
            "con=null",
            "con0=null,fd:1",
        ]);
        linux.arg(format!("init={}", init.display()));
        linux.args(
            (0..images).map(|image| format!("ubd{image}={}", dir.join(format!("{image}.img")).display())),
        );
        linux.stdin(Stdio::null()).stdout(log).stderr(errors).process_group(0);
        Guest { child: linux.spawn().expect("user-mode Linux starts"), dir }
    }

    /// Waits for something that the guest says.
    fn wait<T>(&mut self, mut said: impl FnMut(&Path) -> Option<T>) -> Result<T, String> {
        let start = Instant::now();
        loop {
            if let Some(said) = said(self.dir) {
                return Ok(said);
            }
            let ended = self.child.try_wait().expect("a child can be waited for");
            if ended.is_some() || start.elapsed() > LONGEST {
                let console = std::fs::read(self.dir.join("console")).unwrap_or_default();
                let console = String::from_utf8_lossy(&console);
                // Without the kernel's own traces.
                let told: Vec<&str> = console.lines().filter(|line| !line.starts_with(" [<")).collect();
                let tail = &told[told.len().saturating_sub(40)..];
                return Err(format!("the guest says nothing more; it ended: {ended:?}\n{}", tail.join("\n")));
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }

    /// The power goes: all processes of the guest are killed.
    fn cut(mut self) {
        self.kill();
    }

    fn kill(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL); // it may have ended
        let _ = self.child.wait();
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Inside the guest: looks, says what it found, then writes until the power goes.
pub fn be_a_guest(kinds: &[Kind]) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (Ok(folder), Some(kind), Some(boot)) = (std::env::var(FOLDER), number(KIND), number(BOOT)) else {
        return;
    };
    let folder = Path::new(&folder);
    let kind = &kinds[kind as usize];
    let said = match serve_and_look(kind, folder, boot) {
        Ok((server, mut client, mut known)) => {
            say(folder, LOOKED, format!("{}\n", kind.blocks).as_bytes());
            let mut rng = Rng::new(boot);
            let mut count = told(folder);
            loop {
                let failed = write_and_fail(&mut client, &mut known, &mut rng, kind.blocks, 120);
                let failed = failed.and_then(|failed| client.drain().map(|more| failed + more));
                if !matches!(failed, Ok(0)) {
                    break format!("requests failed: {failed:?}; {}", server.status());
                }
                count += 1;
                let numbers =
                    std::iter::once(&count).chain(&known.durable).flat_map(|number| number.to_le_bytes());
                say(folder, DURABLE, &numbers.collect::<Vec<u8>>());
            }
        }
        Err(wrong) => wrong,
    };
    say(folder, LOOKED, format!("{said}\n").as_bytes());
    panic!("{said}");
}

/// Puts a file into the host's file system, whole.
fn say(folder: &Path, name: &str, bytes: &[u8]) {
    let new = folder.join("new");
    let written =
        File::create(&new).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.and_then(|()| std::fs::rename(&new, folder.join(name))).expect("the host takes it");
}

fn serve_and_look(kind: &Kind, folder: &Path, boot: u64) -> Result<(Served, Client, Knowledge), String> {
    let dir = Path::new("/mnt/life");
    std::fs::create_dir_all(dir).expect("a directory");
    let device = |image: usize| format!("/dev/ubd{}", char::from(b'a' + image as u8));
    if kind.has_files() {
        for leg in 0..kind.legs.len() {
            let (folder, file) = kind.place(leg, dir);
            std::fs::create_dir_all(folder).expect("a directory");
            std::os::unix::fs::symlink(device(leg), file).expect("a link");
        }
    } else {
        let mounted = Command::new("mount").args(["-t", "ext4", &device(0)]).arg(dir).status();
        assert!(mounted.is_ok_and(|status| status.success()), "the guest mounts its disk");
    }
    let mut known = Knowledge::new(kind.blocks);
    if let Ok(bytes) = std::fs::read(folder.join(DURABLE)) {
        let numbers =
            bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        known = Knowledge::after_a_cut(numbers.skip(1).collect(), boot * VERSIONS);
    }
    // Whatever the lock of the dead guest was, it died with it.
    let mut options = options(&kind.stack(false, fault_of(kind, boot)), dir);
    options.planted.extend(planted());
    let server = Served::try_start(options).map_err(|error| error.to_string())?;
    let mut client = server.connect("data");
    look(&mut client, &mut known, kind.blocks)?;
    Ok((server, client, known))
}

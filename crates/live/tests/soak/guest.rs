//! Power cuts of a whole system: a guest of user-mode Linux serves a stack from its block devices and writes to it, and its host kills it.
//!
//! What the guest had in its page cache and in its queues is lost then, and what its block devices were given before a flush is kept in files
//! of the host. After each flush that was answered the guest tells the host what is durable, in a file of the host's own file
//! system; the next boot finds what it must hold.

use crate::common::process::have;
use crate::common::small::{fill, make_room};
use crate::common::versions::{BLOCK, Knowledge, write_and_fail};
use crate::common::{Served, options};
use crate::faults::{Fault, copy_store, flip, flip_data, flip_store};
use crate::kinds::{Below, Kind, LEG};
use crate::life::{after_a_flip, look, look_or_fail, mend, whole};
use crate::tally::{RIGHT, Tally};
use nandu_base::Rng;
use nandu_live::ServeOptions;
use std::convert::Infallible;
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
const ORDER: &str = "NANDU_SOAK_ORDER";
const MOUNTED: &str = "NANDU_SOAK_MOUNTED";
const PLANT: &str = "NANDU_SOAK_PLANT";
/// The test that is the guest.
const ENTRY: &str = "the_guest";
/// Blocks that were read and right, or what is wrong.
const LOOKED: &str = "looked";
/// The host: the stack is to end. The guest: it has.
const END: &str = "end";
const ENDED: &str = "ended";
/// How the guest begins to say that the stack was not served, that something damaged was served and right, and that it was not.
const REFUSED: &str = "refused:";
const BORNE: &str = "borne:";
const WRONG: &str = "wrong:";
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

/// What the host wants of one boot; it travels as words of the environment.
#[derive(Clone, Copy, Default)]
struct Order {
    /// A leg has this fault; what fails then is not counted against the stack.
    fault: Option<(usize, Fault)>,
    /// The stack ends cleanly where the host says so, and is not cut.
    ends: bool,
    /// Nothing is written: what was damaged is looked at, and mended where the stack can.
    after: Option<Damage>,
}

/// What was done to the images of a stack that had ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Damage {
    /// Bits of data below checksums.
    Data,
    /// A bit of the records at the end of a leg: refused, or right.
    Records,
    /// A bit of the store of a flash drive; the guest itself flips it, for it lies in its file system, and puts it right again.
    Store,
    /// A leg is as it was some cuts ago: refused.
    Older,
}

const FAULTS: [Fault; 4] = [Fault::Freeze, Fault::Errors, Fault::Loss, Fault::Full];
const DAMAGES: [Damage; 4] = [Damage::Data, Damage::Records, Damage::Store, Damage::Older];

impl Order {
    fn to_words(self) -> String {
        // One more than its place; 0 for none.
        let fault = FAULTS.iter().position(|&one| self.fault.is_some_and(|(_, fault)| fault == one));
        let after = DAMAGES.iter().position(|&one| self.after == Some(one));
        let number = |place: Option<usize>| place.map_or(0, |place| place + 1);
        let leg = self.fault.map_or(0, |(leg, _)| leg);
        format!("{} {leg} {} {}", number(fault), u8::from(self.ends), number(after))
    }

    fn from_words(words: &str) -> Order {
        let numbers: Vec<usize> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [fault, leg, ends, after] = numbers[..] else { panic!("an order is four numbers: {words}") };
        Order {
            fault: fault.checked_sub(1).map(|fault| (leg, FAULTS[fault])),
            ends: ends == 1,
            after: after.checked_sub(1).map(|after| DAMAGES[after]),
        }
    }

    /// Requests may fail, and the start too.
    fn is_rough(self) -> bool {
        self.fault.is_some_and(|(_, fault)| fault != Fault::Freeze)
    }
}

/// The images of one stack, and what lies on them.
struct Place<'a> {
    kind: &'a Kind,
    number: usize,
    dir: &'a Path,
    images: usize,
    /// Legs are files in a file system of their own, which can be full.
    mounted: bool,
}

/// Boots a guest again and again on the same images. Every other boot has a fault of a leg, or a full file system, and is cut; the others are cut
/// after some flushes, or end cleanly, and then bits are flipped or a leg is put back to an older copy, and a guest says what becomes of it.
pub fn live(kind: &Kind, number: usize, cuts: u64, rng: &mut Rng, tally: &mut Tally) -> Result<(), String> {
    let dir = tempfile::tempdir().expect("a directory");
    let images = kind.legs.len().max(1);
    let mounted = !kind.has_files() || kind.tolerant && rng.below(2) == 0;
    let place = Place { kind, number, dir: dir.path(), images, mounted };
    for image in 0..images {
        let path = place.image(image);
        let bytes = if !kind.has_files() {
            64 << 20
        } else if mounted {
            2 * LEG
        } else {
            LEG
        };
        File::create(&path).and_then(|file| file.set_len(bytes)).expect("an image");
        if mounted {
            let made = Command::new("mkfs.ext4").arg("-q").arg(&path).status();
            assert!(made.is_ok_and(|status| status.success()), "mkfs.ext4 works");
        }
    }
    for boot in 0..=cuts {
        let fault = if boot % 2 == 1 { place.draw(rng) } else { None };
        let order = Order { fault, ends: boot % 2 == 0 && boot > 0 && rng.below(2) == 0, after: None };
        place.boot(boot, order, rng.between(2, 30), tally)?;
        if boot == 0 {
            (0..images).for_each(|image| copy_store(&place.image(image), &place.aside(image, "older")));
        } else if order.ends {
            place.damage(boot, rng, tally)?;
        }
    }
    Ok(())
}

impl Place<'_> {
    fn image(&self, image: usize) -> PathBuf {
        self.aside(image, "img")
    }

    fn aside(&self, image: usize, word: &str) -> PathBuf {
        self.dir.join(format!("{image}.{word}"))
    }

    /// A fault that the kind bears here.
    fn draw(&self, rng: &mut Rng) -> Option<(usize, Fault)> {
        let leg = rng.below(self.kind.legs.len().max(1) as u64) as usize;
        let fault = *rng.pick(&FAULTS);
        let borne = match fault {
            Fault::Full => self.mounted,
            _ => self.kind.has_files() && self.kind.bears(leg, fault),
        };
        let freeze = self.kind.has_files().then_some((leg, Fault::Freeze));
        if borne { Some((leg, fault)) } else { freeze }
    }

    /// One boot that writes until it is cut, or until it ends.
    fn boot(&self, boot: u64, order: Order, flushes: u64, tally: &mut Tally) -> Result<(), String> {
        let mut guest = Guest::boot(self, boot, order);
        let looked = guest.says(LOOKED)?;
        match looked.parse::<u64>() {
            Ok(right) => {
                tally.count(RIGHT, right);
                let before = told(self.dir);
                guest.wait(|dir| (told(dir) >= before + flushes).then_some(()))?;
            }
            Err(_) if order.is_rough() && looked.starts_with(REFUSED) => {
                tally.count("starts refused under a fault in a guest", 1);
            }
            Err(_) => return Err(format!("boot {boot}: {looked}")),
        }
        if order.ends {
            std::fs::write(self.dir.join(END), "").expect("it can be written");
            let ended = guest.says(ENDED)?;
            if ended != "ended" {
                return Err(format!("boot {boot}: {ended}"));
            }
            tally.count("clean ends in a guest", 1);
        }
        guest.cut();
        if !order.ends {
            tally.count("cuts of a guest", 1);
        }
        if let Some((_, fault)) = order.fault {
            tally.count(in_a_guest(fault), 1);
        }
        Ok(())
    }

    /// What may happen to the images of a stack that was whole and was closed.
    fn damage(&self, boot: u64, rng: &mut Rng, tally: &mut Tally) -> Result<(), String> {
        let kind = self.kind;
        let files = kind.has_files() && !self.mounted;
        let leg = rng.below(self.images as u64) as usize;
        let possible = DAMAGES.into_iter().filter(|damage| match damage {
            Damage::Data => files && kind.is_checked(),
            Damage::Records => files && kind.knows_old && leg >= kind.first_with_records,
            Damage::Store => kind.below == Below::Ssd,
            Damage::Older => kind.has_files() && kind.knows_old,
        });
        let possible: Vec<Damage> = possible.collect();
        let Some(&damage) = (!possible.is_empty()).then(|| rng.pick(&possible)) else { return Ok(()) };
        (0..self.images).for_each(|image| copy_store(&self.image(image), &self.aside(image, "saved")));
        match damage {
            Damage::Data => flip_data(&self.image(leg), rng, kind.blocks / 2 * BLOCK),
            Damage::Records => flip(&self.image(leg), rng, (LEG - (128 << 10), LEG)),
            Damage::Store => {}
            Damage::Older => copy_store(&self.aside(leg, "older"), &self.image(leg)),
        }
        // It knows what the next boot would.
        let mut guest = Guest::boot(self, boot + 1, Order { after: Some(damage), ..Order::default() });
        let said = guest.says(LOOKED)?;
        guest.cut();
        let (count, is_right) = match damage {
            Damage::Older => {
                ("older copies refused in a guest", said.starts_with(REFUSED) && said.contains("old"))
            }
            Damage::Records => ("legs with a flipped record in a guest", !said.starts_with(WRONG)),
            Damage::Data => ("legs with flipped data in a guest", said.starts_with(BORNE)),
            Damage::Store => ("stores with a flipped bit in a guest", !said.starts_with(WRONG)),
        };
        if !is_right {
            return Err(format!("boot {boot}, leg {leg}, damaged: {said}"));
        }
        tally.count(count, 1);
        // What was mended goes on as it is.
        if !(damage == Damage::Data && kind.tolerant) {
            let back = |image| std::fs::rename(self.aside(image, "saved"), self.image(image));
            (0..self.images).for_each(|image| back(image).expect("it is ours"));
        }
        Ok(())
    }
}

fn in_a_guest(fault: Fault) -> &'static str {
    match fault {
        Fault::Freeze => "boots with a freezing leg",
        Fault::Errors => "boots with errors of a leg",
        Fault::Loss => "boots with a leg that goes",
        Fault::Full => "boots on a full file system",
    }
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
    fn boot<'a>(place: &Place<'a>, boot: u64, order: Order) -> Guest<'a> {
        let dir = place.dir;
        for said in [LOOKED, END, ENDED] {
            let _ = std::fs::remove_file(dir.join(said)); // it may not be there
        }
        let program = std::env::current_exe().expect("a test program has a path");
        let init = dir.join("init");
        let text = format!(
            "#!/bin/sh\nmount -t proc proc /proc\nmount -t sysfs sys /sys\nmount -t tmpfs tmp /mnt -o size=64m\n\
             {FOLDER}={dir} {KIND}={kind} {BOOT}={boot} {ORDER}='{order}' {MOUNTED}={mounted} {PLANT}={plant} {program} --exact {ENTRY} --ignored --nocapture > /dev/console 2>&1\nhalt -f\n",
            dir = dir.display(),
            kind = place.number,
            order = order.to_words(),
            mounted = u8::from(place.mounted),
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
        linux.args((0..place.images).map(|image| format!("ubd{image}={}", place.image(image).display())));
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

    /// Waits for a line, and gives it.
    fn says(&mut self, name: &str) -> Result<String, String> {
        let line =
            |dir: &Path| std::fs::read_to_string(dir.join(name)).ok().filter(|text| text.ends_with('\n'));
        self.wait(line).map(|text| text.trim().to_string())
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

/// Inside the guest: looks, says what it found, then writes until the power goes or the host says that it is to end.
pub fn be_a_guest(kinds: &[Kind]) {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (Ok(folder), Some(kind), Some(boot)) = (std::env::var(FOLDER), number(KIND), number(BOOT)) else {
        return;
    };
    let inside = Inside {
        kind: &kinds[kind as usize],
        folder: Path::new(&folder),
        dir: Path::new("/mnt/life"),
        order: Order::from_words(&std::env::var(ORDER).expect("the host has an order")),
        boot,
        mounted: number(MOUNTED) == Some(1),
    };
    inside.mount();
    let wrong = match inside.order.after {
        Some(damage) => inside.look_at(damage),
        None => inside.write().err().unwrap_or_default(),
    };
    say(inside.folder, LOOKED, format!("{wrong}\n").as_bytes());
    // The host cuts the power.
    loop {
        std::thread::park();
    }
}

/// One boot, seen from inside.
struct Inside<'a> {
    kind: &'a Kind,
    /// Where the host looks.
    folder: &'a Path,
    /// Where the stack's files are.
    dir: &'a Path,
    order: Order,
    boot: u64,
    mounted: bool,
}

impl Inside<'_> {
    /// Makes files, or links to block devices, of what the images hold.
    fn mount(&self) {
        std::fs::create_dir_all(self.dir).expect("a directory");
        let device = |image: usize| format!("/dev/ubd{}", char::from(b'a' + image as u8));
        let mount = |image: usize, at: &Path| {
            let mounted = Command::new("mount").args(["-t", "ext4", &device(image)]).arg(at).status();
            assert!(mounted.is_ok_and(|status| status.success()), "the guest mounts its disk");
            make_room(at);
        };
        if !self.kind.has_files() {
            mount(0, self.dir);
        }
        let legs = if self.kind.has_files() { self.kind.legs.len() } else { 0 };
        for leg in 0..legs {
            let (folder, file) = self.kind.place(leg, self.dir);
            std::fs::create_dir_all(&folder).expect("a directory");
            match self.mounted {
                true => mount(leg, &folder),
                false => std::os::unix::fs::symlink(device(leg), file).expect("a link"),
            }
        }
        if let Some((leg, Fault::Full)) = self.order.fault {
            let at = if self.kind.has_files() { self.kind.place(leg, self.dir).0 } else { self.dir.into() };
            fill(&at);
        }
    }

    fn known(&self) -> Knowledge {
        let Ok(bytes) = std::fs::read(self.folder.join(DURABLE)) else {
            return Knowledge::new(self.kind.blocks);
        };
        let numbers =
            bytes.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")));
        Knowledge::after_a_cut(numbers.skip(1).collect(), self.boot * VERSIONS)
    }

    fn options(&self) -> ServeOptions {
        let mut options = options(&self.kind.stack(false, self.order.fault), self.dir);
        options.planted.extend(planted());
        options
    }

    fn start(&self) -> Result<Served, String> {
        Served::try_start(self.options()).map_err(|error| format!("{REFUSED} {error}"))
    }

    /// Looks and writes, and says on the way what was right. It returns only what is wrong.
    fn write(&self) -> Result<Infallible, String> {
        let (blocks, is_rough) = (self.kind.blocks, self.order.is_rough());
        let mut known = self.known();
        let server = self.start()?;
        let mut client = server.connect("data");
        if !is_rough {
            look(&mut client, &mut known, blocks).map_err(|wrong| format!("{WRONG} {wrong}"))?;
        }
        // Another leg may fail in the next boot.
        if self.order.fault.is_none() && self.kind.has_health {
            whole("the set to be whole", || server.status());
        }
        say(self.folder, LOOKED, format!("{}\n", if is_rough { 0 } else { blocks }).as_bytes());
        let mut rng = Rng::new(self.boot);
        let mut count = told(self.folder);
        let tell = |count: u64, known: &Knowledge| {
            let numbers =
                std::iter::once(&count).chain(&known.durable).flat_map(|number| number.to_le_bytes());
            say(self.folder, DURABLE, &numbers.collect::<Vec<u8>>());
        };
        while !(self.order.ends && self.folder.join(END).exists()) {
            let failed = write_and_fail(&mut client, &mut known, &mut rng, blocks, 120);
            let drained = client.drain();
            if !matches!(drained, Ok(0)) {
                // A flush may be among them.
                known.cut();
            }
            let failed = failed.and_then(|failed| drained.map(|more| failed + more));
            if !matches!(failed, Ok(0)) && !is_rough {
                panic!("requests failed: {failed:?}; {}", server.status());
            }
            count += 1;
            tell(count, &known);
        }
        // A leg that was too slow may be out.
        if self.kind.has_health {
            whole("the set to be whole", || server.status());
        }
        client.disconnect();
        server.stop();
        known.closed();
        tell(count, &known);
        rustix::fs::sync();
        say(self.folder, ENDED, b"ended\n");
        loop {
            std::thread::park();
        }
    }

    /// Says what becomes of something damaged.
    fn look_at(&self, damage: Damage) -> String {
        let mut known = self.known();
        let options = ServeOptions { create: false, ..self.options() };
        if damage == Damage::Store {
            let store = self.dir.join("m.store");
            flip_store(&store, &mut Rng::new(self.boot));
            return match after_a_flip(options, &store, &mut known, self.kind.blocks) {
                Ok(None) => REFUSED.into(),
                Ok(Some(unreadable)) => format!("{BORNE} {unreadable} blocks are unreadable"),
                Err(wrong) => format!("{WRONG} {wrong}"),
            };
        }
        let server = match Served::try_start(options) {
            Ok(server) => server,
            Err(error) => return format!("{REFUSED} {error}"),
        };
        let mut client = server.connect("data");
        let unreadable = match look_or_fail(&mut client, &mut known, self.kind.blocks) {
            Ok(unreadable) => unreadable,
            Err(wrong) => return format!("{WRONG} {wrong}"),
        };
        if self.kind.tolerant && unreadable > 0 {
            return format!("{WRONG} {unreadable} blocks are unreadable, and one leg is right");
        }
        if damage == Damage::Data && self.kind.tolerant {
            mend(&server);
        }
        client.disconnect();
        server.stop();
        rustix::fs::sync();
        format!("{BORNE} {unreadable} blocks are unreadable")
    }
}

/// Puts a file into the host's file system, whole.
fn say(folder: &Path, name: &str, bytes: &[u8]) {
    let new = folder.join("new");
    let written =
        File::create(&new).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.and_then(|()| std::fs::rename(&new, folder.join(name))).expect("the host takes it");
}

//! Guests of user-mode Linux: what they need is fetched once, each boots on the host's own files, says what it has to say through files of
//! its folder, and is killed.

use super::rows::{DELAY, Row, devices};
use crate::debian::{BOOKWORM, Debian};
use crate::files::{copy, read, write};
use crate::steps::{End, has, released, run, target_dir};
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Debian's packages with the kernel, its modules, and what handles them.
const PACKAGES: [&str; 8] = [
    "user-mode-linux",
    "kmod",
    "libkmod2",
    "mdadm",
    "bcache-tools",
    "nbd-client",
    "libnl-3-200",
    "libnl-genl-3-200",
];
/// Programs of the host that guests run.
const PROGRAMS: [&str; 5] = ["fio", "nbdkit", "dmsetup", "ip", "blockdev"];
const IMAGES: [&str; 4] = ["fast", "slow", "third", "fourth"];
const IMAGE_BYTES: u64 = 256 << 20;
/// What guests leave for the host: the work is done, or the machine is not to be had.
const DONE: &str = "done";
const FAILED: &str = "failed";
/// A boot with all its loads takes half a minute on an idle machine.
const LONGEST: Duration = Duration::from_secs(240);

/// Everything a guest is made of.
pub struct Tools {
    /// Unpacked packages.
    root: PathBuf,
    nandu: PathBuf,
    xtask: PathBuf,
}

impl Tools {
    /// Fetches and unpacks what is not there yet.
    pub fn fetch() -> Result<Tools, String> {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout.starts_with(b"0\n"));
        if !is_root {
            return Err("guests boot on the host's files: run it as root".into());
        }
        let missing: Vec<&str> = PROGRAMS.into_iter().filter(|program| !has(program)).collect();
        if !missing.is_empty() {
            return Err(format!(
                "{} missing; on Debian they are in fio, nbdkit, dmsetup, iproute2 and util-linux",
                missing.join(", ")
            ));
        }
        let home = target_dir().join("versus-kernel");
        let debian = Debian::at(&home.join("debian"))?;
        debian.unpack(BOOKWORM, &PACKAGES)?;
        let root = debian.root();
        let made = fs::create_dir_all(root.join("lib"))
            .and_then(|()| link("../usr/lib/uml/modules", &root.join("lib/modules")))
            .and_then(|()| link("../bin/kmod", &root.join("sbin/modprobe")));
        made.map_err(|error| format!("{}: {error}", root.display()))?;
        // Copies, which the next build leaves alone.
        let (nandu, xtask) = (home.join("nandu"), home.join("xtask"));
        copy(&released().join("nandu"), &nandu)?;
        copy(&std::env::current_exe().map_err(|error| error.to_string())?, &xtask)?;
        Ok(Tools { root, nandu, xtask })
    }

    /// Version of the guests' kernel.
    pub fn kernel(&self) -> String {
        let modules = crate::files::list(&self.root.join("usr/lib/uml/modules"));
        let name = modules.first().and_then(|folder| folder.file_name());
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// What `nandu --version` says.
    pub fn program(&self) -> Result<String, String> {
        let output = Command::new(&self.nandu).arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}", self.nandu.display()))?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
    }
}

/// A link that says this, instead of what is there.
fn link(to: &str, at: &Path) -> std::io::Result<()> {
    let _ = fs::remove_file(at); // it may not be there
    std::os::unix::fs::symlink(to, at)
}

/// The images of one machine, and where its guests leave what they say.
pub struct Place<'a> {
    pub tools: &'a Tools,
    pub row: &'a Row,
    pub folder: PathBuf,
}

impl<'a> Place<'a> {
    /// Blank images.
    pub fn new(tools: &'a Tools, row: &'a Row) -> Result<Place<'a>, String> {
        let folder = target_dir().join("versus-kernel").join(row.name);
        let _ = fs::remove_dir_all(&folder); // it may not be there
        let stack =
            if row.stack.is_empty() { String::new() } else { row.stack.to_string() + &devices(row.stack) };
        write(&folder.join("stack.toml"), &stack)?;
        for image in IMAGES {
            let path = folder.join(image);
            let made = File::create(&path).and_then(|file| file.set_len(IMAGE_BYTES));
            made.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(Place { tools, row, folder })
    }

    /// Boots a guest that runs this, with or without the fast device.
    pub fn boot(&self, work: &str, is_whole: bool) -> Result<Guest, String> {
        let Tools { root, nandu, xtask } = self.tools;
        let folder = self.folder.display();
        for said in [DONE, FAILED] {
            let _ = fs::remove_file(self.folder.join(said)); // it may not be there
        }
        // What fails on the way says so by its last line.
        let init = format!(
            "#!/bin/sh\nexec > {folder}/console 2>&1\nfolder={folder} tools={root} nandu={nandu} xtask={xtask} delay={DELAY} write_delay={}\n\
             trap 'touch {folder}/{FAILED}; sleep 1000' EXIT\n{}\n{work}\ntouch {folder}/{DONE}\nsleep 1000\n",
            self.row.write_delay,
            include_str!("guest.sh"),
            root = root.display(),
            nandu = nandu.display(),
            xtask = xtask.display(),
        );
        let path = self.folder.join("init");
        write(&path, &init)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(|error| error.to_string())?;
        let log = File::create(self.folder.join("kernel")).map_err(|error| error.to_string())?;
        let mut linux = Command::new(root.join("usr/bin/linux.uml"));
        linux.args(["mem=384M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw"]);
        linux.args(["con=null", "con0=null,fd:1"]).arg(format!("uml_dir={folder}"));
        linux.arg(format!("init={}", path.display()));
        let images = IMAGES.iter().enumerate().filter(|(number, _)| is_whole || *number > 0);
        linux.args(images.map(|(number, image)| format!("ubd{number}={folder}/{image}")));
        linux.stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).process_group(0);
        let child = linux.spawn().map_err(|error| format!("user-mode Linux does not start: {error}"))?;
        Ok(Guest { child, folder: self.folder.clone() })
    }

    /// Keeps a copy of the images aside, or puts it back.
    pub fn copy(&self, from: &str, to: &str) -> Result<(), String> {
        for image in IMAGES {
            let path = |ending: &str| self.folder.join(format!("{image}{ending}"));
            let mut copy = Command::new("cp");
            copy.arg("--sparse=always").arg(path(from)).arg(path(to));
            if let End::Failed(why) = run(copy) {
                return Err(why);
            }
        }
        Ok(())
    }
}

/// One that runs.
pub struct Guest {
    child: Child,
    folder: PathBuf,
}

impl Guest {
    /// Waits until the work is done, or until `enough` says so.
    pub fn wait(&mut self, enough: impl Fn(&Path) -> bool) -> Result<(), String> {
        let start = Instant::now();
        loop {
            if enough(&self.folder) || self.folder.join(DONE).exists() {
                return Ok(());
            }
            let ended = self.child.try_wait().map_err(|error| error.to_string())?.is_some();
            if ended || self.folder.join(FAILED).exists() || start.elapsed() > LONGEST {
                let console = read(&self.folder.join("console")).unwrap_or_default();
                let log = read(&self.folder.join("server.log")).unwrap_or_default();
                let last = |text: &str| text.lines().last().unwrap_or_default().to_string();
                return Err(format!("{} {}", last(&log), last(&console)).trim().to_string());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The power goes: all processes of the guest are killed at once.
impl Drop for Guest {
    fn drop(&mut self) {
        let _ = Command::new("sh").arg("-c").arg(format!("kill -9 -{}", self.child.id())).status(); // it may have ended
        let _ = self.child.wait();
    }
}

//! `cargo xtask ublk`: block devices of `nandu serve --ublk` under a kernel that has the driver.
//!
//! The kernel and an emulator that boots it come from Debian's backports, into `target/ublk`. What the guest has beside the program, busybox, tools for
//! file systems, fio and PostgreSQL, are those of this system with their libraries. Its first process is `xtask/ublk/init.sh`, which has the checks.

use crate::debian::{BACKPORTS, Debian};
use crate::files;
use crate::steps::{alone, build_and_only, command, run, target_dir};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// What the guest does.
const INIT: &str = include_str!("../ublk/init.sh");
/// Programs of this system that it needs, where they lie.
const PROGRAMS: [&str; 4] =
    ["/usr/bin/fio", "/usr/sbin/mkfs.ext4", "/usr/sbin/e2fsck", "/usr/sbin/blkdiscard"];
/// And those that it may have: a database.
const DATABASE: &str = "/usr/lib/postgresql/15";
/// How long the guest may take: it is emulated.
const PATIENCE: Duration = Duration::from_secs(1500);

/// Builds the program, or takes it as it lies in `target/debug`, makes the guest and has it take its checks.
pub fn check(words: &[&str]) -> Result<ExitCode, String> {
    let (builds, only) = build_and_only(words)?;
    Ok(alone("ublk", || in_guest(builds, only.unwrap_or_default()).into()))
}

fn in_guest(builds: bool, only: &str) -> Result<(), String> {
    let folder = target_dir().join("ublk");
    let debian = Debian::at(&folder.join("debian"))?;
    let kernel = debian.newest("linux-image-6.12", "-cloud-amd64")?;
    println!("{kernel}");
    let mut packages = vec![kernel.clone(), "busybox-static".to_string()];
    packages.extend(debian.with_what_it_needs(BACKPORTS, "qemu-system-x86")?);
    debian.unpack(BACKPORTS, &packages)?;
    if builds {
        run(command("cargo build --quiet --package nandu-cli")).ok()?;
    }
    let version = kernel.strip_prefix("linux-image-").unwrap_or(&kernel);
    let archive = make_archive(&debian, version, &folder)?;
    boot(&debian, version, &archive, only)
}

/// The guest's files, as the kernel unpacks them.
fn make_archive(debian: &Debian, version: &str, folder: &Path) -> Result<PathBuf, String> {
    let guest = folder.join("guest");
    let _ = fs::remove_dir_all(&guest); // it may not be there
    let root = debian.root();
    let fail = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    for part in ["bin", "sbin", "proc", "sys", "dev", "tmp", "etc", "root", "usr/bin", "usr/sbin"] {
        fs::create_dir_all(guest.join(part)).map_err(|error| fail(&guest, error))?;
    }
    let busybox = guest.join("bin/busybox");
    files::copy(&root.join("bin/busybox"), &busybox)?;
    let mut links = Command::new(&busybox);
    links.arg("--list");
    let applets = links.output().map_err(|error| fail(&busybox, error))?.stdout;
    let own: BTreeSet<&str> =
        PROGRAMS.iter().filter_map(|path| Path::new(path).file_name()?.to_str()).collect();
    for applet in String::from_utf8_lossy(&applets).lines().filter(|applet| !own.contains(applet)) {
        let link = guest.join("bin").join(applet);
        if applet != "busybox" {
            std::os::unix::fs::symlink("busybox", &link).map_err(|error| fail(&link, error))?;
        }
    }
    let mut needed: Vec<PathBuf> = PROGRAMS.iter().map(PathBuf::from).collect();
    if let Some(missing) = needed.iter().find(|path| !path.is_file()) {
        return Err(format!("{} is not installed (fio, e2fsprogs, util-linux)", missing.display()));
    }
    if Path::new(DATABASE).is_dir() {
        let names = ["initdb", "pg_ctl", "pgbench", "postgres", "psql"];
        needed.extend(names.iter().map(|name| Path::new(DATABASE).join("bin").join(name)));
        let libraries = ["plpgsql.so", "dict_snowball.so", "libpqwalreceiver.so"];
        needed.extend(libraries.iter().map(|name| Path::new(DATABASE).join("lib").join(name)));
        copy_folder(Path::new("/usr/share/postgresql/15"), &guest)?;
    }
    let program = target_dir().join("debug/nandu");
    copy_with_libraries(&program, Path::new("/usr/bin/nandu"), &guest)?;
    for path in needed {
        copy_with_libraries(&path, &path, &guest)?;
    }
    let module = root.join("lib/modules").join(version).join("kernel/drivers/block/ublk_drv.ko.xz");
    let unpacked = Command::new(&busybox).args(["unxz", "-c"]).arg(&module).output();
    let unpacked = unpacked.map_err(|error| fail(&module, error))?;
    if !unpacked.status.success() {
        return Err(format!("{}: {}", module.display(), String::from_utf8_lossy(&unpacked.stderr).trim()));
    }
    let write = |name: &str, bytes: &[u8], mode: u32| {
        let path = guest.join(name);
        let written = fs::write(&path, bytes)
            .and_then(|()| fs::set_permissions(&path, fs::Permissions::from_mode(mode)));
        written.map_err(|error| fail(&path, error))
    };
    write("ublk_drv.ko", &unpacked.stdout, 0o644)?;
    write("init", INIT.as_bytes(), 0o755)?;
    write("etc/passwd", b"root:x:0:0::/root:/bin/sh\npostgres:x:100:100::/tmp:/bin/sh\n", 0o644)?;
    write("etc/group", b"root:x:0:\npostgres:x:100:\n", 0o644)?;
    let archive = folder.join("guest.cpio");
    let pack =
        format!("cd '{}' && find . | bin/busybox cpio -o -H newc > '{}'", guest.display(), archive.display());
    let mut shell = Command::new("sh");
    shell.args(["-c", &pack]).stderr(Stdio::null());
    run(shell).ok()?;
    Ok(archive)
}

fn copy_folder(from: &Path, guest: &Path) -> Result<(), String> {
    let to = guest.join(from.strip_prefix("/").unwrap_or(from));
    let parent = to.parent().unwrap_or(guest);
    fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let mut copy = Command::new("cp");
    copy.arg("-rL").arg(from).arg(&to);
    run(copy).ok()
}

/// Copies a program to its place in the guest, and the libraries that it needs to theirs.
fn copy_with_libraries(from: &Path, to: &Path, guest: &Path) -> Result<(), String> {
    let copy = |from: &Path, to: &Path| {
        let to = guest.join(to.strip_prefix("/").unwrap_or(to));
        if to.exists() {
            return Ok(());
        }
        files::copy(from, &to)
    };
    copy(from, to)?;
    let libraries = Command::new("ldd").arg(from).output().map_err(|error| format!("ldd: {error}"))?;
    for line in String::from_utf8_lossy(&libraries.stdout).lines() {
        // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)`, or the loader without an arrow.
        let path = line.split_whitespace().find(|word| word.starts_with('/')).map(Path::new);
        path.map_or(Ok(()), |path| copy(path, path))?;
    }
    Ok(())
}

/// Boots the guest and hears what it says. What it says last is how it went.
fn boot(debian: &Debian, version: &str, archive: &Path, only: &str) -> Result<(), String> {
    let root = debian.root();
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let mut qemu = Command::new(root.join("usr/bin/qemu-system-x86_64"));
    qemu.env("LD_LIBRARY_PATH", &libraries).env("QEMU_MODULE_DIR", libraries.join("qemu"));
    for data in ["usr/share/qemu", "usr/share/seabios"] {
        qemu.arg("-L").arg(root.join(data));
    }
    qemu.args([
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-m",
        "3072",
        "-smp",
        "2",
        "-nodefaults",
        "-no-reboot",
    ])
    .args(["-display", "none", "-serial", "stdio"])
    .arg("-kernel")
    .arg(root.join("boot").join(format!("vmlinuz-{version}")))
    .arg("-initrd")
    .arg(archive)
    .arg("-append")
    .arg(format!("console=ttyS0 quiet panic=-1 rdinit=/init only={only}"));
    qemu.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = qemu.spawn().map_err(|error| format!("qemu-system-x86_64: {error}"))?;
    let said = child.stdout.take().ok_or("qemu has no output")?;
    let number = child.id();
    let watch = std::thread::spawn(move || {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(200)),
                ended => return ended.map_err(|error| error.to_string()).map(drop),
            }
        }
        let _ = child.kill(); // it may have ended just now
        let _ = child.wait();
        Err(format!("the guest (process {number}) has not ended within {} s", PATIENCE.as_secs()))
    });
    let mut last = None;
    for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim_end().to_string();
        println!("{line}");
        last = line.split_once("ublk: all checks taken, ").map(|(_, rest)| rest.to_string()).or(last);
    }
    watch.join().map_err(|_| "the guest could not be waited for")??;
    match last.as_deref() {
        Some("0 failed") => Ok(()),
        Some(failed) => Err(failed.into()),
        None => Err("the guest ended before it had taken all checks".into()),
    }
}

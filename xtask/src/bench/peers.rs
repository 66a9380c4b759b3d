//! `cargo xtask peers`: the server beside others, over files of the same size and with the same client.
//!
//! A row is one load on two servers. They run in rounds, one after the other and in turns first, so that what else the machine does hits
//! both; the figures are medians over the rounds. The client is fio's own NBD client, one connection. A server's time of the
//! processor is that of all its threads, also those that the kernel works in for it. A run of all pairs writes the table of
//! `docs/experiments/beside-other-servers.md`.

use crate::figures::{Of, TICKS_PER_SECOND, Ticks, fio_job, load_average, median, ticks};
use crate::files;
use crate::steps::{End, Steps, has, release_build, released, run, target_dir};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// How it is measured.
struct Options {
    rounds: usize,
    /// Of one run of the client; whole ones, for its engine takes no others.
    seconds: u32,
    only: Option<String>,
    /// The program is taken as it lies in the target folder.
    no_build: bool,
}

/// Where the table of a run of all pairs stands.
const PAGE: &str = "docs/experiments/beside-other-servers.md";
/// Bytes of each file.
const SIZE: u64 = 1 << 30;
/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whose server.
#[derive(Clone, Copy)]
enum Server {
    /// Ours: a stack, in which `@` stands for the path of the row's file.
    Nandu(&'static str),
    /// Ours, whose files are blank at the start; the stack says how long they are.
    Blank(&'static str),
    /// nbdkit with these words; `@` is its file.
    Nbdkit(&'static [&'static str]),
    /// qemu-nbd over its file, past the page cache and with io_uring.
    QemuNbd,
}

/// What the client does.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    words: &'static [&'static str],
}

/// Two servers, and the loads that are put on both.
struct Pair {
    name: &'static str,
    ours: Server,
    peer: (&'static str, Server),
    loads: &'static [Load],
    /// Least share of the peer's operations a second.
    rate: f64,
    /// Most of its time of the processor for an operation, where there is a goal.
    cpu: Option<f64>,
}

const FOUR_KIB: &[Load] = &[
    Load { name: "read 4 KiB, depth 1", words: &["--rw=randread", "--bs=4k", "--iodepth=1"] },
    Load { name: "read 4 KiB, depth 32", words: &["--rw=randread", "--bs=4k", "--iodepth=32"] },
    Load { name: "write 4 KiB, depth 1", words: &["--rw=randwrite", "--bs=4k", "--iodepth=1"] },
    Load { name: "write 4 KiB, depth 32", words: &["--rw=randwrite", "--bs=4k", "--iodepth=32"] },
];

const SEQUENTIAL: &[Load] =
    &[Load { name: "write 256 KiB in order, depth 8", words: &["--rw=write", "--bs=256k", "--iodepth=8"] }];

/// Within 64 MiB, which are marked after the first round of them.
const SYNCED: &[Load] = &[Load {
    name: "write 4 KiB and flush, depth 1",
    words: &["--rw=randwrite", "--bs=4k", "--iodepth=1", "--fsync=1", "--size=64m"],
}];

const FILE: Server = Server::Nandu("[device.data]\nkind = \"file\"\npath = \"@\"\n");
const BLANK_FILE: Server = Server::Blank("[device.data]\nkind = \"file\"\npath = \"@\"\nsize = \"1 GiB\"\n");
const DIRECT: Server =
    Server::Nandu("[device.data]\nkind = \"file\"\npath = \"@\"\ndirect = true\nsector = \"4 KiB\"\n");

const PAIRS: &[Pair] = &[
    Pair {
        name: "a file through the page cache",
        ours: FILE,
        peer: ("nbdkit file", Server::Nbdkit(&["file", "@"])),
        loads: FOUR_KIB,
        rate: 1.0,
        cpu: Some(0.7),
    },
    Pair {
        name: "a file past the page cache",
        ours: DIRECT,
        peer: ("qemu-nbd --cache=none --aio=io_uring", Server::QemuNbd),
        loads: FOUR_KIB,
        rate: 1.0,
        cpu: Some(0.7),
    },
    Pair {
        name: "memory",
        ours: Server::Nandu("[device.data]\nkind = \"memory\"\nsize = \"1 GiB\"\n"),
        peer: ("nbdkit memory", Server::Nbdkit(&["memory", "1G"])),
        loads: FOUR_KIB,
        rate: 1.0,
        cpu: Some(0.7),
    },
    Pair {
        name: "a cache that writes back, above a file",
        ours: Server::Nandu(
            "[device.data]\nkind = \"cache\"\nbelow = \"file\"\nsize = \"256 MiB\"\nwrite = { kind = \"writeback\" }\n\
             [device.file]\nkind = \"file\"\npath = \"@\"\n",
        ),
        peer: ("the file alone", FILE),
        loads: SEQUENTIAL,
        rate: 0.8,
        cpu: None,
    },
    Pair {
        name: "a cache that long writes pass by, above a file",
        ours: Server::Nandu(
            "[device.data]\nkind = \"cache\"\nbelow = \"file\"\nsize = \"256 MiB\"\n\
             write = { kind = \"writeback\", bypass = \"128 KiB\" }\n\
             [device.file]\nkind = \"file\"\npath = \"@\"\n",
        ),
        peer: ("the file alone", FILE),
        loads: SEQUENTIAL,
        rate: 0.8,
        cpu: None,
    },
    Pair {
        name: "a hetero-mirror of two files whose flushes wait for its leader",
        ours: Server::Blank(
            "[device.data]\nkind = \"hetero-mirror\"\nlegs = [\"fast\", \"slow\"]\nwrite_ack = \"first\"\n\
             flush_scope = \"leader\"\ninitial_sync = \"assume-clean\"\n\
             [device.fast]\nkind = \"file\"\npath = \"@\"\nsize = \"1 GiB\"\n\
             [device.slow]\nkind = \"file\"\npath = \"@-slow\"\nsize = \"1 GiB\"\n",
        ),
        peer: ("its fast leg alone", BLANK_FILE),
        loads: SYNCED,
        rate: 0.7,
        cpu: None,
    },
];

/// `cargo xtask peers`; the word that is not known is the error.
pub fn run_words(words: &[&str]) -> Result<ExitCode, String> {
    let mut options = Options { rounds: 7, seconds: 2, only: None, no_build: false };
    let mut words = words.iter();
    while let Some(&word) = words.next() {
        if word == "--no-build" {
            options.no_build = true;
            continue;
        }
        let value = words.next().ok_or(word)?;
        match word {
            "--rounds" => options.rounds = value.parse().ok().filter(|n| *n > 0).ok_or(*value)?,
            "--seconds" => options.seconds = value.parse().ok().filter(|n| *n > 0).ok_or(*value)?,
            "--only" => options.only = Some(value.to_string()),
            other => return Err(other.into()),
        }
    }
    let mut steps = Steps::new(false, options.only.clone());
    let mut rows = String::new();
    let built = if options.no_build { Ok(()) } else { run(release_build()).ok() };
    for pair in PAIRS {
        steps.step(pair.name, || match (&built, missing(pair)) {
            (Err(why), _) => End::Failed(why.clone()),
            (_, Some(program)) => End::Skipped(format!("{program} is not installed")),
            (Ok(()), None) => measure(pair, &options, &mut rows).into(),
        });
    }
    let loads: usize = PAIRS.iter().map(|pair| pair.loads.len()).sum();
    if rows.lines().count() == loads {
        files::put_between(PAGE, "cargo xtask peers", &(head(&options) + &rows))?;
    }
    Ok(steps.close())
}

/// A program that a pair needs and that is not there.
fn missing(pair: &Pair) -> Option<&'static str> {
    let of = |server| match server {
        Server::Nandu(_) | Server::Blank(_) => "fio",
        Server::Nbdkit(_) => "nbdkit",
        Server::QemuNbd => "qemu-nbd",
    };
    ["fio", of(pair.ours), of(pair.peer.1)].into_iter().find(|program| !has(program))
}

/// A server that runs; it is killed with its last owner.
struct Running {
    child: Child,
    socket: PathBuf,
}

impl Running {
    /// Starts `server` and waits until it listens. Both of a pair have the same file, one after the other; one that begins blank has its own.
    fn start(server: Server, folder: &Path, name: &str) -> Result<Running, String> {
        let file = folder.join(if matches!(server, Server::Blank(_)) { name } else { "data" });
        let socket = folder.join(format!("{name}.sock"));
        let _ = std::fs::remove_file(&socket);
        let path = file.display().to_string();
        if !matches!(server, Server::Blank(_)) {
            fill(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        let mut command = match server {
            Server::Nandu(devices) | Server::Blank(devices) => {
                let stack = folder.join(format!("{name}.toml"));
                let text = format!("[export.data]\ndevice = \"data\"\n{}", devices.replace('@', &path));
                std::fs::write(&stack, text).map_err(|error| format!("{}: {error}", stack.display()))?;
                let mut serve = Command::new(released().join("nandu"));
                serve.args(["serve", "--quiet", "--create"]).arg(stack).arg("--unix").arg(&socket);
                serve
            }
            Server::Nbdkit(words) => {
                let mut nbdkit = Command::new("nbdkit");
                nbdkit.args(["--foreground", "--exit-with-parent", "--unix"]).arg(&socket);
                nbdkit.args(words.iter().map(|word| word.replace('@', &path)));
                nbdkit
            }
            Server::QemuNbd => {
                let mut nbd = Command::new("qemu-nbd");
                nbd.args(["--cache=none", "--aio=io_uring", "--format=raw", "--persistent", "--shared=4"]);
                nbd.args(["--export-name=data", "--socket"]).arg(&socket).arg(&file);
                nbd
            }
        };
        let said = File::create(folder.join(format!("{name}.log"))).map_err(|error| error.to_string())?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn();
        let mut running = Running { child: child.map_err(|error| error.to_string())?, socket };
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(&running.socket).is_err() {
            if begun.elapsed() > PATIENCE || running.child.try_wait().is_ok_and(|end| end.is_some()) {
                let log = std::fs::read_to_string(folder.join(format!("{name}.log"))).unwrap_or_default();
                return Err(format!("{name} does not listen: {log}"));
            }
            std::thread::yield_now();
        }
        Ok(running)
    }

    /// Operations a second under `load`, and the server's microseconds of the processor for each.
    fn run(&self, load: Load, seconds: u32) -> Result<Figures, String> {
        let before = ticks(self.child.id(), Of::Itself)?;
        let uri = format!("--uri=nbd+unix:///data?socket={}", self.socket.display());
        let mut fio = Command::new("fio");
        fio.args(["--name=load", "--ioengine=nbd", "--time_based", "--randrepeat=1", "--output-format=json"])
            .args([uri, format!("--runtime={seconds}"), format!("--size={SIZE}")])
            .args(load.words);
        let output = fio.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("fio: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let after = ticks(self.child.id(), Of::Itself)?;
        let job = fio_job(&text)?;
        let of = |key: &str| -> f64 {
            ["read", "write"].iter().filter_map(|side| job.get(side).get(key).number()).sum()
        };
        let (rate, count) = (of("iops"), of("total_ios"));
        if count < 1.0 {
            return Err("fio has done nothing".into());
        }
        let micros =
            |of: fn(&Ticks) -> u64| (of(&after) - of(&before)) as f64 / TICKS_PER_SECOND as f64 * 1e6 / count;
        let own = micros(|t| t.program);
        Ok(Figures { rate, micros: own + micros(|t| t.kernel), own })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// One run, or medians of several.
#[derive(Clone, Copy)]
struct Figures {
    /// Operations a second.
    rate: f64,
    /// Of the server's processor for each.
    micros: f64,
    /// Of these as a program, and not in the kernel.
    own: f64,
}

impl Figures {
    fn medians(of: &[Figures]) -> Option<Figures> {
        let middle = |figure: fn(&Figures) -> f64| median(of.iter().map(figure).collect());
        Some(Figures { rate: middle(|f| f.rate)?, micros: middle(|f| f.micros)?, own: middle(|f| f.own)? })
    }
}

/// A file of [`SIZE`] bytes without a hole, unless it is there.
fn fill(path: &Path) -> std::io::Result<()> {
    if std::fs::metadata(path).is_ok_and(|file| file.len() == SIZE) {
        return Ok(());
    }
    let mut file = File::create(path)?;
    let block: Vec<u8> = (0..1 << 20).map(|at: u32| (at % 251) as u8).collect();
    (0..SIZE >> 20).try_for_each(|_| file.write_all(&block))?;
    file.sync_all()
}

/// What stands above the rows of the table.
fn head(options: &Options) -> String {
    let Options { rounds, seconds, .. } = options;
    format!(
        "nandu {}, {rounds} rounds of {seconds} s.\n\n\
         | what | beside | load | ours a second | theirs | ratio | goal | us of processor, of these as a program | theirs | ratio | goal | load of the machine |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Measures a pair, and adds its rows to those of the table.
fn measure(pair: &Pair, options: &Options, rows: &mut String) -> Result<(), String> {
    let folder = target_dir().join("peers");
    let _ = std::fs::remove_dir_all(&folder); // what another pair has left, if any
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let servers = [("ours", pair.ours), ("peer", pair.peer.1)];
    println!("beside {}, {} rounds of {} s", pair.peer.0, options.rounds, options.seconds);
    println!(
        "{:<34} {:>10} {:>10} {:>7} {:>9} {:>9} {:>7}  load",
        "", "ours/s", "peer/s", "ratio", "us of CPU", "peer's", "ratio"
    );
    let mut missed = Vec::new();
    for load in pair.loads {
        let mut figures = [Vec::new(), Vec::new()];
        for round in 0..options.rounds {
            for turn in 0..2 {
                let which = (round + turn) % 2;
                let (name, server) = servers[which];
                // Each run has a server of its own: none profits from what the other left in its threads or pools.
                let running = Running::start(server, &folder, name)?;
                running.run(*load, 1)?;
                figures[which].push(running.run(*load, options.seconds)?);
            }
        }
        let [Some(ours), Some(peer)] = figures.map(|of| Figures::medians(&of)) else { continue };
        let (rate, cpu) = (ours.rate / peer.rate, ours.micros / peer.micros);
        let machine = load_average()?;
        println!(
            "{:<34} {:>10.0} {:>10.0} {rate:>7.2} {:>9.1} {:>9.1} {cpu:>7.2}  {machine}",
            load.name, ours.rate, peer.rate, ours.micros, peer.micros
        );
        let goal = pair.cpu.map_or_else(|| "-".into(), |goal| goal.to_string());
        let _ = writeln!(
            rows,
            "| {} | {} | {} | {:.0} | {:.0} | {rate:.2} | {} | {:.1}, {:.1} | {:.1}, {:.1} | {cpu:.2} | {goal} | {machine} |",
            pair.name,
            pair.peer.0,
            load.name,
            ours.rate,
            peer.rate,
            pair.rate,
            ours.micros,
            ours.own,
            peer.micros,
            peer.own
        );
        if rate < pair.rate {
            missed.push(format!("{}: {rate:.2} of the peer's rate, goal {}", load.name, pair.rate));
        }
        if let Some(goal) = pair.cpu.filter(|goal| cpu > *goal) {
            missed.push(format!("{}: {cpu:.2} of the peer's processor time, goal {goal}", load.name));
        }
    }
    println!(
        "{}",
        if missed.is_empty() { "goals met".into() } else { format!("missed: {}", missed.join("; ")) }
    );
    Ok(())
}

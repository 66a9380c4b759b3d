//! What the tests of the server share: a client, a server in a thread, scripts, waiting for a state.
#![allow(dead_code)] // each test file uses a part

pub mod client;
pub mod process;
pub mod prometheus;
pub mod script;
pub mod small;
pub mod stacks;
pub mod versions;

use nandu_live::backend::Completions;
use nandu_live::{Ended, FileIo, Report, ServeError, ServeOptions, Stopper, ctl, serve};
use nandu_stack::Stack;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest wait for anything; reaching it is a failure.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Looks until `found` gives something.
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = found() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "waited in vain for {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// A server in a thread of this process.
pub struct Served {
    pub socket: PathBuf,
    pub control: PathBuf,
    /// What was reported until clients could connect.
    pub said: Vec<String>,
    reports: Mutex<mpsc::Receiver<Report>>,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<Ended, ServeError>>>,
}

/// Set to `threads`, or `uring`, for servers that do file operations in this way and no other.
pub const FILE_IO: &str = "NANDU_TEST_IO";

/// Who does operations of files, by the word that the command line has for it.
fn file_io() -> FileIo {
    match std::env::var(FILE_IO).as_deref() {
        Err(_) => FileIo::Auto,
        Ok("uring") => FileIo::Uring,
        Ok("threads") => FileIo::Threads,
        Ok(other) => panic!("{FILE_IO}: `{other}` is neither `uring` nor `threads`"),
    }
}

/// Whether the kernel has io_uring for this process; said where it has not.
pub fn have_ring() -> bool {
    let mut completions = Completions::new().expect("a descriptor");
    let ring = completions.use_ring(FileIo::Uring, false);
    ring.inspect_err(|error| eprintln!("skipped: io_uring: {error}")).is_ok()
}

/// Options for a stack whose files and sockets lie in `dir`.
pub fn options(stack: &str, dir: &Path) -> ServeOptions {
    let stack = Stack::parse(stack).unwrap_or_else(|error| panic!("{error}"));
    ServeOptions {
        unix: vec![dir.join("nbd.sock")],
        control: Some(dir.join("ctl.sock")),
        base: dir.to_path_buf(),
        create: true,
        signals: false,
        file_io: file_io(),
        ..ServeOptions::new(stack)
    }
}

impl Served {
    /// Starts and waits until clients can connect.
    pub fn start(options: ServeOptions) -> Served {
        Served::try_start(options).unwrap_or_else(|error| panic!("{error}"))
    }

    pub fn try_start(mut options: ServeOptions) -> Result<Served, ServeError> {
        let stopper = Stopper::new().expect("a descriptor");
        options.stopper = Some(stopper.clone());
        let (socket, control) = (options.unix.first().cloned(), options.control.clone());
        let (sender, reports) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            serve(options, &mut |report| {
                let _ = sender.send(report.clone()); // nobody listens once it is dropped
            })
        });
        let mut said = Vec::new();
        loop {
            match reports.recv_timeout(DEADLINE) {
                Ok(Report::Ready { .. }) => break,
                Ok(report) => said.push(report.to_string()),
                Err(_) => return Err(thread.join().expect("no panic").expect_err("it is not ready")),
            }
        }
        Ok(Served {
            socket: socket.unwrap_or_default(),
            control: control.unwrap_or_default(),
            said,
            reports: Mutex::new(reports),
            stopper,
            thread: Some(thread),
        })
    }

    pub fn connect(&self, export: &str) -> client::Client {
        client::Client::connect(&self.socket, export)
    }

    pub fn status(&self) -> Value {
        ctl::send(&self.control, &ctl::Command::Status).expect("a running server answers")
    }

    /// Waits for a report, of those since clients can connect, that begins so.
    pub fn hear(&self, beginning: &str) -> String {
        let reports = self.reports.lock().expect("no panic");
        loop {
            let report = reports.recv_timeout(DEADLINE).expect(beginning).to_string();
            if report.starts_with(beginning) {
                return report;
            }
        }
    }

    /// Tells the server to end, and does not wait.
    pub fn tell_to_stop(&self) {
        self.stopper.stop();
    }

    /// Ends the server and waits for its clean end.
    pub fn stop(mut self) -> Ended {
        self.stopper.stop();
        self.wait()
    }

    /// Ends the server and waits for its end, clean or not.
    pub fn try_stop(mut self) -> Result<Ended, ServeError> {
        self.stopper.stop();
        self.try_wait()
    }

    pub fn wait(&mut self) -> Ended {
        self.try_wait().unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_wait(&mut self) -> Result<Ended, ServeError> {
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("no panic")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                std::thread::panicking() || ended.is_ok_and(|e| e.is_ok()),
                "the server did not end cleanly"
            );
        }
    }
}

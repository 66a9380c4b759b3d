//! A server in a process of its own, so that it can be killed; and the tools of others.
//!
//! The process is this test program once more, told by its environment to be a server: nothing else has to be built.

use super::{options, wait_for};
use nandu_base::units::{parse_size, parse_span};
use nandu_live::{ctl, serve};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

const STACK: &str = "NANDU_TEST_STACK";
const DIR: &str = "NANDU_TEST_DIR";
const PLANT: &str = "NANDU_TEST_PLANT";
const MEMORY: &str = "NANDU_TEST_MEMORY";
/// Set where the sockets are handed over.
pub const HANDED: &str = "NANDU_TEST_HANDED";
/// Set for a start that makes nothing.
pub const PLAIN: &str = "NANDU_TEST_PLAIN";
/// Set to the stack file that the server may change.
pub const STACK_FILE: &str = "NANDU_TEST_STACK_FILE";
const FAREWELL: &str = "NANDU_TEST_FAREWELL";
/// The test that a test program must have, calling [`be_a_server`].
const ENTRY: &str = "the_server_process";

/// Serves if the environment says so; returns at once in a normal test run.
pub fn be_a_server() {
    let (Ok(stack), Ok(dir)) = (std::env::var(STACK), std::env::var(DIR)) else { return };
    let mut options = options(&stack, Path::new(&dir));
    options.signals = true;
    options.service = true;
    if std::env::var_os(HANDED).is_some() {
        (options.unix, options.control) = (Vec::new(), None);
    }
    options.create &= std::env::var_os(PLAIN).is_none();
    options.stack_file = std::env::var_os(STACK_FILE).map(PathBuf::from);
    let span = |name| std::env::var(name).ok().map(|text| parse_span(&text).expect("a time"));
    options.caps.farewell = span(FAREWELL).unwrap_or(options.caps.farewell);
    let size = |name| std::env::var(name).ok().map(|text| parse_size(&text).expect("a size"));
    options.caps.memory = size(MEMORY).unwrap_or(options.caps.memory);
    options.planted.extend(std::env::var(PLANT).ok().filter(|plant| !plant.is_empty()));
    let code = match serve(options, &mut |report| report.print()) {
        Ok(ended) => ended.exit_code(),
        Err(error) => {
            eprintln!("{error}");
            error.exit_code()
        }
    };
    std::process::exit(i32::from(code));
}

/// A server in a process.
pub struct Process {
    child: Child,
    pub socket: PathBuf,
    pub control: PathBuf,
}

impl Process {
    /// Starts it and waits until it answers.
    pub fn start(stack: &str, dir: &Path) -> Process {
        Process::start_with(stack, dir, "")
    }

    /// The same with a planted fault, unless its name is empty.
    pub fn start_with(stack: &str, dir: &Path, plant: &str) -> Process {
        Process::start_env(stack, dir, &[(PLANT, plant)])
    }

    /// The same with a bound of its memory, and with a long farewell.
    pub fn start_within(stack: &str, dir: &Path, memory: &str) -> Process {
        Process::start_env(stack, dir, &[(MEMORY, memory), (FAREWELL, "10s")])
    }

    pub fn start_env(stack: &str, dir: &Path, env: &[(&str, &str)]) -> Process {
        Process::when_it_answers(Process::spawn(stack, dir, env), dir)
    }

    /// Starts it with a planted fault, unless its name is empty; what it has said if it ended instead of answering.
    pub fn try_start(stack: &str, dir: &Path, plant: &str) -> Result<Process, String> {
        Process::until_it_answers(Process::spawn(stack, dir, &[(PLANT, plant)]), dir)
    }

    fn spawn(stack: &str, dir: &Path, env: &[(&str, &str)]) -> Child {
        let log = std::fs::File::create(dir.join("server.log")).expect("a log");
        Process::command(None, stack, dir, env, log).spawn().expect("the test program starts again")
    }

    /// The command that is a server; `shell`: a line for a shell that has it as "$@".
    pub fn command(
        shell: Option<&str>,
        stack: &str,
        dir: &Path,
        env: &[(&str, &str)],
        log: std::fs::File,
    ) -> Command {
        let program = std::env::current_exe().expect("a test program has a path");
        let mut command = match shell {
            None => Command::new(program),
            Some(line) => {
                let mut command = Command::new("sh");
                command.args(["-c", line, "sh"]).arg(program);
                command
            }
        };
        command
            .args([ENTRY, "--exact", "--nocapture", "--test-threads=1"])
            .env(STACK, stack)
            .env(DIR, dir)
            .envs(env.iter().copied())
            .stdout(Stdio::null())
            .stderr(log);
        command
    }

    /// Waits until a server in `dir` answers.
    pub fn when_it_answers(child: Child, dir: &Path) -> Process {
        Process::until_it_answers(child, dir).unwrap_or_else(|said| panic!("the server ended: {said}"))
    }

    pub fn until_it_answers(child: Child, dir: &Path) -> Result<Process, String> {
        let log_path = dir.join("server.log");
        let mut process = Process { child, socket: dir.join("nbd.sock"), control: dir.join("ctl.sock") };
        wait_for("the server to answer", || {
            if let Some(ended) = process.child.try_wait().expect("a child can be waited for") {
                let said = std::fs::read_to_string(&log_path).unwrap_or_default();
                return Some(Err(format!("{ended:?}: {said}")));
            }
            process.try_status().map(|_| Ok(()))
        })
        .map(|()| process)
    }

    fn try_status(&self) -> Option<Value> {
        ctl::send(&self.control, &ctl::Command::Status).ok()
    }

    pub fn status(&self) -> Value {
        self.try_status().expect("a running server answers")
    }

    pub fn ctl(&self, command: &str) -> Value {
        let command: ctl::Command = command.parse().expect("a command");
        ctl::send(&self.control, &command).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub fn uri(&self) -> String {
        format!("nbd+unix:///data?socket={}", self.socket.display())
    }

    /// Waits until a counter of a device has a value.
    pub fn wait_for_counter(&self, device: &str, counter: &str, value: u64) {
        wait_for(&format!("{counter} of {device} to be {value}"), || {
            (self.status()["devices"][device]["counters"][counter] == value).then_some(())
        });
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a child can be told");
    }

    /// What it has said.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.socket.with_file_name("server.log")).unwrap_or_default()
    }

    /// Most memory that it had so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux says so");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
    }

    /// A clean end, after it was told.
    pub fn wait(mut self) {
        let status = self.child.wait().expect("a child can be waited for");
        assert_eq!(status.code(), Some(0), "a clean end");
    }

    /// kill -9.
    pub fn kill(mut self) {
        self.child.kill().expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// SIGTERM, and a clean end.
    pub fn stop(self) {
        self.signal(rustix::process::Signal::TERM);
        self.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

/// Whether a tool is there. Without it the test is skipped, or fails when `NANDU_REQUIRE_TOOLS=1`.
pub fn have(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()) {
        return true;
    }
    assert!(std::env::var("NANDU_REQUIRE_TOOLS").as_deref() != Ok("1"), "{tool} is not installed");
    eprintln!("skip: {tool} is not installed");
    false
}

/// Runs a tool, which must succeed.
pub fn run(tool: &str, args: &[&str]) -> Output {
    let output = Command::new(tool).args(args).stdin(Stdio::null()).output().expect("the tool starts");
    assert!(
        output.status.success(),
        "{tool} {args:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Requests per second of one fio with 64 outstanding over the first `size` of an export, for ten seconds.
pub fn fio(socket: &Path, export: &str, rw: &str, size: &str) -> f64 {
    let uri = format!("--uri=nbd+unix:///{export}?socket={}", socket.display());
    let (rw, size) = (format!("--rw={rw}"), format!("--size={size}"));
    let words = ["--ioengine=nbd", "--bs=4k", "--iodepth=64", "--time_based", "--runtime=10"];
    let more = ["--name=shares", "--output-format=json", &rw, &size, &uri];
    let output = run("fio", &[&words[..], &more[..]].concat());
    // It may say something in words before.
    let start = output.stdout.iter().position(|&byte| byte == b'{').expect("fio says JSON");
    let said: Value = serde_json::from_slice(&output.stdout[start..]).expect("fio says JSON");
    let job = &said["jobs"][0];
    job["read"]["iops"].as_f64().unwrap_or(0.0) + job["write"]["iops"].as_f64().unwrap_or(0.0)
}

//! `nandu serve`: a stack as a real block device.

use crate::args::{FileIo, LogLevel, ServeArgs, TlsMode};
use crate::console::console;
use crate::failure::Failure;
use crate::format::visible;
use crate::open::{Opened, open};
use crate::output;
use nandu_live::{Caps, Level, Reload, Report, ServeError, ServeOptions, TlsOptions, UblkNumber};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Where the log goes.
struct Log {
    path: Option<PathBuf>,
    /// Standard error where there is none.
    file: Mutex<Option<File>>,
}

impl Log {
    fn open(path: Option<PathBuf>) -> Result<Log, Failure> {
        let file =
            path.as_deref().map(|path| append(path).map_err(|error| Failure::unreadable(path, &error)));
        Ok(Log { file: Mutex::new(file.transpose()?), path })
    }

    /// Opens the file anew, as one does who has moved it away. Where that fails the old one stays.
    fn open_anew(&self) {
        let Some(path) = &self.path else { return };
        match append(path) {
            Ok(file) => *self.file.lock().unwrap_or_else(PoisonError::into_inner) = Some(file),
            Err(error) => output::say(format_args!("{}: {error}; the log stays where it is", path.display())),
        }
    }

    fn say(&self, report: &Report) {
        let line = report.line();
        let line = visible(&line);
        match &mut *self.file.lock().unwrap_or_else(PoisonError::into_inner) {
            // A full disk stops no server.
            Some(file) => drop(file.write_all(format!("{line}\n").as_bytes())),
            None => output::log(&line),
        }
    }
}

fn append(path: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// Reads the limits of tenants of a stack file anew. A stack that is built in never changes.
fn reload(stack: &str, sets: &[(String, String)]) -> Option<Reload> {
    let (stack, sets) = (stack.to_string(), sets.to_vec());
    let is_file = Path::new(&stack).is_file();
    is_file.then(|| -> Reload {
        Box::new(move || {
            let opened = open(&stack, &sets, crate::registry());
            opened.map(|opened| opened.stack.shares()).map_err(|failure| failure.message)
        })
    })
}

/// A stack whose arrays find their records, and what was set for that beside `sets`: files may be longer than they were. `writes`: the
/// stack file says so from then on.
pub fn open_where_records_are(
    stack: &str,
    sets: &[(String, String)],
    writes: bool,
) -> Result<(Opened, Vec<(String, String)>), Failure> {
    let (opened, mut sets) = (open(stack, sets, crate::registry())?, sets.to_vec());
    let built = opened.built(0)?;
    let sizes = nandu_live::examine::moved_sizes(&built, Path::new("."));
    if writes {
        // Before the stack file says the new sizes: from then on nobody knows where the old records were.
        let zeroed = nandu_live::examine::zero_void_records(&built, Path::new("."));
        for leg in zeroed.map_err(|error| Failure::failed(error.to_string()))? {
            output::log(&format!(
                "{leg}: records that a growth has left, and that count no more, are zeroed"
            ));
        }
    }
    if sizes.is_empty() {
        return Ok((opened, sets));
    }
    sets.extend(sizes.iter().map(|(leg, size)| (format!("device.{leg}.size"), size.0.to_string())));
    if writes {
        // A growth was cut off after it held: the stack file does not say so yet. Where it cannot be written the next start finds out again.
        let kept = nandu_live::stack_file::set_sizes(Path::new(stack), &sizes);
        for (leg, size) in &sizes {
            output::log(&format!("{leg}: its records say that {} of it are used", size.exact()));
        }
        if let Ok(Some(copy)) = kept {
            output::log(&format!("{stack}: says so from now on; as it was it is kept in {}", copy.display()));
        }
    }
    Ok((open(stack, &sets, crate::registry())?, sets))
}

/// Serves a stack until it is told to stop, or until the command of `--run` ends. Returns the exit code of that command.
pub fn serve(args: ServeArgs, quiet: bool) -> Result<u8, Failure> {
    let (opened, sets) = open_where_records_are(&args.stack, &args.set, true)?;
    opened.stack.notes.iter().for_each(|note| console(quiet).note(note));
    let mut options = ServeOptions {
        unix: args.unix,
        tcp: args.port.map(|port| SocketAddr::new(args.bind, port)),
        ublk: args.ublk.map(|number| number.map_or(UblkNumber::Free, UblkNumber::From)),
        control: args.control,
        metrics: args.metrics,
        run: args.run,
        pidfile: args.pidfile,
        create: args.create,
        spares: args.spare,
        alone: args.force_degraded,
        salvage: args.salvage,
        assume_clean: args.assume_clean,
        exports: args.export,
        file_io: match args.io {
            FileIo::Auto => nandu_live::FileIo::Auto,
            FileIo::Uring => nandu_live::FileIo::Uring,
            FileIo::Threads => nandu_live::FileIo::Threads,
        },
        tls: args.tls_certificates.map(|certificates| TlsOptions {
            certificates,
            is_optional: args.tls == TlsMode::On,
            verify_clients: args.tls_verify_peer,
        }),
        read_only: args.read_only,
        caps: Caps {
            memory: args.memory,
            connections: args.max_connections as usize,
            controls: args.max_control as usize,
            idle: args.idle_timeout,
            ..Caps::default()
        },
        poll_max: args.poll_max,
        service: true,
        watchdog: args.watchdog,
        stack_file: Some(PathBuf::from(&opened.source)),
        reload: reload(&args.stack, &sets),
        on_change: args.on_change,
        ..ServeOptions::new(opened.stack)
    };
    options.seed = args.seed.unwrap_or(options.seed);
    let most = match args.log_level {
        LogLevel::Error => Level::Error,
        LogLevel::Warn => Level::Warn,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
    };
    let to = Arc::new(Log::open(args.log)?);
    let of_alarm = Arc::clone(&to);
    let wants = move |report: &Report| !quiet && report.level() <= most;
    options.alarm = Box::new(move |report| {
        if wants(report) {
            of_alarm.say(report);
        }
    });
    let ended = nandu_live::serve(options, &mut |report| {
        if matches!(report, Report::HangUp) {
            to.open_anew();
        }
        match report {
            Report::Ready { .. } => report.print(),
            report if wants(report) => to.say(report),
            _ => {}
        }
    });
    match ended {
        Ok(ended) => Ok(ended.exit_code()),
        Err(ServeError::Stack(error)) => Err(error.into()),
        Err(error) if error.exit_code() == crate::INPUT => Err(Failure::input(error.to_string())),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

//! `nandu serve`: a stack as a real block device.

use crate::args::{LogLevel, ServeArgs};
use crate::failure::Failure;
use crate::format::visible;
use crate::open::open;
use crate::output;
use crate::talk::talk;
use nandu_live::{Caps, Level, Report, ServeError, ServeOptions};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serves a stack until it is told to stop, or until the command of `--run` ends. Returns the exit code of that command.
pub fn serve(args: ServeArgs, quiet: bool) -> Result<u8, Failure> {
    let opened = open(&args.stack, &args.set, crate::registry())?;
    opened.stack.notes.iter().for_each(|note| talk(quiet).note(note));
    let mut options = ServeOptions {
        unix: args.unix,
        tcp: args.port.map(|port| SocketAddr::new(args.bind, port)),
        control: args.control,
        run: args.run,
        pidfile: args.pidfile,
        create: args.create,
        alone: args.alone,
        salvage: args.salvage,
        assume_clean: args.assume_clean,
        exports: args.export,
        read_only: args.read_only,
        caps: Caps {
            memory: args.memory,
            connections: args.max_connections as usize,
            controls: args.max_control as usize,
            idle: args.idle_timeout,
            ..Caps::default()
        },
        service: true,
        watchdog: args.watchdog,
        stack_file: Some(PathBuf::from(&opened.source)),
        ..ServeOptions::new(opened.stack)
    };
    options.seed = args.seed.unwrap_or(options.seed);
    let most = match args.log_level {
        LogLevel::Error => Level::Error,
        LogLevel::Warn => Level::Warn,
        LogLevel::Info => Level::Info,
        LogLevel::Debug => Level::Debug,
    };
    let log = move |report: &Report| {
        if !quiet && report.level() <= most {
            output::say(format_args!("{}", visible(&report.line())));
        }
    };
    options.alarm = Box::new(log);
    let ended = nandu_live::serve(options, &mut |report| match report {
        Report::Ready { .. } => report.print(),
        _ => log(report),
    });
    match ended {
        Ok(ended) => Ok(ended.exit_code()),
        Err(ServeError::Stack(error)) => Err(error.into()),
        Err(error) if error.exit_code() == crate::INPUT => Err(Failure::input(error.to_string())),
        Err(error) => Err(Failure::failed(error.to_string())),
    }
}

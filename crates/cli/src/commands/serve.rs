//! `nandu serve`: a stack as a real block device.

use crate::args::ServeArgs;
use crate::failure::Failure;
use crate::open::open;
use crate::talk::Talk;
use nandu_live::{Report, ServeError, ServeOptions};
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serves a stack until it is told to stop, or until the command of `--run` ends. Returns the exit code of that command.
pub fn serve(args: ServeArgs, talk: Talk) -> Result<u8, Failure> {
    let opened = open(&args.stack, &args.set)?;
    opened.stack.notes.iter().for_each(|note| talk.note(note));
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
        stack_file: Some(PathBuf::from(&opened.source)),
        ..ServeOptions::new(opened.stack)
    };
    options.seed = args.seed.unwrap_or(options.seed);
    let ended = nandu_live::serve(options, &mut |report| match report {
        Report::Ready { .. } => report.print(),
        _ => talk.say(report),
    });
    match ended {
        Ok(ended) => Ok(ended.exit_code()),
        Err(ServeError::Stack(error)) => Err(error.into()),
        Err(error) => Err(Failure { code: error.exit_code(), message: error.to_string() }),
    }
}

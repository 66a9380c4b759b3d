//! A server for tests: `serve STACK SOCKET [CONTROL] [create] [alone]`. The command line proper is `nandu serve`.

use nandu_live::{Report, ServeOptions, serve};
use nandu_stack::Stack;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(stack), Some(socket)) = (args.next(), args.next()) else {
        eprintln!("usage: serve STACK SOCKET [CONTROL] [create] [alone]");
        return ExitCode::from(2);
    };
    let text = match std::fs::read_to_string(&stack) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{stack}: {error}");
            return ExitCode::from(2);
        }
    };
    let stack = match Stack::parse(&text) {
        Ok(stack) => stack,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    let mut options = ServeOptions { unix: vec![PathBuf::from(socket)], ..ServeOptions::new(stack) };
    for word in args {
        match word.as_str() {
            "create" => options.create = true,
            "alone" => options.alone = true,
            path => options.control = Some(path.into()),
        }
    }
    match serve(options, &mut |report: &Report| report.print()) {
        Ok(ended) => ExitCode::from(ended.exit_code()),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

//! Reads the first N requests of a trace file and prints its hash: the body of the instruction count.
//!
//! `valgrind --tool=callgrind parse_cost FILE N` for two N; the difference over the difference of N is the cost of a
//! line. Give a plain file, or the decompressor is counted too. N counts requests; `hash` as third word also hashes.

use nandu_trace::{LoadOptions, load};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let (Some(path), Some(Ok(limit))) = (args.get(1), args.get(2).map(|n| n.parse())) else {
        eprintln!("usage: parse_cost FILE REQUESTS [hash]");
        return ExitCode::from(2);
    };
    match load(path.as_ref(), &LoadOptions { limit: Some(limit), ..LoadOptions::default() }) {
        Ok(trace) => {
            println!("{} requests of {}, {}", trace.records.len(), trace.meta.format, trace.span());
            if args.get(3).is_some_and(|a| a == "hash") {
                println!("{}", trace.content_hash());
            }
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

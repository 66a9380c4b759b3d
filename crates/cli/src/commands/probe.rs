//! `nandu probe`: read sizes and depths of a stack, a file or a device.

use crate::args::ProbeArgs;
use crate::console::Console;
use crate::failure::Failure;
use crate::open::{self, open};
use crate::output;
use crate::probe::{device, simulated, text};
use std::path::Path;

/// Measures and prints.
pub fn probe(args: &ProbeArgs, console: Console) -> Result<(), Failure> {
    let is_stack = args.target.ends_with(".toml") || open::BUILTIN.iter().any(|b| b.0 == args.target);
    let figures = if is_stack && !args.device {
        simulated::probe(
            &open(&args.target, &args.set, crate::registry())?,
            args.export.as_deref(),
            args.seed,
        )?
    } else {
        device::probe(Path::new(&args.target), args.seed, console)?
    };
    if args.json { output::print_json(&figures) } else { output::print(&text(&figures)) }
}

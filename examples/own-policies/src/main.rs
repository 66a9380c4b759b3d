//! The whole program of Nandu with the policies of this package: `run`, `compare`, `sweep`, `verify`, `serve`, `list`.

use std::process::ExitCode;

fn main() -> ExitCode {
    nandu::main(own_policies::registry())
}

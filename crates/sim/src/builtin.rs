//! Everything a program can name that runs stacks on traces.

use nandu_base::Registry;

/// The machines and policies of stacks, the formats of traces and the generators that Nandu ships.
pub fn builtin() -> Registry {
    nandu_stack::builtin()
        .with(nandu_trace::formats::policies())
        .with(nandu_trace::synth::policies())
        .with_files(|path| std::fs::read_to_string(path).map_err(|error| error.to_string()))
}

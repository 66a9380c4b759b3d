//! Any bytes as a stack file: a stack that can be built, or an error that says why.

use nandu_stack::{BuildOptions, Stack};

/// The bytes are a text with a stack in it, or not. What is built is small: a stack file may ask for any amount of memory, and is answered by
/// its limits, not here.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(stack) = Stack::parse(text) else { return };
    let digits = |word: &str| word.bytes().filter(u8::is_ascii_digit).count() > 7;
    if text.split(|c: char| !c.is_ascii_alphanumeric()).any(digits)
        || text.contains("TiB")
        || text.contains("PiB")
    {
        return;
    }
    let _ = stack.build(&BuildOptions::default());
}

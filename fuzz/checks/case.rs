//! Any bytes as a case of the verified simulation: a list of steps that is written as it was read, or an error that says why.

use nandu_sim::verify::{Case, run_case};
use nandu_stack::builtin;

/// The bytes are a text with a case in it, or not. What is run is small: a stack may ask for any amount of memory, and is answered by its
/// limits, not here.
pub fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(case) = Case::parse(text) else { return };
    let again = Case::parse(&case.to_text()).expect("what is written is read");
    assert_eq!(again, case, "it is another case when it is read again");
    let digits = |word: &str| word.bytes().filter(u8::is_ascii_digit).count() > 5;
    let is_large = |text: &str| text.split(|c: char| !c.is_ascii_alphanumeric()).any(digits);
    if is_large(text) || ["GiB", "TiB", "PiB"].iter().any(|unit| text.contains(unit)) {
        return;
    }
    let _ = run_case(&case, &builtin(), false);
}

//! See the file of the same name in `checks`, which an ordinary test shares.
#![no_main]

#[path = "../checks/case.rs"]
mod check;

libfuzzer_sys::fuzz_target!(|input: &[u8]| check::check(input));

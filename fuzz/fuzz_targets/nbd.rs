//! Any bytes from an NBD client. What is checked is written in the included files, which the unit tests share.
#![no_main]

use nandu_live::nbd;

#[path = "../../crates/live/src/nbd/tests/check.rs"]
mod check;
#[allow(dead_code)]
#[path = "../../crates/live/src/nbd/tests/client.rs"]
mod client;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    check::check(input);
});

//! Tests of the codec. `conversations/` holds whole sessions byte by byte; `check` runs any bytes at all, here and
//! under the fuzzer.

use crate::nbd;

mod any_bytes;
mod check;
mod client;
mod conversations;
mod driver;
mod options;
mod replies;
mod requests;
mod seeds;

//! What every drive with a write buffer shares: its options, the link that fills it, and the sectors of a page that it holds.
//!
//! What is held is only the start of it: a page-mapped drive keeps slots that it empties when it likes (`ssd/buffer`), a
//! drive with a log-block map has a line for each plane (`log_ssd/buffer`), for there the map says where a page goes.

mod config;
mod held;
mod link;

pub use config::WriteBufferConfig;
pub(crate) use held::{Held, ones};
pub(crate) use link::Link;

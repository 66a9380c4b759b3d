//! The parts of a write buffer (`ssd/buffer`): its options, the link that fills it, and the sectors of a page that it holds.

mod config;
mod held;
mod link;

pub use config::WriteBufferConfig;
pub(crate) use held::{Held, ones};
pub(crate) use link::Link;

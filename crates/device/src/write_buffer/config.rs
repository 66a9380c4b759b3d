//! The options of a write buffer.

use nandu_base::{BuildError, ByteLen, Ratio, Span, options};

/// RAM of the controller that acknowledges writes before they are programmed.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteBufferConfig {
    /// Bytes that it holds, in whole pages; 0 for no buffer.
    pub size: ByteLen,
    /// Bytes that the link to the host transfers in a second, which bounds how fast the buffer fills: by default SATA of 3 Gb/s.
    #[option(default = ByteLen(300_000_000), range = ByteLen(1)..)]
    pub link_bandwidth: ByteLen,
    /// Share of the pages that may stay unwritten, so that newer writes replace them; above it the oldest are programmed. With a
    /// log-block map the planes are to have their log blocks filled before the host waits.
    #[option(unset = "0.5, with a log-block map 0", range = ..=Ratio::new(1, 1))]
    pub dirty_share: Option<Ratio>,
    /// A page is programmed at the latest this long after it came.
    #[option(unset = "100 ms")]
    pub dirty_expire: Option<Span>,
    /// Pages that are programmed from the buffer at a time; with a log-block map, where each page has its plane, so many of each plane.
    #[option(unset = "one for each plane", range = 1..)]
    pub max_programs: Option<u32>,
    /// Capacitors keep the buffer through a power cut: what is acknowledged is durable. What the cut finds in the buffer is
    /// there at the next start, which programs it; neither the copy that the capacitors pay for nor its time is modelled.
    #[option(default)]
    pub power_loss_protection: bool,
}

impl WriteBufferConfig {
    /// Pages of `page` bytes that fit, at most `logical`.
    pub(crate) fn pages(&self, page: ByteLen, logical: u32) -> Result<u32, BuildError> {
        if self.size.0 < page.0 {
            return Err(BuildError::too_small("write_buffer.size", self.size, page));
        }
        Ok((self.size.0 / page.0).min(u64::from(logical)) as u32)
    }
}

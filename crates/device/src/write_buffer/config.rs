//! The options of a write buffer.

use nandu_base::{BuildError, ByteLen, Ratio, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// RAM of the controller that acknowledges writes before they are programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteBufferConfig {
    /// Bytes that it holds, in whole pages; 0 for no buffer.
    pub size: ByteLen,
    /// Bytes that the link to the host transfers in a second, which bounds how fast the buffer fills: 300 MB/s by default, SATA
    /// of 3 Gb/s.
    #[serde(default = "default_link")]
    pub link_bandwidth: ByteLen,
    /// Share of the pages that may stay unwritten, so that newer writes replace them; above it the oldest are programmed.
    /// Half by default; 0 with a log-block map, whose planes are to have their log blocks filled before the host waits.
    pub dirty_share: Option<Ratio>,
    /// A page is programmed at the latest this long after it came: 100 ms by default.
    pub dirty_expire: Option<Span>,
    /// Pages that are programmed from the buffer at a time, at least 1; by default one for each plane. With a log-block map, where
    /// each page has its plane, so many of each plane: 1 by default.
    pub max_programs: Option<u32>,
    /// Capacitors keep the buffer through a power cut: what is acknowledged is durable. What the cut finds in the buffer is
    /// there at the next start, which programs it; neither the copy that the capacitors pay for nor its time is modelled.
    #[serde(default)]
    pub power_loss_protection: bool,
}

fn default_link() -> ByteLen {
    ByteLen(300_000_000)
}

impl WriteBufferConfig {
    /// Pages of `page` bytes that fit, at most `logical`.
    pub(crate) fn pages(&self, page: ByteLen, logical: u32) -> Result<u32, BuildError> {
        if self.size.0 < page.0 {
            return Err(BuildError::too_small("write_buffer", self.size, page));
        }
        if self.link_bandwidth == ByteLen::ZERO {
            return Err(BuildError::at("write_buffer", "a link needs a speed above zero"));
        }
        if self.max_programs == Some(0) {
            return Err(BuildError::at(
                "write_buffer",
                "max_programs = 0 would never write anything: at least 1",
            ));
        }
        if self.dirty_share.is_some_and(|keep| keep.num > keep.den) {
            return Err(BuildError::at("write_buffer", "keep is a share of the buffer: at most 1"));
        }
        Ok((self.size.0 / page.0).min(u64::from(logical)) as u32)
    }
}

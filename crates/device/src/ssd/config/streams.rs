//! The option `streams`: which of the host's pages share blocks.

use super::SsdConfig;
use nandu_base::{BuildError, options};
use nandu_ftl::placement::MultiHash;
use nandu_ftl::plan::streams::Streams;

/// Which of the host's pages share blocks.
#[options]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum StreamsConfig {
    /// All of them.
    #[default]
    None,
    /// Those that are overwritten often, and the others.
    HotCold {
        /// Counters.
        #[option(default = 4096, range = 16..=1 << 24, power_of_two)]
        counters: u32,
        /// Pages written after which all counters are halved.
        #[option(default = 5117, range = 1..)]
        decay_interval: u32,
        /// Count from which a page is hot.
        #[option(default = 4, range = 1..=15)]
        threshold: u8,
    },
    /// Those of one of `tenants`, without keeping them apart otherwise.
    Tenant {
        /// Most open blocks of a plane for them; later tenants share the last.
        #[option(default = 8, range = 1..=16)]
        max_open_blocks: u32,
    },
}

impl SsdConfig {
    /// Streams beside the first one: each has an open block in every plane.
    pub(super) fn more_streams(&self) -> u32 {
        match self.streams {
            StreamsConfig::None => 0,
            StreamsConfig::HotCold { .. } => 1,
            StreamsConfig::Tenant { max_open_blocks: open } => {
                (self.tenants.len() as u32).min(open).max(1) - 1
            }
        }
    }

    /// Refuses what cannot be with streams.
    pub(super) fn check_streams(&self) -> Result<(), BuildError> {
        let refuse = |why: &str| Err(BuildError::at("streams", why.to_string()));
        match self.streams {
            StreamsConfig::Tenant { .. } if self.isolation.is_on() => {
                refuse("with `isolation` each tenant has open blocks of its own already: take `hot-cold`")
            }
            StreamsConfig::Tenant { .. } if self.tenants.is_empty() => {
                refuse("there are no `tenants` whose pages could be kept together")
            }
            _ => Ok(()),
        }
    }

    /// What tells a page's stream on a drive with pages of `page` bytes.
    pub(super) fn streams(&self, page: u64) -> Option<Streams> {
        match self.streams {
            StreamsConfig::None => None,
            StreamsConfig::HotCold { counters, decay_interval: decay, threshold } => {
                Some(Streams::HotCold(MultiHash::new(counters, decay, threshold)))
            }
            StreamsConfig::Tenant { .. } => {
                let ends = self.tenants.iter().scan(0u64, |end, tenant| {
                    *end += tenant.size.0.div_ceil(page);
                    Some((*end).min(u64::from(u32::MAX)) as u32)
                });
                Some(Streams::Ranges(ends.take(self.more_streams() as usize).collect()))
            }
        }
    }
}

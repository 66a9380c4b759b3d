//! The option `streams`: which of the host's pages share blocks.

use super::SsdConfig;
use nandu_base::BuildError;
use nandu_ftl::placement::MultiHash;
use nandu_ftl::plan::streams::Streams;
use schemars::JsonSchema;
use serde::Deserialize;

/// Which of the host's pages share blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum StreamsConfig {
    /// All of them.
    #[default]
    None,
    /// Those that are overwritten often, and the others.
    HotCold {
        /// Counters, a power of two of 16 to 2^24.
        #[serde(default = "default_counters")]
        counters: u32,
        /// Pages written after which all counters are halved.
        #[serde(default = "default_decay")]
        decay_interval: u32,
        /// Count from which a page is hot, 1 to 15.
        #[serde(default = "default_threshold")]
        threshold: u8,
    },
    /// Those of one of `tenants`, without keeping them apart otherwise.
    Tenant {
        /// Most open blocks of a plane for them, 1 to 16; later tenants share the last.
        #[serde(default = "default_open")]
        max_open_blocks: u32,
    },
}

fn default_counters() -> u32 {
    4096
}

fn default_decay() -> u32 {
    5117
}

fn default_threshold() -> u8 {
    4
}

fn default_open() -> u32 {
    8
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
        if self.streams == StreamsConfig::None {
            return Ok(());
        }
        match self.streams {
            StreamsConfig::HotCold { counters, .. }
                if !counters.is_power_of_two() || !(16..=1 << 24).contains(&counters) =>
            {
                refuse("counters is a power of two of 16 to 2^24")
            }
            StreamsConfig::HotCold { decay_interval: 0, .. } => {
                refuse("decay_interval = 0: counters are halved after some writes")
            }
            StreamsConfig::HotCold { threshold, .. } if !(1..=15).contains(&threshold) => {
                refuse("threshold is 1 to 15")
            }
            StreamsConfig::Tenant { max_open_blocks: open } if !(1..=16).contains(&open) => {
                refuse("open is 1 to 16")
            }
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

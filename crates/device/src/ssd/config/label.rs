//! The label of a drive's store: what the options say of how data lie in it, in words that are frozen.
//!
//! A store that was made under one label is refused under another, so a word here never changes when a type is renamed.
//! A new choice gets a word of its own.

use super::tenants::IsolationConfig;
use super::unit::Unit;
use super::{MapConfig, SsdConfig};

impl SsdConfig {
    pub(super) fn label(&self) -> String {
        let mut said = format!(
            "{} x {} x {} x {} planes, map {}, unit {}",
            self.channels,
            self.chips_per_channel,
            self.dies_per_chip,
            self.planes_per_die,
            map_word(&self.mapping),
            unit_word(self.reclaim_unit),
        );
        if let Some(word) = isolation_word(&self.isolation) {
            said += &format!(", isolation {word}");
        }
        if let Some(slots) = self.max_tenants {
            said += &format!(", {slots} places for tenants");
        } else {
            self.tenants.iter().for_each(|tenant| said += &format!(", a tenant of {} bytes", tenant.size.0));
        }
        if self.slc_cache.is_some() {
            said += ", an SLC cache";
        }
        said
    }
}

fn map_word(map: &MapConfig) -> &'static str {
    match map {
        MapConfig::Page => "page",
        MapConfig::Dftl { .. } => "dftl",
        MapConfig::Block { .. } => "block",
        MapConfig::Bast { .. } => "bast",
        MapConfig::Fast { .. } => "fast",
        MapConfig::Cftl { .. } => "cftl",
        MapConfig::Tpftl { .. } => "tpftl",
        MapConfig::TpcFtl { .. } => "tpc",
    }
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Plane => "plane",
        Unit::Die => "die",
        Unit::Superblock => "superblock",
    }
}

fn isolation_word(isolation: &IsolationConfig) -> Option<&'static str> {
    match isolation {
        IsolationConfig::None => None,
        IsolationConfig::Ops => Some("ops"),
        IsolationConfig::Vssd => Some("vssd"),
        IsolationConfig::SharedSpace { .. } => Some("sharedspace"),
        IsolationConfig::Channel => Some("channel"),
        IsolationConfig::Die => Some("die"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(options: &str) -> String {
        let text = format!("profile = \"mlc-2019\"\nchannels = 2\ncapacity = \"1 GiB\"\n{options}");
        toml::from_str::<SsdConfig>(&text).expect("a drive").label()
    }

    /// The labels as version 0.1.0 wrote them: stores bear them.
    #[test]
    fn labels_of_stores_are_frozen() {
        for (options, said) in [
            ("", "map page, unit plane"),
            ("mapping = { kind = \"page\" }\nreclaim_unit = \"die\"", "map page, unit die"),
            ("mapping = { kind = \"dftl\" }\nreclaim_unit = \"superblock\"", "map dftl, unit superblock"),
            ("mapping = { kind = \"block\" }", "map block, unit plane"),
            ("mapping = { kind = \"bast\" }", "map bast, unit plane"),
            ("mapping = { kind = \"fast\" }", "map fast, unit plane"),
            ("mapping = { kind = \"cftl\" }", "map cftl, unit plane"),
            ("mapping = { kind = \"tpftl\" }", "map tpftl, unit plane"),
            ("mapping = { kind = \"tpc-ftl\" }", "map tpc, unit plane"),
            ("isolation = { kind = \"ops\" }", "map page, unit plane, isolation ops"),
            (
                "isolation = { kind = \"vssd\" }\nmax_tenants = 3",
                "map page, unit plane, isolation vssd, 3 places for tenants",
            ),
            (
                "isolation = { kind = \"shared-space\" }\ntenants = [{ name = \"a\", size = \"1 MiB\" }, { name = \"b\", size = \"2 MiB\" }]",
                "map page, unit plane, isolation sharedspace, a tenant of 1048576 bytes, a tenant of 2097152 bytes",
            ),
            ("slc_cache = {}", "map page, unit plane, an SLC cache"),
        ] {
            assert_eq!(label(options), format!("2 x 1 x 1 x 1 planes, {said}"), "{options}");
        }
    }
}

//! The label of a drive's store: what the options say of how data lie in it, in words that are frozen.
//!
//! A store that was made under one label is refused under another, so a word here never changes when a type is renamed.
//! A new choice gets a word of its own.

use super::tenants::IsolationConfig;
use super::unit::Unit;
use super::{MapConfig, SsdConfig};
use nandu_base::ByteLen;
use nandu_ftl::placement::Axis;

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

    /// What decides further where data lie: how many blocks there are, which of them are for checkpoints or bad, and where pages of a log-block
    /// map have their places.
    pub(super) fn details(&self, name: &str, capacity: ByteLen) -> Option<String> {
        let (chip, geometry) = (self.chip().ok()?, self.geometry());
        let layout = self.layout(&chip, geometry, self.gc.threshold).ok()?;
        let mut said = format!("{} blocks of {} pages in a plane", layout.blocks, layout.pages);
        if let Some(map) = self.mapping.log_block() {
            let interleave = map.dealt().interleave;
            said += &format!(
                ", {interleave} pages in a row, over {}",
                self.allocation_order.map(axis_word).join(" ")
            );
            if let Some(tables) = self.tables(&layout, chip.page.0) {
                said += &format!(", {} of them for the table of tenants", tables.per_plane());
            }
        } else {
            let logical = u32::try_from(capacity.0 / chip.page.0).ok()?;
            let shape = self.mapping.shape(logical, chip.page.0, layout.pages).ok()?;
            let anchors = self.anchors(&layout, &shape.owned((0..self.places()).map(|_| None)));
            if anchors > 0 {
                said += &format!(", {anchors} of them for checkpoints");
            }
        }
        let bad = self.wear.factory_bad;
        if bad.num > 0 {
            said += &format!(
                ", {}/{} of them bad as in number {} of `{name}`",
                bad.num, bad.den, self.wear.serial
            );
        }
        Some(said)
    }
}

fn axis_word(axis: Axis) -> &'static str {
    match axis {
        Axis::Channel => "channels",
        Axis::Chip => "chips",
        Axis::Die => "dies",
        Axis::Plane => "planes",
    }
}

/// A map is called in a label as in a stack file; one is called as it was when stores were first made with it.
fn map_word(map: &MapConfig) -> &str {
    match map.0.name() {
        "tpc-ftl" => "tpc",
        name => name,
    }
}

fn unit_word(unit: Unit) -> &'static str {
    match unit {
        Unit::Plane => "plane",
        Unit::Die => "die",
        Unit::Superblock => "superblock",
    }
}

/// The word of an isolation in labels, which is older than the hyphen of its name.
fn isolation_word(isolation: &IsolationConfig) -> Option<&str> {
    isolation.is_on().then(|| match isolation.name() {
        "shared-space" => "sharedspace",
        name => name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(options: &str) -> String {
        let text = format!("profile = \"mlc-2019\"\nchannels = 2\ncapacity = \"1 GiB\"\n{options}");
        toml::from_str::<SsdConfig>(&text).expect("a drive").label()
    }

    #[test]
    fn whatever_moves_data_is_among_the_details() {
        let details = |options: &str| {
            let text = format!("profile = \"mlc-2019\"\nchannels = 2\n{options}");
            let drive = toml::from_str::<SsdConfig>(&text).expect("a drive");
            drive.details("d", ByteLen::mib(512)).expect("it can be built")
        };
        let of = |more: &str| details(&format!("capacity = \"512 MiB\"\n{more}"));
        let all = [
            of(""),
            of("spare_factor = 0.2"),
            of("pages_per_block = 256"),
            of("mapping = { kind = \"dftl\", cmt_size = \"8 KiB\" }\ncheckpoint_interval = 8"),
            of("mapping = { kind = \"fast\", log_blocks = 6 }"),
            of("mapping = { kind = \"fast\", log_blocks = 6, interleave = 4 }"),
            of(
                "mapping = { kind = \"fast\", log_blocks = 6 }\nallocation_order = [\"plane\", \"die\", \"chip\", \"channel\"]",
            ),
            of("wear = { factory_bad = \"1/20\" }"),
            of("wear = { factory_bad = \"1/20\", serial = 1 }"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{one}");
        }
        // What only chooses is not.
        assert_eq!(of("gc = { kind = \"fifo\" }\ndie_scheduler = { kind = \"out-of-order\" }"), all[0]);
        assert_eq!(of("mapping = { kind = \"dftl\", cmt_size = \"8 KiB\" }"), all[0]);
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
            ("mapping = { kind = \"sftl\" }", "map sftl, unit plane"),
            ("mapping = { kind = \"leaftl\" }", "map leaftl, unit plane"),
            ("mapping = { kind = \"tpc-ftl\" }", "map tpc, unit plane"),
            ("isolation = { kind = \"ops\" }", "map page, unit plane, isolation ops"),
            ("isolation = \"channel\"", "map page, unit plane, isolation channel"),
            ("isolation = \"die\"", "map page, unit plane, isolation die"),
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

//! Drives described option by option, for tests: a drive and its variants are values, not pieces of text that are joined.
//!
//! A [`SsdTable`] is the table of an SSD in a stack file. What a test says of it last is what holds: a variant sets an option again. It yields
//! the options ([`SsdTable::config`]) or a stack file ([`SsdTable::stack`]).

use crate::ssd::SsdConfig;
use serde::Deserialize;
use std::fmt::Display;
use toml::{Table, Value};

/// The table of an SSD.
#[derive(Clone, PartialEq, Debug)]
pub struct SsdTable(Table);

/// An SSD of a profile, all other options at their defaults.
pub fn ssd(profile: &str) -> SsdTable {
    SsdTable(Table::new()).set("profile", profile)
}

impl SsdTable {
    fn set(mut self, key: &str, value: impl Into<Value>) -> SsdTable {
        self.0.insert(key.into(), value.into());
        self
    }

    /// Lines of a stack file, each of which takes the place of what the drive has of that option. Panics when they are not TOML.
    pub fn with(mut self, lines: impl Display) -> SsdTable {
        let lines = lines.to_string();
        let options: Table = lines.parse().unwrap_or_else(|error| panic!("{lines}: {error}"));
        self.0.extend(options);
        self
    }

    /// Channels.
    pub fn channels(self, channels: u32) -> SsdTable {
        self.set("channels", channels)
    }

    /// Dies of each chip.
    pub fn dies(self, dies: u32) -> SsdTable {
        self.set("dies_per_chip", dies)
    }

    /// Planes of each die.
    pub fn planes(self, planes: u32) -> SsdTable {
        self.set("planes_per_die", planes)
    }

    /// Blocks of each plane.
    pub fn blocks(self, blocks: u32) -> SsdTable {
        self.set("blocks_per_plane", blocks)
    }

    /// Pages of each block.
    pub fn pages(self, pages: u32) -> SsdTable {
        self.set("pages_per_block", pages)
    }

    /// Bytes of each page.
    pub fn page_size(self, bytes: u32) -> SsdTable {
        self.set("page_size", bytes)
    }

    /// Share of the flash that the host does not see: a number, or a fraction as text.
    pub fn spare(self, share: impl Into<Value>) -> SsdTable {
        self.set("spare_factor", share)
    }

    /// A policy of a kind for an option, as `gc`, with options of its own as they stand in an inline table.
    pub fn policy(self, option: &str, kind: &str, options: &[&str]) -> SsdTable {
        let options: String = options.iter().filter(|o| !o.is_empty()).map(|o| format!(", {o}")).collect();
        self.with(format_args!("{option} = {{ kind = {kind:?}{options} }}"))
    }

    /// The map of a kind, with options of its own.
    pub fn map(self, kind: &str, options: &str) -> SsdTable {
        self.policy("mapping", kind, &[options])
    }

    /// RAM for what is cached of the drive's map, which is one on the flash.
    pub fn cache(mut self, bytes: u32) -> SsdTable {
        let map = self.0.get_mut("mapping").and_then(Value::as_table_mut).expect("the map is said first");
        map.insert("cmt_size".into(), bytes.into());
        self
    }

    /// Tenants, `a` onwards, with so many bytes each.
    pub fn tenants(self, sizes: &[u32]) -> SsdTable {
        let tenants = ('a'..).zip(sizes).map(|(name, &size)| {
            let mut tenant = row("name", name.to_string());
            tenant.extend(row("size", size));
            tenant
        });
        self.set("tenants", tenants.map(Value::Table).collect::<Vec<_>>())
    }

    /// What is said of an option, as `wear.endurance`; nothing where it has its default.
    pub fn get(&self, path: &str) -> Option<&Value> {
        let mut keys = path.split('.');
        let value = self.0.get(keys.next()?)?;
        keys.try_fold(value, |below, key| below.get(key))
    }

    /// Whether its map chooses the pages itself: a log-block map. Panics when the options cannot be read.
    pub fn has_log_blocks(&self) -> bool {
        self.config().expect("the options can be read").mapping.log_block().is_some()
    }

    /// Whether its map is partly on the flash. Panics when the options cannot be read.
    pub fn has_map_on_flash(&self) -> bool {
        self.config().expect("the options can be read").mapping.is_paged()
    }

    /// The options.
    ///
    /// # Errors
    /// What of them cannot be read.
    pub fn config(&self) -> Result<SsdConfig, toml::de::Error> {
        SsdConfig::deserialize(Value::Table(self.0.clone()))
    }

    /// A stack of this drive alone, called `ssd`, with the export `data`.
    pub fn stack(&self) -> String {
        self.under("ssd", Table::from_iter([table("export", Table::from_iter([table("data", export())]))]))
    }

    /// A stack of this drive alone, called `ssd`, with tenants of these names and weights and an export of each that is called as it.
    pub fn stack_for(&self, tenants: &[(&str, u32)]) -> String {
        let exports = tenants.iter().map(|(name, _)| table(name, export())).collect();
        let tenants = tenants.iter().map(|&(name, weight)| table(name, row("weight", weight))).collect();
        self.under("ssd", Table::from_iter([table("export", exports), table("tenant", tenants)]))
    }

    /// The table of this drive in a stack file that calls it `name`.
    pub fn device(&self, name: &str) -> String {
        self.under(name, Table::new())
    }

    fn under(&self, name: &str, mut stack: Table) -> String {
        let mut device = row("kind", "ssd");
        device.extend(self.0.clone());
        stack.extend([table("device", Table::from_iter([table(name, device)]))]);
        stack.to_string()
    }
}

fn row(key: &str, value: impl Into<Value>) -> Table {
    Table::from_iter([(key.into(), value.into())])
}

fn table(key: &str, inside: Table) -> (String, Value) {
    (key.into(), Value::Table(inside))
}

fn export() -> Table {
    row("device", "ssd")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_last_holds_and_both_forms_say_it() {
        let drive = ssd("slc-2015").blocks(40).pages(8).spare("2/7").map("dftl", "cmt_size = 64");
        let other = drive.clone().blocks(50).map("bast", "").with("wear = { endurance = 3 }\n");
        assert_eq!((drive.get("mapping.cmt_size"), other.get("mapping.cmt_size")), (Some(&64.into()), None));
        assert_eq!((drive.get("wear.endurance"), other.get("wear.endurance")), (None, Some(&3.into())));
        assert_eq!(
            (drive.config().unwrap().blocks_per_plane, other.config().unwrap().blocks_per_plane),
            (Some(40), Some(50))
        );
        let stack: Table = other.stack().parse().unwrap();
        assert_eq!(
            SsdTable(stack["device"]["ssd"].as_table().unwrap().clone()),
            other.clone().with("kind = \"ssd\"")
        );
        assert_eq!(stack["export"]["data"]["device"].as_str(), Some("ssd"));
        let stack: Table = other.stack_for(&[("t1", 100), ("t2", 300)]).parse().unwrap();
        assert_eq!(stack["tenant"]["t2"]["weight"].as_integer(), Some(300));
        assert_eq!(stack["export"].as_table().unwrap().len(), 2);
    }
}

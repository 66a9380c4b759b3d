//! The family of maps: which of them a drive has, and how a drive is made with one.
//!
//! A map's options stand in its own file ([`nandu_ftl::mapping`], [`nandu_ftl::log_block`]), or in another crate. The controller is compiled for each map's own
//! type; that happens here, where a map is put into the registry.

use super::config::{Drive, SsdConfig};
use nandu_base::options::{Described, Options};
use nandu_base::{
    BuildContext, BuildError, Chosen, Declaration, Declared, Family, Machine, Policy, ReadOptions,
};
use nandu_ftl::log_block::{BastConfig, BlockMapConfig, FastConfig, LogBlockOptions};
use nandu_ftl::map_area::MapNeeds;
use nandu_ftl::mapping::{
    CftlConfig, DataProgram, DftlConfig, EvictionWrite, Given, LeaftlConfig, MapOptions, MapShape, Mapping,
    PageMapConfig, PagedOptions, SftlConfig, TpcConfig, TpftlConfig,
};
use serde::Deserialize;
use serde_json::Value as Json;
use std::fmt::Debug;
use std::sync::Arc;

/// The family.
pub struct Maps;

impl Family for Maps {
    const NAME: &'static str = "mapping";
    const SCHEMA: &'static str = "Map";
    const SUMMARY: &'static str = "How logical pages are found.";
    type Options = AnyMap;

    fn builtin() -> &'static [Policy] {
        POLICIES
    }
}

/// The maps of this project.
pub static POLICIES: &[Policy] = &[
    policy::<PageMapConfig>(),
    policy::<DftlConfig>(),
    log_block_policy::<BlockMapConfig>(),
    log_block_policy::<BastConfig>(),
    log_block_policy::<FastConfig>(),
    policy::<CftlConfig>(),
    policy::<TpftlConfig>(),
    policy::<SftlConfig>(),
    policy::<LeaftlConfig>(),
    policy::<TpcConfig>(),
];

/// The map whose options are `C`, for a registry.
pub const fn policy<C: MapOptions + Declared>() -> Policy {
    let read: &'static ReadOptions<Maps> =
        &const { &|table| Ok(Arc::new(AnyMap(Map::Pages(Box::new(C::deserialize(table)?))))) };
    Policy::new::<Maps, C>(read)
}

/// The log-block map whose options are `C`. For those of this project: a served store tells their records apart by the map's name.
const fn log_block_policy<C: LogBlockOptions + Declared>() -> Policy {
    let read: &'static ReadOptions<Maps> =
        &const { &|table| Ok(Arc::new(AnyMap(Map::LogBlocks(Box::new(C::deserialize(table)?))))) };
    Policy::new::<Maps, C>(read)
}

/// A map on the flash that is declared while the program runs. Its options are those of all such maps, which the declaration leaves out, and its own: `made` has
/// both.
///
/// # Errors
/// One of its options is called like one that all of them have.
pub fn late<C: MapOptions>(
    mut declaration: Declaration,
    made: impl Fn(PagedOptions, toml::Table) -> C + Send + Sync + 'static,
) -> Result<Policy, String> {
    let mut common = schemars::schema_for!(PagedOptions).to_value();
    let own = declaration.schema.ensure_object();
    if let Some(Json::Object(definitions)) = common.get_mut("$defs").map(Json::take) {
        let known = own.entry("$defs").or_insert_with(|| Json::Object(Default::default()));
        known.as_object_mut().ok_or("its `$defs` are not a table")?.extend(definitions);
    }
    let common = common["properties"].as_object_mut().map(std::mem::take).expect("they are a table");
    let keys: Vec<String> = common.keys().cloned().collect();
    let properties = own.entry("properties").or_insert_with(|| Json::Object(Default::default()));
    let properties = properties.as_object_mut().ok_or("its `properties` are not a table")?;
    if let Some(key) = keys.iter().find(|key| properties.contains_key(*key)) {
        return Err(format!("all maps on the flash have an option `{key}`: its own need other names"));
    }
    properties.extend(common);
    Ok(Policy::late::<Maps>(declaration, move |mut table| {
        let shared = keys.iter().filter_map(|key| table.remove_entry(key)).collect();
        let paged = PagedOptions::deserialize(toml::Value::Table(shared))?;
        Ok(Arc::new(AnyMap(Map::Pages(Box::new(made(paged, table))))))
    }))
}

/// The options of any map, with the drive that is compiled for it.
#[derive(Debug)]
pub struct AnyMap(Map);

#[derive(Debug)]
pub(super) enum Map {
    /// Of one that says where each page lies; the controller chooses the place of a new version.
    Pages(Box<dyn AnyPages>),
    /// Of one that chooses the place itself.
    LogBlocks(Box<dyn LogBlockOptions>),
}

/// What they may be says the map's own type.
impl Options for AnyMap {
    fn declared() -> Vec<Described> {
        Vec::new()
    }

    fn check_ranges(&self) -> Result<(), BuildError> {
        match &self.0 {
            Map::Pages(options) => options.check_ranges(),
            Map::LogBlocks(options) => options.check_ranges(),
        }
    }
}

/// The options of any map of pages.
pub(super) trait AnyPages: Options + Debug + Send + Sync {
    /// See [`MapOptions::paged`].
    fn paged(&self) -> Option<&PagedOptions>;
    /// See [`MapOptions::gathers`].
    fn gathers(&self) -> bool;
    /// The drive with this map.
    fn drive(
        &self,
        config: &SsdConfig,
        drive: Drive,
        given: Given<'_>,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError>;
}

impl<C: MapOptions> AnyPages for C {
    fn paged(&self) -> Option<&PagedOptions> {
        MapOptions::paged(self)
    }

    fn gathers(&self) -> bool {
        MapOptions::gathers(self)
    }

    fn drive(
        &self,
        config: &SsdConfig,
        drive: Drive,
        given: Given<'_>,
        cx: &BuildContext<'_>,
    ) -> Result<Box<dyn Machine>, BuildError> {
        let map = self.build(given)?;
        assert_eq!(
            self.paged().is_some(),
            map.store().is_some(),
            "the options of a map on the flash, and of no other, say how it is paged: {self:?}"
        );
        config.assemble(drive, map, cx)
    }
}

/// How logical pages are found: the map and its options.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(transparent)]
pub struct MapConfig(pub(super) Chosen<Maps>);

impl Default for MapConfig {
    fn default() -> MapConfig {
        MapConfig(Chosen::named("page"))
    }
}

impl MapConfig {
    /// The options.
    ///
    /// # Errors
    /// The map is none of this project and no registry was asked for it.
    pub(super) fn options(&self) -> Result<&Map, BuildError> {
        self.0.options().map(|any| &any.0).map_err(|error| error.within("mapping"))
    }

    /// The same, once they are settled.
    fn made(&self) -> &Map {
        self.options().expect("the options of a drive are settled before they are asked for")
    }

    /// Those that maps on the flash have, where it is one.
    fn paged(&self) -> Option<&PagedOptions> {
        match self.made() {
            Map::Pages(options) => options.paged(),
            Map::LogBlocks(_) => None,
        }
    }

    /// The log-block map, if it is one.
    pub(crate) fn log_block(&self) -> Option<&dyn LogBlockOptions> {
        match self.made() {
            Map::Pages(_) => None,
            Map::LogBlocks(options) => Some(&**options),
        }
    }

    /// Whether the map is partly on the flash.
    pub(crate) fn is_paged(&self) -> bool {
        self.paged().is_some()
    }

    pub(super) fn waits_for_write(&self) -> bool {
        self.paged().is_some_and(|paged| paged.eviction_write == EvictionWrite::Sync)
    }

    /// Whether whole pages are programmed before their entries have come.
    pub(super) fn programs_at_once(&self) -> bool {
        self.paged().is_some_and(|paged| paged.data_program == DataProgram::AtOnce)
    }

    /// Whether logical blocks are gathered, which takes one block of each plane.
    pub(super) fn gathers(&self) -> bool {
        matches!(self.made(), Map::Pages(options) if options.gathers())
    }

    /// RAM for the cache.
    pub(super) fn ram(&self) -> u64 {
        self.paged().map_or(0, |paged| paged.cmt_size.0)
    }

    /// The map's size on a drive of `pages` logical pages.
    pub(super) fn shape(
        &self,
        pages: u32,
        page_bytes: u64,
        block_pages: u32,
    ) -> Result<MapShape, BuildError> {
        let moves = self.paged().and_then(|paged| paged.gc_batch).unwrap_or(block_pages);
        Ok(MapShape::new(pages, page_bytes.trailing_zeros() - 2, moves))
    }

    /// What it takes of the blocks of a drive with pages of so many bytes, where it is on the flash.
    pub(super) fn needs(&self, page_bytes: u64) -> Option<MapNeeds> {
        let entries = (page_bytes / 4) as u32;
        self.is_paged().then(|| MapNeeds { entries, gathers: u32::from(self.gathers()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_draw_of_a_map_can_be_read() {
        for policy in POLICIES {
            for draw in policy.draws {
                let table: toml::Table = toml::from_str(&format!("map = {{ {draw} }}")).expect(draw);
                let options = table["map"].as_table().expect("it is one").clone();
                let read = Chosen::<Maps>::new(policy.name, options);
                assert!(read.is_ok(), "{}: {draw}: {:?}", policy.name, read.err());
            }
        }
    }

    #[test]
    fn a_map_is_named_by_its_word_and_says_whose_an_option_is() {
        let read = |text: &str| -> Result<MapConfig, String> {
            let table: toml::Table = toml::from_str(text).expect("it is TOML");
            MapConfig::deserialize(table["mapping"].clone()).map_err(|error| error.message().to_string())
        };
        assert_eq!(read("mapping = \"dftl\"").map(|map| map.ram()), Ok(128 << 10));
        assert!(read("mapping = \"tpc-ftl\"").is_ok_and(|map| map.is_paged() && map.waits_for_write()));
        let why = read("mapping = { kind = \"page\", protected_share = 0.5 }").expect_err("it has none");
        assert!(why.contains("mapping `page` has no option `protected_share`, but dftl has"), "{why}");
    }
}

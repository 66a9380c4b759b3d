//! Profiles of flash chips, and the geometry of the drive built from them.
//!
//! A profile is a TOML file in `profiles/` with one source for each figure; a new chip is a new file and one line in
//! [`PROFILES`].

use super::FlashPower;
use crate::profiles;
use nandu_base::{BuildError, ByteLen, Span};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Every profile that ships, by file.
const PROFILES: &[&str] = &[
    include_str!("../../profiles/slc-2015.toml"),
    include_str!("../../profiles/slc-2019.toml"),
    include_str!("../../profiles/mlc-2019.toml"),
    include_str!("../../profiles/tlc-2015.toml"),
    include_str!("../../profiles/tlc-2019.toml"),
    include_str!("../../profiles/qlc-2020.toml"),
    include_str!("../../profiles/bench-2026.toml"),
];

/// One kind of chip.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The word after `profile =`.
    pub name: String,
    /// Bits per cell in words: SLC, MLC, TLC.
    pub cell: String,
    /// Data bytes of a page.
    pub page: ByteLen,
    /// Pages of a block.
    pub pages_per_block: u32,
    /// tR.
    pub read: Span,
    /// tPROG.
    pub program: Span,
    /// tBERS.
    pub erase: Span,
    /// Speed of the chip's interface.
    pub channel_bytes_per_second: u64,
    /// Program and erase cycles a block is made for.
    pub endurance: u32,
    /// What it draws.
    pub power: FlashPower,
    /// Its blocks when they are programmed with one bit per cell, where they can be.
    pub slc: Option<SlcFigures>,
    /// Where each figure comes from.
    pub source: BTreeMap<String, String>,
}

/// A block in SLC mode: it holds as many pages as it has, divided by the bits that a cell holds otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcFigures {
    /// tR.
    pub read: Span,
    /// tPROG.
    pub program: Span,
    /// tBERS.
    pub erase: Span,
    /// Program and erase cycles that a block stands which is always in this mode.
    pub endurance: u32,
}

impl Profile {
    /// All profiles, in the order of the list. They are read once: every start of a drive asks for one.
    pub fn all() -> &'static [Profile] {
        static ALL: LazyLock<Vec<Profile>> = LazyLock::new(|| profiles::read(PROFILES));
        &ALL
    }

    /// The profile of this name.
    pub fn named(name: &str) -> Result<Profile, BuildError> {
        profiles::named(Profile::all(), name, |profile| &profile.name)
    }

    /// Time of one page over the channel, rounded up to a nanosecond.
    pub fn transfer(&self) -> Span {
        let ns =
            (u128::from(self.page.0) * 1_000_000_000).div_ceil(u128::from(self.channel_bytes_per_second));
        Span(ns as u64)
    }
}

impl Profile {
    /// Bits that a cell stores; `None` when `cell` is no known word.
    pub fn bits_per_cell(&self) -> Option<u32> {
        ["SLC", "MLC", "TLC", "QLC"].iter().position(|&cell| cell == self.cell).map(|at| at as u32 + 1)
    }
}

/// How many of each part a drive has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Channels.
    pub channels: u32,
    /// Chips on each channel.
    pub chips: u32,
    /// Dies in each chip.
    pub dies: u32,
    /// Planes in each die.
    pub planes: u32,
}

impl Geometry {
    /// Dies in the drive.
    pub fn all_dies(&self) -> u32 {
        self.channels * self.chips * self.dies
    }

    /// Planes in the drive.
    pub fn all_planes(&self) -> u32 {
        self.all_dies() * self.planes
    }

    /// The number of a plane at these coordinates (channel, chip, die, plane). Die `i` lies on channel `i mod channels`,
    /// and the planes of a die have consecutive numbers.
    pub fn plane_number(&self, [channel, chip, die, plane]: [u32; 4]) -> u32 {
        ((die * self.chips + chip) * self.channels + channel) * self.planes + plane
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_of_every_profile_has_a_source() {
        for profile in Profile::all() {
            for figure in [
                "page",
                "pages_per_block",
                "read",
                "program",
                "erase",
                "channel_bytes_per_second",
                "endurance",
                "power",
            ] {
                assert!(profile.source.contains_key(figure), "{}: {figure} has no source", profile.name);
            }
            assert_eq!(profile.slc.is_some(), profile.source.contains_key("slc"), "{}: slc", profile.name);
        }
    }

    #[test]
    fn an_operation_draws_what_chips_of_its_kind_do() {
        let energy = |name: &str| {
            let p = Profile::named(name).unwrap();
            let uj = |time: Span, uw: u64| u128::from(time.0) * u128::from(uw) / 1_000_000_000;
            (
                p.bits_per_cell(),
                uj(p.read, p.power.read_uw),
                uj(p.program, p.power.program_uw),
                uj(p.erase, p.power.erase_uw),
            )
        };
        // Spec D2-3: an SLC read takes 1 to 2 uJ, a program 10 to 17 uJ, an erase 75 to 124 uJ.
        assert_eq!(energy("slc-2015"), (Some(1), 1, 13, 99));
        assert_eq!(energy("mlc-2019"), (Some(2), 4, 66, 123));
        assert_eq!(energy("tlc-2019"), (Some(3), 8, 198, 247));
        assert!(Profile::all().iter().all(|p| p.bits_per_cell().is_some()));
    }

    #[test]
    fn a_slip_in_the_name_is_answered_with_the_nearest() {
        let error = Profile::named("mlc-2091").unwrap_err();
        assert!(error.reason.contains("did you mean `mlc-2019`?"), "{error}");
    }

    #[test]
    fn a_page_crosses_the_channel_in_its_time() {
        // 4096 B at 333 MB/s: 12.3 us.
        assert_eq!(Profile::named("mlc-2019").unwrap().transfer(), Span(12_301));
    }
}

//! What a stack costs, in units of money that mean nothing but their ratios, or in those of a price list.
//!
//! Counted are flash by bits per cell (spare and blocks in any mode included), RAM (caches, maps of drives, buffers), and a sum for each
//! drive. The list that is built in is rough: MLC is three times and SLC eight times as dear as TLC, RAM fifty times.

use crate::failure::Failure;
use nandu_base::units::parse_size;
use nandu_base::{Ask, Counter, Machine, Report};
use nandu_stack::{BuildOptions, Stack, StackFile};
use serde::Deserialize;
use std::path::Path;

/// Prices.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prices {
    /// A GiB of flash with one bit per cell.
    slc_gib: f64,
    /// With two.
    mlc_gib: f64,
    /// With three.
    tlc_gib: f64,
    /// With four or more.
    qlc_gib: f64,
    /// A GiB of RAM.
    ram_gib: f64,
    /// An SSD without its flash and RAM.
    ssd: f64,
    /// A hard disk.
    hdd: f64,
}

impl Default for Prices {
    fn default() -> Prices {
        Prices {
            slc_gib: 0.64,
            mlc_gib: 0.24,
            tlc_gib: 0.08,
            qlc_gib: 0.05,
            ram_gib: 4.0,
            ssd: 10.0,
            hdd: 30.0,
        }
    }
}

impl Prices {
    /// Those in a file, or the built-in ones.
    pub fn of(path: Option<&Path>) -> Result<Prices, Failure> {
        let Some(path) = path else { return Ok(Prices::default()) };
        let text = std::fs::read_to_string(path).map_err(|e| Failure::unreadable(path, &e))?;
        let prices: Prices = toml::from_str(&text).map_err(|e| {
            // Each line of a message is a problem by itself: the parser's picture of the place is none.
            let before = e.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
            let (line, column) =
                (before.split('\n').count(), before.chars().rev().take_while(|&c| c != '\n').count() + 1);
            let why = e.message().trim().replace('\n', "; ");
            Failure::input(format!("{}:{line}:{column}: {why}", path.display()))
        })?;
        let all = [
            prices.slc_gib,
            prices.mlc_gib,
            prices.tlc_gib,
            prices.qlc_gib,
            prices.ram_gib,
            prices.ssd,
            prices.hdd,
        ];
        match all.iter().all(|price| (0.0..=1e9).contains(price)) {
            true => Ok(prices),
            false => Err(Failure::input(format!("{}: a price is from 0 to 1e9", path.display()))),
        }
    }

    /// The price of `stack`, whose text is `file`, in thousandths.
    pub fn price(&self, file: &StackFile, stack: &Stack) -> Result<u64, Failure> {
        const GIB: f64 = (1u64 << 30) as f64;
        let mut built = stack.build(&BuildOptions::default())?;
        let table: toml::Table = file.to_text().parse().unwrap_or_default();
        let mut sum = 0.0;
        for part in &mut built.parts {
            // What stands on flash counts the flash below it again.
            let regions = match part.children.is_empty() {
                true => Report::of(&mut *part.machine, Ask::Wear).wear,
                false => Vec::new(),
            };
            for region in &regions {
                let price = match region.bits_per_cell {
                    0 | 1 => self.slc_gib,
                    2 => self.mlc_gib,
                    3 => self.tlc_gib,
                    _ => self.qlc_gib,
                };
                sum += price * region.cells as f64 * f64::from(region.bits_per_cell) / 8.0 / GIB;
            }
            let options = table.get("device").and_then(|devices| devices.get(&part.name));
            let bytes = |path: &[&str]| {
                let value = path.iter().try_fold(options?, |at, key| at.get(key))?;
                match value {
                    toml::Value::String(text) => parse_size(text).ok().map(|len| len.0),
                    toml::Value::Integer(n) => u64::try_from(*n).ok(),
                    _ => None,
                }
            };
            let ram = match part.kind {
                "ssd" => {
                    let map = options.and_then(|options| options.get("mapping"));
                    let kind = map.and_then(|map| map.get("kind").unwrap_or(map).as_str());
                    // A map that is all in RAM has 4 B for each 4 KiB; any other says what it takes, where the file does not.
                    let map = bytes(&["mapping", "cmt_size"]).unwrap_or_else(|| match kind {
                        None | Some("page") => part.machine.limits().capacity.0 / 1024,
                        Some(_) => map_ram(&mut *part.machine),
                    });
                    map + bytes(&["write_buffer", "size"]).unwrap_or(0)
                }
                "cache" => bytes(&["size"]).unwrap_or(0),
                "hybrid" => bytes(&["dram_size"]).unwrap_or(0),
                _ => 0,
            };
            sum += self.ram_gib * ram as f64 / GIB;
            sum += match part.kind {
                "ssd" => self.ssd,
                "hdd" => self.hdd,
                _ => 0.0,
            };
        }
        Ok((sum * 1000.0).round() as u64)
    }
}

/// RAM that a drive's map takes, in bytes.
fn map_ram(drive: &mut dyn Machine) -> u64 {
    Counter::of(&Report::of(drive, Ask::Counters).counters, "map_ram_bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_stack::builtin;

    fn price(prices: &Prices, sets: &[(&str, &str)]) -> u64 {
        let text = "[export.d]\ndevice = \"c\"\n[device.c]\nkind = \"cache\"\nbelow = \"s\"\nsize = \"512 MiB\"\n\
                    [device.s]\nkind = \"ssd\"\nprofile = \"tlc-2019\"\nchannels = 2\ncapacity = \"1 GiB\"\nspare_factor = 0.5\n";
        let file = StackFile::parse(text, "t").expect("a stack");
        let file = sets.iter().try_fold(file, |f, (k, v)| f.with_set(k, v)).expect("options");
        let stack = file.load(&builtin()).expect("it loads");
        prices.price(&file, &stack).expect("a price")
    }

    #[test]
    fn flash_ram_and_drives_are_counted() {
        let none = Prices {
            slc_gib: 0.0,
            mlc_gib: 0.0,
            tlc_gib: 0.0,
            qlc_gib: 0.0,
            ram_gib: 0.0,
            ssd: 7.0,
            hdd: 9.0,
        };
        assert_eq!(price(&none, &[]), 7000);
        // 512 MiB of cache, and 1 MiB of map.
        let ram = Prices { ssd: 0.0, ram_gib: 1024.0, ..none.clone() };
        assert_eq!(price(&ram, &[]), 513_000);
        assert_eq!(
            price(&ram, &[("device.s.mapping", "{ kind = \"dftl\", cmt_size = \"128 KiB\" }")]),
            512_125
        );
        // By its word alone: 128 KiB too, and where its translation pages and moves are.
        let by_word = price(&ram, &[("device.s.mapping", "dftl")]);
        assert!((512_125..512_150).contains(&by_word), "{by_word}");
        // Half of the flash is spare: about 2 GiB of it.
        let flash = price(&Prices { ssd: 0.0, tlc_gib: 1.0, ..none }, &[]);
        assert!((2000..2200).contains(&flash), "{flash}");
    }

    #[test]
    fn a_price_list_that_is_wrong_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.toml");
        for (text, why) in [("ram_gib = -1", "from 0 to"), ("rum = 3", "rum"), ("ssd = \"x\"", "p.toml")] {
            std::fs::write(&path, text).expect("a file");
            let failure = Prices::of(Some(&path)).expect_err(text);
            assert!(failure.message.contains(why) && failure.kind.is_input(), "{}", failure.message);
        }
        std::fs::write(&path, "ram_gib = 3").expect("a file");
        assert!(Prices::of(Some(&path)).is_ok_and(|p| p.ram_gib == 3.0 && p.ssd == 10.0));
    }
}

//! The variants among which `nandu advise` chooses when no stack is named: one drive or a mirror of two, with or without a block cache.

use crate::failure::Failure;
use nandu_base::ByteLen;
use nandu_stack::StackFile;
use nandu_sweep::Space;
use nandu_sweep::axis::{Axis, Step};
use nandu_sweep::space::Skip;
use std::fmt::Write;

/// An axis: its name and its steps.
type Knob = (&'static str, &'static [&'static str]);

const KNOBS: [Knob; 9] = [
    ("drive", &["tlc-2019", "mlc-2019", "slc-2019"]),
    ("channels", &["2", "4", "8"]),
    ("spare", &["0.07", "0.15", "0.28", "0.4"]),
    ("map", &["in RAM", "dftl 1/8", "tpc 1/8"]),
    ("cache", &["none", "lru 1/64", "lru 1/16", "arc 1/16"]),
    ("segment", &["none", "32 KiB"]),
    ("slc", &["none", "1/4"]),
    ("scheduler", &["fifo", "reads first"]),
    ("mirror", &["no", "two"]),
];

/// All variants.
pub fn space() -> Result<Space, Failure> {
    let axis = |(name, steps): &Knob| {
        let step = |name: &&str| Step { name: (*name).into(), settings: Vec::new() };
        Axis::new(name, steps.iter().map(step).collect())
    };
    let axes = KNOBS.iter().map(axis).collect::<Result<Vec<_>, _>>()?;
    let skip = |at: &[(&str, &str)]| Skip {
        at: at.iter().map(|(axis, step)| ((*axis).into(), vec![(*step).into()])).collect(),
    };
    // Segments are fetched into a cache; what has one bit per cell has no mode of fewer.
    let skips =
        [skip(&[("cache", "none"), ("segment", "32 KiB")]), skip(&[("drive", "slc-2019"), ("slc", "1/4")])];
    Ok(Space::new(axes, &skips)?)
}

/// A size as stack files have it.
fn bytes(len: u64) -> String {
    format!("{len} B")
}

/// The stack of a point with drives of `capacity`.
pub fn stack(space: &Space, point: usize, capacity: ByteLen) -> Result<StackFile, Failure> {
    let names = space.names(point);
    let of = |knob: &str| names[KNOBS.iter().position(|k| k.0 == knob).expect("a knob")];
    let mut text = String::new();
    let ssd = |name: &str| {
        let mut device = format!(
            "\n[device.{name}]\nkind = \"ssd\"\nprofile = \"{}\"\nchannels = {}\nchips_per_channel = 2\ncapacity = \"{}\"\nspare_factor = {}\n",
            of("drive"),
            of("channels"),
            bytes(capacity.0),
            of("spare")
        );
        // The whole map has 4 B for each 4 KiB.
        let part = (capacity.0 / 1024 / 8).max(64 << 10);
        match of("map") {
            "dftl 1/8" => {
                device += &format!("mapping = {{ kind = \"dftl\", cmt_size = \"{}\" }}\n", bytes(part))
            }
            "tpc 1/8" => {
                device += &format!("mapping = {{ kind = \"tpc-ftl\", cmt_size = \"{}\" }}\n", bytes(part))
            }
            _ => {}
        }
        if of("slc") != "none" {
            device += "slc_cache = { dynamic = 0.25, when_full = \"bypass\" }\n";
        }
        if of("scheduler") != "fifo" {
            device += "die_scheduler = { kind = \"out-of-order\", max_read_bypass = 16 }\n";
        }
        device
    };
    let cached = of("cache").split_once(' ').and_then(|(policy, share)| {
        let memory = capacity.0 / share.strip_prefix("1/")?.parse::<u64>().ok()?;
        Some((policy, (memory >> 16).max(16) << 16))
    });
    let below = if of("mirror") == "two" { "mirror" } else { "ssd" };
    let top = if cached.is_some() { "cache" } else { below };
    let _ = writeln!(text, "[export.data]\ndevice = \"{top}\"");
    if let Some((policy, memory)) = cached {
        let _ = writeln!(
            text,
            "\n[device.cache]\nkind = \"cache\"\nbelow = \"{below}\"\nsize = \"{}\"\nreplacement = {{ kind = \"{policy}\" }}",
            bytes(memory)
        );
        if of("segment") != "none" {
            text += "prefetch = { kind = \"segment\", segment_size = \"32 KiB\" }\n";
        }
    }
    if below == "mirror" {
        text += "\n[device.mirror]\nkind = \"mirror\"\nlegs = [\"left\", \"right\"]\ninitial_sync = \"assume-clean\"\n";
        text += &ssd("left");
        text += &ssd("right");
    } else {
        text += &ssd("ssd");
    }
    Ok(StackFile::parse(&text, &space.label(point))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_stack::{BuildOptions, builtin};

    #[test]
    fn every_step_can_be_built() {
        let space = space().expect("a space");
        let mut steps: Vec<Vec<bool>> = KNOBS.iter().map(|knob| vec![false; knob.1.len()]).collect();
        for point in (0..space.len()).step_by(37) {
            let file = stack(&space, point, ByteLen(512 << 20)).expect("a stack");
            let stack = file.load(&builtin()).unwrap_or_else(|e| panic!("{}: {e}", space.label(point)));
            if stack.build(&BuildOptions::default()).is_ok() {
                space.steps(point).into_iter().zip(&mut steps).for_each(|(step, seen)| seen[step] = true);
            }
        }
        assert!(steps.iter().flatten().all(|&seen| seen), "{steps:?}");
    }
}

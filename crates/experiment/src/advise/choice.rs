//! The variants among which `nandu advise` chooses when no stack is named: one drive or a mirror of two, with or without a block cache. For
//! tenants also how they share it: a fair queue before it, dies that serve them in turn, units or channels of their own.

use crate::failure::Failure;
use nandu_base::ByteLen;
use nandu_stack::StackFile;
use nandu_sweep::Space;
use nandu_sweep::axis::{Axis, Step};
use nandu_sweep::space::Skip;
use std::fmt::Write;

/// An axis: its name and its steps.
type Parameter = (&'static str, &'static [&'static str]);

/// The parameter of the flash that hosts cannot use.
pub const SPARE: &str = "spare";

/// The parameter of the order within dies, and its step for tenants.
const SCHEDULER: &str = "scheduler";
const BY_TENANT: &str = "by tenant";

const KNOBS: [Parameter; 9] = [
    ("drive", &["tlc-2019", "mlc-2019", "slc-2019"]),
    ("channels", &["2", "4", "8"]),
    (SPARE, &["0.07", "0.15", "0.28", "0.4"]),
    ("map", &["in RAM", "dftl 1/8", "tpc 1/8"]),
    ("cache", &["none", "lru 1/64", "lru 1/16", "arc 1/16"]),
    ("segment", &["none", "32 KiB"]),
    ("slc", &["none", "1/4"]),
    (SCHEDULER, &["fifo", "reads first"]),
    ("mirror", &["no", "two"]),
];

/// How tenants share the rest.
const SHARING: [Parameter; 2] =
    [("queue", &["none", "drr"]), ("isolation", &["none", "shared-space", "channel"])];

/// Parts of tenants are whole multiples of this.
pub const PART: u64 = 4 << 20;

/// A tenant of the built-in choice: a slice of everything.
pub struct Part {
    /// Its name.
    pub name: String,
    /// Its part of the capacity.
    pub size: ByteLen,
}

/// The axis of the size of drives, where there are several.
const CAPACITY: &str = "capacity";

/// The drives among which is chosen.
pub struct Drives {
    /// Their sizes, the smallest first.
    pub sizes: Vec<ByteLen>,
    /// The tenants that share them, with their parts of the smallest; of one alone there are none.
    pub parts: Vec<Part>,
}

/// All variants.
pub fn space(drives: &Drives) -> Result<Space, Failure> {
    let shared = !drives.parts.is_empty();
    let axis = |(name, steps): &Parameter| {
        let more = (shared && *name == SCHEDULER).then_some(&BY_TENANT);
        let step = |name: &&str| Step { name: (*name).into(), settings: Vec::new() };
        Axis::new(name, steps.iter().chain(more).map(step).collect())
    };
    let sharing = SHARING.iter().filter(|_| shared);
    let mut axes = KNOBS.iter().chain(sharing).map(axis).collect::<Result<Vec<_>, _>>()?;
    if drives.sizes.len() > 1 {
        let step = |size: &ByteLen| Step { name: size.to_string(), settings: Vec::new() };
        axes.push(Axis::new(CAPACITY, drives.sizes.iter().map(step).collect())?);
    }
    let skip = |at: &[(&str, &str)]| Skip {
        at: at.iter().map(|(axis, step)| ((*axis).into(), vec![(*step).into()])).collect(),
    };
    // Segments are fetched into a cache; what has one bit per cell has no mode of fewer.
    let skips =
        [skip(&[("cache", "none"), ("segment", "32 KiB")]), skip(&[("drive", "slc-2019"), ("slc", "1/4")])];
    Ok(Space::new(axes, &skips)?)
}

impl Drives {
    /// The tenants' parts of drives of `capacity`: of a larger one each has as much more.
    fn parts_of(&self, capacity: ByteLen) -> Vec<Part> {
        let least = self.sizes[0];
        let grown = |size: ByteLen| match capacity == least {
            true => size,
            false => {
                let whole = u128::from(size.0) * u128::from(capacity.0) / u128::from(least.0);
                ByteLen(u64::try_from(whole).unwrap_or(u64::MAX) / PART * PART)
            }
        };
        self.parts.iter().map(|part| Part { name: part.name.clone(), size: grown(part.size) }).collect()
    }
}

/// A size as stack files have it.
fn bytes(len: u64) -> String {
    format!("{len} B")
}

/// The stack of a point.
pub fn stack(space: &Space, point: usize, drives: &Drives) -> Result<StackFile, Failure> {
    let names = space.names(point);
    let axis = space.axes().iter().position(|axis| axis.name == CAPACITY);
    let capacity = drives.sizes[axis.map_or(0, |axis| space.steps(point)[axis])];
    let parts = &drives.parts_of(capacity)[..];
    let of = |parameter: &str| {
        let axis = space.axes().iter().position(|axis| axis.name == parameter);
        axis.map_or("none", |axis| names[axis])
    };
    let mut text = String::new();
    let ssd = |name: &str| {
        let mut device = format!(
            "\n[device.{name}]\nkind = \"ssd\"\nprofile = \"{}\"\nchannels = {}\nchips_per_channel = 2\ncapacity = \"{}\"\nspare_factor = {}\n",
            of("drive"),
            of("channels"),
            bytes(capacity.0),
            of(SPARE)
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
        device += match of(SCHEDULER) {
            "reads first" => "die_scheduler = { kind = \"out-of-order\", max_read_bypass = 16 }\n",
            BY_TENANT => {
                "die_scheduler = { kind = \"out-of-order\", tenant_scheduler = { kind = \"drr\" } }\n"
            }
            _ => "",
        };
        if of("isolation") != "none" {
            device += &owners(capacity, parts, of("isolation"));
        }
        device
    };
    let cached = of("cache").split_once(' ').and_then(|(policy, share)| {
        let memory = capacity.0 / share.strip_prefix("1/")?.parse::<u64>().ok()?;
        Some((policy, (memory >> 16).max(16) << 16))
    });
    let below = if of("mirror") == "two" { "mirror" } else { "ssd" };
    let top = if cached.is_some() { "cache" } else { below };
    let shared = if of("queue") == "none" { top } else { "queue" };
    match parts {
        [] => text += &format!("[export.data]\ndevice = \"{top}\"\n"),
        _ => text += &slices(parts, shared),
    }
    if shared != top {
        let kind = of("queue");
        text += &format!(
            "\n[device.queue]\nkind = \"queue\"\nbelow = \"{top}\"\nscheduler = {{ kind = \"{kind}\" }}\ndepth = 32\n"
        );
    }
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

/// An export for each part, over slices of `below` in a row.
fn slices(parts: &[Part], below: &str) -> String {
    let (mut text, mut offset) = (String::new(), 0);
    for Part { name, size } in parts {
        let _ = write!(
            text,
            "[export.{name}]\ndevice = \"part-{name}\"\ntenant = \"{name}\"\n\n[tenant.{name}]\nweight = 100\n\n\
             [device.part-{name}]\nkind = \"slice\"\nbelow = \"{below}\"\noffset = \"{}\"\nsize = \"{}\"\n\n",
            bytes(offset),
            bytes(size.0)
        );
        offset += size.0;
    }
    text
}

/// The options of a drive that tells its tenants apart: their parts in a row, the last with what is left.
fn owners(capacity: ByteLen, parts: &[Part], isolation: &str) -> String {
    let mut left = capacity.0;
    let owner = |(place, part): (usize, &Part)| {
        let size = if place + 1 == parts.len() { left } else { part.size.0 };
        left -= size;
        format!("{{ name = \"{}\", size = \"{}\" }}", part.name, bytes(size))
    };
    let owners: Vec<String> = parts.iter().enumerate().map(owner).collect();
    format!("tenants = [{}]\nisolation = {{ kind = \"{isolation}\" }}\n", owners.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_stack::{BuildOptions, builtin};

    #[test]
    fn every_step_can_be_built() {
        let part = |name: &str, mib: u64| Part { name: name.into(), size: ByteLen(mib << 20) };
        let sizes = |mib: &[u64]| mib.iter().map(|mib| ByteLen(mib << 20)).collect::<Vec<_>>();
        let two = vec![part("web", 200), part("db", 300)];
        let all = [
            (37, Drives { sizes: sizes(&[512]), parts: vec![] }),
            (331, Drives { sizes: sizes(&[512]), parts: two }),
            (97, Drives { sizes: sizes(&[512, 768]), parts: vec![] }),
            (997, Drives { sizes: sizes(&[512, 768]), parts: vec![part("web", 200), part("db", 300)] }),
        ];
        for (by, drives) in all {
            let space = space(&drives).expect("a space");
            let mut steps: Vec<Vec<bool>> =
                space.axes().iter().map(|axis| vec![false; axis.steps.len()]).collect();
            for point in (0..space.len()).step_by(by) {
                let file = stack(&space, point, &drives).expect("a stack");
                let stack = file.load(&builtin()).unwrap_or_else(|e| panic!("{}: {e}", space.label(point)));
                if stack.build(&BuildOptions::default()).is_ok() {
                    space.steps(point).into_iter().zip(&mut steps).for_each(|(step, seen)| seen[step] = true);
                }
            }
            assert!(steps.iter().flatten().all(|&seen| seen), "{steps:?}");
        }
    }

    #[test]
    fn parts_grow_with_the_drive() {
        let part = |mib: u64| Part { name: mib.to_string(), size: ByteLen(mib << 20) };
        let drives =
            Drives { sizes: vec![ByteLen(512 << 20), ByteLen(768 << 20)], parts: vec![part(200), part(300)] };
        let mib = |capacity| drives.parts_of(capacity).iter().map(|p| p.size.0 >> 20).collect::<Vec<_>>();
        assert_eq!((mib(drives.sizes[0]), mib(drives.sizes[1])), (vec![200, 300], vec![300, 448]));
    }
}

//! Random stacks, as the text of a stack file.
//!
//! Everything is tiny, so that a few hundred requests fill a drive, wrap a log and meet each other. A path from the export
//! to a leaf has at most one `fault`: a volatile cache above another device that loses acknowledged writes would break
//! its own promise.
//!
//! [`family`] names what may be drawn, [`drives`] draws leaves with a model, [`layers`] what stands on them.

mod drives;
mod family;
mod hybrid;
mod layers;
mod stacked;
mod tenants;

pub use family::{Caching, Drive, Family, Legs};

use nandu_base::{Policy, Precondition, Registry, Rng};
use nandu_stack::{BuildOptions, Stack, builtin};
use std::fmt::Write;

/// What stacks a seed may draw.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Any tree.
    Random,
    /// A named family of stacks.
    Named(Family),
    /// This stack file.
    File(String),
}

/// Smallest capacity of a leg of a mirror: records and a few regions.
const LEG: u64 = 256 << 10;

/// Draws a stack that can be built. Where the family has such, the legs of a parity array that `grows` are leaves that can become longer, and
/// those of any array that does are equally long in half of the stacks.
pub(super) fn stack(shape: &Shape, rng: &mut Rng, grows: bool, registry: &Registry) -> String {
    if let Shape::File(text) = shape {
        return text.clone();
    }
    let policies = Policies::of(registry);
    for _ in 0..200 {
        let text = Draft::new(rng, &policies).growing(grows).whole(shape);
        if can_start(&text, Precondition::Empty, registry) {
            return text;
        }
    }
    unreachable!("nearly every stack that is drawn can be built");
}

/// Whether all drives of a stack can start in this state: some have no room to be aged.
pub(super) fn can_start(toml: &str, precondition: Precondition, registry: &Registry) -> bool {
    let options = BuildOptions { precondition, ..BuildOptions::default() };
    Stack::parse_with(toml, registry).is_ok_and(|stack| stack.build(&options).is_ok())
}

/// Policies that the functions of this folder draw by name, with weights and options of their own: a map needs room that only its text
/// can say, and culling goes with prefetching of segments alone. Any other policy of these families is drawn as its file declares, and so are
/// all of the other families ([`Draft::added`], [`Draft::shipped`]).
const BY_NAME: [(&str, &[&str]); 7] = [
    (
        "replacement",
        &[
            "lru",
            "arc",
            "sarc",
            "s3-fifo",
            "sieve",
            "lirs",
            "lecar",
            "fixed-culling",
            "adaptive-culling",
            "segment-prefetch-only",
        ],
    ),
    // The oracle must be told what comes, which nobody does here.
    (
        "prefetcher",
        &["none", "sequential", "amp", "p-block", "segment", "gated-segment", "markov", "mithril", "oracle"],
    ),
    ("promotion", &["always", "second-touch", "never", "hot"]),
    ("demotion", &["referenced", "never", "pinned", "levels"]),
    ("mapping", &["page", "dftl", "block", "bast", "fast", "cftl", "tpftl", "sftl", "leaftl", "tpc-ftl"]),
    ("isolation", &["none", "ops", "vssd", "shared-space", "channel", "die"]),
    ("victim", &["greedy", "cost-benefit", "d-choices", "windowed", "fifo"]),
];

/// The policies of a registry.
struct Policies {
    /// Nandu's own.
    shipped: Registry,
    /// Those of them that nothing here draws by name, although it does so with others of their family.
    unnamed: Vec<Policy>,
    /// Those that are not Nandu's.
    others: Vec<Policy>,
}

impl Policies {
    fn of(registry: &Registry) -> Policies {
        let shipped = builtin();
        let families = registry.families();
        let others = families.iter().flat_map(|family| registry.beyond(&shipped, family)).copied().collect();
        let of_family = |(family, named): (&'static str, &'static [&str])| {
            shipped.policies(family).filter(|policy| !named.contains(&policy.name)).copied()
        };
        let unnamed = BY_NAME.into_iter().flat_map(of_family).collect();
        Policies { shipped, unnamed, others }
    }

    /// Whether the policy of this name, which nothing here draws by name, has the option.
    fn has_option(&self, family: &str, name: &str, key: &str) -> bool {
        let all = self.others.iter().chain(&self.unnamed);
        all.filter(|policy| policy.family == family && policy.name == name)
            .any(|policy| policy.has_option(key))
    }
}

/// The inside of the table of a policy with these options.
fn keys((name, options): (&str, &str)) -> String {
    let comma = if options.is_empty() { "" } else { ", " };
    format!("kind = \"{name}\"{comma}{options}")
}

struct Draft<'a> {
    rng: &'a mut Rng,
    policies: &'a Policies,
    drive: Drive,
    /// Mirrors are hetero-mirrors.
    hetero: bool,
    /// The array is to grow.
    grows: bool,
    /// Its legs are that long.
    alike: Option<u64>,
    /// Dies of drives may be shared out among tenants, and tenants that lend are as frequent as others.
    shares_dies: bool,
    text: String,
    devices: u32,
    /// Bytes of each tenant of the last drive that was drawn with some.
    tenant_bytes: Vec<u64>,
}

impl<'a> Draft<'a> {
    fn new(rng: &'a mut Rng, policies: &'a Policies) -> Draft<'a> {
        Draft {
            rng,
            policies,
            drive: Drive::Any,
            hetero: false,
            grows: false,
            alike: None,
            shares_dies: false,
            text: String::new(),
            devices: 0,
            tenant_bytes: Vec::new(),
        }
    }

    fn growing(self, grows: bool) -> Draft<'a> {
        // A generator of its own.
        let mut own = self.rng.fork(64);
        let alike = (grows && own.below(2) == 0).then(|| LEG + 4096 * own.below(64));
        Draft { grows, alike, ..self }
    }

    fn whole(mut self, shape: &Shape) -> String {
        let root = match shape {
            Shape::Named(Family::Ssd(drive)) => {
                self.drive = *drive;
                self.ssd(0)
            }
            Shape::Named(Family::Hdd) => self.hdd(0, true),
            Shape::Named(Family::Over("mirror")) => {
                let families = [
                    Family::MirrorOfSsds,
                    Family::MirrorOfFaultySsds,
                    Family::MirrorOfCaches,
                    Family::MirrorOfFiles,
                ];
                let family = *self.rng.pick(&families);
                return self.whole(&Shape::Named(family));
            }
            Shape::Named(Family::Hetero(legs)) => {
                self.hetero = true;
                let family = match legs {
                    Legs::Any => {
                        let all = [
                            Legs::Ssds,
                            Legs::FaultySsds,
                            Legs::Caches,
                            Legs::Files,
                            Legs::Unlike,
                            Legs::Unlike,
                        ];
                        Family::Hetero(*self.rng.pick(&all))
                    }
                    Legs::Ssds => Family::MirrorOfSsds,
                    Legs::FaultySsds => Family::MirrorOfFaultySsds,
                    Legs::Caches => Family::MirrorOfCaches,
                    Legs::Files => Family::MirrorOfFiles,
                    Legs::Unlike => return self.unlike(),
                    Legs::Resting => return self.resting(),
                    Legs::Hybrid => return self.mirror_of_hybrid(),
                };
                return self.whole(&Shape::Named(family));
            }
            Shape::Named(Family::Over("parity")) if self.grows => {
                return self.whole(&Shape::Named(Family::ParityOfLeaves));
            }
            Shape::Named(Family::Over("parity")) => {
                let families = [Family::ParityOfLeaves, Family::ParityOfCaches, Family::ParityOfFaultySsds];
                let family = *self.rng.pick(&families);
                return self.whole(&Shape::Named(family));
            }
            Shape::Named(Family::ParityOfLeaves) => {
                self.page_maps();
                let legs: Vec<String> = (0..self.rng.between(3, 5)).map(|_| self.leaf_leg()).collect();
                self.parity(legs, false)
            }
            Shape::Named(Family::ParityOfCaches) => {
                let count = self.rng.between(3, 5);
                let legs: Vec<String> = (0..count)
                    .map(|_| {
                        let leaf = self.block("memory", LEG);
                        self.cache(leaf)
                    })
                    .collect();
                self.parity(legs, false)
            }
            Shape::Named(Family::ParityOfFaultySsds) => {
                self.page_maps();
                let count = self.rng.between(3, 5);
                let legs: Vec<String> = (0..count)
                    .map(|_| {
                        let drive = self.ssd(LEG);
                        self.fault(drive)
                    })
                    .collect();
                self.parity(legs, true)
            }
            Shape::Named(Family::Integrity) => {
                let leaf = self.leaf(64 << 10);
                let below = if self.one_in(2) { self.cache(leaf) } else { leaf };
                self.integrity(below)
            }
            Shape::Named(Family::MirrorThatRots) => {
                self.page_maps();
                let legs = self.rotting_legs(2);
                let mirror = self.mirror(&legs);
                // A leg that is given up for being slow would leave the one that rots alone.
                for timeout in [3, 30] {
                    let given_up = format!("request_timeout = \"{timeout} ms\"");
                    self.text = self.text.replace(&given_up, "request_timeout = \"0 ms\"");
                }
                mirror
            }
            Shape::Named(Family::ParityThatRots) => {
                self.page_maps();
                let count = self.rng.between(3, 5);
                let legs = self.rotting_legs(count);
                let parity = self.parity(legs, false);
                // While the parity is computed there is nothing to mend from.
                self.text = self.text.replace("initial_sync = \"resync\"", "initial_sync = \"assume-clean\"");
                parity
            }
            Shape::Named(Family::Arrays) => {
                self.page_maps();
                self.array(2)
            }
            Shape::Named(Family::MirrorOfFiles) => {
                let legs = [0; 2].map(|_| self.block_leg("file"));
                self.mirror(&legs)
            }
            Shape::Named(Family::MirrorOfCaches) => {
                let legs = [0; 2].map(|_| {
                    let leaf = self.leaf(LEG);
                    self.cache(leaf)
                });
                self.mirror(&legs)
            }
            Shape::Named(Family::MirrorOfThree) => {
                // A generator of its own.
                let what = self.rng.fork(61).below(4);
                let legs: Vec<String> = (0..3)
                    .map(|_| match what {
                        0 => self.block_leg("file"),
                        1 => {
                            let drive = self.ssd(LEG);
                            self.fault(drive)
                        }
                        _ => {
                            let leaf = self.leaf(LEG);
                            if what == 2 { self.cache(leaf) } else { self.fault(leaf) }
                        }
                    })
                    .collect();
                self.mirror(&legs)
            }
            Shape::Named(Family::Cache(caching)) => {
                // Drives with a map in memory: the seeds are for the cache.
                self.drive = *self.rng.pick(&[Drive::AtOnce, Drive::Queued]);
                let depth = self.rng.below(3) as u32;
                let below = self.device(depth, true, 64 << 10);
                self.block_cache(below, *caching)
            }
            Shape::Named(Family::CacheOverStripe) => {
                let stripe = self.stripe_that_loses();
                self.block_cache(stripe, Caching::Any)
            }
            Shape::Named(Family::Queue) => {
                let depth = self.rng.below(2) as u32;
                let below = self.device(depth, true, 64 << 10);
                let queue = self.fair_queue(below);
                return self.shared(&queue);
            }
            Shape::Named(Family::FairDies) => {
                self.drive = Drive::Shared;
                let drive = self.ssd(64 << 10);
                return self.shared(&drive);
            }
            Shape::Named(Family::QueueOverTenants) => return self.queue_over_tenants(),
            Shape::Named(Family::Everything) => return self.everything(),
            Shape::Named(Family::Hybrid(of_files)) => self.hybrid(*of_files),
            Shape::Named(Family::HybridPastRing) => self.hybrid_past_ring(),
            Shape::Named(Family::HybridOnOneChip) => self.hybrid_on_one_chip(),
            Shape::Named(Family::HybridWritethrough) => self.hybrid_writethrough(),
            Shape::Named(Family::HybridLosesRings) => self.hybrid_loses_rings(),
            Shape::Named(Family::CullingOverHybrid) => self.culling_over_hybrid(),
            Shape::Named(Family::Over(kind)) => self.over(kind, 1, true, 0),
            Shape::Named(Family::MirrorOfSsds) => {
                let legs = [self.ssd(LEG), self.ssd(LEG)];
                self.mirror(&legs)
            }
            Shape::Named(Family::MirrorOfFaultySsds) => {
                let legs = [0; 2].map(|_| {
                    let drive = self.ssd(LEG);
                    self.fault(drive)
                });
                self.mirror(&legs)
            }
            Shape::Random | Shape::File(_) => {
                // A generator of its own, as for the leaves.
                let queued = self.rng.fork(9).below(10) == 0;
                let depth = self.rng.below(4) as u32;
                let root = self.device(depth, true, 0);
                let root = if queued { self.fair_queue(root) } else { root };
                if self.rng.fork(28).below(10) == 0 { self.link(root) } else { root }
            }
        };
        format!("[export.data]\ndevice = \"{root}\"\n{}", self.text)
    }

    /// Opens the table of a new device.
    fn begin(&mut self, kind: &str) -> String {
        self.devices += 1;
        let name = format!("{kind}{}", self.devices);
        let _ = writeln!(self.text, "\n[device.{name}]\nkind = \"{kind}\"");
        name
    }

    fn put(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{key} = {value}");
    }

    /// A policy of the family that nothing here draws by name: its name, and options that its file declares. In two of three cases where the
    /// registry has such that are not Nandu's, else in one of four. What else a seed draws stays as it was.
    fn added(&self, family: &str) -> Option<(&'static str, &'static str)> {
        self.added_by(family, self.own())
    }

    /// The same, drawn from `own`.
    fn added_by(&self, family: &str, mut own: Rng) -> Option<(&'static str, &'static str)> {
        let draws = |policies: &[Policy]| -> Vec<(&'static str, &'static str)> {
            let known = policies.iter().filter(|policy| policy.family == family);
            known.flat_map(|p| p.draws.iter().map(|&draw| (p.name, draw))).collect()
        };
        let (others, unnamed) = (draws(&self.policies.others), draws(&self.policies.unnamed));
        match (others.is_empty(), unnamed.is_empty()) {
            (false, _) => (own.below(3) > 0).then(|| *own.pick(&others)),
            (true, false) => (own.below(4) == 0).then(|| *own.pick(&unnamed)),
            (true, true) => None,
        }
    }

    /// The table of a policy: `drawn`, or one that the registry adds to the family.
    fn policy(&self, family: &str, drawn: impl Into<String>) -> String {
        self.added(family).map_or_else(|| drawn.into(), |named| format!("{{ {} }}", keys(named)))
    }

    /// Every policy of the family that Nandu ships, with each of the options that it is drawn with, in the order of its list.
    fn shipped(&self, family: &str) -> Vec<(&'static str, &'static str)> {
        let all = self.policies.shipped.policies(family);
        all.flat_map(|policy| policy.draws.iter().map(|&draw| (policy.name, draw))).collect()
    }

    fn put_text(&mut self, key: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.text, "{key} = \"{value}\"");
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.rng.below(n) == 0
    }

    /// A device of any kind with at least `least` bytes, of up to `depth` layers above the leaves.
    fn device(&mut self, depth: u32, may_fail: bool, least: u64) -> String {
        if depth == 0 {
            return self.leaf(least);
        }
        let kinds: &[&str] = match may_fail {
            true => &["slice", "concat", "stripe", "mirror", "mirror", "fault", "fault", "cache"],
            false => &["slice", "concat", "stripe", "mirror", "cache"],
        };
        let kind = *self.rng.pick(kinds);
        self.over(kind, depth, may_fail, least)
    }

    fn over(&mut self, kind: &str, depth: u32, may_fail: bool, least: u64) -> String {
        let below = depth - 1;
        match kind {
            "mirror" => {
                let legs = [0; 2].map(|_| self.device(below, may_fail, least.max(LEG)));
                self.mirror(&legs)
            }
            "fault" => {
                let child = self.device(below, false, least);
                self.fault(child)
            }
            "cache" => {
                let child = self.device(below, may_fail, least + (4 << 10));
                self.block_cache(child, Caching::Any)
            }
            "link" => {
                let child = self.device(below, may_fail, least);
                self.link(child)
            }
            "slice" => {
                let child = self.device(below, may_fail, least + (16 << 10));
                let offset = self.rng.between(0, 4) * 4096;
                let name = self.begin("slice");
                self.put_text("below", child);
                self.put("offset", offset);
                name
            }
            "concat" | "stripe" => {
                let count = self.rng.between(1, 3);
                let children: Vec<String> =
                    (0..count).map(|_| self.device(below, may_fail, least.max(16 << 10))).collect();
                let chunk = 4096u64 << self.rng.below(3);
                let name = self.begin(kind);
                self.put(if kind == "stripe" { "legs" } else { "parts" }, format!("{children:?}"));
                if kind == "stripe" {
                    self.put("chunk", chunk);
                }
                name
            }
            other => unreachable!("`{other}` is not a kind that stands over others"),
        }
    }

    fn leaf(&mut self, least: u64) -> String {
        // A generator of its own: what else a seed draws stays as it was. Below a mirror a disk takes longer to be made equal
        // than a mirror is given here.
        if least < LEG && self.rng.fork(7).below(8) == 0 {
            return self.hdd(least, false);
        }
        match self.rng.below(6) {
            0 => self.block("memory", least),
            1 => self.block("file", least),
            _ => self.ssd(least),
        }
    }

    /// A leg of an array: a leaf.
    fn leaf_leg(&mut self) -> String {
        if self.grows {
            let kind = *self.rng.pick(&["memory", "file"]);
            return self.block_leg(kind);
        }
        self.leaf(LEG)
    }

    /// The same that can become longer.
    fn block_leg(&mut self, kind: &str) -> String {
        let drawn = self.block_size(LEG);
        self.sized_block(kind, self.alike.unwrap_or(drawn))
    }

    fn block(&mut self, kind: &str, least: u64) -> String {
        let size = self.block_size(least);
        self.sized_block(kind, size)
    }

    fn block_size(&mut self, least: u64) -> u64 {
        least.max(8192).next_multiple_of(4096) + 4096 * self.rng.below(64)
    }

    fn sized_block(&mut self, kind: &str, size: u64) -> String {
        let name = self.begin(kind);
        self.put("size", size);
        let latency = *self.rng.pick(&[0, 1, 50, 2000]);
        self.put_text("latency", format!("{latency} us"));
        let bandwidth = 1u64 << self.rng.between(20, 32);
        self.put("bandwidth", bandwidth);
        if kind == "file" {
            self.put_text("path", format!("{name}.img"));
            let sector = 512u64 << self.rng.below(4);
            self.put("sector", sector);
        }
        name
    }

    /// Drives with a page map: maps on the flash have families of their own, and start slowly.
    fn page_maps(&mut self) {
        self.drive = *self.rng.pick(&[Drive::AtOnce, Drive::Queued]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is drawn and cannot be built is drawn anew without a word: a device that refuses what it should take would not be noticed.
    #[test]
    fn most_stacks_that_are_drawn_can_be_built() {
        let registry = &builtin();
        let policies = Policies::of(registry);
        for &(name, family) in Family::ALL {
            let mut rng = Rng::new(1);
            let shape = Shape::Named(family);
            let built = (0..60).filter(|_| {
                can_start(&Draft::new(&mut rng, &policies).whole(&shape), Precondition::Empty, registry)
            });
            let built = built.count();
            assert!(built >= 24, "{name}: {built} of 60 can be built");
        }
    }

    /// What a drive does not look at verifies nothing, and is refused.
    #[test]
    fn no_option_is_drawn_that_would_act_on_nothing() {
        let registry = &builtin();
        let policies = Policies::of(registry);
        for &(name, family) in Family::ALL {
            let mut rng = Rng::new(3);
            for _ in 0..60 {
                let text = Draft::new(&mut rng, &policies).whole(&Shape::Named(family));
                let stack = Stack::parse_with(&text, registry);
                let refused = match stack.map(|stack| stack.build(&BuildOptions::default()).map(drop)) {
                    Ok(Ok(())) => continue,
                    Ok(Err(error)) => error.to_string(),
                    Err(error) => error.to_string(),
                };
                assert!(!refused.contains("leave it out"), "{name}: {refused}{text}");
            }
        }
    }

    /// A policy that stood in no stack would be verified by nothing.
    #[test]
    fn every_policy_is_drawn() {
        let registry = builtin();
        let policies = Policies::of(&registry);
        let mut texts = String::new();
        for &(_, family) in Family::ALL {
            let mut rng = Rng::new(2);
            for _ in 0..60 {
                texts += &Draft::new(&mut rng, &policies).whole(&Shape::Named(family));
            }
        }
        // What a drive has where nothing is said, and what no stack can have here.
        let silent = ["page", "none", "threshold", "oracle"];
        for family in registry.families() {
            // Names are those of several families: the key says whose it is.
            let key = match family {
                "prefetcher" => "prefetch",
                "promotion" => "promote",
                "demotion" => "rewrite",
                "victim" => "gc",
                _ => family,
            };
            for Policy { name, .. } in registry.policies(family).filter(|p| !silent.contains(&p.name)) {
                let stands = match family {
                    // Its policy stands in a table with other options.
                    "levelling" => vec![format!("kind = \"{name}\"")],
                    _ => vec![format!("{key} = {{ kind = \"{name}\""), format!("{key} = \"{name}\"")],
                };
                assert!(stands.iter().any(|text| texts.contains(text)), "{family}: `{name}` is never drawn");
            }
        }
    }

    /// Names that stand here and nowhere else would keep a policy from being drawn as it declares.
    #[test]
    fn what_is_drawn_by_name_is_there() {
        let registry = builtin();
        for (family, names) in BY_NAME {
            for name in names {
                assert!(registry.policy(family, name).is_some(), "{family} has no `{name}`");
            }
        }
    }
}

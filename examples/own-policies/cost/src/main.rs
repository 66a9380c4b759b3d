//! `own-policies-cost WHO POLICY`: runs one replacement policy over generated accesses, and prints its misses. `cargo xtask test` counts the instructions.
//!
//! `inside` is the policy as `nandu-cache` has it, `outside` the same source file compiled in this package and put into a registry as any policy from outside is;
//! `boxed` is `outside` behind a pointer, which is what the count must tell apart. `none` makes the accesses and meets none of them, so that their cost can be subtracted.

mod directory {
    pub use nandu_cache::directory::*;
}
mod ghost {
    pub use nandu_cache::ghost::*;
}
mod list {
    pub use nandu_cache::list::*;
}
mod replacement;

use nandu_base::options::{Described, Options};
use nandu_base::{BuildError, Declared, Registry, Rng};
use nandu_cache::page_sim::{Access, Accesses, Lookup, PageCache, Take, simulate};
use nandu_cache::replacement::{POLICIES, Replacement, ReplacementConfig, ReplacementOptions, Room, policy};
use schemars::JsonSchema;
use serde::Deserialize;
use std::process::ExitCode;

/// Options of a policy under another name, since that of Nandu is taken, and what is made of the policy.
macro_rules! outside {
    ($name:ident, $word:literal, $config:ty, $policy:ty, $make:expr) => {
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(transparent)]
        struct $name($config);

        impl Options for $name {
            fn declared() -> Vec<Described> {
                <$config>::declared()
            }

            fn check_ranges(&self) -> Result<(), BuildError> {
                self.0.check_ranges()
            }
        }

        impl Declared for $name {
            const NAME: &'static str = $word;
            const SUMMARY: &'static str = <$config>::SUMMARY;
            const SOURCE: &'static str = <$config>::SOURCE;
        }

        impl ReplacementOptions for $name {
            type Policy = $policy;

            fn build(&self, room: Room) -> Result<$policy, BuildError> {
                Ok($make(self.0.build(room)?))
            }
        }
    };
}
outside!(Arc, "outside-arc", replacement::arc::ArcConfig, replacement::arc::Arc, std::convert::identity);
outside!(
    Sieve,
    "outside-sieve",
    replacement::sieve::SieveConfig,
    replacement::sieve::Sieve,
    std::convert::identity
);
outside!(BoxedArc, "boxed-arc", replacement::arc::ArcConfig, Box<dyn Replacement>, Box::new);
outside!(BoxedSieve, "boxed-sieve", replacement::sieve::SieveConfig, Box<dyn Replacement>, Box::new);

const ACCESSES: u64 = 200_000;
const BLOCKS: u64 = 1 << 16;
/// Blocks that fit.
const CAPACITY: u64 = 1 << 12;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["none"] => {
            let mut sum = 0;
            generate(&mut |accesses| sum += accesses.iter().map(|access| access.first).sum::<u64>());
            println!("{sum}");
        }
        ["inside", name] => return run(name),
        [who @ ("outside" | "boxed"), name] => return run(&format!("{who}-{name}")),
        _ => {
            eprintln!("say none, inside POLICY, outside POLICY or boxed POLICY");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn run(name: &str) -> ExitCode {
    let outside = vec![policy::<Arc>(), policy::<Sieve>(), policy::<BoxedArc>(), policy::<BoxedSieve>()];
    let registry = Registry::new().with(POLICIES).with(outside);
    let misses = ReplacementConfig::of(name, &registry).and_then(|replacement| {
        let cache = PageCache { replacement, capacity: CAPACITY, segment: 1, lookup: Lookup::Flat(BLOCKS) };
        simulate(&cache, Accesses { once: &generate, times: 1 })
    });
    match misses {
        Ok(result) => {
            println!("{}", result.tally.misses);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Low blocks more often than high ones.
fn generate(take: &mut Take<'_>) {
    let mut rng = Rng::new(1);
    for _ in 0..ACCESSES / 1000 {
        let accesses: Vec<Access> = (0..1000)
            .map(|_| {
                let below = rng.below(BLOCKS) + 1;
                Access { first: rng.below(below), blocks: 1, write: false, sequential: false }
            })
            .collect();
        take(&accesses);
    }
}

//! The room that files and devices have, and what of a stack stays unused.

use nandu_base::{ByteLen, MediumSpec};
use nandu_stack::{Built, Stack};
use std::fs::File;
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::path::Path;

/// The length of a file or block device, which is only opened for reading.
fn length(path: &Path) -> io::Result<u64> {
    let meta = std::fs::metadata(path)?;
    if meta.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if meta.is_file() {
        return Ok(meta.len());
    }
    File::open(path)?.seek(SeekFrom::End(0))
}

/// What of a device stays unused.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeftOver {
    /// Bytes in which nothing will ever be stored, because what stands on it is made of whole units, or uses of each leg what the smallest has.
    pub bytes: ByteLen,
    /// Bytes of its file or block device behind its `size`, if that is there.
    pub behind: ByteLen,
}

impl LeftOver {
    /// In words; `None` when all is used.
    pub fn words(self, size: fn(u64) -> String) -> Option<String> {
        let parts = [(self.bytes, "unused"), (self.behind, "of its file unused")];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(bytes, _)| bytes.0 > 0)
            .map(|(bytes, what)| format!("{} {what}", size(bytes.0)))
            .collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// What of each device of `built`, which was made from `stack`, stays unused.
pub fn left_over(stack: &Stack, built: &Built) -> Vec<LeftOver> {
    let behind = |node: usize| {
        let MediumSpec::Block(spec) = &built.parts[node].medium else { return ByteLen::ZERO };
        let found = spec.path.as_deref().and_then(|path| length(Path::new(path)).ok());
        ByteLen(found.unwrap_or(0).saturating_sub(spec.capacity.0))
    };
    (0..built.parts.len())
        .map(|node| LeftOver { bytes: unused(stack, built, node), behind: behind(node) })
        .collect()
}

fn unused(stack: &Stack, built: &Built, node: usize) -> ByteLen {
    let limits = built.parts[node].machine.limits();
    let is_offered = built.exports.iter().any(|export| export.node as usize == node);
    let above: Vec<(usize, u8)> = built
        .parts
        .iter()
        .enumerate()
        .flat_map(|(at, part)| (0u8..).zip(&part.children).map(move |(child, &below)| (at, child, below)))
        .filter(|&(.., below)| below as usize == node)
        .map(|(at, child, _)| (at, child))
        .collect();
    if is_offered || above.is_empty() {
        return ByteLen::ZERO;
    }
    // Of several, each uses a part of its own.
    let parts = above.iter().map(|&(at, child)| match stack.devices[at].config.region(limits) {
        Some((_, len)) => len.0,
        None => limits.capacity.0.saturating_sub(built.parts[at].machine.left_over(child, limits).0),
    });
    ByteLen(limits.capacity.0.saturating_sub(parts.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_stack::{BuildOptions, builtin};

    fn bytes(text: &str) -> Vec<(String, u64)> {
        let stack = Stack::parse(text).unwrap_or_else(|error| panic!("{error}"));
        let built = stack.build(&BuildOptions::default()).unwrap_or_else(|error| panic!("{error}"));
        let found = left_over(&stack, &built);
        built.parts.iter().zip(found).map(|(part, left)| (part.name.clone(), left.bytes.0)).collect()
    }

    fn of(text: &str, name: &str) -> u64 {
        let all = bytes(text);
        all.iter().find(|(known, _)| known == name).unwrap_or_else(|| panic!("no {name} in {all:?}")).1
    }

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    fn over(top: &str, sizes: &[(&str, u64)]) -> String {
        let leaf =
            |(name, size): &(&str, u64)| format!("[device.{name}]\nkind = \"memory\"\nsize = {size}\n");
        format!(
            "[export.e]\ndevice = \"t\"\n[device.t]\n{top}\n{}",
            sizes.iter().map(leaf).collect::<String>()
        )
    }

    #[test]
    fn what_a_larger_leg_has_more_is_unused() {
        let legs = [("a", 64 * MIB), ("b", 128 * MIB)];
        for (kind, least) in [("mirror", 63 * MIB), ("hetero-mirror", 63 * MIB)] {
            let text = over(&format!("kind = \"{kind}\"\nlegs = [\"a\", \"b\"]"), &legs);
            assert_eq!((of(&text, "a"), of(&text, "t")), (0, 0), "{kind}");
            assert!((least..=64 * MIB).contains(&of(&text, "b")), "{kind}: {}", of(&text, "b"));
        }
        let text =
            over("kind = \"stripe\"\nlegs = [\"a\", \"b\"]", &[("a", 64 * MIB), ("b", 65 * MIB + KIB)]);
        assert_eq!((of(&text, "a"), of(&text, "b")), (0, MIB + KIB));
        let legs = [("a", 64 * MIB), ("b", 64 * MIB), ("c", 164 * MIB)];
        let text = over("kind = \"parity\"\nlegs = [\"a\", \"b\", \"c\"]", &legs);
        let tail = of(&text, "a");
        assert!(tail < 512 * KIB, "less than a chunk: {tail}");
        assert_eq!((of(&text, "b"), of(&text, "c")), (tail, tail + 100 * MIB));
    }

    #[test]
    fn tails_and_gaps_are_unused() {
        let text = over("kind = \"stripe\"\nlegs = [\"a\"]", &[("a", MIB + 63 * KIB)]);
        assert_eq!(of(&text, "a"), 63 * KIB);
        let text = over("kind = \"concat\"\nparts = [\"a\", \"b\"]", &[("a", MIB), ("b", 2 * MIB)]);
        assert_eq!((of(&text, "a"), of(&text, "b")), (0, 0));
        let text = over("kind = \"cache\"\nbelow = \"a\"\nsize = \"1 MiB\"", &[("a", 8 * MIB + 512)]);
        assert_eq!(of(&text, "a"), 512);
        let two = "[export.e]\ndevice = \"x\"\n[export.f]\ndevice = \"y\"\n\
            [device.x]\nkind = \"slice\"\nbelow = \"a\"\nsize = \"1 MiB\"\n\
            [device.y]\nkind = \"slice\"\nbelow = \"a\"\noffset = \"2 MiB\"\nsize = \"1 MiB\"\n\
            [device.a]\nkind = \"memory\"\nsize = \"8 MiB\"\n";
        assert_eq!(of(two, "a"), 6 * MIB);
        let text = over("kind = \"integrity\"\nbelow = \"a\"", &[("a", 64 * MIB + 512)]);
        assert!(of(&text, "a") < 64 * KIB, "less than what rounds the room for records: {}", of(&text, "a"));
    }
}

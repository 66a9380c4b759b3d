//! The room that files and devices have: how long a leaf is whose stack file does not say, and what of a stack stays unused.

use crate::failure::Failure;
use nandu_base::{ByteLen, MediumSpec};
use nandu_stack::load::LeafWithoutSize;
use nandu_stack::{Built, Stack, StackFile};
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

/// `file` with the lengths of files in place of sizes that it leaves out. Paths start where the program runs, as those of the server do.
///
/// # Errors
/// A file is not there, or its length is not to be had or not to be used: what to do.
pub fn with_lengths(file: StackFile) -> Result<StackFile, Failure> {
    let leaves = file.leaves_without_size();
    leaves.into_iter().try_fold(file, |file, leaf| {
        let bytes = length_of(&leaf)?;
        Ok(file.with_set(&format!("device.{}.size", leaf.name), &bytes.to_string())?)
    })
}

fn length_of(leaf: &LeafWithoutSize) -> Result<u64, Failure> {
    let LeafWithoutSize { name, path, sector, shifts } = leaf;
    let wrong = |why: String| Err(Failure::input(format!("device `{name}`: {why}")));
    if let Some(row) = shifts {
        return wrong(format!(
            "it has no `size`, and others stand behind it in `{row}`: a longer file would move what they hold; give its size"
        ));
    }
    match length(Path::new(path)) {
        Err(error) if error.kind() == ErrorKind::NotFound => wrong(format!(
            "it has no `size`, and {path} is not there, whose length would count; give `size = \"10 GiB\"`, and `nandu serve --create` makes \
             the file; or make it first (`truncate -s 10G {path}`)"
        )),
        Err(error) => wrong(format!(
            "it has no `size`, and the length of {path} is not to be had: {error}; give a size"
        )),
        Ok(0) => wrong(format!(
            "it has no `size`, and {path} is empty; give `size = \"10 GiB\"`, and `nandu serve --create` makes the file longer; or \
             make it so first (`truncate -s 10G {path}`)"
        )),
        Ok(bytes) if !bytes.is_multiple_of(*sector) => wrong(format!(
            "it has no `size`, and {path} has {bytes} bytes, no multiple of its sector of {sector} B; make it longer (`truncate -s %{sector} \
             {path}`), or give a size"
        )),
        Ok(bytes) => Ok(bytes),
    }
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
        None => {
            let left =
                built.parts[at].machine.members().map_or(ByteLen::ZERO, |of| of.left_over(child, limits));
            limits.capacity.0.saturating_sub(left.0)
        }
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

    fn leaf(path: &Path, more: &str) -> String {
        let path = path.display();
        format!("[export.e]\ndevice = \"a\"\n[device.a]\nkind = \"file\"\npath = \"{path}\"\n{more}")
    }

    fn sized(text: &str) -> Result<u64, String> {
        let file = StackFile::parse(text, "t.toml").map_err(|error| error.to_string())?;
        let stack = with_lengths(file).map_err(|failure| failure.message)?.load(&builtin());
        let built = stack.and_then(|stack| stack.build(&BuildOptions::default()));
        built.map(|built| built.parts[0].machine.limits().capacity.0).map_err(|error| error.to_string())
    }

    #[test]
    fn the_length_of_a_file_is_the_size_of_a_leaf_without_one() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.img");
        let missing = sized(&leaf(&path, "")).expect_err("it is not there");
        assert!(
            missing.contains("device `a`: it has no `size`") && missing.contains("truncate -s 10G"),
            "{missing}"
        );
        let file = File::create(&path).expect("a file");
        assert!(sized(&leaf(&path, "")).is_err_and(|why| why.contains("is empty")));
        file.set_len(5 * MIB).expect("it is sparse");
        assert_eq!(sized(&leaf(&path, "")), Ok(5 * MIB));
        assert_eq!(sized(&leaf(&path, "size = \"1 MiB\"")), Ok(MIB), "what the stack file says holds");
        file.set_len(5 * MIB + 512).expect("it is sparse");
        assert_eq!(sized(&leaf(&path, "")), Ok(5 * MIB + 512));
        let odd = sized(&leaf(&path, "sector = \"4 KiB\"")).expect_err("no multiple");
        assert!(odd.contains("truncate -s %4096"), "{odd}");
        let folder = sized(&leaf(dir.path(), "")).expect_err("a folder");
        assert!(folder.contains("give a size"), "{folder}");
        let stack = Stack::parse(&leaf(&path, "size = \"1 MiB\"")).expect("a stack");
        let built = stack.build(&BuildOptions::default()).expect("it can be built");
        let left = left_over(&stack, &built);
        assert_eq!(left, [LeftOver { bytes: ByteLen::ZERO, behind: ByteLen(4 * MIB + 512) }]);
        assert_eq!(left[0].words(|bytes| bytes.to_string()).as_deref(), Some("4194816 of its file unused"));
    }

    #[test]
    fn a_leaf_before_others_in_a_row_needs_its_size() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("a.img");
        File::create(&path).and_then(|file| file.set_len(MIB)).expect("a file");
        let row = |parts: &str| {
            format!(
                "[export.e]\ndevice = \"row\"\n[device.row]\nkind = \"concat\"\nparts = {parts}\n\
                 [device.f]\nkind = \"fault\"\nbelow = \"a\"\n[device.b]\nkind = \"memory\"\nsize = \"1 MiB\"\n\
                 [device.a]\nkind = \"file\"\npath = \"{}\"\n",
                path.display()
            )
        };
        let text = row("[\"f\", \"b\"]");
        let why = sized(&text).expect_err("a longer file would move b");
        assert!(why.contains("others stand behind it in `row`"), "{why}");
        assert_eq!(sized(&row("[\"b\", \"f\"]")), Ok(MIB));
    }
}

//! A large stack made small, so that a seed takes a moment: verification reads everything back again and again, and what goes wrong goes
//! wrong in a small drive sooner.
//!
//! Every capacity, size, offset and number of blocks that the file gives is divided by the largest power of two with which the stack can still
//! be built, and drives get blocks of a few pages, which counts as a part of that. Then each device by itself is divided further, as far as
//! the stack can be built: one whose least size is large does not keep the others from it. What is not given follows: spare room, chunks and
//! times stay what they are.

use super::Shape;
use nandu_base::{ByteLen, Registry};
use nandu_stack::{BuildOptions, Stack};

/// Exports that are no larger together are verified as they are.
const LARGE: u64 = 64 << 20;
/// Exports stay at least as large, so that there is something to do.
const LEAST: u64 = 2 << 20;
/// And as large where one device after the other is made smaller: what is beside them may have stayed large.
const ENOUGH: u64 = 32 << 20;
/// Pages of a block of a drive that has more.
const PAGES: u64 = 16;
/// What is made smaller.
const KEYS: [&str; 5] = ["capacity", "size", "offset", "blocks_per_plane", "blocks_per_die"];

/// Bytes of all exports; `None` when the stack cannot be built.
fn exported(text: &str, registry: &Registry) -> Option<u64> {
    let built = Stack::parse_with(text, registry).ok()?.build(&BuildOptions::default()).ok()?;
    Some(built.exports.iter().map(|e| built.parts[e.node as usize].machine.limits().capacity.0).sum())
}

/// The text with the capacity of each disk that has that of its profile.
fn with_capacities(text: &str, registry: &Registry) -> Option<String> {
    let built = Stack::parse_with(text, registry).ok()?.build(&BuildOptions::default()).ok()?;
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for table in lines.chunk_by(|_, next| !next.starts_with('[')) {
        let name = table[0].trim().strip_prefix("[device.").and_then(|name| name.strip_suffix(']'));
        let part = name.and_then(|name| built.parts.iter().find(|part| part.name == name.trim_matches('"')));
        let has_capacity = table.iter().any(|line| line.trim_start().starts_with("capacity"));
        for line in table {
            out += &format!("{line}\n");
            if let Some(part) =
                part.filter(|_| !has_capacity && line.replace(' ', "").starts_with("kind=\"hdd\""))
            {
                out += &format!("capacity = {}\n", part.machine.limits().capacity.0);
            }
        }
    }
    Some(out)
}

/// The text of a smaller stack and by what its sizes were divided; `None` where it is small, or cannot be made smaller.
pub fn divide(text: &str, registry: &Registry) -> Option<(String, u64)> {
    if exported(text, registry)? <= LARGE {
        return None;
    }
    let whole = with_capacities(text, registry)?;
    let fits = |text: &String, least| exported(text, registry).is_some_and(|bytes| bytes >= least);
    // Blocks that are named without their pages become fewer, or fewer and smaller: whichever serves less.
    let by = |few: bool| {
        let small = |bits: u32| divided(&with_small_blocks(&whole, 1 << bits, few), 1 << bits);
        (1..24).rev().map(|bits| (1u64 << bits, small(bits))).find(|(_, smaller)| fits(smaller, LEAST))
    };
    let both = [by(true), by(false)].into_iter().flatten();
    let (mut most, mut smallest) = both.min_by_key(|(_, smaller)| exported(smaller, registry))?;
    let names: Vec<String> =
        smallest.lines().filter(|line| line.starts_with('[')).map(str::to_string).collect();
    for name in names {
        let at = smallest.lines().position(|line| *line == name)?;
        let lines: Vec<&str> = smallest.lines().collect();
        let len =
            lines[at + 1..].iter().position(|line| line.starts_with('[')).map_or(lines.len() - at, |n| n + 1);
        let text = |part: &[&str]| part.iter().map(|line| format!("{line}\n")).collect::<String>();
        let (before, own, behind) =
            (text(&lines[..at]), text(&lines[at..at + len]), text(&lines[at + len..]));
        let further = (1..24).rev().map(|bits| (1u64 << bits, divided(&own, 1 << bits)));
        let whole = further.map(|(by, own)| (by, format!("{before}{own}{behind}")));
        if let Some((by, smaller)) =
            whole.filter(|(_, whole)| *whole != smallest).find(|(_, whole)| fits(whole, ENOUGH))
        {
            (most, smallest) = (most.max(by), smaller);
        }
    }
    Some((smallest, most))
}

impl Shape {
    /// The same with a stack that is small; by what its sizes were divided.
    pub fn divided(self, registry: &Registry) -> (Shape, Option<u64>) {
        match &self {
            Shape::File(text) => match divide(text, registry) {
                Some((smaller, by)) => (Shape::File(smaller), Some(by)),
                None => (self, None),
            },
            _ => (self, None),
        }
    }
}

/// The text with few pages in the blocks of each drive whose blocks will be divided by `by`. Where it names both numbers, what the
/// pages are divided by is taken off what the blocks will be; where it names the blocks alone, their pages are few or stay those
/// of the chip.
fn with_small_blocks(text: &str, by: u64, few: bool) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    for table in lines.chunk_by(|_, next| !next.starts_with('[')) {
        let is_pages = |line: &&str| line.trim_start().starts_with("pages_per_block");
        let number =
            |line: &&str| line.split_once('=').and_then(|(_, value)| value.trim().parse::<u64>().ok());
        let pages = table.iter().find(|line| is_pages(line)).and_then(number).unwrap_or(PAGES);
        let less = (pages / PAGES).clamp(1, by);
        let is_blocks = |line: &&str| line.trim_start().starts_with("blocks_per_plane");
        let keeps_pages = table.iter().any(|line| is_pages(line) || !few && is_blocks(line));
        for line in table {
            let is_drive = line.replace(' ', "").starts_with("kind=\"ssd\"");
            match number(line) {
                Some(pages) if is_pages(line) => out += &format!("pages_per_block = {}\n", pages / less),
                Some(blocks) if is_blocks(line) && less > 1 => {
                    out += &format!("blocks_per_plane = {}\n", blocks * less)
                }
                _ if is_drive && !keeps_pages => out += &format!("{line}\npages_per_block = {PAGES}\n"),
                _ => out += &format!("{line}\n"),
            }
        }
    }
    out
}

/// The text with the value of each key that is a size or a number of blocks divided.
fn divided(text: &str, by: u64) -> String {
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let code = line.find('#').map_or(line, |at| &line[..at]);
        let mut at = 0;
        while let Some((key, start, end)) = next_value(code, at) {
            out += &line[at..start];
            out += &smaller(key, &line[start..end], by).unwrap_or_else(|| line[start..end].to_string());
            at = end;
        }
        out += &line[at..];
    }
    out
}

/// The next value of one of the keys at or behind `from`: the key, and where its value is.
fn next_value(code: &str, from: usize) -> Option<(&'static str, usize, usize)> {
    let found = KEYS.into_iter().filter_map(|key| {
        let at = code[from..].match_indices(key).map(|(at, _)| from + at).find(|&at| {
            let before = code[..at].chars().next_back();
            let is_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '-' || c == '.');
            !is_word && code[at + key.len()..].trim_start().starts_with('=')
        })?;
        let equals = at + code[at..].find('=')?;
        let start = equals + 1 + code[equals + 1..].len() - code[equals + 1..].trim_start().len();
        let rest = &code[start..];
        let len = match rest.strip_prefix('"') {
            Some(inside) => inside.find('"')? + 2,
            None => rest.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(rest.len()),
        };
        Some((key, start, start + len))
    });
    found.min_by_key(|&(_, start, _)| start)
}

fn smaller(key: &str, value: &str, by: u64) -> Option<String> {
    if key.starts_with("blocks_per_") {
        let blocks: u64 = value.replace('_', "").parse().ok()?;
        return Some(blocks.div_ceil(by).to_string());
    }
    let text = value.trim_matches('"').replace('_', "");
    let bytes =
        text.parse::<u64>().map(ByteLen).ok().or_else(|| nandu_base::units::parse_size(&text).ok())?;
    // Whole mebibytes where there are some: sizes are multiples of what lies below.
    let unit = if bytes.0 / by >= 1 << 20 { 1 << 20 } else { 64 << 10 };
    let divided = (bytes.0 / by).next_multiple_of(unit);
    Some(if bytes.0 == 0 { "0".into() } else { divided.min(bytes.0).to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_divided_and_nothing_else() {
        let text = "# size = 9\n[device.a]\ncapacity = \"1 GiB\"\nblocks_per_plane = 512 # of a plane\nhot_size = 7\n\
                    tenants = [{ name = \"size\", size = \"64 MiB\" }, { size = 1048576 }]\noffset = 0\n";
        let want = "# size = 9\n[device.a]\ncapacity = 16777216\nblocks_per_plane = 8 # of a plane\nhot_size = 7\n\
                    tenants = [{ name = \"size\", size = 1048576 }, { size = 65536 }]\noffset = 0\n";
        assert_eq!(divided(text, 64), want);
    }

    #[test]
    fn a_disk_of_a_profile_becomes_a_small_one() {
        let text =
            "[export.data]\ndevice = \"disk\"\n[device.disk]\nkind = \"hdd\"\nprofile = \"desktop-2010\"\n";
        let registry = &nandu_stack::builtin();
        let (smaller, _) = divide(text, registry).expect("1 TB is large");
        assert!(exported(&smaller, registry).is_some_and(|bytes| bytes <= LARGE), "{smaller}");
    }

    /// Each stack of the repository: what serves little is made of little.
    #[test]
    fn every_large_stack_becomes_a_small_one() {
        let registry = &nandu_stack::builtin();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../stacks");
        let mut large = 0;
        for file in std::fs::read_dir(folder).expect("stacks").flatten() {
            if file.path().extension().is_none_or(|end| end != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(file.path()).expect("a stack");
            if exported(&text, registry).is_none_or(|bytes| bytes <= LARGE) {
                continue;
            }
            let (smaller, by) = divide(&text, registry).unwrap_or_else(|| panic!("{file:?} stays large"));
            let bytes = exported(&smaller, registry).expect("it can be built");
            assert!(by > 1 && bytes <= 8 * LARGE, "{file:?}: {} are exported", ByteLen(bytes));
            large += 1;
        }
        assert!(large > 25, "{large}");
    }

    #[test]
    fn a_large_drive_becomes_a_small_one() {
        let text = "[export.data]\ndevice = \"ssd\"\n[device.ssd]\nkind = \"ssd\"\nprofile = \"mlc-2019\"\nchannels = 4\nchips_per_channel = 2\n\
                    planes_per_die = 2\ncapacity = \"1 GiB\"\nspare_factor = 0.15\n";
        let registry = &nandu_stack::builtin();
        let (smaller, by) = divide(text, registry).expect("1 GiB is large");
        assert!(
            by >= 4 && exported(&smaller, registry).is_some_and(|bytes| bytes <= LARGE),
            "{by}: {smaller}"
        );
        assert_eq!(
            divide(
                "[export.data]\ndevice = \"m\"\n[device.m]\nkind = \"memory\"\nsize = \"1 MiB\"\n",
                registry
            ),
            None
        );
    }
}

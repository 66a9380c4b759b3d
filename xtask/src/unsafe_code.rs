//! Where `unsafe` stands: in these files and in no other, each block with its argument above it.

use crate::purity::{plain, sources};
use crate::steps::root;
use std::fs;

/// The files, below `crates`. One more is a decision: can it be had without?
const FILES: [&str; 17] = [
    "base/src/bytebuf.rs",
    "base/src/payload.rs",
    // One declaration of a safe function of the C library.
    "cli/src/memory.rs",
    "device/src/nand/lanes.rs",
    "ftl/src/blocks.rs",
    "ftl/src/lib.rs",
    "live/src/backend/file_io.rs",
    "live/src/backend/memory.rs",
    // Memory that is lent to the kernel.
    "live/src/backend/ring/kernel.rs",
    "live/src/probe.rs",
    // Memory that is shared with the kernel's driver of block devices.
    "live/src/ublk/kernel.rs",
    // What the module for Python shares with its host.
    "python/src/arrow/give.rs",
    "python/src/arrow/mod.rs",
    "python/src/arrow/take.rs",
    "python/src/policy/compiled.rs",
    "python/src/policy/mod.rs",
    "python/src/trace.rs",
];
/// Lines above a block in which its argument begins.
const ABOVE: usize = 8;

/// What is wrong, by file and line.
pub fn faults() -> Vec<String> {
    let crates = root().join("crates");
    let mut faults = Vec::new();
    let mut seen = Vec::new();
    for file in
        sources(&crates).into_iter().filter(|file| file.components().any(|part| part.as_os_str() == "src"))
    {
        let name = file.strip_prefix(&crates).unwrap_or(&file).display().to_string();
        let text = fs::read_to_string(&file).unwrap_or_default();
        let lines = uses(&text);
        if lines.is_empty() {
            continue;
        }
        if !FILES.contains(&name.as_str()) {
            faults.push(format!(
                "crates/{name}:{}: `unsafe` in a file that had none; see xtask/src/unsafe_code.rs",
                lines[0]
            ));
        }
        faults.extend(
            bare(&text)
                .iter()
                .map(|line| format!("crates/{name}:{line}: `unsafe` without `// SAFETY:` above it")),
        );
        seen.push(name);
    }
    let idle = FILES.iter().filter(|name| !seen.iter().any(|seen| seen == *name));
    faults.extend(idle.map(|name| {
        format!("crates/{name} has no `unsafe` any more: take it from the list in xtask/src/unsafe_code.rs")
    }));
    faults
}

/// Lines of code with the word, from 1.
fn uses(text: &str) -> Vec<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let has = |line: &str| line.split(|c| !is_word(c)).any(|word| word == "unsafe");
    plain(text).lines().enumerate().filter(|(_, line)| has(line)).map(|(at, _)| at + 1).collect()
}

/// Blocks and `impl`s that have no argument.
fn bare(text: &str) -> Vec<usize> {
    let (lines, code): (Vec<&str>, String) = (text.lines().collect(), plain(text));
    let code: Vec<&str> = code.lines().collect();
    let needs = |line: &str| line.contains("unsafe {") || line.contains("unsafe impl");
    let argued = |line: usize| {
        lines[line.saturating_sub(ABOVE + 1)..line].iter().any(|line| line.contains("// SAFETY: "))
    };
    uses(text).into_iter().filter(|&line| needs(code[line - 1]) && !argued(line - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_without_an_argument_is_found() {
        let argued = "fn f() {\n    // SAFETY: it is ours.\n    unsafe { g() }\n}\n";
        assert_eq!((uses(argued), bare(argued)), (vec![3], vec![]));
        let none = "// unsafe { }\nlet text = \"unsafe {\";\nlet it = unsafe { g() };\n";
        assert_eq!((uses(none), bare(none)), (vec![3], vec![3]));
    }
}

//! No circle of modules without a reason: in each crate a module, a file or folder beside `lib.rs`, that needs another one is not needed by it
//! in turn, also over others. Circles that stand are named in `circles.txt` with their reason; one that is new fails the check, and so
//! does a line whose circle is gone.
//!
//! Inside a folder files may know each other: they are one module to the others. What a name of the crate's root means is taken from the
//! `use` lines of `lib.rs`.

use crate::purity::{plain, sources, without_tests};
use crate::steps::{End, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where the circles stand that have a reason: `crate: module module ...: reason`.
const LIST: &str = "xtask/circles.txt";

/// What each module of a crate needs.
type Needs = BTreeMap<String, BTreeSet<String>>;

/// Looks at every crate.
pub fn check() -> End {
    let list = fs::read_to_string(root().join(LIST)).unwrap_or_default();
    let mut known = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.splitn(3, ':').map(str::trim).collect::<Vec<_>>()[..] {
            [name, modules, reason] if !reason.is_empty() => {
                let modules: BTreeSet<&str> = modules.split_whitespace().collect();
                known.insert((name, modules), false);
            }
            _ => return End::Failed(format!("{LIST}: `{line}` is not `crate: modules: reason`")),
        }
    }
    let mut faults = Vec::new();
    let mut folders: Vec<_> = fs::read_dir(root().join("crates"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    for folder in folders {
        let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        for circle in circles(&needs(&folder.join("src"))) {
            let modules: BTreeSet<&str> = circle.iter().map(String::as_str).collect();
            match known.iter_mut().find(|((of, listed), _)| *of == name && *listed == modules) {
                Some((_, stands)) => *stands = true,
                None => faults.push(format!("crates/{name}: {} need each other", circle.join(", "))),
            }
        }
    }
    let gone = known.iter().filter(|(_, stands)| !**stands);
    faults.extend(gone.map(|((name, modules), _)| {
        let modules: Vec<&str> = modules.iter().copied().collect();
        format!("crates/{name}: {} need each other no more: take the line out of {LIST}", modules.join(" "))
    }));
    match faults.is_empty() {
        true => End::Passed,
        false => End::Failed(format!(
            "let one of the modules know less, or say in {LIST} why they know each other\n{}",
            faults.join("\n")
        )),
    }
}

/// The module that a file belongs to, if it is not the root.
fn module_of(file: &Path, src: &Path) -> Option<String> {
    let first = file.strip_prefix(src).ok()?.components().next()?;
    let name = first.as_os_str().to_string_lossy();
    let name = name.strip_suffix(".rs").unwrap_or(&name).to_string();
    (name != "lib" && name != "main" && name != "bin").then_some(name)
}

/// What each module of the crate in `src` needs of the others.
fn needs(src: &Path) -> Needs {
    let files = sources(src);
    let modules: BTreeSet<String> = files.iter().filter_map(|file| module_of(file, src)).collect();
    let code = |file: &Path| without_tests(&plain(&fs::read_to_string(file).unwrap_or_default()));
    let reexported = reexports(&code(&src.join("lib.rs")), &modules);
    let mut needs = Needs::new();
    for file in &files {
        let Some(own) = module_of(file, src) else { continue };
        let is_at_root = file.parent() == Some(src) || file.file_name().is_some_and(|name| name == "mod.rs");
        let is_top = is_at_root && file.strip_prefix(src).is_ok_and(|path| path.components().count() <= 2);
        let code = code(file);
        let named = paths(&code, "crate").into_iter().chain(match is_top {
            true => paths(&code, "super"),
            false => Vec::new(),
        });
        for name in named {
            let module = reexported.get(&name).unwrap_or(&name);
            if modules.contains(module) && *module != own {
                needs.entry(own.clone()).or_default().insert(module.clone());
            }
        }
    }
    needs
}

/// The names directly behind `start::`, those of groups too.
fn paths(code: &str, start: &str) -> Vec<String> {
    let mut found = Vec::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for (at, _) in code.match_indices(&format!("{start}::")) {
        if code[..at].chars().next_back().is_some_and(|c| is_name(c) || c == ':') {
            continue;
        }
        let rest = &code[at + start.len() + 2..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(crate::purity::group_names(group)),
            None => found.push(rest.chars().take_while(|&c| is_name(c)).collect()),
        }
    }
    found
}

/// Which module each name comes from that `lib.rs` takes from one.
fn reexports(code: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for (at, _) in code.match_indices("use ") {
        let path = code[at + 4..].split(';').next().unwrap_or_default();
        let path = path.trim().trim_start_matches("crate::").trim_start_matches("self::");
        let Some((module, rest)) = path.split_once("::").filter(|(module, _)| modules.contains(*module))
        else {
            continue;
        };
        let is_name = |c: char| c.is_alphanumeric() || c == '_';
        for name in rest.split(|c| !is_name(c)).filter(|name| !name.is_empty()) {
            names.insert(name.to_string(), module.to_string());
        }
    }
    names
}

/// The groups of modules that need each other, each in order.
fn circles(needs: &Needs) -> Vec<Vec<String>> {
    let reaches = |from: &String| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(module) = left.pop() {
            for next in needs.get(module).into_iter().flatten() {
                if seen.insert(next) {
                    left.push(next);
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|from| (from, reaches(from))).collect();
    let mut groups = BTreeSet::new();
    for (from, seen) in reach.iter().filter(|(from, seen)| seen.contains(*from)) {
        let back = seen.iter().filter(|other| reach.get(*other).is_some_and(|seen| seen.contains(from)));
        groups.insert(back.map(|other| (*other).clone()).collect::<Vec<_>>());
    }
    groups.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &[&str])]) -> Needs {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_string()).collect();
        pairs.iter().map(|(from, to)| ((*from).to_string(), set(to))).collect()
    }

    #[test]
    fn a_circle_is_all_that_lie_on_it_and_no_more() {
        let needs = of(&[("a", &["b"]), ("b", &["c", "d"]), ("c", &["a"]), ("d", &["e"]), ("f", &["a"])]);
        assert_eq!(circles(&needs), [vec!["a", "b", "c"]]);
        assert!(circles(&of(&[("a", &["b", "c"]), ("b", &["c"])])).is_empty());
    }

    #[test]
    fn names_behind_a_path_are_found_in_groups_too() {
        let code =
            "use crate::{a::B, c::{D, E}, F};\nfn f() { crate::g::h(); mycrate::no(); nandu::crate_no(); }";
        assert_eq!(paths(code, "crate"), ["a", "c", "F", "g"]);
    }

    #[test]
    fn what_the_root_hands_on_belongs_to_its_module() {
        let modules = ["a", "b"].map(String::from).into_iter().collect();
        let names = reexports("pub use a::{One, two::Three};\npub use b::Four;\nuse other::Five;", &modules);
        let want = [("Four", "b"), ("One", "a"), ("Three", "a"), ("two", "a")];
        assert_eq!(names, want.map(|(name, module)| (name.to_string(), module.to_string())).into());
    }
}

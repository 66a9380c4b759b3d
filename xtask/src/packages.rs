//! What the packages of this project are made of, and whether they can be published: licences, sources, Rust versions, manifests.
//!
//! `cargo metadata` lists every package that the lock file names. Each must have a licence that goes with ours, come from the registry or from
//! this checkout, and build with the oldest Rust that we support. Each of ours must say what it is and which of its items are stable, and `cargo package --list` must pass. None may be
//! yanked, by the entries of the registry's index that cargo has fetched. Advisories need a list from the network: `cargo xtask advisories` asks the
//! tools that read it.

use crate::json::{Json, parse};
use crate::steps::{End, command};
use std::path::PathBuf;

/// Licences that go with `MIT OR Apache-2.0`: none asks for more than a notice.
const LICENCES: [&str; 11] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "ISC",
    "bzip2-1.0.6",
    "Unicode-3.0",
    "Zlib",
    "CC0-1.0",
];
/// Also: the public domain, where a package says nothing else.
const UNLICENSED: [&str; 2] = ["Unlicense", "0BSD"];

/// Looks at every package.
pub fn check() -> End {
    let mut metadata = command(
        "cargo metadata --format-version 1 --offline --locked --features nandu-cli/tls --filter-platform",
    );
    let output = match metadata.arg(host()).output() {
        Ok(output) if output.status.success() => output,
        Ok(output) => return End::Failed(String::from_utf8_lossy(&output.stderr).trim().into()),
        Err(error) => return End::Failed(error.to_string()),
    };
    let metadata = match parse(&String::from_utf8_lossy(&output.stdout)) {
        Ok(metadata) => metadata,
        Err(why) => return End::Failed(why),
    };
    let packages = metadata.get("packages").list();
    let own: Vec<&Json> = packages.iter().filter(|p| is_ours(p)).collect();
    let msrv = own.first().map_or("", |p| p.get("rust_version").text());
    let mut faults: Vec<String> = packages.iter().flat_map(|package| faults(package, msrv)).collect();
    let index = index();
    let yanked = packages.iter().filter(|package| !is_ours(package)).map(|package| {
        let (name, version) = (package.get("name").text(), package.get("version").text());
        (name, version, is_yanked(&index, name, version))
    });
    let (known, unknown): (Vec<_>, Vec<_>) = yanked.partition(|(.., yanked)| yanked.is_some());
    let gone = known.iter().filter(|(.., yanked)| *yanked == Some(true));
    faults
        .extend(gone.map(|(name, version, _)| format!("{name} {version}: is yanked; take another version")));
    if !unknown.is_empty() {
        println!(
            "   whether {} of {} packages are yanked is not known here: cargo has no entry of theirs",
            unknown.len(),
            known.len() + unknown.len()
        );
    }
    if faults.is_empty() {
        for package in own.iter().filter(|p| p.get("name").text() != "xtask") {
            let name = package.get("name").text();
            faults.extend(promises_nothing(package).map(|why| format!("{name}: {why}")));
            let mut list = command("cargo package --list --allow-dirty --offline --package");
            match list.arg(name).output() {
                Ok(output) if output.status.success() => {}
                Ok(output) => {
                    faults.push(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()))
                }
                Err(error) => faults.push(error.to_string()),
            }
        }
    }
    if faults.is_empty() { End::Passed } else { End::Failed(faults.join("\n")) }
}

/// Why the head of a package does not say which of its items are stable; `None` if it does.
fn promises_nothing(package: &Json) -> Option<String> {
    let manifest = PathBuf::from(package.get("manifest_path").text());
    let head = manifest.with_file_name("src/lib.rs");
    match std::fs::read_to_string(&head) {
        Ok(text)
            if text
                .lines()
                .take_while(|line| line.starts_with("//!"))
                .any(|line| line.starts_with(STABLE)) =>
        {
            None
        }
        Ok(_) => {
            Some(format!("the head of src/lib.rs has no paragraph `{STABLE}`: which items stay as they are?"))
        }
        Err(error) => Some(format!("{}: {error}", head.display())),
    }
}

/// How the paragraph begins that says what stays from version to version.
const STABLE: &str = "//! **What is stable.**";

/// The folders in which cargo keeps the entries of the index that it has fetched.
fn index() -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
    let folders = home.and_then(|home| std::fs::read_dir(home.join("registry/index")).ok());
    folders.into_iter().flatten().flatten().map(|folder| folder.path().join(".cache")).collect()
}

/// Whether a version is yanked; none where no entry says.
fn is_yanked(index: &[PathBuf], name: &str, version: &str) -> Option<bool> {
    let entry = index.iter().find_map(|folder| std::fs::read(folder.join(place(name))).ok())?;
    // Between zero bytes: what cargo notes for itself, versions, and a line of JSON for each.
    let lines = entry.split(|&byte| byte == 0).filter_map(|line| std::str::from_utf8(line).ok());
    let mut versions = lines.filter(|line| line.starts_with('{')).filter_map(|line| parse(line).ok());
    let found = versions.find(|entry| entry.get("vers").text() == version)?;
    Some(*found.get("yanked") == Json::Bool(true))
}

/// The place of a package in the index.
fn place(name: &str) -> String {
    let name = name.to_lowercase();
    match name.len() {
        1 | 2 => format!("{}/{name}", name.len()),
        3 => format!("3/{}/{name}", &name[..1]),
        _ => format!("{}/{}/{name}", &name[..2], &name[2..4]),
    }
}

/// Known faults of what we depend on, by a tool that has their list.
pub fn advisories() -> End {
    for (tool, words) in [("cargo-deny", "cargo deny check advisories"), ("cargo-audit", "cargo audit")] {
        if crate::steps::has(tool) {
            return crate::steps::run(command(words));
        }
    }
    End::Skipped(
        "neither cargo-deny nor cargo-audit is installed, and the list of advisories comes from the network"
            .into(),
    )
}

/// The platform at hand: packages of others are not here to be read.
/// The target of the compiler at hand.
pub fn host() -> String {
    let version = command("rustc --version --verbose").output();
    let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap_or_default().into()
}

fn is_ours(package: &Json) -> bool {
    *package.get("source") == Json::Null
}

/// What is wrong with one package.
fn faults(package: &Json, msrv: &str) -> Vec<String> {
    let name = format!("{} {}", package.get("name").text(), package.get("version").text());
    let mut faults = Vec::new();
    let licence = package.get("license").text();
    if !is_allowed(licence) {
        faults.push(format!("{name}: its licence `{licence}` is not among those that go with ours"));
    }
    let source = package.get("source").text();
    if !is_ours(package) && !source.starts_with("registry+https://github.com/rust-lang/crates.io-index") {
        faults.push(format!("{name}: comes from {source}, not from crates.io"));
    }
    let needs = package.get("rust_version").text();
    if version(needs) > version(msrv) {
        faults.push(format!("{name}: needs Rust {needs}, ours says {msrv}"));
    }
    if is_ours(package)
        && package.get("name").text() != "xtask"
        && package.get("description").text().is_empty()
    {
        faults.push(format!("{name}: its Cargo.toml has no description"));
    }
    faults
}

fn version(text: &str) -> Vec<u32> {
    text.split('.').filter_map(|part| part.parse().ok()).collect()
}

/// Whether one of the alternatives of a licence expression is made of allowed licences.
fn is_allowed(expression: &str) -> bool {
    let known = |licence: &str| LICENCES.contains(&licence) || UNLICENSED.contains(&licence);
    // The older form `MIT/Apache-2.0` is a choice too; brackets only group choices in what we depend on.
    let expression = expression.replace('/', " OR ");
    let all = |part: &str| part.split(" AND ").all(|one| known(one.trim().trim_matches(['(', ')'])));
    if expression.contains('(') {
        let groups = expression.split(" AND ");
        return groups
            .into_iter()
            .all(|group| group.trim_matches(['(', ')', ' ']).split(" OR ").any(|one| known(one.trim())));
    }
    !expression.is_empty() && expression.split(" OR ").any(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_needs_one_good_licence_and_a_sum_all() {
        for good in [
            "MIT",
            "MIT OR GPL-3.0",
            "Apache-2.0 AND ISC",
            "(MIT OR GPL-2.0) AND Unicode-3.0",
            "Unlicense/MIT",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-2.0 OR AGPL-3.0) AND MIT"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn an_entry_of_the_index_says_which_versions_are_yanked() {
        assert_eq!(
            ["a", "ab", "Abc", "serde_json"].map(place),
            ["1/a", "2/ab", "3/a/abc", "se/rd/serde_json"]
        );
        let folder = std::env::temp_dir().join(format!("nandu-index-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("3/f")).expect("a folder");
        let line = |version: &str, yanked: bool| {
            format!("{{\"name\":\"foo\",\"vers\":\"{version}\",\"yanked\":{yanked}}}")
        };
        let entry = ["\x03\x02", "etag", "1.0.0", &line("1.0.0", true), "1.0.1", &line("1.0.1", false), ""]
            .join("\0");
        std::fs::write(folder.join("3/f/foo"), entry).expect("it can be written");
        let index = [folder.clone()];
        let said = [("foo", "1.0.0"), ("foo", "1.0.1"), ("foo", "1.0.2"), ("bar", "1.0.0")]
            .map(|(name, version)| is_yanked(&index, name, version));
        std::fs::remove_dir_all(folder).expect("it is there");
        assert_eq!(said, [Some(true), Some(false), None, None]);
    }

    #[test]
    fn versions_compare_by_number() {
        assert!(
            version("1.9") < version("1.88")
                && version("1.88.1") > version("1.88")
                && version("") < version("1")
        );
    }
}

//! Packages of Debian in a folder of its own: they are unpacked there, and nothing of the system changes.

use crate::files;
use crate::steps::has;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where packages come from. Backports have newer kernels and emulators; apt takes them only where it is told to.
const SOURCES: &str = "\
deb [signed-by=KEYS] http://deb.debian.org/debian bookworm main
deb [signed-by=KEYS] http://deb.debian.org/debian bookworm-backports main
";
/// Where sources of packages come from.
const SOURCES_OF_PACKAGES: &str = "deb-src [signed-by=KEYS] http://deb.debian.org/debian bookworm main\n";
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The suite of this system's packages.
pub const BOOKWORM: &str = "bookworm";
/// The suite of newer packages.
pub const BACKPORTS: &str = "bookworm-backports";

/// A folder with lists of packages, those that were fetched, and what was in them.
pub struct Debian {
    folder: PathBuf,
}

impl Debian {
    /// Packages in `folder`, which is made. Lists are fetched once.
    pub fn at(folder: &Path) -> Result<Debian, String> {
        Debian::of(folder, SOURCES)
    }

    /// The same, with the sources of packages.
    pub fn with_sources(folder: &Path) -> Result<Debian, String> {
        Debian::of(folder, &format!("{SOURCES}{SOURCES_OF_PACKAGES}"))
    }

    fn of(folder: &Path, sources: &str) -> Result<Debian, String> {
        if let Some(missing) = ["apt-get", "dpkg"].into_iter().find(|program| !has(program)) {
            return Err(format!("{missing} is not installed: this needs Debian"));
        }
        let debian = Debian { folder: folder.into() };
        let lists = debian.folder.join("lists");
        for part in ["lists/partial", "archives/partial", "packages", "root"] {
            let part = debian.folder.join(part);
            fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
        }
        let folder = debian.folder.display();
        files::write(&debian.folder.join("sources.list"), &sources.replace("KEYS", KEYS))?;
        files::write(
            &debian.folder.join("apt.conf"),
            &format!(
                "Dir::Etc::sourcelist \"{folder}/sources.list\";\nDir::Etc::sourceparts \"-\";\nDir::State::lists \"{folder}/lists\";\n\
                 Dir::State::status \"/var/lib/dpkg/status\";\nDir::Cache \"{folder}\";\nAPT::Sandbox::User \"root\";\n"
            ),
        )?;
        let is_empty = fs::read_dir(&lists).is_ok_and(|mut all| {
            !all.any(|entry| {
                entry.is_ok_and(|entry| entry.file_name().to_string_lossy().contains("Packages"))
            })
        });
        if is_empty {
            debian.apt(&["apt-get", "update", "-qq"], &debian.folder)?;
        }
        Ok(debian)
    }

    /// Runs a command of apt with these lists; returns what it prints.
    fn apt(&self, words: &[&str], at: &Path) -> Result<String, String> {
        let mut apt = Command::new(words[0]);
        apt.args(&words[1..]).current_dir(at).env("APT_CONFIG", self.folder.join("apt.conf"));
        let output = apt.output().map_err(|error| format!("{}: {error}", words[0]))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(format!("{}: {}", words.join(" "), why.trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Where what was in the packages lies, as it would below `/`.
    pub fn root(&self) -> PathBuf {
        self.folder.join("root")
    }

    /// The newest package whose name begins and ends so.
    pub fn newest(&self, head: &str, tail: &str) -> Result<String, String> {
        let names = self.apt(&["apt-cache", "pkgnames", head], &self.folder)?;
        let newest = names.lines().filter(|name| name.ends_with(tail)).max_by_key(|name| numbers(name));
        newest.map(String::from).ok_or_else(|| format!("Debian has no package {head}*{tail}"))
    }

    /// `package` of a suite, and what apt would install with it here.
    pub fn with_what_it_needs(&self, suite: &str, package: &str) -> Result<Vec<String>, String> {
        let words = ["apt-get", "-s", "-t", suite, "--no-install-recommends", "install", package];
        let said = self.apt(&words, &self.folder)?;
        let names = said.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
        Ok(names.map(String::from).collect())
    }

    /// Fetches packages and unpacks them, unless they lie there.
    pub fn unpack(&self, suite: &str, packages: &[impl AsRef<str>]) -> Result<(), String> {
        for package in packages.iter().map(AsRef::as_ref) {
            let place = self.folder.join("packages").join(package);
            if place.join("unpacked").is_file() {
                continue;
            }
            let fail = |error: std::io::Error| format!("{}: {error}", place.display());
            fs::create_dir_all(&place).map_err(fail)?;
            self.apt(&["apt-get", "-t", suite, "download", package], &place)?;
            for file in fs::read_dir(&place).map_err(fail)?.flatten() {
                let mut dpkg = Command::new("dpkg");
                dpkg.arg("-x").arg(file.path()).arg(self.root());
                crate::steps::run(dpkg).ok()?;
            }
            fs::write(place.join("unpacked"), "").map_err(fail)?;
        }
        Ok(())
    }

    /// The sources of a package, unpacked in `folder`, which holds nothing else: where they lie.
    pub fn source(&self, package: &str, folder: &Path) -> Result<PathBuf, String> {
        let unpacked = || files::list(folder).into_iter().find(|path| path.is_dir());
        if unpacked().is_none() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            self.apt(&["apt-get", "source", package], folder)?;
        }
        unpacked().ok_or_else(|| format!("the sources of {package} have no folder in {}", folder.display()))
    }
}

/// The numbers in a name, to tell which version is newer.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let names = ["linux-image-6.12.9+deb12-cloud-amd64", "linux-image-6.12.10+deb12-cloud-amd64"];
        assert!(numbers(names[0]) < numbers(names[1]));
    }
}

//! `cargo xtask release`: a version as it would be published, in `target/published`.
//!
//! Each part is a step of its own, so that `--only WORD` takes some: the crates as `cargo publish` would send them, the program installed from the
//! checkout, a static binary, a Debian package (which [`deb`] makes alone), a wheel for Python, the list of what the binary is made of (CycloneDX), the licences of all of it, and a
//! check that the binary depends on the sources alone: it is built twice, in folders and with cargo homes of their own, and both have the same bytes.
//!
//! Most of it takes minutes of building, so nothing of it belongs to the tests. What is not committed is not published: builds that leave this
//! machine are made of a clone.

use crate::files::{copy, list, read, write};
use crate::json::{Json, parse};
use crate::packages::host;
use crate::steps::{End, Steps, command, has, release_build, released, root, run, target_dir};
use crate::tools::{MATURIN, environment};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// What is published offers TLS.
const WITH_TLS: [&str; 2] = ["--features", "tls"];
/// Where a binary runs that needs no library of the system.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// `cargo xtask release [--only WORD]`.
pub fn release(words: &[&str]) -> Result<ExitCode, String> {
    let only = match words {
        [] => None,
        ["--only", word] => Some(word.to_string()),
        [.., other] => return Err((*other).into()),
    };
    let out = target_dir().join("published");
    if let Err(error) = fs::create_dir_all(&out) {
        return Err(format!("{}: {error}", out.display()));
    }
    let mut steps = Steps::new(false, only);
    steps.step("nothing is left uncommitted", committed);
    steps.step("crates", || crates(&out));
    steps.step("licences of dependencies", || licences(&out).into());
    steps.step("list of what the binary is made of", || materials(&out).into());
    steps.step("installed from the checkout", || installed(&out));
    steps.step("wheel", || wheel(&out));
    steps.step("static binary", || static_binary(&out));
    steps.step("unit of the service manager", unit);
    steps.step("Debian package", || debian(&out, &Binary::Static(out.join("nandu"))).into());
    steps.step("same bytes from two builds", || same_bytes(&out));
    println!("{}", out.display());
    Ok(steps.close())
}

/// What a command prints; its error where it fails.
fn said(mut command: Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

fn committed() -> End {
    match said(command("git status --porcelain")) {
        Ok(left) if left.is_empty() => End::Passed,
        Ok(left) => End::Failed(format!("not committed:\n{left}")),
        Err(why) => End::Failed(why),
    }
}

fn version() -> Result<String, String> {
    let text = read(&root().join("Cargo.toml"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = \""));
    line.and_then(|rest| rest.strip_suffix('"')).map(String::from).ok_or("Cargo.toml names no version".into())
}

/// Every crate is packed, and built from its package alone.
fn crates(out: &Path) -> End {
    let packed = run(command("cargo package --workspace --exclude xtask --locked --quiet"));
    packed.and(|| {
        let copied = version().and_then(|version| {
            let packed = list(&target_dir().join("package")).into_iter();
            let ours = |file: &PathBuf| file.to_string_lossy().ends_with(&format!("-{version}.crate"));
            packed.filter(ours).try_for_each(|file| {
                copy(&file, &out.join("crates").join(file.file_name().unwrap_or_default()))
            })
        });
        copied.into()
    })
}

/// `cargo install` as the README has it, and the program runs.
fn installed(out: &Path) -> End {
    let place = out.join("installed");
    let mut install = command("cargo install --path crates/cli --locked --quiet --force --root");
    install.arg(&place).env("CARGO_TARGET_DIR", target_dir());
    run(install).and(|| {
        let mut nandu = Command::new(place.join("bin/nandu"));
        nandu.args(["check", "page-map"]);
        run(nandu)
    })
}

fn wheel(out: &Path) -> End {
    let venv = target_dir().join("wheel/tools");
    if let Err(why) = environment(&venv, [MATURIN]) {
        return End::Skipped(why);
    }
    let mut build = Command::new(venv.join("bin/maturin"));
    build.args(["build", "--quiet", "--locked", "--release", "--out"]).arg(out).current_dir(root());
    run(build)
}

fn static_binary(out: &Path) -> End {
    let targets = said(command("rustup target list --installed")).unwrap_or_default();
    if !targets.lines().any(|line| line == STATIC) {
        return End::Skipped(format!("`rustup target add {STATIC}` has not been run"));
    }
    if !has("musl-gcc") {
        return End::Skipped("musl-gcc is not installed (Debian: musl-tools)".into());
    }
    let mut build = command("cargo build --quiet --locked --profile dist --package nandu-cli --target");
    build.arg(STATIC).args(WITH_TLS).env("CARGO_TARGET_DIR", target_dir());
    run(build).and(|| copy(&target_dir().join(STATIC).join("dist/nandu"), &out.join("nandu")).into())
}

/// `cargo xtask deb [--no-build] [--install]`: the Debian package alone, with the program as it is released on this machine; installed in a bare root
/// too.
pub fn deb(words: &[&str]) -> Result<ExitCode, String> {
    if let Some(other) = words.iter().find(|word| !["--no-build", "--install"].contains(*word)) {
        return Err((*other).into());
    }
    let builds = !words.contains(&"--no-build");
    let out = target_dir().join("published");
    if let Err(error) = fs::create_dir_all(&out) {
        return Err(format!("{}: {error}", out.display()));
    }
    let mut steps = Steps::new(false, None);
    if builds {
        let mut build = release_build();
        build.args(WITH_TLS);
        steps.step("the program as it is released", || run(build));
    }
    steps.step("licences of dependencies", || licences(&out).into());
    steps.step("unit of the service manager", unit);
    steps.step("Debian package", || debian(&out, &Binary::OfThisSystem(released().join("nandu"))).into());
    if words.contains(&"--install") {
        steps.step("installed, started, upgraded and removed in a bare root", || in_bare_root(&out));
    }
    println!("{}", out.display());
    Ok(steps.close())
}

/// What a package is made around.
enum Binary {
    /// It needs no library.
    Static(PathBuf),
    /// It needs the C library that it was built with, or a newer one.
    OfThisSystem(PathBuf),
}

impl Binary {
    fn path(&self) -> &Path {
        match self {
            Binary::Static(path) | Binary::OfThisSystem(path) => path,
        }
    }

    /// The line of the control file that says what it needs.
    fn depends(&self) -> Result<String, String> {
        match self {
            Binary::Static(_) => Ok(String::new()),
            Binary::OfThisSystem(_) => {
                let version = said(command("getconf GNU_LIBC_VERSION"))?;
                let version = version.trim().trim_start_matches("glibc ");
                Ok(format!("Depends: libc6 (>= {version}), libgcc-s1\n"))
            }
        }
    }
}

/// The unit with which systemd serves a stack.
const UNIT: &str = "packaging/nandu@.service";

/// systemd takes the unit as it stands, but for the program, which is not where the package puts it.
fn unit() -> End {
    if !has("systemd-analyze") {
        return End::Skipped("systemd-analyze is not installed".into());
    }
    let file = target_dir().join("unit/nandu@.service");
    let written = read(&root().join(UNIT)).and_then(|text| write(&file, &text.replace(PROGRAM, "/bin/true")));
    let mut verify = command("systemd-analyze verify --man=no");
    verify.arg(&file);
    match written.and_then(|()| said(verify)) {
        Ok(_) => End::Passed,
        Err(why) => End::Failed(why),
    }
}

/// Where the package puts the program.
const PROGRAM: &str = "/usr/bin/nandu";

/// What is done when the package is installed or upgraded. Devices that are served go on with the program that they were started with.
const INSTALLED: &str = "\
#!/bin/sh
set -e
if [ \"$1\" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ -n \"$2\" ] && systemctl --quiet is-active 'nandu@*'; then
        echo 'nandu: devices that are served go on with the version before; systemctl restart nandu@NAME takes the new one'
    fi
fi
";

/// What is done when it has gone.
const REMOVED: &str = "\
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
";

/// The program with its unit, pages of the manual, completions, stack files and licences, for `dpkg -i`.
fn debian(out: &Path, binary: &Binary) -> Result<(), String> {
    let version = version()?;
    if !binary.path().is_file() || !has("dpkg-deb") {
        return Err(format!("{} and dpkg-deb are needed", binary.path().display()));
    }
    let tree = target_dir().join("debian");
    let _ = fs::remove_dir_all(&tree);
    copy(binary.path(), &tree.join(&PROGRAM[1..]))?;
    copy(&root().join(UNIT), &tree.join("usr/lib/systemd/system/nandu@.service"))?;
    for folder in ["etc/nandu", "usr/share/man/man1"] {
        let folder = tree.join(folder);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    for file in list(&root().join("stacks")).into_iter().filter(|file| file.is_file()) {
        copy(&file, &tree.join("usr/share/nandu/stacks").join(file.file_name().unwrap_or_default()))?;
    }
    let places = [
        ("bash", "bash-completion/completions/nandu"),
        ("zsh", "zsh/vendor-completions/_nandu"),
        ("fish", "fish/vendor_completions.d/nandu.fish"),
    ];
    for (shell, place) in places {
        let mut complete = Command::new(binary.path());
        complete.args(["completions", shell]);
        write(&tree.join("usr/share").join(place), &said(complete)?)?;
    }
    let pages = tree.join("usr/share/man/man1");
    let mut manual = Command::new(binary.path());
    manual.args(["man", "--into"]).arg(&pages);
    said(manual)?;
    for page in list(&pages) {
        let mut gzip = command("gzip -9n");
        gzip.arg(page);
        said(gzip)?;
    }
    let documents = tree.join("usr/share/doc/nandu");
    copy(&root().join("CHANGELOG.md"), &documents.join("CHANGELOG.md"))?;
    let mut copyright = String::new();
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        copyright += &read(&root().join(file))?;
        copyright.push('\n');
    }
    write(&documents.join("copyright"), &copyright)?;
    copy(&out.join("LICENCES.txt"), &documents.join("LICENCES.txt"))?;
    let architecture = said(command("dpkg --print-architecture"))?;
    let architecture = architecture.trim();
    let control = format!(
        "Package: nandu\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Nandu authors <nandu@localhost>\nSection: admin\n\
         Priority: optional\n{}\
         Description: flash storage you can simulate, compare and mount\n Describes storage stacks in short files, races them on traces, and serves them over NBD.\n",
        binary.depends()?
    );
    write(&tree.join("DEBIAN/control"), &control)?;
    for (name, script) in [("postinst", INSTALLED), ("postrm", REMOVED)] {
        write(&tree.join("DEBIAN").join(name), script)?;
    }
    // Rights do not depend on who makes the package.
    let mut rights = command("chmod -R u=rwX,go=rX");
    rights.arg(&tree);
    said(rights)?;
    let mut scripts = command("chmod 755");
    scripts.args(["postinst", "postrm"].map(|name| tree.join("DEBIAN").join(name)));
    said(scripts)?;
    let mut build = command("dpkg-deb --root-owner-group --build");
    // Times of files are that of the commit, so that the package has the same bytes each time.
    build.env("SOURCE_DATE_EPOCH", said(command("git log -1 --format=%ct"))?.trim());
    let package = out.join(format!("nandu_{version}_{architecture}.deb"));
    build.arg(&tree).arg(&package);
    run(build).ok()?;
    is_whole(&package)
}

/// What is done in a root that has nothing but what every Debian has; `LINE` is that of the unit.
const IN_ROOT: &str = "\
set -e
dpkg -i /nandu.deb
mkdir -p /var/lib/nandu /run/nandu/disk
cd /var/lib/nandu
nandu create mirror a.img b.img --size 16MiB -o /etc/nandu/disk.toml
LINE &
until nandu ctl /run/nandu/disk/control.sock status > /dev/null 2>&1; do sleep 0.1; done
dpkg -i /nandu.deb
nandu ctl /run/nandu/disk/control.sock status
nandu stop /run/nandu/disk/control.sock
wait
dpkg -r nandu
test ! -e /usr/bin/nandu
test -e /etc/nandu/disk.toml
";

/// The package is installed in a root that mmdebstrap makes, starts a device by the line of its unit, is upgraded while that is served, and goes without what is
/// its user's.
fn in_bare_root(out: &Path) -> End {
    let is_root = said(command("id -u")).is_ok_and(|id| id.trim() == "0");
    if !has("mmdebstrap") || !is_root {
        return End::Skipped("mmdebstrap is not installed, or this is not root".into());
    }
    let place = target_dir().join("bare-root");
    let _ = fs::remove_dir_all(&place);
    let prepared = || {
        let system = fs::read_to_string("/etc/os-release").map_err(|e| format!("/etc/os-release: {e}"))?;
        let suite = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
        let mut make = command("mmdebstrap --variant=minbase --quiet");
        make.arg(suite.ok_or("/etc/os-release names no VERSION_CODENAME")?).arg(&place);
        said(make)?;
        let package = list(out).into_iter().find(|file| file.extension().is_some_and(|e| e == "deb"));
        copy(&package.ok_or("there is no package")?, &place.join("nandu.deb"))?;
        let unit = read(&root().join(UNIT))?;
        let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart="));
        let line = line.ok_or("the unit starts nothing")?.replace("%i", "disk");
        write(&place.join("script"), &IN_ROOT.replace("LINE", &line))
    };
    End::from(prepared()).and(|| {
        let mut script = Command::new("chroot");
        script.arg(&place).args(["sh", "/script"]);
        run(script)
    })
}

/// What must lie in a package.
const PARTS: [&str; 7] = [
    "./usr/bin/nandu",
    "./usr/lib/systemd/system/nandu@.service",
    "./usr/share/man/man1/nandu.1.gz",
    "./usr/share/man/man1/nandu-serve.1.gz",
    "./usr/share/bash-completion/completions/nandu",
    "./usr/share/doc/nandu/copyright",
    "./etc/nandu/",
];

/// A package has its parts, for everybody to read.
fn is_whole(package: &Path) -> Result<(), String> {
    let mut contents = command("dpkg-deb --contents");
    contents.arg(package);
    let contents = said(contents)?;
    for part in PARTS {
        let line = contents.lines().find(|line| line.ends_with(&format!(" {part}")));
        let line = line.ok_or_else(|| format!("{}: {part} is not in it", package.display()))?;
        if line.as_bytes().get(7) != Some(&b'r') || !line.contains("root/root") {
            return Err(format!("{}: {line}", package.display()));
        }
    }
    Ok(())
}

/// Packages that the binary is made of, as `cargo metadata` has them.
fn parts() -> Result<Vec<Json>, String> {
    let mut tree = command(
        "cargo tree --package nandu-cli --edges normal,build --prefix none --format {p} --locked --offline",
    );
    tree.args(WITH_TLS);
    let tree = said(tree)?;
    let names = |line: &str| {
        let mut words = line.split_whitespace();
        Some(format!("{} {}", words.next()?, words.next()?.strip_prefix('v')?))
    };
    let used: std::collections::BTreeSet<String> = tree.lines().filter_map(names).collect();
    let mut metadata = command(
        "cargo metadata --format-version 1 --offline --locked --features nandu-cli/tls --filter-platform",
    );
    metadata.arg(host());
    let metadata = parse(&said(metadata)?)?;
    let full = |package: &Json| format!("{} {}", package.get("name").text(), package.get("version").text());
    let mut parts: Vec<Json> = metadata
        .get("packages")
        .list()
        .iter()
        .filter(|package| used.contains(&full(package)))
        .cloned()
        .collect();
    parts.sort_by_key(full);
    Ok(parts)
}

/// The licence of each package, with the texts that it comes with.
fn licences(out: &Path) -> Result<(), String> {
    let mut text = String::from("What the program nandu is made of, and under which licences.\n");
    for part in parts()?.iter().filter(|part| *part.get("source") != Json::Null) {
        text += &format!(
            "\n{}\n{} {}: {}\n",
            "=".repeat(80),
            part.get("name").text(),
            part.get("version").text(),
            part.get("license").text()
        );
        let folder =
            Path::new(part.get("manifest_path").text()).parent().unwrap_or(Path::new("")).to_path_buf();
        for file in list(&folder).iter().filter(|file| is_licence(file)) {
            let own = fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
            text += &format!(
                "\n--- {}\n\n{}",
                file.file_name().unwrap_or_default().to_string_lossy(),
                String::from_utf8_lossy(&own)
            );
        }
    }
    write(&out.join("LICENCES.txt"), &text)
}

fn is_licence(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
    file.is_file()
        && ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"]
            .iter()
            .any(|word| name.starts_with(word))
}

/// The list of packages in the form of CycloneDX, with the checksums of the lock file.
fn materials(out: &Path) -> Result<(), String> {
    let lock = read(&root().join("Cargo.lock"))?;
    let parts: Vec<String> = parts()?.iter().map(|part| component(part, &lock)).collect();
    let version = version()?;
    let text = format!(
        "{{\n\"bomFormat\": \"CycloneDX\",\n\"specVersion\": \"1.5\",\n\"version\": 1,\n\"metadata\": {{\"component\": {{\"type\": \"application\", \"name\": \"nandu\", \
         \"version\": \"{version}\"}}}},\n\"components\": [\n{}\n]\n}}\n",
        parts.join(",\n")
    );
    parse(&text)?;
    write(&out.join("nandu.cdx.json"), &text)
}

fn component(part: &Json, lock: &str) -> String {
    let (name, version) = (part.get("name").text(), part.get("version").text());
    let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
    let checksum = lock.split_once(&entry).and_then(|(_, rest)| {
        rest.split("\n\n")
            .next()?
            .lines()
            .find_map(|line| line.strip_prefix("checksum = \"")?.strip_suffix('"'))
    });
    let hashes = checksum.map_or_else(String::new, |sum| {
        format!(", \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": \"{sum}\"}}]")
    });
    // Some packages still write a slash for `OR`.
    let licence = part.get("license").text().replace('/', " OR ").replace("  ", " ");
    format!(
        "{{\"type\": \"library\", \"name\": \"{name}\", \"version\": \"{version}\", \"purl\": \"pkg:cargo/{name}@{version}\", \
         \"licenses\": [{{\"expression\": \"{licence}\"}}]{hashes}}}"
    )
}

/// Two builds of the last commit, in folders of unlike depth, each with a cargo home of its own.
fn same_bytes(out: &Path) -> End {
    let place = target_dir().join("same-bytes");
    let _ = fs::remove_dir_all(&place);
    let places = ["a", "another/folder/deeper"].map(|folder| place.join(folder));
    // Both are cloned before one is built: what is committed meanwhile would be a difference.
    for folder in &places {
        let mut git = command("git clone --quiet --depth 1");
        git.arg(format!("file://{}", root().display())).arg(folder.join("nandu"));
        if let End::Failed(why) = run(git) {
            return End::Failed(why);
        }
    }
    let mut sums = Vec::new();
    for folder in &places {
        let (clone, home) = (folder.join("nandu"), folder.join("cargo"));
        let mut build = command("cargo build --quiet --locked --profile dist --package nandu-cli");
        let maps = [format!("{}=/nandu", clone.display()), format!("{}=/cargo", home.display())];
        let flags: Vec<String> = maps.iter().map(|map| format!("--remap-path-prefix={map}")).collect();
        let c_flags: Vec<String> = maps.iter().map(|map| format!("-ffile-prefix-map={map}")).collect();
        build
            .args(WITH_TLS)
            .current_dir(&clone)
            .env("CARGO_HOME", &home)
            .env("CARGO_TARGET_DIR", clone.join("target"));
        build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}")).env("CFLAGS", c_flags.join(" "));
        if let End::Failed(why) = run(build) {
            return End::Failed(why);
        }
        let mut sum = Command::new("sha256sum");
        sum.arg(clone.join("target/dist/nandu"));
        match said(sum) {
            Ok(text) => sums.push(text.split_whitespace().next().unwrap_or_default().to_string()),
            Err(why) => return End::Failed(why),
        }
    }
    match sums.as_slice() {
        [one, two] if one == two => write(&out.join("nandu.sha256"), &format!("{one}  nandu\n")).into(),
        _ => End::Failed(format!("the builds differ: {}", sums.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_its_checksum_and_a_licence_in_the_form_of_today() {
        let part =
            parse(r#"{"name": "a", "version": "1.2", "license": "MIT/Apache-2.0"}"#).expect("it is JSON");
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.2\"\nsource = \"x\"\nchecksum = \"ab\"\n\n[[package]]\nname = \"b\"\nversion = \"1\"\nchecksum = \"cd\"\n";
        let text = component(&part, lock);
        let read = parse(&text).expect("it is JSON");
        assert_eq!(read.get("hashes").list()[0].get("content").text(), "ab");
        assert_eq!(read.get("licenses").list()[0].get("expression").text(), "MIT OR Apache-2.0");
        assert!(!component(&part, "").contains("hashes"));
    }

    #[test]
    fn the_service_manager_takes_the_unit() {
        match unit() {
            End::Passed => {}
            End::Skipped(why) => eprintln!("skip: {why}"),
            End::Failed(why) => panic!("{why}"),
        }
    }

    #[test]
    fn the_version_is_that_of_the_workspace() {
        assert!(version().expect("it is there").split('.').count() == 3);
    }
}

//! The module that cargo built is one that Python can load. What it does is tested in Python: `cargo xtask test --only python`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The module beside this test program.
fn module() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its file");
    let deps = own.parent().expect("it lies in a folder");
    let ending = if cfg!(target_os = "macos") { "dylib" } else { "so" };
    let name = format!("lib_nandu.{ending}");
    [deps, deps.parent().expect("it lies in a profile")]
        .iter()
        .map(|folder| folder.join(&name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("cargo builds {name} for this test"))
}

#[test]
fn python_loads_the_module_and_runs_a_stack() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: python3 is not installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let package = folder.path().join("nandu");
    std::fs::create_dir(&package).expect("a folder in it");
    for file in Path::new("nandu").read_dir().expect("the sources").flatten() {
        if file.path().is_file() {
            std::fs::copy(file.path(), package.join(file.file_name())).expect("a copy");
        }
    }
    std::fs::copy(module(), package.join("_nandu.abi3.so")).expect("a copy");
    let program = "import nandu\n\
                   load = nandu.Trace.generator('mixed-zipf', requests=1000)\n\
                   print(nandu.run('small-ssd', load, fit='wrap', extend=0)['total']['total_ios'])";
    let done = Command::new("python3")
        .args(["-c", program])
        // With `-c` what lies in the folder comes first: here that is the package without its module.
        .current_dir(folder.path())
        .env("PYTHONPATH", folder.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 is there");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(String::from_utf8_lossy(&done.stdout), "1000\n", "{said}");
}

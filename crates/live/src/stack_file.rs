//! The stack file of a running server, when a leg has moved to another file or a device has grown: the new path or size is put in the place of the old
//! one, and the file as it was stays beside it under the time of the change. Comments and order stay; who reads the file at any moment finds the old or the new one.

use crate::backend::file::sync_name;
use nandu_base::ByteLen;
use nandu_stack::StackFile;
use nandu_stack::load::{with_leg_added, with_text_at};
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Writes `leg` as the path of device `device`. Returns where the file as it was is kept.
///
/// # Errors
/// Why the file stays as it is.
pub(crate) fn move_leg(stack_file: &Path, device: &str, leg: &Path) -> Result<PathBuf, String> {
    rewrite(stack_file, |text, shown| {
        let leg =
            leg.to_str().ok_or_else(|| format!("{shown}: a name that is not UTF-8 cannot stand in it"))?;
        with_text_at(text, &["device", device, "path"], leg)
            .ok_or_else(|| format!("{shown}: no `device.{device}.path` stands in it"))
    })
}

/// Writes `leg` as one more leg of `device`, with `table` for its options. Returns where the file as it was is kept.
///
/// # Errors
/// Why the file stays as it is.
pub(crate) fn add_leg(
    stack_file: &Path,
    device: &str,
    leg: &str,
    table: toml::Table,
) -> Result<PathBuf, String> {
    rewrite(stack_file, |text, shown| {
        with_leg_added(text, device, leg, table)
            .ok_or_else(|| format!("{shown}: no `device.{device}.legs` stands in it"))
    })
}

/// Writes the sizes of devices, where it has any: one without is as large as its file. Returns where the file as it was is kept, if it
/// has changed.
///
/// # Errors
/// Why the file stays as it is.
pub fn set_sizes(stack_file: &Path, sizes: &[(String, ByteLen)]) -> Result<Option<PathBuf>, String> {
    let mut any = false;
    let set = |text: &str, shown: &str| {
        let mut text = text.to_string();
        for (device, size) in sizes {
            let now = with_text_at(&text, &["device", device, "size"], &size.exact());
            any |= now.is_some();
            text = now.unwrap_or(text);
        }
        if any { Ok(text) } else { Err(format!("{shown}: it says no sizes")) }
    };
    match rewrite(stack_file, set) {
        Ok(copy) => Ok(Some(copy)),
        Err(_) if !any && stack_file.is_file() => Ok(None),
        Err(why) => Err(why),
    }
}

fn rewrite(
    stack_file: &Path,
    change: impl FnOnce(&str, &str) -> Result<String, String>,
) -> Result<PathBuf, String> {
    let shown = stack_file.display().to_string();
    let failed = |error: io::Error| format!("{shown}: {error}");
    // A link stays one.
    let stack_file = &std::fs::canonicalize(stack_file).map_err(failed)?;
    let text = std::fs::read_to_string(stack_file).map_err(failed)?;
    let moved = change(&text, &shown)?;
    StackFile::parse(&moved, &shown).map_err(|error| error.to_string())?;
    let beside = |end: &str| {
        let mut name = stack_file.clone().into_os_string();
        name.push(format!(".{end}"));
        PathBuf::from(name)
    };
    let permissions = std::fs::metadata(stack_file).map_err(failed)?.permissions();
    let copy = beside(&crate::wall::rfc3339(SystemTime::now()));
    let next = beside("new");
    put(&copy, &text, permissions.clone()).map_err(|error| format!("{}: {error}", copy.display()))?;
    let _ = std::fs::remove_file(&next); // a crash left it
    let replaced = put(&next, &moved, permissions).and_then(|()| std::fs::rename(&next, stack_file));
    replaced.map_err(|error| {
        let _ = std::fs::remove_file(&copy); // it says nothing that the stack file does not say
        format!("{}: {error}", next.display())
    })?;
    sync_name(stack_file).map_err(failed)?;
    Ok(copy)
}

/// Makes a file that is not there yet, durably.
fn put(path: &Path, text: &str, permissions: Permissions) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(permissions))
        .and_then(|()| file.sync_all());
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(path); // half of a file is none
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const TEXT: &str = "# ours\n[export.e]\ndevice = \"a\"\n[device.a]\nkind = \"file\" # fast\npath = \"a.img\"\nsize = 4096\n";

    #[test]
    fn the_path_changes_and_the_file_as_it_was_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("s.toml");
        std::fs::write(&file, TEXT).expect("it is ours");
        std::fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("it is ours");
        std::fs::write(dir.path().join("s.toml.new"), "half of").expect("it is ours");
        std::os::unix::fs::symlink(&file, dir.path().join("link.toml")).expect("it is ours");
        let link = dir.path().join("link.toml");
        let copy = move_leg(&link, "a", Path::new("/new.img")).expect("it can be written");
        assert!(link.is_symlink());
        let read = |path: &Path| std::fs::read_to_string(path).expect("it is there");
        assert_eq!(read(&copy), TEXT);
        assert_eq!(read(&file), TEXT.replace("a.img", "/new.img"));
        for path in [&file, &copy] {
            let mode = std::fs::metadata(path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
        }
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 3);
    }

    #[test]
    fn sizes_are_written_where_there_are_some() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("s.toml");
        std::fs::write(&file, TEXT).expect("it is ours");
        let sizes = [("a".to_string(), ByteLen(8192)), ("b".to_string(), ByteLen(4096))];
        let copy = set_sizes(&file, &sizes).expect("it can be written").expect("it has changed");
        let read = |path: &Path| std::fs::read_to_string(path).expect("it is there");
        let now = TEXT.replace("size = 4096", &format!("size = \"{}\"", ByteLen(8192).exact()));
        assert_eq!((read(&file), read(&copy)), (now, TEXT.into()));
        assert_eq!(set_sizes(&file, &sizes[1..]), Ok(None), "nothing says how large `b` is");
        assert!(set_sizes(&dir.path().join("none"), &sizes).is_err());
    }

    #[test]
    fn a_file_that_cannot_be_changed_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("s.toml");
        std::fs::write(&file, TEXT).expect("it is ours");
        let no = move_leg(&file, "b", Path::new("/new.img")).expect_err("there is no b");
        assert!(no.contains("no `device.b.path` stands in it"), "{no}");
        std::fs::create_dir(dir.path().join("s.toml.new")).expect("a directory");
        let no = move_leg(&file, "a", Path::new("/new.img")).expect_err("the place is taken");
        assert!(no.contains("s.toml.new"), "{no}");
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), TEXT);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 2);
        assert!(move_leg(&dir.path().join("none"), "a", Path::new("x")).is_err());
    }
}

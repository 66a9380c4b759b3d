//! Files of the checkout and below the target folder: read, written, listed and named, with errors that name the file.

use crate::steps::root;
use std::fs;
use std::path::{Path, PathBuf};

/// A path from the root of the checkout on.
pub fn below(path: &Path) -> &Path {
    path.strip_prefix(root()).unwrap_or(path)
}

/// The same, for messages.
pub fn shown(path: &Path) -> String {
    below(path).display().to_string()
}

/// The text of a file.
pub fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", shown(path)))
}

/// Writes a file, with the folders that lead to it.
pub fn write(path: &Path, text: &str) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text)).map_err(|error| format!("{}: {error}", shown(path)))
}

/// Puts text between the line `<!-- NAME -->` of a page and the line that ends it.
pub fn put_between(page: &str, name: &str, text: &str) -> Result<(), String> {
    let (path, begin, end) = (root().join(page), format!("<!-- {name} -->"), "<!-- end -->");
    let old = read(&path)?;
    let parts = old.split_once(&begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("{page} has no lines `{begin}` and `{end}`"))?;
    write(&path, &format!("{head}{begin}\n{text}{end}{tail}"))
}

/// Copies a file, with the folders that lead to the copy.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::copy(from, to)).map(drop).map_err(|error| format!("{}: {error}", shown(from)))
}

/// What lies in a folder, by name; nothing where there is none.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect();
    out.sort();
    out
}

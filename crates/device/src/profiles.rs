//! Profiles that ship with the program, of chips and of disks: texts that are read once, and found by name.

use nandu_base::BuildError;
use serde::de::DeserializeOwned;

/// Reads the profiles of these texts.
pub(crate) fn read<P: DeserializeOwned>(texts: &[&str]) -> Vec<P> {
    texts.iter().map(|text| toml::from_str(text).expect("a profile that ships is well formed")).collect()
}

/// The profile of this name.
///
/// # Errors
/// There is none: names those that there are, and the nearest.
pub(crate) fn named<P: Clone>(all: &[P], name: &str, name_of: impl Fn(&P) -> &str) -> Result<P, BuildError> {
    all.iter().find(|profile| name_of(profile) == name).cloned().ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(&name_of).collect();
        let near = nandu_base::registry::nearest(name, names.iter().copied());
        let hint = near.map_or_else(String::new, |n| format!("; did you mean `{n}`?"));
        BuildError::at("profile", format!("no profile `{name}`; there are {}{hint}", names.join(", ")))
    })
}

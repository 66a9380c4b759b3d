//! Options and words of commands that had another name in the version before: they are taken as the new ones, with a note, for one version.
//!
//! One list for the command line, for `[load]` of sweep files, for the library and for Python: the keys of a load are the options of `nandu run` with
//! underscores. Options of stack files have a list of their own in `nandu_stack`, words of the control socket in `nandu_live`. Cost: a look through
//! the list for each word of a command line.

/// Options: the commands that have it, what it was called and what it is called.
pub const OPTIONS: &[(&[&str], &str, &str)] = &[
    (&["run", "compare", "sweep", "advise"], "--closed", "--iodepth"),
    (LOADS, "--rate", "--rate-iops"),
    (LOADS, "--cap", "--max-outstanding"),
    (LOADS, "--warm-up", "--warmup"),
    (&["run"], "--alone", "--slowdown"),
    (&["run"], "--lanes", "--timeline"),
    (&["run"], "--log", "--request-log"),
    (&["sweep"], "--skip-impossible", "--skip-invalid"),
    (&["verify"], "--acknowledged", "--durable-acks"),
    (&["verify"], "--log", "--print-requests"),
    (&["verify"], "--plant", "--inject-bug"),
    (&["reproduce"], "--recorded", "--trace"),
    (&["serve"], "--alone", "--force-degraded"),
];

/// Commands that replay a load.
const LOADS: &[&str] = &["run", "compare", "sweep"];

/// Words of `nandu list`: what each was called and what it is called.
pub const LISTS: &[(&str, &str)] = &[("machines", "devices"), ("plants", "bugs"), ("figures", "metrics")];

/// Keys of a sweep file: the table that they lie in, empty for that of the file, what each was called and what it is called.
pub const SWEEP_KEYS: &[(&str, &str, &str)] =
    &[("axis", "knob", "parameter"), ("", "skip_impossible", "skip_invalid")];

/// What the option `old` of `command` is called, both with their dashes; nothing where it has its name.
pub fn option(command: &str, old: &str) -> Option<&'static str> {
    let found = OPTIONS.iter().find(|(commands, was, _)| *was == old && commands.contains(&command));
    found.map(|(_, _, new)| *new)
}

/// What the list `old` of `nandu list` is called; nothing where it has its name.
pub fn list(old: &str) -> Option<&'static str> {
    LISTS.iter().find(|(was, _)| *was == old).map(|(_, new)| *new)
}

/// What the key `old` of a load is called: the options that all of its commands have, with underscores. Nothing where it has its name.
pub fn key(old: &str) -> Option<String> {
    let key = |option: &str| option.trim_start_matches('-').replace('-', "_");
    let of_loads = |commands: &[&str]| LOADS.iter().all(|command| commands.contains(command));
    let found = OPTIONS.iter().find(|(commands, was, _)| of_loads(commands) && key(was) == old);
    found.map(|(_, _, new)| key(new))
}

/// What a user of the name `old` is told.
pub fn note(old: &str, new: &str) -> String {
    format!("`{old}` is now called `{new}`; the old name goes with the next version")
}

/// Notes for the names in a sweep file that had another before; the file itself is read with both.
pub fn in_sweep_file(text: &str) -> Vec<String> {
    // What is no TOML is refused with its place by whoever reads it.
    let Ok(root) = text.parse::<toml::Table>() else { return Vec::new() };
    let has = |within: &str, key: &str| match root.get(within) {
        _ if within.is_empty() => root.contains_key(key),
        Some(toml::Value::Array(tables)) => tables.iter().any(|table| table.get(key).is_some()),
        _ => false,
    };
    let old = SWEEP_KEYS.iter().filter(|(within, old, _)| has(within, old));
    old.map(|(_, old, new)| note(old, new)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::KEYS;

    #[test]
    fn an_option_is_renamed_where_its_command_has_it() {
        assert_eq!(option("run", "--closed"), Some("--iodepth"));
        assert_eq!(option("run", "--log"), Some("--request-log"));
        assert_eq!(option("verify", "--log"), Some("--print-requests"));
        assert_eq!(option("serve", "--log"), None);
        assert_eq!(
            (option("serve", "--alone"), option("run", "--alone")),
            (Some("--force-degraded"), Some("--slowdown"))
        );
        assert_eq!(list("plants"), Some("bugs"));
    }

    /// A name that is mistyped in the list would be an unknown option.
    #[test]
    fn every_new_key_of_a_load_is_one() {
        for old in ["closed", "rate", "cap", "warm_up"] {
            let new = key(old).unwrap_or_else(|| panic!("{old} has no new name"));
            assert!(KEYS.contains(&new.as_str()) && !KEYS.contains(&old), "{old}: {new}");
        }
        assert_eq!((key("iodepth"), key("log"), key("trace")), (None, None, None));
    }

    #[test]
    fn every_old_key_of_a_sweep_file_is_read_as_the_new_one() {
        let axis = |key: &str| format!("[[axis]]\n{key} = \"device.a.b\"\nvalues = [1]\n");
        let file = |skip: &str, key: &str| format!("stack = \"s\"\n{skip} = true\n{}", axis(key));
        let (old, new) = (file("skip_impossible", "knob"), file("skip_invalid", "parameter"));
        let read = |text: &str| nandu_sweep::SweepFile::parse(text, "s").map(|file| format!("{file:?}"));
        assert_eq!(read(&old).expect("a sweep file"), read(&new).expect("a sweep file"));
        let notes = in_sweep_file(&old);
        assert_eq!(notes, [note("knob", "parameter"), note("skip_impossible", "skip_invalid")]);
        assert!(in_sweep_file(&new).is_empty());
    }
}

//! Keys that had another name in the version before, and values that had another form: they are read as the new ones, with a note, for one
//! version.
//!
//! The name is changed as soon as a file or an override is read, so that an override of either name reaches the same key, and the
//! hash of a stack is that of its present names. A table that has both names keeps both: the old one is then an unknown key.

use super::tree::{Data, Entry, Node};
use toml::Value;

/// A key of a device: what it was called and what it is called.
struct Renamed {
    old: &'static str,
    new: &'static str,
    /// What a reader should know beside the name.
    meaning: &'static str,
}

const DEVICE: [Renamed; 2] = [
    Renamed {
        old: "over_provisioning",
        new: "spare_factor",
        meaning: "the value stays: spare / raw; vendors' over-provisioning is spare / user",
    },
    Renamed {
        old: "arbiter",
        new: "die_scheduler",
        meaning: "the value stays; an arbiter is what chooses among the submission queues of NVMe",
    },
];

fn of_device(key: &str) -> Option<&'static Renamed> {
    DEVICE.iter().find(|renamed| renamed.old == key)
}

/// Keys of a device whose policies with options were written `{ hot = { hits = 3 } }`, and the policies; now `{ kind = "hot", hits = 3 }` as
/// everywhere.
const BY_KIND: [(&str, &[&str]); 2] = [("promote", &["hot"]), ("rewrite", &["pinned"])];

/// Whether `policy` was written as a key in the table `key` of a device.
fn was_a_key(key: &str, policy: &str) -> bool {
    BY_KIND.iter().any(|(known, policies)| *known == key && policies.contains(&policy))
}

fn note_of_kind(device: &str, key: &str, policy: &str) -> String {
    format!(
        "device.{device}.{key} is now written `{{ kind = \"{policy}\", ... }}`; the old form goes with the next version"
    )
}

/// Gives the value of `key` its present form; the policy it names when it had another.
fn by_kind(key: &str, value: &mut Node) -> Option<String> {
    let Data::Table(entries) = &mut value.data else { return None };
    let [Entry { key: policy, node: Node { data: Data::Table(options), origin }, .. }] =
        entries.as_mut_slice()
    else {
        return None;
    };
    if !was_a_key(key, policy) {
        return None;
    }
    let policy = policy.clone();
    let kind = Node { origin: *origin, data: Data::Scalar(Value::String(policy.clone())) };
    let mut options = std::mem::take(options);
    options.insert(0, Entry { key: "kind".into(), origin: *origin, node: kind });
    *entries = options;
    Some(policy)
}

impl Renamed {
    fn note(&self, device: &str) -> String {
        let Renamed { old, new, meaning } = self;
        format!(
            "device.{device}.{old} is now called `{new}` ({meaning}); the old name goes with the next version"
        )
    }
}

/// Gives the keys of the devices in `root` their present names. Returns a note for each that had another.
pub(super) fn in_file(root: &mut Node) -> Vec<String> {
    let mut notes = Vec::new();
    let Data::Table(sections) = &mut root.data else { return notes };
    let devices = sections.iter_mut().filter(|section| section.key == "device");
    for section in devices {
        let Data::Table(devices) = &mut section.node.data else { continue };
        for device in devices {
            let Data::Table(keys) = &mut device.node.data else { continue };
            for at in 0..keys.len() {
                if let Some(renamed) = of_device(&keys[at].key)
                    && !keys.iter().any(|other| other.key == renamed.new)
                {
                    keys[at].key = renamed.new.into();
                    notes.push(renamed.note(&device.key));
                }
                let Entry { key, node, .. } = &mut keys[at];
                notes.extend(by_kind(key, node).map(|policy| note_of_kind(&device.key, key, &policy)));
            }
        }
    }
    notes
}

/// The value of an override at `keys` in its present form, and a note where it had another.
pub(super) fn in_value(keys: &[&str], value: &mut Node) -> Option<String> {
    let ["device", device, key] = keys else { return None };
    by_kind(key, value).map(|policy| note_of_kind(device, key, &policy))
}

/// The parts of a dotted path under their present names, and a note where one had another.
pub(super) fn in_path(path: &str) -> (Vec<&str>, Option<String>) {
    let mut keys: Vec<&str> = path.split('.').collect();
    if let ["device", device, key, policy, _] = *keys.as_slice()
        && was_a_key(key, policy)
    {
        keys.remove(3);
        return (keys, Some(note_of_kind(device, key, policy)));
    }
    let renamed = match keys.as_slice() {
        ["device", _, key, ..] => of_device(key),
        _ => None,
    };
    let note = renamed.map(|renamed| {
        keys[2] = renamed.new;
        renamed.note(keys[1])
    });
    (keys, note)
}

#[cfg(test)]
mod tests {
    use crate::{Stack, StackFile, builtin};

    fn text(key: &str) -> String {
        format!(
            "[export.a]\ndevice = \"m\"\n[device.m]\nkind = \"ssd\"\nprofile = \"slc-2015\"\nblocks = 64\n\
             pages_per_block = 16\n{key} = 0.25\n"
        )
    }

    fn load(file: StackFile) -> Stack {
        file.load(&builtin()).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn the_old_name_is_the_new_one_with_a_note() {
        let old = StackFile::parse(&text("over_provisioning"), "s").unwrap();
        let new = StackFile::parse(&text("spare_factor"), "s").unwrap();
        assert!(!old.to_text().contains("over_provisioning"));
        let (old, new) = (load(old), load(new));
        assert_eq!((old.hash_long(), new.notes.len()), (new.hash_long(), 0));
        assert!(old.notes[0].starts_with("device.m.over_provisioning is now called `spare_factor`"));
    }

    #[test]
    fn overrides_of_either_name_reach_one_key() {
        for inside in ["over_provisioning", "spare_factor"] {
            for path in ["device.m.over_provisioning", "device.m.spare_factor"] {
                let file = StackFile::parse(&text(inside), "s").unwrap().with_set(path, "0.5").unwrap();
                let lines: Vec<String> =
                    file.to_text().lines().filter(|l| l.contains("0.")).map(str::to_string).collect();
                assert_eq!(lines, ["spare_factor = 0.5"]);
                assert!(!file.without(path).unwrap().to_text().contains("spare_factor"));
            }
        }
    }

    #[test]
    fn what_is_inside_a_renamed_key_is_reached_by_either_name() {
        let text = format!("{}arbiter = {{ kind = \"queued\" }}\n", text("spare_factor"));
        for path in ["device.m.arbiter.reads_ahead", "device.m.die_scheduler.reads_ahead"] {
            let file = StackFile::parse(&text, "s").unwrap().with_set(path, "3").unwrap();
            let said = file.to_text();
            assert!(
                said.contains("die_scheduler") && said.contains("reads_ahead") && !said.contains("arbiter")
            );
            assert!(load(file).notes[0].starts_with("device.m.arbiter is now called `die_scheduler`"));
        }
    }

    #[test]
    fn a_policy_that_was_a_key_is_read_as_its_kind() {
        let text = |promote: &str| {
            format!(
                "[export.a]\ndevice = \"h\"\n[device.h]\nkind = \"hybrid\"\nslc = \"s\"\ndisk = \"d\"\n{promote}\n\
                 [device.s]\nkind = \"memory\"\nsize = \"16 MiB\"\n[device.d]\nkind = \"memory\"\nsize = \"64 MiB\"\n"
            )
        };
        let parse = |promote: &str| StackFile::parse(&text(promote), "s").unwrap();
        let new = load(parse("promote = { kind = \"hot\", hits = 3 }"));
        assert!(new.notes.is_empty(), "{:?}", new.notes);
        let by_value = parse("").with_set("device.h.promote", "{ hot = { hits = 3 } }").unwrap();
        let by_path = parse("promote = { hot = { hits = 9 } }").with_set("device.h.promote.hot.hits", "3");
        for old in [parse("promote = { hot = { hits = 3 } }"), by_value, by_path.unwrap()] {
            let old = load(old);
            assert_eq!(old.hash_long(), new.hash_long());
            assert!(
                old.notes[0].starts_with("device.h.promote is now written `{ kind = \"hot\""),
                "{:?}",
                old.notes
            );
        }
    }

    #[test]
    fn a_table_with_both_names_is_wrong() {
        let both = format!("{}over_provisioning = 0.3\n", text("spare_factor"));
        let error =
            StackFile::parse(&both, "s").unwrap().load(&builtin()).err().expect("two names of one key");
        assert!(error.to_string().starts_with("s:9:1: unknown key `over_provisioning`"), "{error}");
    }
}

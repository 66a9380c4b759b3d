//! Keys that had another name in the version before: they are read under the new one, with a note, for one version.
//!
//! The name is changed as soon as a file or an override is read, so that an override of either name reaches the same key, and the
//! hash of a stack is that of its present names. A table that has both names keeps both: the old one is then an unknown key.

use super::tree::{Data, Node};

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
            }
        }
    }
    notes
}

/// The parts of a dotted path under their present names, and a note where one had another.
pub(super) fn in_path(path: &str) -> (Vec<&str>, Option<String>) {
    let mut keys: Vec<&str> = path.split('.').collect();
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
    fn a_table_with_both_names_is_wrong() {
        let both = format!("{}over_provisioning = 0.3\n", text("spare_factor"));
        let error =
            StackFile::parse(&both, "s").unwrap().load(&builtin()).err().expect("two names of one key");
        assert!(error.to_string().starts_with("s:9:1: unknown key `over_provisioning`"), "{error}");
    }
}

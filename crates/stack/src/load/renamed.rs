//! Keys that had another name in the version before, words that were others, and values that had another form: they are read as the new ones,
//! with a note, for one version.
//!
//! A name is changed as soon as a file or an override is read, so that an override of either name reaches the same key, and the
//! hash of a stack is that of its present names. A table that has both names keeps both: the old one is then an unknown key. What a key is called
//! depends on the kind of its device and on the table that it lies in: one list for files, overrides, axes of sweeps and Python.

use super::tree::{Data, Entry, Node};
use std::sync::LazyLock;
use toml::Value;

/// Keys of some kinds of devices: what each was called and what it is called.
struct Keys {
    kinds: &'static [&'static str],
    /// The table that they lie in, a dotted path of present names; empty for that of the device.
    within: &'static str,
    names: &'static [(&'static str, &'static str)],
}

const KEYS: &[Keys] = &[
    Keys {
        kinds: &["ssd"],
        within: "",
        names: &[
            ("over_provisioning", "spare_factor"),
            ("arbiter", "die_scheduler"),
            ("chips", "chips_per_channel"),
            ("dies", "dies_per_chip"),
            ("planes", "planes_per_die"),
            ("blocks", "blocks_per_plane"),
            ("channel_bytes_per_second", "channel_bandwidth"),
            ("checkpoint", "checkpoint_interval"),
            ("unit", "reclaim_unit"),
            ("placement", "allocation_order"),
            ("tenant_slots", "max_tenants"),
            ("tenant_trigger", "tenant_gc_threshold"),
        ],
    },
    Keys {
        kinds: &["ssd", "flash"],
        within: "",
        names: &[
            ("page", "page_size"),
            ("read", "read_latency"),
            ("program", "program_latency"),
            ("erase", "erase_latency"),
        ],
    },
    Keys { kinds: &["flash"], within: "", names: &[("bits", "bits_per_cell"), ("blocks", "blocks_per_die")] },
    Keys {
        kinds: &["flash"],
        within: "areas",
        names: &[
            ("read", "read_latency"),
            ("program", "program_latency"),
            ("bits", "bits_per_cell"),
            ("blocks", "blocks_per_die"),
        ],
    },
    Keys {
        kinds: &["ssd"],
        within: "die_scheduler",
        names: &[
            ("reads_ahead", "max_read_bypass"),
            ("scheduler", "tenant_scheduler"),
            ("suspension", "suspend"),
        ],
    },
    Keys {
        kinds: &["ssd"],
        within: "gc",
        names: &[
            ("start", "threshold"),
            ("urgent", "hard_threshold"),
            ("pace", "mode"),
            ("separate", "separate_frontier"),
            ("background", "idle_free_target"),
            ("idle_gain", "idle_min_invalid"),
            ("window", "window_blocks"),
        ],
    },
    Keys {
        kinds: &["ssd"],
        within: "isolation",
        names: &[
            ("beta", "contribution"),
            ("beta_most", "contribution_max"),
            ("give_back", "return_policy"),
            ("keep", "reserve_min"),
            ("limit", "borrow_limit"),
            ("most_valid", "victim_valid_max"),
            ("return_after", "return_idle_after"),
            ("return_below", "return_pool_below"),
        ],
    },
    Keys {
        kinds: &["ssd"],
        within: "mapping",
        names: &[
            ("protected", "protected_share"),
            ("ram", "cmt_size"),
            ("write_back", "eviction_write"),
            ("open", "replacement_blocks"),
            ("borrow", "use_free_blocks"),
            ("sequential", "sequential_log_block"),
            ("clean_first", "clean_first_window"),
        ],
    },
    Keys {
        kinds: &["ssd"],
        within: "slc_cache",
        names: &[
            ("read", "read_latency"),
            ("program", "program_latency"),
            ("erase", "erase_latency"),
            ("fold_from", "fold_start"),
            ("fold_to", "fold_stop"),
        ],
    },
    Keys {
        kinds: &["ssd"],
        within: "streams",
        names: &[("decay", "decay_interval"), ("open", "max_open_blocks")],
    },
    Keys {
        kinds: &["ssd"],
        within: "wear",
        names: &[
            ("every", "static_wl_interval"),
            ("spread", "static_wl_threshold"),
            ("order", "free_block_order"),
            ("variation", "endurance_variation"),
        ],
    },
    Keys {
        kinds: &["ssd"],
        within: "write_buffer",
        names: &[
            ("at_once", "max_programs"),
            ("keep", "dirty_share"),
            ("keep_for", "dirty_expire"),
            ("link_bytes_per_second", "link_bandwidth"),
        ],
    },
    Keys {
        kinds: &["hdd"],
        within: "",
        names: &[
            ("depth", "queue_depth"),
            ("patience", "max_wait"),
            ("queue", "scheduler"),
            ("segment", "cache_segment_size"),
            ("segments", "cache_segments"),
        ],
    },
    Keys { kinds: &["hdd"], within: "spin_down_adaptive", names: &[("least", "min"), ("most", "max")] },
    Keys {
        kinds: &["fault"],
        within: "",
        names: &[
            ("flip", "flip_rate"),
            ("flush_error", "flush_error_rate"),
            ("read_error", "read_error_rate"),
            ("write_error", "write_error_rate"),
        ],
    },
    Keys { kinds: &["fault"], within: "cache", names: &[("destage_every", "destage_interval")] },
    Keys { kinds: &["fault"], within: "freeze", names: &[("span", "duration"), ("mean", "mean_interval")] },
    Keys { kinds: &["fault"], within: "loss", names: &[("back_after", "outage"), ("mean", "mean_interval")] },
    Keys { kinds: &["link"], within: "", names: &[("bytes_per_second", "bandwidth")] },
    Keys {
        kinds: &["integrity"],
        within: "",
        names: &[
            ("block", "block_size"),
            ("cache", "cache_size"),
            ("dirty_regions", "max_dirty_regions"),
            ("clean_after", "bitmap_delay"),
        ],
    },
    Keys {
        kinds: &["mirror", "hetero-mirror"],
        within: "",
        names: &[
            ("active_regions", "max_dirty_regions"),
            ("clear_after", "bitmap_delay"),
            ("fresh", "initial_sync"),
            ("lead", "failback"),
            ("leg_depth", "leg_queue_depth"),
            ("predeclare", "mark_ahead"),
            ("read", "read_policy"),
            ("region", "region_size"),
        ],
    },
    Keys { kinds: &["mirror", "hetero-mirror", "parity"], within: "scrub", names: &[("every", "interval")] },
    Keys {
        kinds: &["hetero-mirror"],
        within: "",
        names: &[
            ("ack", "write_ack"),
            ("delay_queue", "delay_order"),
            ("flush", "flush_scope"),
            ("hold", "write_batching"),
            ("manager", "dispatch"),
            ("wait_floor", "wait_min"),
            ("wait_reading", "wait_ratio_basis"),
        ],
    },
    Keys { kinds: &["parity"], within: "", names: &[("fresh", "initial_sync"), ("journal", "journal_size")] },
    Keys {
        kinds: &["cache"],
        within: "",
        names: &[
            ("block", "block_size"),
            ("segment", "segment_size"),
            ("memory", "size"),
            ("lookup", "index"),
            ("hit_time", "hit_latency"),
            ("list_time", "list_latency"),
            ("max_fill", "max_fill_size"),
            ("refuse_when_busy", "drop_when_busy"),
            ("tell_use", "use_hints"),
        ],
    },
    Keys {
        kinds: &["cache"],
        within: "prefetch",
        names: &[
            ("initial", "window_min"),
            ("most", "window_max"),
            ("ahead", "lookahead"),
            ("segment", "segment_size"),
            ("least", "min_accuracy"),
            ("probe", "probe_interval"),
        ],
    },
    Keys {
        kinds: &["cache"],
        within: "replacement",
        names: &[
            ("line", "granularity"),
            ("l1_most", "l1_max"),
            ("every", "adapt_interval"),
            ("culls", "step_down_max"),
            ("speed", "step_up"),
            ("region", "tail_share"),
        ],
    },
    Keys {
        kinds: &["cache"],
        within: "write",
        names: &[
            ("dirty", "dirty_max"),
            ("after", "dirty_expire"),
            ("depth", "destage_depth"),
            ("unit", "erase_unit"),
        ],
    },
    Keys {
        kinds: &["hybrid"],
        within: "",
        names: &[
            ("ack", "write_ack"),
            ("dram", "dram_size"),
            ("flush_idle", "append_idle"),
            ("flush_share", "append_threshold"),
            ("group", "group_pages"),
            ("page", "page_size"),
            ("reserve", "gc_reserve"),
            ("sequential_bypass", "sequential_cutoff"),
            ("slc_cold", "slc_cold_share"),
            ("mlc_cold", "mlc_cold_share"),
            ("unit", "erase_unit"),
            ("write_back", "append_order"),
        ],
    },
    Keys { kinds: &["queue"], within: "", names: &[("window", "latency_window")] },
    Keys {
        kinds: &["queue"],
        within: "order",
        names: &[("ahead", "max_read_bypass"), ("run", "bundle_max"), ("unit", "erase_unit")],
    },
    Keys {
        kinds: &["queue"],
        within: "cost",
        names: &[
            ("read", "read_4k"),
            ("read_more", "read_per_4k"),
            ("write", "write_4k"),
            ("write_more", "write_per_4k"),
        ],
    },
    Keys {
        kinds: &["queue"],
        within: "scheduler",
        names: &[("near", "close_distance"), ("per_channel", "channel_depth"), ("patience", "anticipation")],
    },
    Keys {
        kinds: &["ssd"],
        within: "die_scheduler.tenant_scheduler",
        names: &[("near", "close_distance"), ("per_channel", "channel_depth"), ("patience", "anticipation")],
    },
    Keys {
        kinds: &["ssd"],
        within: "die_scheduler.suspend",
        names: &[
            ("programs", "max_per_program"),
            ("erases", "max_per_erase"),
            ("suspend", "suspend_latency"),
            ("resume", "resume_latency"),
        ],
    },
];

/// What a reader should know beside the new name.
const MEANINGS: &[(&str, &str)] = &[
    ("over_provisioning", "the value stays: spare / raw; vendors' over-provisioning is spare / user"),
    ("arbiter", "the value stays; an arbiter is what chooses among the submission queues of NVMe"),
];

/// Words that a key takes: what each was called and what it is called.
struct Words {
    kinds: &'static [&'static str],
    /// The key, a dotted path of present names. One that ends in `kind` may be left out of the path, where a policy is named by its word alone.
    at: &'static str,
    names: &'static [(&'static str, &'static str)],
}

const WORDS: &[Words] = &[
    Words { kinds: &["region"], at: "kind", names: &[("region", "flash-area")] },
    Words { kinds: &["ssd"], at: "partial_write", names: &[("ignored", "uncharged")] },
    Words { kinds: &["ssd"], at: "die_scheduler.kind", names: &[("queued", "out-of-order")] },
    Words { kinds: &["ssd"], at: "mapping.kind", names: &[("tpc", "tpc-ftl"), ("page-map", "page")] },
    Words { kinds: &["ssd"], at: "mapping.eviction_write", names: &[("wait", "sync"), ("behind", "async")] },
    Words { kinds: &["ssd"], at: "slc_cache.when_full", names: &[("through", "bypass")] },
    Words { kinds: &["ssd"], at: "wear.free_block_order", names: &[("longest-erased", "fifo")] },
    Words {
        kinds: &["mirror", "hetero-mirror"],
        at: "initial_sync",
        names: &[("copy", "resync"), ("equal", "assume-clean")],
    },
    Words {
        kinds: &["mirror", "hetero-mirror"],
        at: "failback",
        names: &[("last", "manual"), ("first", "immediate")],
    },
    Words {
        kinds: &["mirror", "hetero-mirror"],
        at: "scrub.on_mismatch",
        names: &[("leader", "repair"), ("report", "check")],
    },
    Words { kinds: &["parity"], at: "scrub.on_mismatch", names: &[("data", "repair"), ("report", "check")] },
    Words {
        kinds: &["parity"],
        at: "initial_sync",
        names: &[("compute", "resync"), ("zeros", "assume-clean")],
    },
    Words {
        kinds: &["hetero-mirror"],
        at: "flush_scope",
        names: &[("strict", "all-legs"), ("fast-leg", "leader")],
    },
    Words {
        kinds: &["hetero-mirror"],
        at: "write_batching",
        names: &[("standing", "standby"), ("batches", "always")],
    },
    Words { kinds: &["cache"], at: "index", names: &[("flat", "array"), ("hashed", "hash")] },
    Words {
        kinds: &["cache"],
        at: "write.kind",
        names: &[("through", "writethrough"), ("back", "writeback")],
    },
];

fn now(names: &[(&'static str, &'static str)], old: &str) -> Option<&'static str> {
    names.iter().find(|(was, _)| *was == old).map(|(_, new)| *new)
}

/// What the key `old` in the table `within` of a device is called.
fn key_now(kind: &str, within: &str, old: &str) -> Option<&'static str> {
    let tables = KEYS.iter().filter(|keys| keys.kinds.contains(&kind) && keys.within == within);
    tables.flat_map(|keys| now(keys.names, old)).next()
}

/// What the word `old` of the key at the path `at` of a device is.
fn word_now(kind: &str, at: &str, old: &str) -> Option<&'static str> {
    let fits = |known: &str| {
        known == at || known.strip_suffix("kind").is_some_and(|start| start.strip_suffix('.') == Some(at))
    };
    let keys = WORDS.iter().filter(|words| words.kinds.contains(&kind) && fits(words.at));
    keys.flat_map(|words| now(words.names, old)).next()
}

fn joined(within: &str, key: &str) -> String {
    if within.is_empty() { key.into() } else { format!("{within}.{key}") }
}

/// A device whose keys get their present names.
struct Device<'n> {
    name: &'n str,
    kind: String,
}

impl Device<'_> {
    fn note(&self, within: &str, old: &str, new: &str) -> String {
        let meaning = now(MEANINGS, old).map_or(String::new(), |meaning| format!(" ({meaning})"));
        let key = joined(within, old);
        format!(
            "device.{}.{key} is now called `{new}`{meaning}; the old name goes with the next version",
            self.name
        )
    }

    /// Gives what lies at the path `within` its present names.
    fn settle(&self, within: &str, node: &mut Node, notes: &mut Vec<String>) {
        notes.extend(by_kind(within, node).map(|policy| note_of_kind(self.name, within, &policy)));
        match &mut node.data {
            Data::Table(entries) => {
                let is_theirs = is_from_outside(within, entries);
                for at in 0..entries.len() {
                    let old = &entries[at].key;
                    if !is_theirs
                        && let Some(new) = key_now(&self.kind, within, old)
                        && !entries.iter().any(|other| other.key == new)
                    {
                        notes.push(self.note(within, old, new));
                        entries[at].key = new.into();
                    }
                    let Entry { key, node, .. } = &mut entries[at];
                    self.settle(&joined(within, key), node, notes);
                }
            }
            Data::Array(items) => items.iter_mut().for_each(|item| self.settle(within, item, notes)),
            Data::Scalar(Value::String(word)) => {
                if let Some(new) = word_now(&self.kind, within, word) {
                    let name = self.name;
                    notes.push(format!(
                        "device.{name}.{within} = \"{word}\" is now written \"{new}\"; the old word goes with the next version"
                    ));
                    *word = new.into();
                }
            }
            Data::Scalar(_) => {}
        }
    }
}

/// Tables in which a policy stands with nothing but its options.
const OPEN: [&str; 5] = ["mapping", "replacement", "prefetch", "scheduler", "die_scheduler.tenant_scheduler"];

/// Whether the table at the path `within` of a device is that of a policy which Nandu does not ship: what its options are called is its own affair.
fn is_from_outside(within: &str, table: &[Entry]) -> bool {
    static OURS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let shipped = crate::builtin();
        let old = WORDS.iter().flat_map(|words| words.names.iter().map(|&(old, _)| old));
        shipped.all_policies().iter().map(|policy| policy.name).chain(old).collect()
    });
    let kind = table.iter().find(|entry| entry.key == "kind").map(|entry| &entry.node.data);
    let Some(Data::Scalar(Value::String(kind))) = kind else { return false };
    OPEN.contains(&within) && !OURS.contains(&kind.as_str())
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

/// The kind of the device `name`, by its present word; nothing where there is none.
fn kind_of(root: &Node, name: &str) -> String {
    let device = root.entry("device").and_then(|devices| devices.node.entry(name));
    device.and_then(|device| device.node.text("kind")).unwrap_or_default().into()
}

/// Gives the keys of the devices in `root` their present names. Returns a note for each that had another.
pub(super) fn in_file(root: &mut Node) -> Vec<String> {
    let mut notes = Vec::new();
    let Data::Table(sections) = &mut root.data else { return notes };
    let devices = sections.iter_mut().filter(|section| section.key == "device");
    for section in devices {
        let Data::Table(devices) = &mut section.node.data else { continue };
        for Entry { key, node, .. } in devices {
            let kind = node.text("kind").unwrap_or_default().into();
            Device { name: key, kind }.settle("", node, &mut notes);
        }
    }
    notes
}

/// Gives the value of an override at `keys` its present form. Returns a note for each name that was another.
pub(super) fn in_value(root: &Node, keys: &[&str], value: &mut Node) -> Vec<String> {
    let mut notes = Vec::new();
    if let ["device", name, inside @ ..] = keys {
        Device { name, kind: kind_of(root, name) }.settle(&inside.join("."), value, &mut notes);
    }
    notes
}

/// The parts of a dotted path under their present names, and a note for each that had another.
pub(super) fn in_path<'p>(root: &Node, path: &'p str) -> (Vec<&'p str>, Vec<String>) {
    let mut keys: Vec<&str> = path.split('.').collect();
    let ["device", name, ..] = *keys.as_slice() else { return (keys, Vec::new()) };
    if let [_, _, key, policy, _] = *keys.as_slice()
        && was_a_key(key, policy)
    {
        keys.remove(3);
        return (keys, vec![note_of_kind(name, key, policy)]);
    }
    let device = Device { name, kind: kind_of(root, name) };
    let (mut within, mut notes) = (String::new(), Vec::new());
    let mut table =
        root.entry("device").and_then(|devices| devices.node.entry(name)).map(|device| &device.node);
    for key in keys.iter_mut().skip(2) {
        let is_theirs = table.is_some_and(|table| is_from_outside(&within, table.entries()));
        if !is_theirs && let Some(new) = key_now(&device.kind, &within, key) {
            notes.push(device.note(&within, key, new));
            *key = new;
        }
        within = joined(&within, key);
        table = table.and_then(|table| table.entry(key)).map(|entry| &entry.node);
    }
    (keys, notes)
}

#[cfg(test)]
mod tests {
    use super::{KEYS, WORDS};
    use crate::{Stack, StackFile, builtin};

    fn text(key: &str) -> String {
        format!(
            "[export.a]\ndevice = \"m\"\n[device.m]\nkind = \"ssd\"\nprofile = \"slc-2015\"\nblocks_per_plane = 64\n\
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
                said.contains("die_scheduler")
                    && said.contains("max_read_bypass")
                    && !said.contains("arbiter")
            );
            let notes = load(file).notes;
            assert!(notes[0].starts_with("device.m.arbiter is now called `die_scheduler`"), "{notes:?}");
            assert!(
                notes[1]
                    .starts_with("device.m.die_scheduler.kind = \"queued\" is now written \"out-of-order\""),
                "{notes:?}"
            );
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
    fn words_that_were_others_are_read_as_the_new_ones() {
        let parse = |map: &str| StackFile::parse(&format!("{}{map}", text("spare_factor")), "s").unwrap();
        let new = load(parse("mapping = { kind = \"tpc-ftl\", cmt_size = \"64 KiB\" }\n"));
        let in_file = parse("mapping = { kind = \"tpc\", ram = \"64 KiB\" }\n");
        let set = parse("").with_set("device.m.mapping", "{ kind = \"tpc\", ram = \"64 KiB\" }").unwrap();
        let by_path =
            parse("mapping = { cmt_size = \"64 KiB\" }\n").with_set("device.m.mapping.kind", "tpc").unwrap();
        let alone = parse("").with_set("device.m.die_scheduler", "queued").unwrap();
        for old in [in_file, set, by_path] {
            assert_eq!(load(old).hash_long(), new.hash_long());
        }
        assert!(alone.to_text().contains("out-of-order"));
    }

    /// A name that is mistyped in the list would make a key unknown that its device has.
    #[test]
    fn every_new_name_is_one_of_a_device() {
        let names = crate::schema(&builtin()).to_string();
        for (old, new) in
            KEYS.iter().flat_map(|keys| keys.names).chain(WORDS.iter().flat_map(|words| words.names))
        {
            assert!(names.contains(&format!("\"{new}\"")), "{old} is called {new}, which no device has");
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

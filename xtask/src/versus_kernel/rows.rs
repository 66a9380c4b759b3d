//! The rows of the table: how a machine is made of the guest's devices, and how it starts after a cut.
//!
//! Each is a few lines for the shell of the guest. They find the devices `$fast`, `$slow`, `$third` and `$fourth`, and the functions of `guest.sh`,
//! and leave the name of the device that is measured in `$disk`.

/// One machine.
pub struct Row {
    /// How `--only` calls it.
    pub name: &'static str,
    /// How the table calls it.
    pub title: &'static str,
    /// Makes it of blank devices, and starts it.
    pub make: &'static str,
    /// Starts what is there.
    pub start: &'static str,
    /// Starts it where `$fast` is gone; empty for a machine that has nothing else.
    pub alone: &'static str,
    /// Prints what is worth a note after the load.
    pub note: &'static str,
    /// The stack file of one of ours.
    pub stack: &'static str,
    /// Milliseconds that a write of the slow device takes. Where they are not [`DELAY`] the machine is cut, and nothing else is measured.
    pub write_delay: u32,
}

/// Milliseconds that the slow device takes for anything.
pub const DELAY: u32 = 8;

const NONE: Row =
    Row { name: "", title: "", make: "", start: "", alone: "", note: "", stack: "", write_delay: DELAY };

/// One of ours.
const OURS: Row =
    Row { make: "serve --create --assume-clean", start: "serve", alone: "serve --force-degraded", ..NONE };

impl Row {
    /// Whether its slow device is another one than that of the rest, so that its rates say nothing.
    pub fn is_only_cut(&self) -> bool {
        self.write_delay != DELAY
    }
}

/// What all others are divided by.
pub const CONTROL: &str = "slow";

pub const ROWS: &[Row] = &[
    Row {
        name: CONTROL,
        title: "the slow device itself (control)",
        make: "disk=$slow",
        start: "disk=$slow",
        alone: "disk=$slow",
        ..NONE
    },
    Row { name: "fast", title: "the fast device itself", make: "disk=$fast", start: "disk=$fast", ..NONE },
    Row {
        name: "kit-slow",
        title: "nbdkit `file` on the slow device",
        make: "kit $slow",
        start: "kit $slow",
        alone: "kit $slow",
        ..NONE
    },
    Row {
        name: "kit-fast",
        title: "nbdkit `file` on the fast device",
        make: "kit $fast",
        start: "kit $fast",
        ..NONE
    },
    Row {
        name: "file",
        title: "**`file`** on the fast device",
        alone: "",
        stack: "[export.data]\ndevice = \"fast\"\n",
        ..OURS
    },
    Row {
        name: "cache",
        title: "**`cache`** above that `file`",
        alone: "",
        stack: "[export.data]\ndevice = \"cache\"\n\n[device.cache]\nkind = \"cache\"\nbelow = \"fast\"\nsize = \"16 MiB\"\n",
        ..OURS
    },
    Row {
        name: "md-raid1",
        title: "md raid1, write-mostly, write-behind",
        make: "raid1_create",
        start: "assemble $slow $fast",
        alone: "assemble $slow",
        note: "echo \"backlog used: $(cat /sys/block/md0/md/bitmap/max_backlog_used) of $(cat /sys/block/md0/md/bitmap/backlog) writes\"",
        ..NONE
    },
    Row {
        name: "md-raid1-served",
        title: "`file` on that md raid1",
        make: "raid1_create\nserve",
        start: "assemble $slow $fast\nserve",
        alone: "assemble $slow\nserve",
        stack: "[export.data]\ndevice = \"md\"\n",
        ..NONE
    },
    Row {
        name: "leader",
        title: "**`hetero-mirror`**, a flush covers the fast leg",
        stack: "[export.data]\ndevice = \"m\"\n\n[device.m]\nkind = \"hetero-mirror\"\nlegs = [\"fast\", \"slow\"]\nflush_scope = \"leader\"\n",
        ..OURS
    },
    Row {
        name: "all-legs",
        title: "**`hetero-mirror`**, a flush covers both legs",
        stack: "[export.data]\ndevice = \"m\"\n\n[device.m]\nkind = \"hetero-mirror\"\nlegs = [\"fast\", \"slow\"]\n",
        ..OURS
    },
    Row {
        name: "md-raid1-late",
        title: "that md raid1, where a write of the slow device takes 100 ms",
        make: "raid1_create",
        start: "assemble $slow $fast",
        alone: "assemble $slow",
        write_delay: 100,
        ..NONE
    },
    Row {
        name: "all-legs-late",
        title: "**`hetero-mirror`**, a flush covers both legs, the same",
        stack: "[export.data]\ndevice = \"m\"\n\n[device.m]\nkind = \"hetero-mirror\"\nlegs = [\"fast\", \"slow\"]\n",
        write_delay: 100,
        ..OURS
    },
    Row {
        name: "bcache",
        title: "bcache, writeback",
        // With its own bucket of 512 KiB a cache of 256 MiB is refused: it wants 1,024 of them.
        make: "make-bcache --bucket 64k --writeback -C $fast -B $slow\nbcache_start $fast $slow",
        start: "bcache_start $fast $slow",
        alone: "bcache_start $slow",
        note: "echo \"dirty after the load: $(cat /sys/block/bcache0/bcache/dirty_data)\"",
        ..NONE
    },
    Row {
        name: "dm-cache",
        title: "dm-cache smq, writeback",
        make: "dm_cache",
        start: "dm_cache",
        alone: "disk=$slow",
        note: "echo \"dirty after the load: $(dmsetup status cache | cut -d' ' -f14) of $(dmsetup status cache | cut -d' ' -f7 | cut -d/ -f1) blocks of 64 KiB\"",
        ..NONE
    },
    Row {
        name: "dm-writecache",
        title: "dm-writecache",
        make: "dm_writecache",
        start: "dm_writecache",
        alone: "disk=$slow",
        note: "echo \"blocks not written back after the load: $(($(dmsetup status wc | cut -d' ' -f5) - $(dmsetup status wc | cut -d' ' -f6)))\"",
        ..NONE
    },
    Row {
        name: "hybrid",
        title: "**`hybrid`**, a ring on the fast device",
        stack: "[export.data]\ndevice = \"h\"\n\n[device.h]\nkind = \"hybrid\"\nslc = \"fast\"\ndisk = \"slow\"\ndirty_region_size = \"1 MiB\"\n",
        ..OURS
    },
    Row {
        name: "md-raid5",
        title: "md raid5 on three fast devices",
        make: "raid5_create",
        start: "assemble $fast $third $fourth",
        alone: "assemble --force $third $fourth",
        ..NONE
    },
    Row {
        name: "md-raid5-served",
        title: "`file` on that md raid5",
        make: "raid5_create\nserve",
        start: "assemble $fast $third $fourth\nserve",
        alone: "assemble --force $third $fourth\nserve",
        stack: "[export.data]\ndevice = \"md\"\n",
        ..NONE
    },
    Row {
        name: "parity",
        title: "**`parity`** on three fast devices",
        stack: "[export.data]\ndevice = \"p\"\n\n[device.p]\nkind = \"parity\"\nlegs = [\"fast\", \"third\", \"fourth\"]\n",
        ..OURS
    },
];

/// What is divided by what: the row, the other one, the load, and the least ratio that is wanted, if one is.
pub const PAIRS: &[(&str, &str, &str, Option<f64>)] = &[
    ("leader", "md-raid1", "fsync", None),
    ("leader", "md-raid1", "write-1", None),
    ("leader", "md-raid1-served", "write-1", None),
    ("leader", "md-raid1-served", "write-16", None),
    ("leader", "file", "fsync", Some(0.7)),
    ("all-legs", "md-raid1", "fsync", None),
    ("hybrid", "bcache", "fsync", None),
    ("hybrid", "dm-writecache", "fsync", None),
    ("parity", "md-raid5", "write-16", None),
    ("parity", "md-raid5-served", "write-1", Some(0.5)),
    ("parity", "md-raid5-served", "write-16", Some(0.5)),
    ("cache", "file", "sequential", Some(0.8)),
    ("file", "fast", "write-16", None),
    ("file", "fast", "fsync", None),
    ("kit-fast", "fast", "fsync", None),
];

/// The devices that a stack names.
pub fn devices(stack: &str) -> String {
    let paths = [
        ("fast", "/dev/ubda"),
        ("slow", "/dev/mapper/slow"),
        ("third", "/dev/ubdc"),
        ("fourth", "/dev/ubdd"),
        ("md", "/dev/md0"),
    ];
    let device = |(name, path): (&str, &str)| {
        // A start may have to do without the fast one; md knows its size itself.
        let size = if name == "md" { "" } else { "size = \"256 MiB\"\n" };
        format!(
            "\n[device.{name}]\nkind = \"file\"\npath = \"{path}\"\n{size}direct = true\nsector = \"4 KiB\"\n"
        )
    };
    paths.into_iter().filter(|(name, _)| stack.contains(&format!("\"{name}\""))).map(device).collect()
}

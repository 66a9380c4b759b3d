//! What is tried.

/// A test of libnbd that is compiled.
pub struct Program {
    /// What it is called, and what its file is called.
    pub name: &'static str,
    /// Where its sources lie, and where it runs.
    pub folder: &'static str,
    pub sources: &'static [&'static str],
    pub defines: &'static [&'static str],
    /// It is a test; else a script runs it.
    pub is_run: bool,
}

impl Program {
    pub fn step(&self) -> String {
        format!("{}/{}", self.folder, self.name)
    }
}

/// A test that asks for nbdkit.
const fn test(name: &'static str, sources: &'static [&'static str]) -> Program {
    Program { name, folder: "tests", sources, defines: &[], is_run: true }
}

/// The same with definitions.
const fn defined(
    name: &'static str,
    sources: &'static [&'static str],
    defines: &'static [&'static str],
) -> Program {
    Program { defines, ..test(name, sources) }
}

/// A test of servers of all kinds.
const fn interop(
    name: &'static str,
    sources: &'static [&'static str],
    defines: &'static [&'static str],
) -> Program {
    Program { folder: "interop", ..defined(name, sources, defines) }
}

/// A program that scripts run.
const fn helper(name: &'static str, sources: &'static [&'static str]) -> Program {
    Program { is_run: false, ..test(name, sources) }
}

const INTEROP: &[&str] = &["interop.c", "requires.c"];

/// Programs that are compiled. Those of `tests/` that ask for no server are left out: they test libnbd.
pub const PROGRAMS: &[Program] = &[
    interop(
        "interop-nbdkit",
        INTEROP,
        &["-DNEEDS_TMPFILE=1", "-DSERVER_PARAMS=\"-s\", \"--exit-with-parent\", \"file\", TMPFILE"],
    ),
    interop(
        "interop-socket-activation",
        INTEROP,
        &["-DNEEDS_TMPFILE=1", "-DSOCKET_ACTIVATION=1", "-DSERVER_PARAMS=\"file\", TMPFILE"],
    ),
    interop(
        "interop-nbdkit-tls-certs",
        INTEROP,
        &[
            "-DNEEDS_TMPFILE=1",
            "-DCERTS=1",
            "-DTLS_MODE=LIBNBD_TLS_REQUIRE",
            "-DSERVER_PARAMS=\"--tls=require\", \"--tls-certificates=../tests/pki\", \"-s\", \"--exit-with-parent\", \"file\", TMPFILE",
        ],
    ),
    interop(
        "interop-nbdkit-tls-certs-allow-enabled",
        INTEROP,
        &[
            "-DNEEDS_TMPFILE=1",
            "-DCERTS=1",
            "-DTLS_MODE=LIBNBD_TLS_ALLOW",
            "-DSERVER_PARAMS=\"--tls=require\", \"--tls-certificates=../tests/pki\", \"-s\", \"--exit-with-parent\", \"file\", TMPFILE",
        ],
    ),
    interop(
        "interop-nbdkit-tls-certs-allow-fallback",
        INTEROP,
        &[
            "-DNEEDS_TMPFILE=1",
            "-DCERTS=1",
            "-DTLS_MODE=LIBNBD_TLS_ALLOW",
            "-DTLS_FALLBACK=1",
            "-DSERVER_PARAMS=\"--tls=off\", \"-s\", \"--exit-with-parent\", \"file\", TMPFILE",
        ],
    ),
    interop(
        "interop-nbdkit-tls-psk",
        INTEROP,
        &[
            "-DNEEDS_TMPFILE=1",
            "-DPSK=1",
            "-DTLS_MODE=LIBNBD_TLS_REQUIRE",
            "-DSERVER_PARAMS=\"--tls=require\", \"--tls-psk=../tests/keys.psk\", \"-s\", \"--exit-with-parent\", \"file\", TMPFILE",
        ],
    ),
    interop("socket-activation-nbdkit", &["socket-activation.c"], &["-DSERVER_PARAMS=\"file\", tmpfile"]),
    interop(
        "list-exports-nbdkit",
        &["list-exports.c", "requires.c"],
        &[
            "-DSERVER_PARAMS=\"-s\", \"--exit-with-parent\", \"file\", \"dir=list-exports-test-dir\"",
            "-DEXPORTS=\"disk1\", \"disk2\"",
            "-DDESCRIPTIONS=\"\", \"\"",
        ],
    ),
    interop("structured-read", &["structured-read.c"], &[]),
    interop("dirty-bitmap", &["dirty-bitmap.c"], &[]),
    test("aio-connect", &["aio-connect.c", "pick-a-port.c", "requires.c"]),
    test("aio-connect-port", &["aio-connect-port.c", "pick-a-port.c", "requires.c"]),
    test("closure-lifetimes", &["closure-lifetimes.c"]),
    test("connect-systemd-socket-activation", &["connect-systemd-socket-activation.c", "requires.c"]),
    test("connect-tcp", &["connect-tcp.c", "pick-a-port.c", "requires.c"]),
    test("connect-tcp6", &["connect-tcp6.c", "pick-a-port.c", "requires.c"]),
    defined("connect-tls-certs", &["connect-tls.c", "requires.c"], &["-DCERTS=1"]),
    test("connect-unix", &["connect-unix.c", "requires.c"]),
    defined(
        "connect-uri-nbd-unix",
        &["connect-uri.c", "requires.c"],
        &[
            "-DNEEDS_UNIX_SOCKET=1",
            "-DSERVER_PARAMS=\"-U\", UNIX_SOCKET",
            "-DPIDFILE=\"connect-uri-nbd-unix.pid\"",
            "-DURI=\"nbd+unix:///?socket=\"",
        ],
    ),
    defined(
        "connect-uri-nbds-unix-certs",
        &["connect-uri.c", "requires.c"],
        &[
            "-DNEEDS_UNIX_SOCKET=1",
            "-DSERVER_PARAMS=\"-U\", UNIX_SOCKET, \"--tls=require\", \"--tls-verify-peer\", \"--tls-certificates=pki\"",
            "-DREQUIRES_NBDKIT_TLS_VERIFY_PEER=1",
            "-DPIDFILE=\"connect-uri-nbds-unix-certs.pid\"",
            "-DURI=\"nbds+unix://alice@/?tls-certificates=pki&socket=\"",
        ],
    ),
    test("errors-bad-cookie", &["errors-bad-cookie.c"]),
    test("errors-client-oversize", &["errors-client-oversize.c"]),
    test("errors-client-unadvertised-cmd", &["errors-client-unadvertised-cmd.c", "requires.c"]),
    test("errors-client-unaligned", &["errors-client-unaligned.c", "requires.c"]),
    test("errors-client-unknown-flags", &["errors-client-unknown-flags.c"]),
    test("errors-client-zerosize", &["errors-client-zerosize.c"]),
    test("errors-connect-twice", &["errors-connect-twice.c"]),
    test("errors-multiple-disconnects", &["errors-multiple-disconnects.c"]),
    test("errors-not-negotiating", &["errors-not-negotiating.c"]),
    test("errors-notify-not-blocked", &["errors-notify-not-blocked.c"]),
    test("errors-pread-structured", &["errors-pread-structured.c"]),
    test("errors-server-invalid-offset", &["errors-server-invalid-offset.c"]),
    test("errors-server-unadvertised-cmd", &["errors-server-unadvertised-cmd.c", "requires.c"]),
    test("errors-server-unaligned", &["errors-server-unaligned.c", "requires.c"]),
    test("errors-server-unknown-flags", &["errors-server-unknown-flags.c"]),
    test("errors-server-zerosize", &["errors-server-zerosize.c"]),
    test("get-size", &["get-size.c"]),
    test("meta-base-allocation", &["meta-base-allocation.c"]),
    test("newstyle-limited", &["newstyle-limited.c", "requires.c"]),
    test("oldstyle", &["oldstyle.c"]),
    test("opt-abort", &["opt-abort.c"]),
    defined("opt-info", &["opt-info.c"], &["-DSCRIPT=\"opt-info.sh\""]),
    defined("opt-list", &["opt-list.c", "requires.c"], &["-DSCRIPT=\"opt-list.sh\""]),
    test("opt-list-meta", &["opt-list-meta.c"]),
    test("pread-initialize", &["pread-initialize.c"]),
    test("read-only-flag", &["read-only-flag.c"]),
    test("read-write-flag", &["read-write-flag.c"]),
    test("server-death", &["server-death.c"]),
    test("shutdown-flags", &["shutdown-flags.c"]),
    helper("aio-parallel", &["aio-parallel.c"]),
    helper("aio-parallel-load", &["aio-parallel-load.c"]),
    helper("synch-parallel", &["synch-parallel.c"]),
];

/// Folders of libnbd with scripts that are tests, and how their names begin.
pub const SCRIPTS: [(&str, &str); 6] = [
    ("tests", "aio-"),
    ("tests", "synch-"),
    ("info", "info-"),
    ("copy", "copy-"),
    ("dump", "dump-"),
    ("fuse", "test-"),
];

/// Tests that ours is not held to, and why.
pub const SKIPPED: &[(&str, &str)] = &[
    ("structured-read", "needs a hole of 512 B, which files do not have"),
    ("connect-tcp6", "wants a port at ::1, and a port of ours is at one address, here 127.0.0.1"),
    ("info-map-base-allocation-zero.sh", "wants an export without bytes"),
    ("info-null.sh", "wants an export without bytes"),
    ("test-nbdkit-file-null.sh", "wants an export without bytes"),
    ("test-long-options.sh", "asks nbdfuse for its options"),
    ("test-short-options.sh", "asks nbdfuse for its options"),
    ("test-version.sh", "asks nbdfuse for its version"),
    ("dirty-bitmap", "asks qemu-nbd for its own kind of block status"),
];

/// Tools of others above ours.
pub const COMMANDS: &[(&str, &str)] = &[
    (
        "qemu-io",
        r#"nbdkit -U - memory 64M --run 'qemu-io -f raw \
            -c "write -P 90 0 3M" -c "read -P 90 0 3M" -c "write -f -P 33 1M 64k" -c "aio_write -P 1 4M 256k" -c "aio_write -P 2 5M 256k" -c aio_flush \
            -c "read -P 1 4M 256k" -c "read -P 2 5M 256k" -c "discard 4M 256k" -c "read -P 0 4M 256k" -c "write -z -u 0 512k" -c "read -P 0 0 512k" \
            -c "write -P 7 513 1000" -c "read -P 7 513 1000" -c "read -P 33 1M 64k" -c flush "$uri"'"#,
    ),
    (
        "qemu-img",
        r#"nbdkit -U - pattern 16M --run 'qemu-img convert -f raw -O qcow2 "$uri" "$NANDU_INTEROP_FOLDER/a.qcow2" \
            && qemu-img compare -f raw -F qcow2 "$uri" "$NANDU_INTEROP_FOLDER/a.qcow2"'
        nbdkit -U - memory 16M --run 'qemu-img convert -n -O raw "$NANDU_INTEROP_FOLDER/a.qcow2" "$uri" \
            && qemu-img compare -f raw -F qcow2 "$uri" "$NANDU_INTEROP_FOLDER/a.qcow2"'"#,
    ),
    (
        "nbdkit's plugin nbd",
        r#"nbdkit -U - memory 64M --run 'PATH=$NANDU_INTEROP_PATH nbdkit -U - nbd "$uri" --run "qemu-io -f raw \
            -c \"write -P 90 0 3M\" -c \"read -P 90 0 3M\" -c \"write -z 2M 64k\" -c \"discard 1M 64k\" -c \"read -P 0 2M 64k\" -c flush \$uri" \
            && qemu-io -f raw -c "read -P 90 0 1M" -c "read -P 0 2M 64k" "$uri"'"#,
    ),
    (
        "nbdkit's plugin nbd, with TLS",
        r#"nbdkit -U - --tls=require --tls-verify-peer --tls-certificates=pki pattern 16M \
            --run 'PATH=$NANDU_INTEROP_PATH nbdkit -U - nbd socket="$unixsocket" tls=require tls-certificates=pki --run "qemu-img info \$uri"'"#,
    ),
];

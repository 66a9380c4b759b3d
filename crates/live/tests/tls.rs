//! TLS: who must use it, who may not go on, and clients of others.
//!
//! The certificates in `certificates` hold for a hundred years: `server` and `client` are signed by `ca`, `stranger` by somebody else. Their keys are known to
//! everybody. A tool that is not installed skips its test; `NANDU_REQUIRE_TOOLS=1` makes that a failure.
#![cfg(feature = "tls")]

mod common;

use common::client::{go, hello, option, request};
use common::process::{have, run};
use common::{Served, options};
use nandu_live::nbd::wire::{cmd, opt, rep};
use nandu_live::{ServeOptions, TlsOptions};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MEMORY: &str =
    "[export.data]\ndevice = \"disk\"\n[device.disk]\nkind = \"memory\"\nsize = \"64 MiB\"\n";

fn certificates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates")
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn served(dir: &Path, is_optional: bool, verify_clients: bool) -> Served {
    let tls = Some(TlsOptions { certificates: certificates(), is_optional, verify_clients });
    Served::start(ServeOptions { tls, ..options(MEMORY, dir) })
}

/// What a client shows of itself, and whom it trusts.
fn config(shows: Option<&str>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    let file = |name: &str| certificates().join(name);
    roots.add(CertificateDer::from_pem_file(file("ca-cert.pem")).expect("ours")).expect("an authority");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder =
        builder.with_safe_default_protocol_versions().expect("there are some").with_root_certificates(roots);
    Arc::new(match shows {
        None => builder.with_no_client_auth(),
        Some(name) => {
            let chain = vec![CertificateDer::from_pem_file(file(&format!("{name}-cert.pem"))).expect("ours")];
            let key = PrivateKeyDer::from_pem_file(file(&format!("{name}-key.pem"))).expect("ours");
            builder.with_client_auth_cert(chain, key).expect("they belong together")
        }
    })
}

fn connect(served: &Served) -> UnixStream {
    let mut socket = UnixStream::connect(&served.socket).expect("a server");
    socket.set_read_timeout(Some(common::DEADLINE)).expect("a timeout");
    socket.read_exact(&mut [0; 18]).expect("a greeting");
    socket.write_all(&hello()[..4]).expect("an open socket");
    socket
}

/// The kind of the answer to an option, and its data.
fn answer(socket: &mut impl Read) -> (u32, Vec<u8>) {
    let mut head = [0; 20];
    socket.read_exact(&mut head).expect("an answer");
    let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let mut data = vec![0; word(16) as usize];
    socket.read_exact(&mut data).expect("its data");
    (word(12), data)
}

fn encrypt(mut socket: UnixStream, config: Arc<ClientConfig>) -> StreamOwned<ClientConnection, UnixStream> {
    socket.write_all(&option(opt::STARTTLS, &[])).expect("an open socket");
    assert_eq!(answer(&mut socket), (rep::ACK, Vec::new()));
    let name = ServerName::try_from("localhost").expect("a name");
    StreamOwned::new(ClientConnection::new(config, name).expect("a client"), socket)
}

/// Starts on the export, writes much and reads it back.
fn use_export(socket: &mut (impl Read + Write)) {
    socket.write_all(&go("data")).expect("an open socket");
    while answer(socket).0 != rep::ACK {}
    let data: Vec<u8> = (0..3_000_000_u32).map(|at| ((at * 7) >> 3) as u8).collect();
    let mut bytes = request(cmd::WRITE, 0, 1, 12345, data.len() as u32);
    bytes.extend(&data);
    socket.write_all(&bytes).expect("an open socket");
    let mut reply = [0; 16];
    socket.read_exact(&mut reply).expect("a reply");
    assert_eq!((reply[4..8].to_vec(), reply[15]), (vec![0; 4], 1));
    socket.write_all(&request(cmd::READ, 0, 2, 12345, data.len() as u32)).expect("an open socket");
    socket.read_exact(&mut reply).expect("a reply");
    assert_eq!((reply[4..8].to_vec(), reply[15]), (vec![0; 4], 2));
    let mut found = vec![0; data.len()];
    socket.read_exact(&mut found).expect("the data");
    assert!(found == data);
    socket.write_all(&request(cmd::DISC, 0, 3, 0, 0)).expect("an open socket");
}

#[test]
fn a_server_that_requires_tls_says_nothing_before() {
    let dir = dir();
    let server = served(dir.path(), false, false);
    let mut socket = connect(&server);
    for number in [opt::LIST, opt::GO, opt::STRUCTURED_REPLY, opt::EXTENDED_HEADERS, 99] {
        socket.write_all(&option(number, &[])).expect("an open socket");
        assert_eq!(answer(&mut socket).0, rep::ERR_TLS_REQD);
    }
    socket.write_all(&option(opt::STARTTLS, b"x")).expect("an open socket");
    assert_eq!(answer(&mut socket).0, rep::ERR_INVALID, "it has no data");
    let mut encrypted = encrypt(socket, config(None));
    encrypted.write_all(&option(opt::STARTTLS, &[])).expect("an open socket");
    assert_eq!(answer(&mut encrypted).0, rep::ERR_INVALID, "once is enough");
    use_export(&mut encrypted);
    assert_eq!(encrypted.read(&mut [0; 1]).expect("a goodbye"), 0);
    let mut socket = connect(&server);
    socket.write_all(&option(opt::EXPORT_NAME, b"data")).expect("an open socket");
    assert_eq!(socket.read(&mut [0; 1]).expect("the end"), 0, "this option has no other refusal");
    server.stop();
}

#[test]
fn tls_may_be_optional_or_absent() {
    let dir = dir();
    let server = served(dir.path(), true, false);
    use_export(&mut connect(&server));
    // What was agreed upon in the clear does not count.
    let mut socket = connect(&server);
    socket.write_all(&option(opt::STRUCTURED_REPLY, &[])).expect("an open socket");
    assert_eq!(answer(&mut socket).0, rep::ACK);
    use_export(&mut encrypt(socket, config(Some("stranger"))));
    server.stop();
    let server = Served::start(options(MEMORY, dir.path()));
    let mut socket = connect(&server);
    socket.write_all(&option(opt::STARTTLS, &[])).expect("an open socket");
    assert_eq!(answer(&mut socket).0, rep::ERR_UNSUP);
    use_export(&mut socket);
    server.stop();
}

#[test]
fn clients_are_verified() {
    let dir = dir();
    let server = served(dir.path(), false, true);
    use_export(&mut encrypt(connect(&server), config(Some("client"))));
    for shows in [None, Some("stranger")] {
        let mut socket = encrypt(connect(&server), config(shows));
        // The client may hear of it only when it waits for an answer.
        let heard = socket.write_all(&option(opt::LIST, &[])).and_then(|()| socket.read_exact(&mut [0; 20]));
        assert!(heard.is_err(), "{shows:?}");
    }
    let mut socket = connect(&server);
    socket.write_all(&option(opt::STARTTLS, &[])).expect("an open socket");
    assert_eq!(answer(&mut socket).0, rep::ACK);
    socket.write_all(&option(opt::LIST, &[])).expect("an open socket");
    let mut rest = Vec::new();
    let _ = socket.read_to_end(&mut rest); // it is told in the words of TLS, and the connection ends
    assert!(!rest.windows(4).any(|bytes| bytes == b"data"), "it goes on in the clear");
    use_export(&mut encrypt(connect(&server), config(Some("client"))));
    server.stop();
}

#[test]
fn certificates_that_cannot_be_used_are_named() {
    let (dir, folder) = (dir(), dir());
    let copy = |name: &str, to: &str| {
        std::fs::copy(certificates().join(name), folder.path().join(to)).map(drop).expect("ours");
    };
    let refused = || {
        let tls = TlsOptions { certificates: folder.path().into(), is_optional: false, verify_clients: true };
        let error = Served::try_start(ServeOptions { tls: Some(tls), ..options(MEMORY, dir.path()) });
        let error = error.err().expect("it is refused");
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    };
    assert!(refused().contains("server-cert.pem"), "{}", refused());
    copy("server-key.pem", "server-cert.pem");
    assert!(refused().contains("server-cert.pem: it has no certificate"), "{}", refused());
    copy("server-cert.pem", "server-cert.pem");
    assert!(refused().contains("server-key.pem"), "{}", refused());
    copy("client-key.pem", "server-key.pem");
    assert!(refused().contains("ca-cert.pem"), "{}", refused());
    copy("ca-cert.pem", "ca-cert.pem");
    assert!(refused().contains("put the key that belongs to server-cert.pem there"), "{}", refused());
}

#[test]
fn new_certificates_hold_after_a_hang_up_signal() {
    let (dir, folder) = (dir(), dir());
    let put = |of: &str| {
        for part in ["cert.pem", "key.pem"] {
            let (from, to) = (format!("{of}-{part}"), format!("server-{part}"));
            std::fs::copy(certificates().join(from), folder.path().join(to)).expect("ours");
        }
    };
    let hang_up = || {
        let myself = rustix::process::getpid();
        rustix::process::kill_process(myself, rustix::process::Signal::HUP).expect("this process is there");
    };
    put("server");
    let tls = TlsOptions { certificates: folder.path().into(), is_optional: false, verify_clients: false };
    let server = Served::start(ServeOptions { tls: Some(tls), signals: true, ..options(MEMORY, dir.path()) });
    let mut before = encrypt(connect(&server), config(None));
    // It goes on with the certificate that it began with.
    before.write_all(&option(opt::LIST, &[])).expect("an open socket");
    while answer(&mut before).0 != rep::ACK {}

    put("client");
    hang_up();
    server.hear("connections from now on get the certificates that are in");
    let mut after = encrypt(connect(&server), config(None));
    let refused = after.write_all(&option(opt::LIST, &[])).expect_err("this one is a client's");
    assert!(refused.to_string().contains("does not allow extended key usage for server"), "{refused}");
    use_export(&mut before);

    put("server");
    std::fs::copy(certificates().join("stranger-key.pem"), folder.path().join("server-key.pem"))
        .expect("ours");
    hang_up();
    let said = server.hear("the certificates stay as they were");
    assert!(said.contains("put the key that belongs to server-cert.pem there"), "{said}");
    let mut after = encrypt(connect(&server), config(None));
    after.write_all(&option(opt::LIST, &[])).expect_err("the client's is still there");

    put("server");
    hang_up();
    server.hear("connections from now on get the certificates that are in");
    use_export(&mut encrypt(connect(&server), config(None)));
    server.stop();
}

#[test]
fn tools_of_others_use_tls() {
    if !["nbdinfo", "nbdcopy", "qemu-io"].into_iter().all(have) {
        return;
    }
    let dir = dir();
    let server = served(dir.path(), false, true);
    let certificates = certificates();
    let uri = format!(
        "nbds+unix:///data?socket={}&tls-certificates={}&tls-hostname=localhost",
        server.socket.display(),
        certificates.display()
    );
    let info = run("nbdinfo", &[&uri]);
    assert!(String::from_utf8_lossy(&info.stdout).contains("with TLS"), "{info:?}");
    let (before, after) = (dir.path().join("before"), dir.path().join("after"));
    let data: Vec<u8> =
        (0..64 << 20_u32).map(|at: u32| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&before, &data).expect("room");
    run("nbdcopy", &["--flush", &before.display().to_string(), &uri]);
    run("nbdcopy", &[&uri, &after.display().to_string()]);
    assert!(std::fs::read(&after).expect("it is there") == data);
    let object = format!("tls-creds-x509,id=tls0,endpoint=client,dir={}", certificates.display());
    let image = format!(
        "driver=nbd,server.type=unix,server.path={},export=data,tls-creds=tls0,tls-hostname=localhost",
        server.socket.display()
    );
    let commands = ["-c", "write -P 9 64k 64k", "-c", "read -P 9 64k 64k"];
    let said = run("qemu-io", &[&["--object", &object, "--image-opts"], &commands[..], &[&image]].concat());
    let said = String::from_utf8_lossy(&said.stdout);
    assert!(said.contains("read 65536/65536") && !said.contains("failed"), "{said}");
    server.stop();
}

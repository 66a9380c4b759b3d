//! Starting and ending a server: what is refused, with which words, and what is left behind.

mod common;

use common::script::pattern;
use common::{Served, options};
use nandu_live::nbd::wire::cmd;
use nandu_live::{ServeError, ServeOptions, ctl, serve};
use std::path::Path;

const FILE: &str = "[export.data]\ndevice = \"leg\"\n[export.view]\ndevice = \"leg\"\nread_only = true\n\
    [device.leg]\nkind = \"file\"\npath = \"leg.img\"\nsize = \"1 MiB\"\n";

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn refused(options: ServeOptions) -> (String, u8) {
    let error: ServeError = Served::try_start(options).err().expect("it is refused");
    (error.to_string(), error.exit_code())
}

fn without_create(dir: &Path) -> ServeOptions {
    ServeOptions { create: false, ..options(FILE, dir) }
}

#[test]
fn a_missing_or_short_file_is_named_with_what_would_help() {
    let dir = dir();
    let (text, code) = refused(without_create(dir.path()));
    assert!(text.contains("leg.img") && text.contains("--create"), "{text}");
    assert_eq!(code, 2);
    std::fs::write(dir.path().join("leg.img"), [0; 512]).expect("a file");
    let (text, code) = refused(without_create(dir.path()));
    assert!(text.contains("it has 512 bytes, but the leaf has 1048576"), "{text}");
    assert_eq!(code, 2);
    Served::start(options(FILE, dir.path())).stop();
    assert_eq!(std::fs::metadata(dir.path().join("leg.img")).expect("it is there").len(), 1 << 20);
}

#[test]
fn a_file_has_one_server() {
    let dir = dir();
    let first = Served::start(options(FILE, dir.path()));
    let second =
        ServeOptions { unix: vec![dir.path().join("other")], control: None, ..options(FILE, dir.path()) };
    let (text, code) = refused(second);
    assert!(text.contains("another process has locked it"), "{text}");
    assert_eq!(code, 2);
    let (text, _) = refused(ServeOptions { control: None, ..options(FILE, dir.path()) });
    assert!(text.contains("another server answers at this socket"), "{text}");
    first.stop();
    Served::start(options(FILE, dir.path())).stop();
}

#[test]
fn exports_are_chosen_by_name_and_may_be_read_only() {
    let dir = dir();
    let unknown = ServeOptions { exports: vec!["dota".into()], ..options(FILE, dir.path()) };
    assert_eq!(refused(unknown), ("no export is called `dota`; the stack has: data, view".into(), 2));
    let served = Served::start(options(FILE, dir.path()));
    let (mut data, mut view) = (served.connect("data"), served.connect("view"));
    data.write(512, &pattern(512, 512, 1));
    assert_eq!(view.read(512, 512), pattern(512, 512, 1));
    assert_eq!(view.call(cmd::WRITE, 0, 0, 512, &[0; 512]), Err(1));
    drop((data, view));
    served.stop();
    let one = ServeOptions { exports: vec!["data".into()], read_only: true, ..options(FILE, dir.path()) };
    let served = Served::start(one);
    assert_eq!(served.connect("data").call(cmd::WRITE, 0, 0, 512, &[0; 512]), Err(1));
    assert!(common::client::Client::try_connect(&served.socket, "view").is_err());
}

#[test]
fn a_command_gets_the_address_and_its_status_is_passed_on() {
    let dir = dir();
    let seen = dir.path().join("seen");
    let run = format!("echo \"$uri\" > {}; exit 7", seen.display());
    let alone = ServeOptions { unix: Vec::new(), control: None, run: Some(run), ..options(FILE, dir.path()) };
    let ended = serve(alone, &mut |_| {}).expect("it ends cleanly");
    assert_eq!((ended.child, ended.exit_code()), (Some(7), 7));
    let uri = std::fs::read_to_string(seen).expect("the command ran");
    assert!(uri.starts_with("nbd+unix:///data?socket=/"), "{uri}");
    let nowhere = ServeOptions { unix: Vec::new(), control: None, ..options(FILE, dir.path()) };
    assert!(matches!(serve(nowhere, &mut |_| {}), Err(ServeError::NoAddress)));
}

#[test]
fn tcp_is_served_and_files_of_the_server_vanish() {
    let dir = dir();
    let pidfile = dir.path().join("pid");
    let tcp = Some("127.0.0.1:0".parse().expect("an address"));
    let served =
        Served::start(ServeOptions { tcp, pidfile: Some(pidfile.clone()), ..options(FILE, dir.path()) });
    let pid = std::fs::read_to_string(&pidfile).expect("the process has a number");
    assert_eq!(pid.trim(), std::process::id().to_string());
    served.stop();
    assert!(
        !pidfile.exists() && !dir.path().join("nbd.sock").exists() && !dir.path().join("ctl.sock").exists()
    );
}

#[test]
fn a_leg_that_is_failed_fails_requests_until_it_is_added() {
    let dir = dir();
    let served = Served::start(options(FILE, dir.path()));
    let mut client = served.connect("data");
    let send = |line: &str| ctl::send(&served.control, &line.parse().expect("a command"));
    client.write(0, &pattern(0, 4096, 1));
    assert!(send("fail data").expect_err("an export is not a leg").to_string().contains("there are: leg"));
    assert!(send("add leg").expect_err("it is there").to_string().contains("active already"));
    send("fail leg").expect("it can be failed");
    assert_eq!(client.call(cmd::READ, 0, 0, 512, &[]), Err(5));
    assert_eq!(client.call(cmd::FLUSH, 0, 0, 0, &[]), Err(5));
    assert_eq!(served.status()["devices"]["leg"]["state"], "faulty");
    std::fs::rename(dir.path().join("leg.img"), dir.path().join("away")).expect("it can be moved");
    assert!(send("add leg").expect_err("it is away").to_string().contains("leg.img"));
    assert_eq!(served.status()["devices"]["leg"]["state"], "missing");
    std::fs::rename(dir.path().join("away"), dir.path().join("leg.img")).expect("it can be moved");
    send("add leg").expect("it is there again");
    assert_eq!(client.read(0, 4096), pattern(0, 4096, 1));
}

#[test]
fn a_deleted_file_is_noticed_by_the_next_flush() {
    let dir = dir();
    let served = Served::start(options(FILE, dir.path()));
    let mut client = served.connect("data");
    std::fs::remove_file(dir.path().join("leg.img")).expect("it can be deleted");
    client.write(0, &pattern(0, 4096, 1));
    assert_eq!(client.call(cmd::FLUSH, 0, 0, 0, &[]), Err(5));
    assert_eq!(client.call(cmd::READ, 0, 0, 512, &[]), Err(5));
    assert_eq!(served.status()["devices"]["leg"]["state"], "faulty");
}

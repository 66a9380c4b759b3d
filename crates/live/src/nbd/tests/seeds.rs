//! The fuzzer's starting inputs, `fuzz/seeds/nbd/*`, run as a plain test. The conversations are among them; to write
//! those anew after a change: `NANDU_WRITE_SEEDS=1 cargo test -p nandu-live seeds`.

use std::fs;
use std::path::Path;

use super::check::{Seen, check};
use super::conversations;
use super::nbd::Event;

fn directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/nbd")
}

#[test]
fn seeds_run() {
    let mut paths: Vec<_> = fs::read_dir(directory())
        .expect("the directory of seeds")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 8, "{} seeds", paths.len());
    let mut started = 0;
    for path in paths {
        let bytes = fs::read(&path).expect("a seed");
        assert!(bytes.len() < 4096, "{} is not tiny", path.display());
        println!("{}", path.display());
        started +=
            usize::from(check(&bytes).iter().any(|seen| matches!(seen, Seen::Event(Event::Started(_)))));
    }
    assert!(started >= 4, "{started} seeds reach the transmission phase");
}

#[test]
fn seeds_hold_the_conversations() {
    for conversation in conversations::all() {
        let path = directory().join(conversation.name);
        let mut bytes = vec![conversation.knobs, 0];
        bytes.extend(conversation.client_stream());
        if std::env::var_os("NANDU_WRITE_SEEDS").is_some() {
            fs::write(&path, &bytes).expect("a written seed");
        }
        assert_eq!(fs::read(&path).expect("a seed"), bytes, "{} is out of date", path.display());
    }
}

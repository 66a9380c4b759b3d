//! Any byte stream: random bytes, and random sequences of messages that are nearly right.

use proptest::prelude::*;

use super::check::{Seen, check};
use super::client;
use super::nbd::Event;
use super::nbd::wire::{cmd, cmd_flag, opt};

/// An option a client could send.
fn an_option() -> impl Strategy<Value = Vec<u8>> {
    let name = prop_oneof![Just("disk"), Just("small"), Just(""), Just("none")];
    let query = prop_oneof![Just("base:allocation"), Just("base:"), Just("qemu:x"), Just("bare")];
    let info = (0u32..13, name.clone(), prop::collection::vec(0u16..6, 0..4))
        .prop_map(|(number, name, asked)| client::option(number, &client::info_data(name, &asked)));
    let context = (opt::LIST_META_CONTEXT..=opt::SET_META_CONTEXT, name, prop::collection::vec(query, 0..3))
        .prop_map(|(number, name, queries)| client::option(number, &client::queries(name, &queries)));
    let bare = (0u32..13).prop_map(|number| client::option(number, &[]));
    prop_oneof![info, context, bare]
}

/// A request, mostly on a good extent, with the payload of a write.
fn a_request() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![8 => 0u64..0x10_0000, 1 => any::<u64>()];
    let length = prop_oneof![1 => Just(0u32), 8 => 1u32..2_000, 2 => 1u32..70_000, 1 => any::<u32>()];
    let flags = prop_oneof![5 => Just(0u16), 1 => 0u16..64];
    (flags, 0u16..9, any::<u64>(), offset, length).prop_map(|(flags, command, cookie, offset, length)| {
        let (offset, length) =
            if cookie % 2 == 0 { (offset & !511, length & !511) } else { (offset, length) };
        let mut bytes = client::request(flags, command, cookie, offset, length);
        if command == cmd::WRITE {
            bytes.resize(bytes.len() + (length as usize).min(70_000), 0x5a);
        }
        bytes
    })
}

/// The same with extended headers, mostly with the flag where a payload follows.
fn an_extended_request() -> impl Strategy<Value = Vec<u8>> {
    let offset = prop_oneof![8 => 0u64..0x10_0000, 1 => any::<u64>()];
    let length = prop_oneof![1 => Just(0u64), 8 => 1u64..2_000, 2 => 1u64..70_000, 1 => any::<u64>()];
    let flags = prop_oneof![5 => Just(0u16), 1 => 0u16..64];
    (flags, 0u16..9, any::<u64>(), offset, length).prop_map(|(flags, command, cookie, offset, length)| {
        let is_write = command == cmd::WRITE && cookie % 8 > 0;
        let flags = if is_write { flags | cmd_flag::PAYLOAD_LEN } else { flags };
        let mut bytes = client::extended(flags, command, cookie, offset, length);
        if flags & cmd_flag::PAYLOAD_LEN != 0 {
            bytes.resize(bytes.len() + length.min(70_000) as usize, 0x5a);
        }
        if command == cmd::BLOCK_STATUS && cookie % 8 < 6 {
            bytes = client::extended(cmd_flag::PAYLOAD_LEN, command, cookie, offset, 12);
            bytes.extend(length.to_be_bytes());
            bytes.extend(((cookie % 8 / 5 + 1) as u32).to_be_bytes());
        }
        bytes
    })
}

/// A message, sometimes with a byte that is wrong.
fn spoiled(message: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let spoil = prop::option::weighted(0.05, any::<(prop::sample::Index, u8)>());
    (message, spoil).prop_map(|(mut bytes, spoil)| {
        if let Some((at, value)) = spoil {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes
    })
}

/// Knobs, cuts, hello, then messages; often a start of the transmission phase among them.
fn session() -> impl Strategy<Value = Vec<u8>> {
    let options = prop::collection::vec(spoiled(an_option()), 0..3);
    let compact = || prop::collection::vec(spoiled(prop_oneof![1 => an_option(), 19 => a_request()]), 0..12);
    let extended =
        prop::collection::vec(spoiled(prop_oneof![1 => an_option(), 19 => an_extended_request()]), 0..12);
    let spoken = prop_oneof![
        (Just(None), compact()),
        (Just(Some(opt::STRUCTURED_REPLY)), compact()),
        (Just(Some(opt::EXTENDED_HEADERS)), extended),
    ];
    let knobs =
        (0u8..32, prop::bool::weighted(0.1)).prop_map(|(knobs, leaves)| knobs | u8::from(leaves) << 5);
    (knobs, any::<u8>(), options, spoken).prop_map(|(knobs, seed, options, (form, requests))| {
        let mut bytes = vec![knobs, seed];
        bytes.extend(client::hello());
        options.iter().for_each(|message| bytes.extend(message));
        if let Some(form) = form {
            bytes.extend(client::option(form, &[]));
            let queries = client::queries("disk", &["base:allocation"]);
            bytes.extend(client::option(opt::SET_META_CONTEXT, &queries));
        }
        bytes.extend(client::option(opt::GO, &client::info_data("disk", &[3])));
        requests.iter().for_each(|message| bytes.extend(message));
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        check(&bytes);
    }

    #[test]
    fn nearly_right_sessions_do_no_harm(bytes in session()) {
        check(&bytes);
    }
}

/// The generator reaches what it is for: without this the properties could hold because nothing ever starts.
#[test]
fn generated_sessions_reach_the_transmission_phase() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut started, mut served, mut refused) = (0, 0, 0);
    for _ in 0..200 {
        let bytes = session().new_tree(&mut runner).expect("a session").current();
        for seen in check(&bytes) {
            match seen {
                Seen::Event(Event::Started(_)) => started += 1,
                Seen::Event(Event::Request(_)) => served += 1,
                Seen::Event(Event::Refused(_)) => refused += 1,
                _ => {}
            }
        }
    }
    assert!(
        started > 30 && served > 30 && refused > 30,
        "{started} started, {served} served, {refused} refused"
    );
}

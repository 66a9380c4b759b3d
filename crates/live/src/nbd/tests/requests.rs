//! Every command, right and wrong, and payloads.

use super::check::exports;
use super::client::{self, info_data, option, queries, request};
use super::nbd::wire::{cmd, cmd_flag, opt, transmission_flag};
use super::nbd::{Command, Cookie, Errno, Event, Export, Exports, NbdError, Request, Server};
use nandu_base::{ByteLen, ByteOffset};
use std::sync::Arc;

/// A server in the transmission phase on the export "disk".
fn started(knobs: u8, structured: bool) -> Server {
    let mut out = Vec::new();
    let mut server = Server::new(exports(knobs), &mut out);
    let mut stream = client::hello();
    if structured {
        stream.extend(option(opt::STRUCTURED_REPLY, &[]));
        stream.extend(option(opt::SET_META_CONTEXT, &queries("disk", &["base:allocation"])));
    }
    stream.extend(option(opt::GO, &info_data("disk", &[])));
    let mut rest = &stream[..];
    while !rest.is_empty() {
        rest = &rest[server.step(rest, &mut out).expect("a good handshake").consumed..];
    }
    server
}

/// The event one request gives, and its payload if it is refused.
fn ask(server: &mut Server, flags: u16, command: u16, offset: u64, length: u32) -> Event {
    let mut out = Vec::new();
    let head = request(flags, command, 7, offset, length);
    let step = server.step(&head, &mut out).expect("an event");
    assert_eq!(step.consumed, head.len());
    let mut event = step.event;
    let mut left = length as usize;
    let zeroes = [0; 4096];
    while event == Event::NeedMore {
        let step = server.step(&zeroes[..left.min(4096)], &mut out).expect("an event");
        left -= step.consumed;
        event = step.event;
    }
    assert!(out.is_empty());
    event
}

/// The error of a refused request.
fn refused(server: &mut Server, flags: u16, command: u16, offset: u64, length: u32) -> Errno {
    match ask(server, flags, command, offset, length) {
        Event::Refused(refusal) => {
            assert_eq!(refusal.cookie, Cookie(7));
            refusal.errno
        }
        other => panic!("command {command}, flags {flags:#x}, {offset}+{length}: {other:?}"),
    }
}

/// The command and FUA of an admitted request.
fn served(server: &mut Server, flags: u16, command: u16, offset: u64, length: u32) -> (Command, bool) {
    match ask(server, flags, command, offset, length) {
        Event::Request(request) => {
            let extent = (request.cookie, request.offset, request.length);
            assert_eq!(extent, (Cookie(7), ByteOffset(offset), ByteLen(length.into())));
            server.payload_taken(server.payload_owed().0 as usize);
            (request.command, request.fua)
        }
        other => panic!("command {command}, flags {flags:#x}, {offset}+{length}: {other:?}"),
    }
}

const MIB: u64 = 1 << 20;
/// All commands with an extent.
const EXTENT: [u16; 6] = [cmd::READ, cmd::WRITE, cmd::TRIM, cmd::CACHE, cmd::WRITE_ZEROES, cmd::BLOCK_STATUS];

#[test]
fn every_command_is_understood() {
    let s = &mut started(16, true);
    let read = |unfragmented| Command::Read { unfragmented };
    let zeroes = |no_hole, fast| Command::WriteZeroes { no_hole, fast };
    let status = |one| Command::BlockStatus { one };
    let (fua, no_hole, fast) = (cmd_flag::FUA, cmd_flag::NO_HOLE, cmd_flag::FAST_ZERO);
    assert_eq!(served(s, 0, cmd::READ, 1, 2), (read(false), false));
    assert_eq!(served(s, cmd_flag::DF, cmd::READ, 0, 1 << 20), (read(true), false));
    assert_eq!(served(s, fua, cmd::WRITE, MIB - 1, 1), (Command::Write, true));
    assert_eq!(served(s, 0, cmd::FLUSH, 0, 0), (Command::Flush, false));
    assert_eq!(served(s, fua, cmd::TRIM, 0, 1 << 20), (Command::Trim, true));
    assert_eq!(served(s, 0, cmd::CACHE, 0, 1 << 20), (Command::Cache, false));
    assert_eq!(served(s, 0, cmd::WRITE_ZEROES, 0, 9), (zeroes(false, false), false));
    assert_eq!(served(s, fua | no_hole | fast, cmd::WRITE_ZEROES, 0, 9), (zeroes(true, true), true));
    assert_eq!(served(s, 0, cmd::BLOCK_STATUS, 0, 9), (status(false), false));
    assert_eq!(served(s, cmd_flag::REQ_ONE, cmd::BLOCK_STATUS, 0, 9), (status(true), false));
    assert_eq!(ask(s, 0, cmd::DISC, 1, 1), Event::Closed, "even a disconnect that is not quite right");
}

#[test]
fn fua_is_taken_on_every_command_or_on_none() {
    for command in EXTENT {
        assert!(served(&mut started(0, true), cmd_flag::FUA, command, 0, 512).1);
    }
    assert!(served(&mut started(0, true), cmd_flag::FUA, cmd::FLUSH, 0, 0).1);
    for command in [cmd::READ, cmd::WRITE] {
        assert_eq!(refused(&mut started(2, true), cmd_flag::FUA, command, 0, 512), Errno::Inval);
    }
}

#[test]
fn flags_of_other_commands_are_invalid() {
    let own = |command| match command {
        cmd::READ => cmd_flag::DF,
        cmd::WRITE_ZEROES => cmd_flag::NO_HOLE | cmd_flag::FAST_ZERO,
        cmd::BLOCK_STATUS => cmd_flag::REQ_ONE,
        _ => 0,
    };
    let s = &mut started(16, true);
    for command in EXTENT {
        for flag in (1..16).map(|bit| 1 << bit).filter(|flag| own(command) & flag == 0) {
            assert_eq!(refused(s, flag, command, 0, 512), Errno::Inval);
        }
    }
    assert_eq!(
        refused(&mut started(0, false), cmd_flag::DF, cmd::READ, 0, 512),
        Errno::Inval,
        "DF, simple replies"
    );
    let fast = refused(&mut started(0, false), cmd_flag::FAST_ZERO, cmd::WRITE_ZEROES, 0, 512);
    assert_eq!(fast, Errno::NotSup);
}

#[test]
fn what_was_not_offered_is_invalid() {
    let s = &mut started(2, true);
    for command in [cmd::TRIM, cmd::CACHE, cmd::WRITE_ZEROES, 8, 9, 99, u16::MAX] {
        assert_eq!(refused(s, 0, command, 0, 512), Errno::Inval);
    }
    assert_eq!(refused(s, 0, cmd::FLUSH, 0, 0), Errno::Inval);
    assert_eq!(refused(s, cmd_flag::FAST_ZERO, cmd::WRITE_ZEROES, 0, 512), Errno::Inval);
    assert_eq!(refused(&mut started(0, false), 0, cmd::BLOCK_STATUS, 0, 512), Errno::Inval, "no context");
    assert_eq!(refused(&mut started(0, true), 0, cmd::FLUSH, 0, 1), Errno::Inval);
    assert_eq!(refused(&mut started(0, true), 0, cmd::FLUSH, 512, 0), Errno::Inval);
}

#[test]
fn a_read_only_export_is_not_changed() {
    let s = &mut started(1, true);
    for command in [cmd::WRITE, cmd::TRIM, cmd::WRITE_ZEROES] {
        assert_eq!(refused(s, 0, command, 0, 512), Errno::Perm);
    }
    served(s, 0, cmd::READ, 0, 512);
}

#[test]
fn an_extent_ends_inside_the_export() {
    let s = &mut started(0, true);
    for command in EXTENT {
        let beyond =
            if matches!(command, cmd::WRITE | cmd::WRITE_ZEROES) { Errno::NoSpc } else { Errno::Inval };
        for (offset, length) in [(MIB, 1), (MIB - 1, 2), (0, (1 << 20) + 1), (u64::MAX, 1), (u64::MAX - 8, 4)]
        {
            assert_eq!(
                refused(s, 0, command, offset, length),
                beyond,
                "command {command}, {offset}+{length}"
            );
        }
        assert_eq!(refused(s, 0, command, 0, 0), Errno::Inval, "command {command}, nothing");
        served(s, 0, command, MIB - 1, 1);
    }
}

#[test]
fn an_extent_is_aligned_to_the_minimum_block() {
    let s = &mut started(4, true);
    for command in EXTENT {
        for (offset, length) in [(1, 512), (0, 511), (256, 256), (513, 1023)] {
            assert_eq!(refused(s, 0, command, offset, length), Errno::Inval);
        }
        served(s, 0, command, 512, 1024);
    }
}

#[test]
fn a_payload_is_at_most_the_largest() {
    for structured in [false, true] {
        let s = &mut started(8, structured);
        let read = if structured { Errno::Overflow } else { Errno::Inval };
        assert_eq!(refused(s, 0, cmd::READ, 0, 65_537), read);
        assert_eq!(refused(s, 0, cmd::WRITE, 0, 65_537), Errno::Inval);
        for command in [cmd::READ, cmd::WRITE] {
            served(s, 0, command, 0, 65_536);
        }
        for command in [cmd::TRIM, cmd::CACHE, cmd::WRITE_ZEROES] {
            served(s, 0, command, 0, 1 << 20);
        }
    }
}

#[test]
fn a_payload_goes_past_the_codec() {
    let mut out = Vec::new();
    let mut s = started(0, true);
    let mut stream = request(0, cmd::WRITE, 1, 0, 10);
    stream.extend(b"0123");
    let step = s.step(&stream, &mut out).expect("a write");
    assert_eq!(step.consumed, 28, "the payload is left to the driver");
    let write = Request {
        cookie: Cookie(1),
        command: Command::Write,
        fua: false,
        offset: ByteOffset(0),
        length: ByteLen(10),
    };
    assert_eq!(step.event, Event::Request(write));
    assert_eq!(s.payload_taken(4), ByteLen(6));
    for _ in 0..2 {
        let step = s.step(b"456789", &mut out).expect("no error");
        assert_eq!(
            (step.consumed, step.event),
            (0, Event::NeedPayload(ByteLen(6))),
            "asking again does no harm"
        );
    }
    assert_eq!(s.hung_up(), Err(NbdError::HungUp { mid_message: true }));
}

#[test]
#[should_panic(expected = "7 payload bytes taken, 6 owed")]
fn taking_too_much_payload_is_a_fault_of_the_driver() {
    let mut s = started(0, true);
    s.step(&request(0, cmd::WRITE, 1, 0, 6), &mut Vec::new()).expect("a write");
    s.payload_taken(7);
}

#[test]
fn four_gib_of_refused_payload_are_dropped_in_bounded_memory() {
    let (mut out, mut s) = (Vec::new(), started(0, true));
    s.step(&request(0, cmd::WRITE, 1, 0, u32::MAX), &mut out).expect("no error");
    let (zeroes, mut left) = (vec![0; 1 << 20], u64::from(u32::MAX));
    while left > zeroes.len() as u64 {
        let step = s.step(&zeroes, &mut out).expect("no error");
        assert_eq!((step.consumed, step.event), (zeroes.len(), Event::NeedMore));
        left -= step.consumed as u64;
    }
    let step = s.step(&zeroes, &mut out).expect("no error");
    assert_eq!(step.consumed as u64, left, "the next request is not touched");
    assert!(matches!(step.event, Event::Refused(refusal) if refusal.errno == Errno::NoSpc));
    served(&mut s, 0, cmd::READ, 0, 1);
}

#[test]
fn a_stream_out_of_step_ends_the_session() {
    let mut s = started(0, true);
    let mut bytes = request(0, cmd::READ, 1, 0, 1);
    bytes[0] = 0x24;
    let error = s.step(&bytes, &mut Vec::new()).expect_err("bad magic");
    assert_eq!(error, NbdError::RequestMagic { found: 0x2460_9513, wanted: 0x2560_9513 });
    assert_eq!(error.to_string(), "request starts with 0x24609513, not with 0x25609513");
    assert_eq!(s.step(&bytes, &mut Vec::new()).expect("closed").event, Event::Closed);
}

/// A session with extended headers on an export of 8 TiB that takes payloads of 32 MiB, without a metadata context.
fn extended() -> Server {
    extended_after(&[])
}

/// The same after other options.
fn extended_after(options: &[u8]) -> Server {
    let mut disk = Export::new("disk", ByteLen::gib(8 << 10));
    (disk.can_trim, disk.can_flush) = (true, true);
    let mut out = Vec::new();
    let mut server = Server::new(Arc::new(Exports::new(vec![disk]).expect("it is valid")), &mut out);
    let mut stream = client::hello();
    stream.extend(option(opt::EXTENDED_HEADERS, &[]));
    stream.extend(options);
    stream.extend(option(opt::GO, &info_data("disk", &[])));
    let mut rest = &stream[..];
    while !rest.is_empty() {
        rest = &rest[server.step(rest, &mut out).expect("a good handshake").consumed..];
    }
    let end_of_go = 20; // behind the flags
    let flags = out[..out.len() - end_of_go].last_chunk().expect("the flags of the export");
    let offers = u16::from_be_bytes(*flags) & transmission_flag::BLOCK_STATUS_PAYLOAD != 0;
    assert_eq!(offers, !options.is_empty(), "it is offered to who selects a context");
    server
}

#[test]
fn extended_requests_have_64_bits_and_say_whether_a_payload_follows() {
    let (mut s, mut out) = (extended(), Vec::new());
    let mut said = |bytes: &[u8]| {
        let step = s.step(bytes, &mut out).expect("an event");
        s.payload_taken(s.payload_owed().0 as usize);
        (step.consumed, step.event)
    };
    let refused = |event, errno| matches!(event, Event::Refused(refusal) if refusal.errno == errno);
    let trim = client::extended(0, cmd::TRIM, 7, 1 << 40, 5 << 40);
    let (used, event) = said(&trim);
    let request = Request {
        cookie: Cookie(7),
        command: Command::Trim,
        fua: false,
        offset: ByteOffset(1 << 40),
        length: ByteLen(5 << 40),
    };
    assert_eq!((used, event), (32, Event::Request(request)));
    assert!(refused(said(&client::extended(0, cmd::TRIM, 7, 1 << 40, u64::MAX)).1, Errno::Inval));
    assert!(refused(said(&client::extended(0, cmd::READ, 7, 0, 1 << 40)).1, Errno::Overflow));
    let flag = cmd_flag::PAYLOAD_LEN;
    assert!(matches!(said(&client::extended(flag, cmd::WRITE, 7, 0, 9)).1, Event::Request(_)));
    assert!(refused(said(&client::extended(0, cmd::WRITE, 7, 0, 9)).1, Errno::Inval));
    assert!(refused(said(&client::extended(flag, cmd::WRITE, 7, 0, 0)).1, Errno::Inval));
    for command in [cmd::READ, cmd::TRIM, cmd::FLUSH, cmd::BLOCK_STATUS, 99] {
        let mut bytes = client::extended(flag, command, 7, 0, 9);
        bytes.extend([5; 9]);
        let (used, event) = said(&bytes);
        assert!(used == bytes.len() && refused(event, Errno::Inval), "command {command}: {event:?}");
    }
    let long = client::extended(flag, cmd::WRITE, 7, 0, (32 << 20) + 1);
    let error = extended().step(&long, &mut Vec::new()).expect_err("nobody waits for so much");
    assert_eq!(error, NbdError::PayloadTooLong { length: (32 << 20) + 1, most: 32 << 20 });
    let compact = [client::request(0, cmd::READ, 1, 0, 1), vec![0; 4]].concat();
    let error = extended().step(&compact, &mut Vec::new()).expect_err("another magic number");
    assert_eq!(error, NbdError::RequestMagic { found: 0x2560_9513, wanted: 0x21e4_1c71 });
}

#[test]
fn a_block_status_may_name_its_contexts() {
    let ask = |server: &mut Server, flags: u16, payload: &[u8]| {
        let flags = flags | cmd_flag::PAYLOAD_LEN;
        let mut bytes = client::extended(flags, cmd::BLOCK_STATUS, 7, 1 << 40, payload.len() as u64);
        bytes.extend(payload);
        // However it is cut.
        let mut last = Event::NeedMore;
        for (at, byte) in bytes.iter().enumerate() {
            assert_eq!(last, Event::NeedMore, "byte {at} of {}", bytes.len());
            last = server.step(&[*byte], &mut Vec::new()).expect("an event").event;
        }
        last
    };
    let payload = |length: u64, contexts: &[u32]| {
        let contexts = contexts.iter().flat_map(|context| context.to_be_bytes());
        length.to_be_bytes().into_iter().chain(contexts).collect::<Vec<u8>>()
    };
    let select = option(opt::SET_META_CONTEXT, &queries("disk", &["base:allocation"]));
    let mut s = extended_after(&select);
    let request = Request {
        cookie: Cookie(7),
        command: Command::BlockStatus { one: true },
        fua: false,
        offset: ByteOffset(1 << 40),
        length: ByteLen(5 << 40),
    };
    assert_eq!(ask(&mut s, cmd_flag::REQ_ONE, &payload(5 << 40, &[1])), Event::Request(request));
    let bad: [(u64, &[u32]); 7] =
        [(0, &[1]), (8 << 40, &[1]), (u64::MAX, &[1]), (512, &[]), (512, &[0]), (512, &[2]), (512, &[1, 1])];
    for (length, contexts) in bad {
        let event = ask(&mut s, 0, &payload(length, contexts));
        let refused = matches!(event, Event::Refused(refusal) if refusal.errno == Errno::Inval);
        assert!(refused, "{length} {contexts:?}: {event:?}");
    }
    for payload in [&[1; 3][..], &[1; 11], &[1; 13]] {
        assert!(matches!(ask(&mut s, 0, payload), Event::Refused(_)));
    }
    let event = ask(&mut extended(), 0, &payload(512, &[1]));
    assert!(matches!(event, Event::Refused(refusal) if refusal.errno == Errno::Inval), "{event:?}");
    s.shut_down();
    let event = ask(&mut s, 0, &payload(512, &[1]));
    assert!(matches!(event, Event::Refused(refusal) if refusal.errno == Errno::Shutdown), "{event:?}");
    let mut s = extended_after(&select);
    let head = client::extended(cmd_flag::PAYLOAD_LEN, cmd::BLOCK_STATUS, 7, 0, 12);
    assert_eq!(s.step(&head, &mut Vec::new()).expect("an event").event, Event::NeedMore);
    assert_eq!(s.hung_up(), Err(NbdError::HungUp { mid_message: true }));
}

#[test]
fn a_server_that_goes_away_serves_no_more() {
    let mut s = started(0, true);
    s.shut_down();
    for command in EXTENT {
        assert_eq!(refused(&mut s, 0, command, 0, 512), Errno::Shutdown);
    }
    assert_eq!(refused(&mut s, 0, cmd::FLUSH, 0, 0), Errno::Shutdown);
    assert_eq!(ask(&mut s, 0, cmd::DISC, 0, 0), Event::Closed);
}

//! Every option, right and wrong.

use super::check::exports;
use super::client::{self, info_data, option, option_replies, queries};
use super::driver::Memory;
use super::nbd::wire::{self, info, opt, rep};
use super::nbd::{
    BlockSizes, Event, Export, ExportProblem, Exports, Fault, NbdError, OPTION_DATA_MAX, Server, Session, Tls,
};
use nandu_base::{ByteLen, ByteOffset};

fn connected(knobs: u8) -> Memory {
    let (mut server, _) = Memory::connect(exports(knobs));
    server.say(&client::hello()).expect("a good hello");
    server
}

/// Kinds of the replies to one option.
fn kinds(server: &mut Memory, number: u32, data: &[u8]) -> Vec<u32> {
    let sent = server.say(&option(number, data)).expect("an answer");
    let replies = option_replies(&sent).expect("option replies");
    assert!(replies.iter().all(|reply| reply.option == number));
    replies.iter().map(|reply| reply.kind).collect()
}

/// Starts a session and returns what was agreed on.
fn session(messages: &[Vec<u8>]) -> Session {
    let mut out = Vec::new();
    let mut server = Server::new(exports(0), &mut out);
    let stream: Vec<u8> = client::hello().into_iter().chain(messages.concat()).collect();
    let mut rest = &stream[..];
    loop {
        let step = server.step(rest, &mut out).expect("a good session");
        rest = &rest[step.consumed..];
        match step.event {
            Event::Started(session) => return session,
            Event::Answered => {}
            other => panic!("{other:?} before the session starts"),
        }
    }
}

#[test]
fn what_a_server_does_not_have_is_unsupported_and_skipped() {
    let mut server = connected(0);
    for number in [0, 4, opt::STARTTLS, 12, 0x4e42_4400, u32::MAX] {
        assert_eq!(kinds(&mut server, number, b"some data"), [rep::ERR_UNSUP]);
    }
    let huge = vec![0; OPTION_DATA_MAX as usize * 3];
    assert_eq!(kinds(&mut server, 99, &huge), [rep::ERR_UNSUP]);
    assert_eq!(kinds(&mut server, opt::LIST, &[]), [rep::SERVER, rep::SERVER, rep::ACK]);
}

/// Kinds of the replies to one option, without a driver.
fn replies_of(server: &mut Server, number: u32, data: &[u8]) -> Vec<u32> {
    let mut out = Vec::new();
    server.step(&option(number, data), &mut out).expect("an answer");
    option_replies(&out).expect("option replies").iter().map(|reply| reply.kind).collect()
}

/// A server that has been greeted.
fn greeted(tls: Tls) -> Server {
    let mut out = Vec::new();
    let mut server = Server::new(exports(0), &mut out);
    server.set_tls(tls);
    server.step(&client::hello(), &mut out).expect("a good hello");
    server
}

#[test]
fn tls_comes_first_where_it_is_required_and_haggling_begins_anew_behind_it() {
    for tls in [Tls::Offered, Tls::Required] {
        let mut server = greeted(tls);
        let or_tls = |kind| if tls == Tls::Required { [rep::ERR_TLS_REQD] } else { [kind] };
        assert_eq!(replies_of(&mut server, opt::EXTENDED_HEADERS, &[]), or_tls(rep::ACK));
        assert_eq!(replies_of(&mut server, opt::STRUCTURED_REPLY, &[]), or_tls(rep::ERR_EXT_HEADER_REQD));
        assert_eq!(replies_of(&mut server, 99, &[]), or_tls(rep::ERR_UNSUP));
        assert_eq!(replies_of(&mut server, opt::STARTTLS, b"x"), [rep::ERR_INVALID]);
        // What follows in the clear is no option: it is input to TLS.
        let stream = [option(opt::STARTTLS, &[]), option(opt::LIST, &[])].concat();
        let mut out = Vec::new();
        let step = server.step(&stream, &mut out).expect("an answer");
        assert_eq!((step.consumed, step.event), (stream.len() / 2, Event::StartsTls));
        assert_eq!(option_replies(&out).expect("a reply")[0].kind, rep::ACK);
        assert_eq!(replies_of(&mut server, opt::STARTTLS, &[]), [rep::ERR_INVALID]);
        let again = replies_of(&mut server, opt::STRUCTURED_REPLY, &[]);
        assert_eq!(again, [rep::ACK], "extended headers are forgotten");
        assert_eq!(replies_of(&mut server, opt::ABORT, &[]), [rep::ACK]);
    }
    let stream = option(opt::EXPORT_NAME, b"disk");
    let error = greeted(Tls::Required).step(&stream, &mut Vec::new()).expect_err("it has no other answer");
    assert_eq!((&error, error.fault()), (&NbdError::TlsRequired, Fault::Peer));
    assert_eq!(replies_of(&mut greeted(Tls::Absent), opt::STARTTLS, &[]), [rep::ERR_UNSUP]);
}

#[test]
fn options_without_data_take_none() {
    let mut server = connected(0);
    for number in [opt::LIST, opt::STRUCTURED_REPLY, opt::EXTENDED_HEADERS] {
        assert_eq!(kinds(&mut server, number, b"x"), [rep::ERR_INVALID]);
    }
    assert_eq!(kinds(&mut server, opt::STRUCTURED_REPLY, &[]), [rep::ACK]);
    assert_eq!(kinds(&mut server, opt::STRUCTURED_REPLY, &[]), [rep::ACK], "asking twice does no harm");
    assert_eq!(kinds(&mut server, opt::ABORT, b"ignored"), [rep::ACK]);
    assert!(server.say(b"anything").expect("dropped").is_empty());
}

#[test]
fn information_is_given_as_asked() {
    let mut server = connected(0);
    let all = [info::EXPORT, info::NAME, info::DESCRIPTION, info::BLOCK_SIZE, 77, info::NAME];
    let mut info = |name: &str, asked: &[u16]| kinds(&mut server, opt::INFO, &info_data(name, asked));
    assert_eq!(info("disk", &[]), [rep::INFO, rep::ACK]);
    assert_eq!(info("disk", &all), [rep::INFO, rep::INFO, rep::INFO, rep::INFO, rep::ACK]);
    assert_eq!(info("small", &all), [rep::INFO, rep::INFO, rep::INFO, rep::ACK], "small has no description");
    assert_eq!(info("", &[]), [rep::INFO, rep::ACK]);
    assert_eq!(info("nothing", &all), [rep::ERR_UNKNOWN]);
}

#[test]
fn malformed_lengths_are_invalid() {
    let mut server = connected(0);
    kinds(&mut server, opt::STRUCTURED_REPLY, &[]);
    let long = "x".repeat(wire::STRING_MAX + 1);
    for number in [opt::INFO, opt::GO] {
        let good = info_data("disk", &[3]);
        for end in 0..good.len() {
            assert_eq!(kinds(&mut server, number, &good[..end]), [rep::ERR_INVALID], "cut at {end}");
        }
        assert_eq!(kinds(&mut server, number, &[&good[..], b"x"].concat()), [rep::ERR_INVALID]);
        assert_eq!(kinds(&mut server, number, &info_data(&long, &[])), [rep::ERR_INVALID]);
    }
    for number in [opt::LIST_META_CONTEXT, opt::SET_META_CONTEXT] {
        let good = queries("disk", &["base:allocation"]);
        for end in 0..good.len() {
            assert_eq!(kinds(&mut server, number, &good[..end]), [rep::ERR_INVALID], "cut at {end}");
        }
        assert_eq!(kinds(&mut server, number, &[&good[..], b"x"].concat()), [rep::ERR_INVALID]);
        assert_eq!(kinds(&mut server, number, &queries("disk", &[&long])), [rep::ERR_INVALID]);
    }
}

#[test]
fn long_option_data_is_dropped_and_the_next_option_works() {
    let mut server = connected(0);
    let long = vec![0; OPTION_DATA_MAX as usize + 1];
    for number in [opt::INFO, opt::GO, opt::LIST_META_CONTEXT, opt::SET_META_CONTEXT] {
        assert_eq!(kinds(&mut server, number, &long), [rep::ERR_TOO_BIG]);
    }
    assert_eq!(kinds(&mut server, opt::GO, &info_data("disk", &[])), [rep::INFO, rep::ACK]);
}

#[test]
fn contexts_are_listed_and_selected() {
    let mut server = connected(0);
    let both = [opt::LIST_META_CONTEXT, opt::SET_META_CONTEXT];
    for number in both {
        let data = queries("disk", &["base:allocation"]);
        assert_eq!(kinds(&mut server, number, &data), [rep::ERR_INVALID], "no structured replies yet");
    }
    kinds(&mut server, opt::STRUCTURED_REPLY, &[]);
    let mut ask =
        |number, name: &str, list: &[&str]| kinds(&mut server, number, &queries(name, list)).len() == 2;
    for number in both {
        assert!(ask(number, "disk", &["base:allocation"]));
        assert!(ask(number, "disk", &["x:y", "base:allocation", "base:allocation"]), "once is enough");
        assert!(!ask(number, "disk", &["qemu:dirty-bitmap:x", "base:other", "nocolon", ""]));
        assert!(!ask(number, "none", &["base:allocation"]));
    }
    assert!(ask(opt::LIST_META_CONTEXT, "disk", &[]) && ask(opt::LIST_META_CONTEXT, "disk", &["base:"]));
    assert!(!ask(opt::SET_META_CONTEXT, "disk", &[]) && !ask(opt::SET_META_CONTEXT, "disk", &["base:"]));
}

#[test]
fn the_last_selection_for_the_chosen_export_counts() {
    let structured = || option(opt::STRUCTURED_REPLY, &[]);
    let set = |name: &str, list: &[&str]| option(opt::SET_META_CONTEXT, &queries(name, list));
    let go = |name: &str| option(opt::GO, &info_data(name, &[]));
    let base = ["base:allocation"];
    assert!(session(&[structured(), set("disk", &base), go("disk")]).block_status);
    assert!(session(&[structured(), set("", &base), option(opt::EXPORT_NAME, b"disk")]).block_status);
    assert!(!session(&[structured(), set("disk", &base), go("small")]).block_status, "another export");
    assert!(
        !session(&[structured(), set("disk", &base), set("disk", &[]), go("disk")]).block_status,
        "undone"
    );
    let long = vec![0; OPTION_DATA_MAX as usize + 1];
    let failed = option(opt::SET_META_CONTEXT, &long);
    assert!(
        !session(&[structured(), set("disk", &base), failed, go("disk")]).block_status,
        "undone by failing"
    );
    let plain = session(&[go("small")]);
    assert!((plain.export, plain.replies.structured(ByteOffset(0))) == (1, None));
    let extended = || option(opt::EXTENDED_HEADERS, &[]);
    assert!(session(&[extended(), set("disk", &base), go("disk")]).block_status, "they are enough");
}

/// Runs a stream to its fatal error.
fn fatal(stream: &[u8], shut_down: bool) -> NbdError {
    let mut out = Vec::new();
    let mut server = Server::new(exports(0), &mut out);
    if shut_down {
        server.shut_down();
    }
    let error = server.step(stream, &mut out).expect_err("a fatal error");
    assert_eq!(server.hung_up(), Ok(()), "after an error the session is closed");
    error
}

#[test]
fn what_cannot_be_answered_ends_the_session() {
    let after_hello = |bytes: Vec<u8>| [client::hello(), bytes].concat();
    let flags = fatal(&[0, 0, 0, 7], false);
    assert_eq!((&flags, flags.fault()), (&NbdError::ClientFlags { flags: 7 }, Fault::Peer));
    let magic = fatal(&after_hello(b"GET / HTTP/1.1\r\n".to_vec()), false);
    assert_eq!(magic, NbdError::OptionMagic { found: u64::from_be_bytes(*b"GET / HT") });
    let unknown = fatal(&after_hello(option(opt::EXPORT_NAME, b"\xffx")), false);
    assert_eq!(unknown, NbdError::UnknownExport { name: "\u{fffd}x".into() });
    assert_eq!(unknown.fault(), Fault::Unsupported);
    let extended = [option(opt::EXTENDED_HEADERS, &[]), option(opt::EXPORT_NAME, b"disk")].concat();
    let mut server = connected(0);
    assert_eq!(server.say(&extended), Err(NbdError::ExportNameExtended));
    let long = fatal(&after_hello(option(opt::EXPORT_NAME, &[b'x'; 4097])), false);
    assert_eq!(long, NbdError::ExportNameTooLong { length: 4097 });
    let leaving = fatal(&after_hello(option(opt::EXPORT_NAME, b"disk")), true);
    assert_eq!((leaving.fault(), leaving), (Fault::Server, NbdError::ShuttingDown));
}

#[test]
fn a_server_that_goes_away_says_so() {
    let mut out = Vec::new();
    let mut server = Server::new(exports(0), &mut out);
    out.clear();
    server.shut_down();
    let mut stream = client::hello();
    stream.extend(option(opt::GO, &info_data("disk", &[])));
    assert_eq!(server.step(&stream, &mut out).expect("an answer").event, Event::Answered);
    assert_eq!(option_replies(&out).expect("replies")[0].kind, rep::ERR_SHUTDOWN);
    let end = server.step(&option(opt::ABORT, &[]), &mut out).expect("an answer");
    assert_eq!(end.event, Event::Closed);
}

#[test]
fn hanging_up_tells_where() {
    let mut out = Vec::new();
    for (stream, mid_message) in [(&[][..], false), (&[0, 0][..], true), (&[0, 0, 0, 3][..], false)] {
        let mut server = Server::new(exports(0), &mut out);
        server.step(stream, &mut out).expect("no error yet");
        assert_eq!(server.hung_up(), Err(NbdError::HungUp { mid_message }));
    }
}

#[test]
fn exports_are_checked_before_they_are_offered() {
    let problem = |change: &dyn Fn(&mut Export)| {
        let mut export = Export::new("x", ByteLen::mib(1));
        change(&mut export);
        Exports::new(vec![export]).err().map(|error| error.problem)
    };
    let blocks = |minimum, preferred, maximum| {
        let blocks = BlockSizes {
            minimum: ByteLen(minimum),
            preferred: ByteLen(preferred),
            maximum: ByteLen(maximum),
        };
        problem(&|export| export.blocks = blocks)
    };
    assert_eq!(problem(&|_| {}), None);
    assert_eq!(blocks(1 << 16, 1 << 31, 1 << 31), None);
    assert_eq!(problem(&|export| export.name = "x".repeat(4097)), Some(ExportProblem::StringTooLong));
    assert_eq!(problem(&|export| export.description = "a\0b".into()), Some(ExportProblem::Nul));
    for minimum in [0, 3, 1 << 17] {
        assert_eq!(blocks(minimum, 4096, 1 << 20), Some(ExportProblem::Minimum(ByteLen(minimum))));
    }
    for preferred in [0, 256, 2048, 5000, 1 << 32] {
        assert_eq!(blocks(4096, preferred, 1 << 31), Some(ExportProblem::Preferred(ByteLen(preferred))));
    }
    for maximum in [0, 4096, (1 << 31) + 1] {
        assert_eq!(blocks(1, 4096, maximum), Some(ExportProblem::Maximum(ByteLen(maximum))));
    }
    for size in [1, (1 << 20) + 511, 1 << 63] {
        let odd = problem(&|export| {
            export.size = ByteLen(size);
            export.blocks.minimum = ByteLen(512);
        });
        assert_eq!(odd, Some(ExportProblem::Size(ByteLen(size))));
    }
    let twin = || Export::new("x", ByteLen(0));
    let twice = Exports::new(vec![twin(), twin()]).expect_err("two of one name");
    assert_eq!(twice.to_string(), "export \"x\": the name is used twice");
    assert_eq!(Exports::default().find(b""), None);
}

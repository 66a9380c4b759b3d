//! Every kind of reply, byte by byte, and the rules of block status.

use super::check::exports;
use super::client::{self, info_data, option};
use super::nbd::wire::opt;
use super::nbd::{
    Allocation, Command, Cookie, EXTENDED_EXTENTS_MAX, EXTENTS_MAX, Errno, Event, Head, MESSAGE_MAX, Place,
    Refusal, Replies, Request, Server, StatusReply,
};
use nandu_base::{ByteLen, ByteOffset};

fn replies(structured: bool) -> Replies {
    after(if structured { &[opt::STRUCTURED_REPLY] } else { &[] })
}

/// How a session wants its replies after some options.
fn after(options: &[u32]) -> Replies {
    let mut out = Vec::new();
    let mut server = Server::new(exports(0), &mut out);
    let mut stream = client::hello();
    options.iter().for_each(|&number| stream.extend(option(number, &[])));
    stream.extend(option(opt::GO, &info_data("disk", &[])));
    let mut rest = &stream[..];
    loop {
        let step = server.step(rest, &mut out).expect("a good handshake");
        rest = &rest[step.consumed..];
        if let Event::Started(session) = step.event {
            return session.replies;
        }
    }
}

fn hex(head: Head) -> String {
    head.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

const COOKIE: Cookie = Cookie(0x0102_0304_0506_0708);
const AT: ByteOffset = ByteOffset(0x1000);

#[test]
fn simple_replies() {
    let r = replies(false);
    assert_eq!(hex(r.ok(COOKIE, AT)), "67446698000000000102030405060708");
    assert_eq!(hex(r.read(COOKIE, AT, ByteLen(512))), "67446698000000000102030405060708");
    assert_eq!(hex(r.error(COOKIE, AT, Errno::Io, "gone")), "67446698000000050102030405060708");
    let refusal = Refusal { cookie: COOKIE, offset: AT, errno: Errno::Overflow, reason: "big" };
    assert_eq!(hex(r.refuse(&refusal)), "674466980000004b0102030405060708");
    assert_eq!(r.structured(AT), None);
}

#[test]
fn structured_replies() {
    let r = replies(true);
    let s = r.structured(AT).expect("negotiated");
    let cookie = "0102030405060708";
    let at = "0000000000001000";
    assert_eq!(hex(r.ok(COOKIE, AT)), format!("6744669800000000{cookie}"));
    // magic, flags, type, cookie, length of payload, then the payload's fixed part
    assert_eq!(hex(r.read(COOKIE, AT, ByteLen(512))), format!("668e33ef00010001{cookie}00000208{at}"));
    assert_eq!(
        hex(s.data(COOKIE, AT, ByteLen(1), Place::More)),
        format!("668e33ef00000001{cookie}00000009{at}")
    );
    assert_eq!(
        hex(s.hole(COOKIE, AT, ByteLen(0xffff_ffff), Place::Last)),
        format!("668e33ef00010002{cookie}0000000c{at}ffffffff")
    );
    assert_eq!(hex(s.end(COOKIE)), format!("668e33ef00010000{cookie}00000000"));
    assert_eq!(
        hex(r.error(COOKIE, AT, Errno::NotSup, "")),
        format!("668e33ef00018001{cookie}000000060000005f0000")
    );
    assert_eq!(
        hex(r.error(COOKIE, AT, Errno::Shutdown, "bye")),
        format!("668e33ef00018001{cookie}000000090000006c0003627965")
    );
    assert_eq!(
        hex(s.error_at(COOKIE, Errno::Io, AT, "ab", Place::More)),
        format!("668e33ef00008002{cookie}000000100000000500026162{at}")
    );
}

#[test]
fn extended_replies() {
    let r = after(&[opt::STRUCTURED_REPLY, opt::EXTENDED_HEADERS]);
    let s = r.structured(AT).expect("negotiated");
    let (cookie, at) = ("0102030405060708", "0000000000001000");
    // magic, flags, type, cookie, offset of the request, length of payload, then the payload's fixed part
    assert_eq!(hex(r.ok(COOKIE, AT)), format!("6e8a278c00010000{cookie}{at}0000000000000000"));
    assert_eq!(
        hex(r.read(COOKIE, AT, ByteLen(512))),
        format!("6e8a278c00010001{cookie}{at}0000000000000208{at}")
    );
    assert_eq!(
        hex(s.hole(COOKIE, ByteOffset(0x1200), ByteLen(0xffff_ffff), Place::More)),
        format!("6e8a278c00000002{cookie}{at}000000000000000c0000000000001200ffffffff")
    );
    assert_eq!(hex(s.end(COOKIE)), format!("6e8a278c00010000{cookie}{at}0000000000000000"));
    assert_eq!(
        hex(r.error(COOKIE, AT, Errno::Shutdown, "bye")),
        format!("6e8a278c00018001{cookie}{at}00000000000000090000006c0003627965")
    );
    assert_eq!(
        hex(s.error_at(COOKIE, Errno::Io, ByteOffset(0x1200), "ab", Place::Last)),
        format!("6e8a278c00018002{cookie}{at}000000000000001000000005000261620000000000001200")
    );
    let long = r.error(COOKIE, AT, Errno::Io, &"x".repeat(5000));
    assert_eq!(long.as_bytes().len(), 32 + 6 + MESSAGE_MAX);
}

#[test]
fn extended_block_status_has_64_bits() {
    let r = after(&[opt::EXTENDED_HEADERS]);
    let mut out = Vec::new();
    let mut reply = StatusReply::new(r, &status_request(5 << 40, false), &mut out);
    assert!(reply.push(ByteLen(3 << 40), Allocation::ZeroHole));
    assert!(!reply.push(ByteLen(9 << 40), Allocation::Data));
    let head = hex(reply.finish());
    assert!(
        head.starts_with("6e8a278c00010006") && head.ends_with("00000000000000280000000100000002"),
        "{head}"
    );
    let words: Vec<u64> =
        out.chunks(8).map(|word| u64::from_be_bytes(word.try_into().expect("eight bytes"))).collect();
    assert_eq!(words, [3 << 40, 3, 2 << 40, 0]);
    let mut reply = StatusReply::new(r, &status_request(1 << 30, false), &mut out);
    for state in [Allocation::Data, Allocation::Hole].repeat(EXTENDED_EXTENTS_MAX) {
        reply.push(ByteLen(1), state);
    }
    assert!(hex(reply.finish()).ends_with("000000000000fff80000000100000fff"));
}

#[test]
fn long_messages_are_cut_between_characters() {
    let r = replies(true);
    let s = r.structured(AT).expect("negotiated");
    for text in ["x".repeat(5000), "\u{fc}".repeat(60), format!("x{}", "\u{20ac}".repeat(60))] {
        for head in
            [r.error(COOKIE, AT, Errno::Io, &text), s.error_at(COOKIE, Errno::Io, AT, &text, Place::Last)]
        {
            let bytes = head.as_bytes();
            let length = usize::from(u16::from_be_bytes([bytes[24], bytes[25]]));
            assert!((MESSAGE_MAX - 2..=MESSAGE_MAX).contains(&length));
            assert!(
                text.starts_with(std::str::from_utf8(&bytes[26..26 + length]).expect("whole characters"))
            );
        }
    }
}

#[test]
fn linux_errors_become_errors_of_the_protocol() {
    let pairs = [
        (1, 1),
        (13, 1),
        (30, 1),
        (5, 5),
        (12, 12),
        (22, 22),
        (28, 28),
        (122, 28),
        (27, 28),
        (95, 5),
        (999, 5),
    ];
    for (linux, number) in pairs {
        assert_eq!(Errno::from_linux(linux).number(), number);
    }
}

fn status_request(length: u64, one: bool) -> Request {
    let command = Command::BlockStatus { one };
    Request { cookie: COOKIE, command, fua: false, offset: AT, length: ByteLen(length) }
}

/// Head in hex, extents as (length, state), and what `push` said of each.
fn status(length: u64, one: bool, extents: &[(u64, Allocation)]) -> (String, Vec<(u32, u32)>, Vec<bool>) {
    let mut out = b"before".to_vec();
    let request = status_request(length, one);
    let mut reply = StatusReply::new(replies(true), &request, &mut out);
    let more = extents.iter().map(|&(length, state)| reply.push(ByteLen(length), state)).collect();
    let head = hex(reply.finish());
    let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    let found = out[6..].chunks(8).map(|pair| (word(&pair[..4]), word(&pair[4..]))).collect();
    (head, found, more)
}

#[test]
fn block_status_without_extents_is_data() {
    let (head, extents, _) = status(4096, false, &[]);
    assert_eq!(head, "668e33ef0001000501020304050607080000000c00000001");
    assert_eq!(extents, [(4096, 0)]);
}

#[test]
fn block_status_merges_and_cuts() {
    use Allocation::{Data, Hole, Zero, ZeroHole};
    let pushed =
        [(512, Data), (0, Zero), (512, Data), (1024, ZeroHole), (512, Zero), (9999, Hole), (1, Data)];
    let (head, extents, more) = status(4096, false, &pushed);
    assert_eq!(extents, [(1024, 0), (1024, 3), (512, 2), (1536, 1)]);
    assert_eq!(more, [true, true, true, true, true, false, false]);
    assert!(head.ends_with("0000002400000001"), "36 bytes of payload: {head}");
    let (_, extents, more) = status(4096, true, &[(512, Data), (512, Data), (512, Hole), (512, Data)]);
    assert_eq!((extents, more), (vec![(1024, 0)], vec![true, true, false, false]));
    let (_, extents, _) = status(u32::MAX.into(), true, &[(u64::MAX, ZeroHole)]);
    assert_eq!(extents, [(u32::MAX, 3)]);
}

#[test]
fn block_status_keeps_to_its_size() {
    let alternate = [(1, Allocation::Data), (1, Allocation::Hole)].repeat(EXTENTS_MAX);
    let (head, extents, more) = status(1 << 30, false, &alternate);
    assert_eq!(extents.len(), EXTENTS_MAX);
    assert_eq!(more.iter().filter(|&&more| more).count(), EXTENTS_MAX);
    assert!(head.ends_with("0000fffc00000001"), "65532 bytes: {head}");
}

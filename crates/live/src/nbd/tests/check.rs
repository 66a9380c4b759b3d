//! Runs any bytes through a server and checks what must hold for all of them. Shared with the fuzzer
//! (`fuzz/fuzz_targets/nbd.rs` includes this file and `client.rs`).
//!
//! An input is one byte of knobs (see [`exports`]), one byte that seeds the cuts, then the client's stream.
//!
//! Checked: no panic; every call makes progress; the session is the same however the stream is cut; what the server
//! sends can be parsed by a client; payload goes through whole. Not checked: that the answers are the right ones;
//! the conversations and the tables do that.

use std::sync::Arc;

use super::client::{self, Reply};
use super::nbd::wire::{self, chunk, rep};
use super::nbd::{
    Allocation, BlockSizes, Command, Errno, Event, Export, Exports, NbdError, Place, Replies, Request,
    Server, Session, StatusReply,
};
use nandu_base::{ByteLen, ByteOffset};

/// Knobs: 1 read-only, 2 nothing but read and write, 4 minimum block 512, 8 largest payload 64 KiB, 16 fast zeroes,
/// 32 the server shuts down after three events.
pub fn exports(knobs: u8) -> Arc<Exports> {
    let on = |bit: u8| knobs & bit != 0;
    let rich = !on(2);
    let mut disk = Export::new("disk", ByteLen::mib(1));
    disk.description = "a test disk".into();
    disk.read_only = on(1);
    disk.can_flush = rich;
    disk.can_fua = rich;
    disk.can_trim = rich;
    disk.can_write_zeroes = rich;
    disk.can_cache = rich;
    disk.multi_conn = rich;
    disk.can_fast_zero = on(16);
    disk.blocks = BlockSizes {
        minimum: ByteLen(if on(4) { 512 } else { 1 }),
        maximum: if on(8) { ByteLen::kib(64) } else { BlockSizes::default().maximum },
        ..BlockSizes::default()
    };
    let mut small = Export::new("small", ByteLen::kib(4));
    small.read_only = true;
    small.rotational = true;
    Arc::new(Exports::new(vec![disk, small]).expect("both exports are valid"))
}

/// What one session was seen to do, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    Sent(Vec<u8>),
    Event(Event),
    Payload(Vec<u8>),
    Failed(NbdError),
    Ended(Result<(), NbdError>),
}

/// Runs one input, cut in several ways. Panics if anything does not hold.
pub fn check(input: &[u8]) -> Vec<Seen> {
    let &[knobs, seed, ref stream @ ..] = input else {
        return Vec::new();
    };
    let whole = run(knobs, stream, |left| left);
    let bytewise = run(knobs, stream, |_| 1);
    assert_eq!(whole, bytewise, "fed whole (left) and byte by byte (right)");
    let mut state = u32::from(seed) | 0x100;
    let pieces = run(knobs, stream, |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        1 + (state >> 16) as usize % 67
    });
    assert_eq!(whole, pieces, "fed whole (left) and in pieces (right), seed {seed}");
    whole
}

struct Run {
    server: Server,
    session: Option<Session>,
    out: Vec<u8>,
    seen: Vec<Seen>,
    events: usize,
    shut_down_after: usize,
}

/// Feeds a stream, cut where `cut` says (bytes of the next piece, given those left).
fn run(knobs: u8, stream: &[u8], mut cut: impl FnMut(usize) -> usize) -> Vec<Seen> {
    let mut out = Vec::new();
    let server = Server::new(exports(knobs), &mut out);
    assert_eq!(out.len(), wire::GREETING_BYTES);
    out.clear();
    let shut_down_after = if knobs & 32 != 0 { 3 } else { usize::MAX };
    let mut run = Run { server, session: None, out, seen: Vec::new(), events: 0, shut_down_after };
    let mut rest = stream;
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(cut(rest.len()).clamp(1, rest.len()));
        rest = later;
        if !run.feed(piece) {
            break;
        }
    }
    let ended = run.server.hung_up();
    run.seen.push(Seen::Ended(ended));
    assert_eq!(run.server.hung_up(), Ok(()), "the second time it is closed");
    run.seen
}

impl Run {
    /// Feeds one piece; false once the session is over.
    fn feed(&mut self, mut piece: &[u8]) -> bool {
        while !piece.is_empty() {
            if self.server.payload_owed() > ByteLen::ZERO {
                piece = self.take_payload(piece);
                continue;
            }
            let step = match self.server.step(piece, &mut self.out) {
                Ok(step) => step,
                Err(error) => {
                    self.flush();
                    self.seen.push(Seen::Failed(error));
                    let again = self.server.step(piece, &mut self.out).expect("closed is not an error");
                    assert_eq!(again.event, Event::Closed);
                    return false;
                }
            };
            assert!(step.consumed <= piece.len());
            assert!(step.consumed > 0, "no progress: {step:?}");
            piece = &piece[step.consumed..];
            if step.event == Event::NeedMore {
                assert!(piece.is_empty() && self.out.is_empty(), "{step:?} leaves {} bytes", piece.len());
                return true;
            }
            self.seen.push(Seen::Event(step.event));
            self.event(step.event);
            if step.event == Event::Closed {
                return false;
            }
        }
        true
    }

    fn event(&mut self, event: Event) {
        self.events += 1;
        if self.events == self.shut_down_after {
            self.server.shut_down();
        }
        self.check_sent(event);
        self.flush();
        match event {
            Event::Started(session) => self.session = Some(session),
            Event::Request(request) => {
                check_request(self.server.exports(), self.session.expect("started"), &request);
                check_replies(self.session.expect("started").replies, &request);
                if request.command == Command::Write {
                    assert_eq!(self.server.payload_owed(), request.length);
                    self.seen.push(Seen::Payload(Vec::new()));
                }
            }
            Event::NeedPayload(owed) => panic!("{owed:?} of payload owed though all was taken"),
            Event::Refused(refusal) => {
                let replies = self.session.expect("started").replies;
                let head = replies.refuse(&refusal);
                let asked = (refusal.cookie.0, refusal.offset.0);
                check_head(head.as_bytes(), replies, asked, Some(refusal.errno));
            }
            _ => {}
        }
    }

    fn take_payload<'a>(&mut self, rest: &'a [u8]) -> &'a [u8] {
        let owed = self.server.payload_owed();
        let step = self.server.step(rest, &mut self.out).expect("waiting for payload is not an error");
        assert_eq!((step.consumed, step.event), (0, Event::NeedPayload(owed)));
        let (now, later) = rest.split_at(rest.len().min(owed.0 as usize));
        let left = self.server.payload_taken(now.len());
        assert_eq!(left.0, owed.0 - now.len() as u64);
        match self.seen.last_mut() {
            Some(Seen::Payload(payload)) => payload.extend(now),
            other => panic!("payload after {other:?}"),
        }
        later
    }

    fn flush(&mut self) {
        if !self.out.is_empty() {
            self.seen.push(Seen::Sent(std::mem::take(&mut self.out)));
        }
    }

    /// Every option is answered by a series of replies that ends with an acknowledgement or an error.
    fn check_sent(&self, event: Event) {
        match event {
            Event::Answered | Event::Started(_) => {}
            Event::Closed if self.session.is_none() => {}
            _ => return assert!(self.out.is_empty(), "{event:?} writes to `out`"),
        }
        if matches!(event, Event::Started(_)) && [10, 134].contains(&self.out.len()) {
            return;
        }
        let replies = client::option_replies(&self.out).expect("option replies");
        let (last, before) = replies.split_last().expect("at least one reply");
        assert!(last.kind == rep::ACK || last.kind & rep::ERROR_BIT != 0, "{last:?}");
        assert!(matches!(event, Event::Answered) || last.kind == rep::ACK);
        assert!(before.iter().all(|one| one.option == last.option && (2..=4).contains(&one.kind)));
    }
}

/// What [`Request`] promises.
fn check_request(exports: &[Export], session: Session, request: &Request) {
    let export = &exports[session.export];
    assert!(export.contains(request.offset, request.length), "{request:?}");
    assert_eq!((request.offset.0 | request.length.0) % export.blocks.minimum.0, 0, "{request:?}");
    assert!(!request.fua || export.can_fua);
    let payload = request.length <= export.blocks.maximum;
    match request.command {
        Command::Read { unfragmented } => {
            assert!(payload && (!unfragmented || session.replies.structured(request.offset).is_some()))
        }
        Command::Write => assert!(payload && !export.read_only),
        Command::Flush => assert!(export.can_flush && request.length == ByteLen::ZERO),
        Command::Trim => assert!(export.can_trim && !export.read_only),
        Command::WriteZeroes { fast, .. } => {
            assert!(export.can_write_zeroes && !export.read_only && (!fast || export.can_fast_zero))
        }
        Command::Cache => assert!(export.can_cache),
        Command::BlockStatus { .. } => assert!(session.block_status),
    }
    assert!(request.command == Command::Flush || request.length > ByteLen::ZERO);
}

/// Every reply that fits the request parses.
fn check_replies(replies: Replies, request: &Request) {
    let (cookie, at) = (request.cookie, request.offset);
    let raw = (cookie.0, at.0);
    check_head(replies.error(cookie, at, Errno::Io, "no").as_bytes(), replies, raw, Some(Errno::Io));
    match (request.command, replies.structured(at)) {
        (Command::Read { .. }, Some(structured)) => {
            let head = structured.data(cookie, request.offset, request.length, Place::More);
            let sizes = [wire::CHUNK_HEAD_BYTES + 8, wire::EXTENDED_CHUNK_HEAD_BYTES + 8];
            assert!(sizes.contains(&head.as_bytes().len()));
            let head = structured.hole(cookie, request.offset, request.length, Place::More);
            check_head(head.as_bytes(), replies, raw, None);
            let head = structured.error_at(cookie, Errno::Io, request.offset, "no", Place::Last);
            check_head(head.as_bytes(), replies, raw, Some(Errno::Io));
        }
        (Command::Read { .. }, None) => {
            let head = replies.read(cookie, request.offset, request.length);
            check_head(head.as_bytes(), replies, raw, None);
        }
        (Command::BlockStatus { one }, _) => check_status(replies, request, one),
        _ => check_head(replies.ok(cookie, at).as_bytes(), replies, raw, None),
    }
}

/// A head without data is one whole reply to the right request.
fn check_head(head: &[u8], replies: Replies, (cookie, at): (u64, u64), errno: Option<Errno>) {
    let mut fields = wire::Fields(head);
    match client::reply(&mut fields).expect("a reply") {
        Reply::Simple { error, cookie: found } => {
            assert!(errno.is_none() || replies.structured(ByteOffset(at)).is_none());
            assert_eq!((error, found), (errno.map_or(0, Errno::number), cookie));
            assert!(fields.is_empty());
        }
        Reply::Chunk { kind, cookie: found, length, .. } => {
            assert!(replies.structured(ByteOffset(at)).is_some());
            assert_eq!((found, length as usize), (cookie, fields.0.len()));
            assert_eq!(kind & 0x8000 != 0, errno.is_some());
        }
        Reply::Extended { kind, cookie: found, offset, length, .. } => {
            assert_eq!((found, offset, length), (cookie, at, fields.0.len() as u64));
            assert_eq!(kind & 0x8000 != 0, errno.is_some());
        }
    }
}

/// Extents drawn from the request itself: never more than asked for, one where one is wanted, none empty.
fn check_status(replies: Replies, request: &Request, one: bool) {
    let mut extents = Vec::new();
    let mut reply = StatusReply::new(replies, request, &mut extents);
    let mut state = request.cookie.0 | 1;
    for _ in 0..20 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let kinds = [Allocation::Data, Allocation::Hole, Allocation::Zero, Allocation::ZeroHole];
        if !reply.push(ByteLen(state >> 44), kinds[(state >> 42) as usize & 3]) {
            break;
        }
    }
    let head = reply.finish();
    let mut fields = wire::Fields(head.as_bytes());
    let found = client::reply(&mut fields).expect("a reply");
    let (flags, cookie, offset) = (chunk::FLAG_DONE, request.cookie.0, request.offset.0);
    let is_extended = matches!(found, Reply::Extended { .. });
    let expected = if is_extended {
        let length = 8 + extents.len() as u64;
        Reply::Extended { flags, kind: chunk::BLOCK_STATUS_EXT, cookie, offset, length }
    } else {
        let length = 4 + extents.len() as u32;
        Reply::Chunk { flags, kind: chunk::BLOCK_STATUS, cookie, length }
    };
    assert_eq!(found, expected);
    fields.u32().expect("a context");
    let told = fields.u32();
    let mut fields = wire::Fields(&extents);
    let (mut sum, mut count, mut before) = (0, 0, None);
    let word = |fields: &mut wire::Fields<'_>| match is_extended {
        true => fields.u64(),
        false => fields.u32().map(u64::from),
    };
    while let (Some(length), Some(status)) = (word(&mut fields), word(&mut fields)) {
        assert!(length > 0 && status <= 3 && before != Some(status));
        (sum, count, before) = (sum + length, count + 1, Some(status));
    }
    assert_eq!(told, is_extended.then_some(count));
    assert!(count >= 1 && (!one || count == 1) && sum <= request.length.0, "{count} extents, {sum} B");
}

//! One NBD connection: bytes in, requests out; replies in, bytes out.
//!
//! *Copies.* A write's payload goes into the buffer that travels down the stack: what is behind the request in the
//! input is copied, the rest is received straight into the buffer. A reply's data are sent from the buffer they were
//! read into.
//!
//! *TLS* lies between the socket and all of this, from when the client has asked for it. Bytes are copied once more then, on both ways. A request
//! gives back what it had reserved when its reply is encrypted, and the buffer of encrypted bytes is bounded.
//!
//! *Bounds.* A connection that has too much under way is not read until replies have been sent; see [`Caps`] and
//! [`super::memory`].

use super::memory::Memory;
use super::ops::{Fit, Target};
use super::poll::Interest;
use crate::nbd::{Command, Event, Exports, Head, NbdError, Request, Server, Session, Tls};
use crate::tls::{Acceptor, Received, Stream};
use nandu_base::{ByteLen, Instant, Payload, PayloadPool, Span};
use rustix::io::{Errno, readv};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;

/// What one client, and all of them, may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// Requests of one connection that are not answered yet, and replies that are not sent. Default 256.
    pub requests: usize,
    /// Bytes of their data. One longer request is served alone. Default 64 MiB.
    pub bytes: ByteLen,
    /// Connections at once; others are told so and disconnected. Default 64.
    pub connections: usize,
    /// Control connections at once; others are told so and disconnected. Default 16.
    pub controls: usize,
    /// Bytes that all connections together hold: data of requests, replies that are not sent, and their own buffers. At least
    /// [`Caps::least_memory`]. Default 1 GiB.
    pub memory: ByteLen,
    /// How long a client may say nothing while the server owes it nothing; 0 for as long as it likes. Default 0.
    pub idle: Span,
    /// How long the handshake may take. Default 10 s.
    pub handshake: Span,
    /// How long a client may owe the rest of a message, or leave replies unread; no longer than the handshake while the
    /// server ends or others wait for memory. Default 5 min.
    pub stall: Span,
    /// How long a client must have been silent before a server that ends hangs up on it; what it sends until then is
    /// answered with `ESHUTDOWN`. Default 100 ms.
    pub farewell: Span,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            requests: 256,
            bytes: ByteLen::mib(64),
            connections: 64,
            controls: 16,
            memory: ByteLen::gib(1),
            idle: Span::ZERO,
            handshake: Span::from_secs(10),
            stall: Span::from_secs(300),
            farewell: Span::from_ms(100),
        }
    }
}

impl Caps {
    /// Bytes that connections take apart from the data of their requests, and what the pool of buffers keeps for the next.
    pub(super) fn own_memory(&self) -> u64 {
        let clients = (self.connections + TURNED_AWAY) as u64;
        PayloadPool::IDLE_MAX as u64 + clients * CONNECTION + self.controls as u64 * CONTROL
    }

    /// The least [`Caps::memory`] with which every request can be served: twice the longest one beside what connections take.
    pub fn least_memory(&self) -> ByteLen {
        ByteLen((self.own_memory() + 2 * (LONGEST + BESIDE)).next_multiple_of(1 << 20))
    }
}

/// Connections beyond the limit that are told so at the same time.
pub(super) const TURNED_AWAY: usize = 16;
/// Most data of one request.
const LONGEST: u64 = 32 << 20;
/// Most bytes beside them: what lies around them in their blocks, and those blocks as they were.
const BESIDE: u64 = 4 * WIDEST_BLOCK;
/// The widest block that requests are fitted to.
pub(crate) const WIDEST_BLOCK: u64 = 64 << 10;
/// Bytes of a connection: input, options of the handshake, queued heads.
const CONNECTION: u64 = 256 << 10;
/// Bytes of a control connection: a line, and answers that are not read.
const CONTROL: u64 = 512 << 10;
/// Bytes that are set aside for the answer to a block status request.
const STATUS_REPLY: u64 = 64 << 10;

/// Bytes of input held for a connection.
const INPUT: usize = 64 << 10;
/// From this payload on, little is read behind it: what lies in the input has to be copied once more.
const LONG_PAYLOAD: usize = 64 << 10;
/// Bytes read at once while payloads are long.
const SHORT_INPUT: usize = 4 << 10;
/// Replies sent by one call.
const BATCH: usize = 32;

/// What comes before the data of a reply.
#[derive(Debug)]
enum Lead {
    Head(Head),
    Bytes(Vec<u8>),
}

impl Lead {
    fn bytes(&self) -> &[u8] {
        match self {
            Lead::Head(head) => head.as_bytes(),
            Lead::Bytes(bytes) => bytes,
        }
    }
}

/// One message to send.
#[derive(Debug)]
struct Outgoing {
    lead: Lead,
    /// The data behind it; the connection holds the payload until they are sent.
    payload: Payload,
    len: ByteLen,
    /// What the request had reserved: whether it counts, and its bytes.
    reserved: Option<u64>,
}

/// The payload of a write on its way in.
#[derive(Debug)]
struct Incoming {
    request: Request,
    /// The buffer, and the part of it that is received.
    payload: Payload,
    data: Payload,
    filled: usize,
}

/// What a connection needs next.
#[derive(Debug)]
pub(crate) enum Next {
    /// Serve this request; a write's payload is complete.
    Start(Request, Payload),
    /// Read the socket.
    Read,
    /// Nothing, until replies are sent.
    Blocked,
    /// Nothing more comes from this client.
    Over,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    socket: OwnedFd,
    server: Server,
    acceptor: Option<Acceptor>,
    /// TLS is agreed upon, and begins when what was said in the clear is sent.
    starts_tls: bool,
    tls: Option<Stream>,
    input: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes to read at once.
    window: usize,
    /// The socket gave less than was asked for: there is nothing to read until the poll says so.
    is_drained: bool,
    incoming: Option<Incoming>,
    /// A request that found no room.
    waiting: Option<Request>,
    out: VecDeque<Outgoing>,
    /// Bytes of the first message that are sent.
    sent: usize,
    /// Requests and bytes that are reserved: from the request to the last byte of its reply.
    pub requests: usize,
    bytes: u64,
    /// What all connections hold.
    memory: Rc<Memory>,
    /// A request of it waits for others to hold less.
    pub starves: bool,
    /// There were too many: it is told so, and that is all.
    pub is_turned_away: bool,
    pub session: Option<Session>,
    /// Losses of its export that it has heard of, from when its session began.
    pub heard: Option<u32>,
    /// Nothing more is read; what is under way is answered.
    pub closing: bool,
    /// The socket is broken: nothing can be sent any more.
    pub dead: bool,
    /// What the poll was told.
    pub interest: Interest,
    pub opened: Instant,
    /// When bytes last moved, when bytes last came, and since when the peer takes nothing of what is to be sent.
    pub moved: Instant,
    came: Instant,
    stuck: Option<Instant>,
    /// Why the client is to be hung up on, for the log.
    pub fault: Option<NbdError>,
    /// It is in the list of connections to be looked at.
    pub listed: bool,
}

impl Conn {
    /// `turned_away` is why no session may start with this client.
    pub fn new(
        socket: OwnedFd,
        exports: Arc<Exports>,
        memory: Rc<Memory>,
        turned_away: Option<String>,
        (tls, acceptor): (Tls, Option<Acceptor>),
        now: Instant,
    ) -> Conn {
        let mut greeting = Vec::new();
        let mut server = Server::new(exports, &mut greeting);
        server.set_tls(tls);
        let is_turned_away = turned_away.is_some();
        if let Some(why) = turned_away {
            server.turn_away(why);
        }
        let mut conn = Conn {
            socket,
            server,
            acceptor,
            starts_tls: false,
            tls: None,
            input: vec![0; INPUT].into(),
            start: 0,
            end: 0,
            window: INPUT,
            is_drained: false,
            incoming: None,
            waiting: None,
            out: VecDeque::new(),
            sent: 0,
            requests: 0,
            bytes: 0,
            memory,
            starves: false,
            is_turned_away,
            session: None,
            heard: None,
            closing: false,
            dead: false,
            interest: Interest::READ,
            opened: now,
            moved: now,
            came: now,
            stuck: None,
            fault: None,
            listed: false,
        };
        conn.say(greeting);
        conn
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn say(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.push(Lead::Bytes(bytes), Payload::NONE, ByteLen::ZERO, None);
        }
    }

    fn push(&mut self, lead: Lead, payload: Payload, len: ByteLen, reserved: Option<u64>) {
        self.out.push_back(Outgoing { lead, payload, len, reserved });
    }

    /// Queues a reply without data behind it for a request that was started.
    pub fn reply(&mut self, head: Head, reserved: u64) {
        self.push(Lead::Head(head), Payload::NONE, ByteLen::ZERO, Some(reserved));
    }

    /// Queues a reply with `len` bytes of `payload`, which the connection holds from now on.
    pub fn reply_data(&mut self, head: Head, payload: Payload, len: ByteLen, reserved: u64) {
        self.push(Lead::Head(head), payload, len, Some(reserved));
    }

    /// Queues a reply that is only bytes, for a request that was started and has no data of its own.
    pub fn reply_bytes(&mut self, bytes: Vec<u8>) {
        self.push(Lead::Bytes(bytes), Payload::NONE, ByteLen::ZERO, Some(STATUS_REPLY));
    }

    /// How much of what a hint is about is read.
    fn hinted(length: ByteLen) -> ByteLen {
        ByteLen(length.0.min(LONGEST))
    }

    /// Bytes that a request reserves, on blocks of `align`.
    pub fn weight(request: &Request, align: u64) -> u64 {
        match request.command {
            Command::BlockStatus { .. } => STATUS_REPLY,
            _ => Fit::buffer(request, align),
        }
    }

    /// The blocks that requests of this session are fitted to.
    fn align(&self, targets: &[Target]) -> u64 {
        targets[self.session.expect("requests come after the handshake").export].align
    }

    /// Whether a request may begin.
    fn has_room(&mut self, request: &Request, caps: &Caps, align: u64) -> bool {
        let weight = Conn::weight(request, align);
        let own = self.requests < caps.requests && (self.bytes == 0 || self.bytes + weight <= caps.bytes.0);
        let is_left = self.memory.is_left(self.bytes, weight);
        self.starves = own && !is_left;
        self.memory.someone_waits(self.starves);
        own && is_left
    }

    fn reserve(&mut self, bytes: u64) {
        self.memory.change(self.bytes, self.bytes + bytes);
        self.bytes += bytes;
    }

    fn release(&mut self, bytes: u64) {
        self.requests -= 1;
        self.memory.change(self.bytes, self.bytes - bytes);
        self.bytes -= bytes;
    }

    /// Reads on in the input, up to the next thing that concerns others.
    pub fn next(&mut self, caps: &Caps, targets: &[Target], pool: &mut PayloadPool) -> Next {
        loop {
            if self.closing || self.dead {
                return Next::Over;
            }
            if let Some(incoming) = &mut self.incoming {
                let owed = incoming.request.length.0 as usize - incoming.filled;
                let count = owed.min(self.end - self.start);
                let target = incoming.data.slice(ByteLen(incoming.filled as u64));
                let from = &self.input[self.start..self.start + count];
                pool.bytes_mut(target, ByteLen(count as u64)).copy_from_slice(from);
                self.start += count;
                self.take_payload(count);
                match self.complete_payload() {
                    Some((request, payload)) => return Next::Start(request, payload),
                    None => return Next::Read,
                }
            }
            if let Some(request) = self.waiting.take() {
                let align = self.align(targets);
                if !self.has_room(&request, caps, align) {
                    self.waiting = Some(request);
                    return Next::Blocked;
                }
                match self.begin(request, align, pool) {
                    Some((request, payload)) => return Next::Start(request, payload),
                    None => continue,
                }
            }
            if self.starts_tls {
                if !self.out.is_empty() {
                    return Next::Blocked;
                }
                self.start_tls();
                continue;
            }
            // Refusals and answers to options reserve nothing: a client that does not read them is not read either.
            if self.out.len() >= caps.requests || (self.session.is_none() && self.out.len() > 1) {
                return Next::Blocked;
            }
            if self.start == self.end {
                return Next::Read;
            }
            self.parse();
        }
    }

    /// Takes one event out of the input.
    fn parse(&mut self) {
        let mut answer = Vec::new();
        let step = match self.server.step(&self.input[self.start..self.end], &mut answer) {
            Ok(step) => step,
            Err(error) => {
                self.say(answer);
                self.fault = Some(error);
                self.closing = true;
                return;
            }
        };
        self.start += step.consumed;
        self.say(answer);
        match step.event {
            Event::NeedMore | Event::Answered | Event::NeedPayload(_) => {}
            Event::StartsTls => self.starts_tls = true,
            Event::Started(session) => self.session = Some(session),
            Event::Request(mut request) => {
                if request.command == Command::Cache {
                    request.length = Conn::hinted(request.length);
                }
                self.waiting = Some(request);
            }
            Event::Refused(refusal) => {
                let replies = self.session.expect("requests come after the handshake").replies;
                self.push(Lead::Head(replies.refuse(&refusal)), Payload::NONE, ByteLen::ZERO, None);
            }
            Event::Closed => self.closing = true,
        }
    }

    /// What is left of the input, and what comes later, is encrypted.
    fn start_tls(&mut self) {
        (self.starts_tls, self.is_drained) = (false, false);
        let rest = self.start..self.end;
        (self.start, self.end) = (0, 0);
        let Some(acceptor) = &self.acceptor else {
            unreachable!("the codec starts TLS where it was offered");
        };
        let begun = acceptor.accept().map(|stream| self.tls.insert(stream));
        if let Err(why) = begun.and_then(|stream| stream.feed(&self.input[rest])) {
            self.refuse_tls(why);
        }
    }

    fn refuse_tls(&mut self, why: String) {
        self.fault = Some(NbdError::Tls { why });
        self.closing = true;
    }

    /// Reserves room. A write waits for its payload first; anything else can start. Memory that an idle buffer brings with it
    /// counts for whoever has it.
    fn begin(&mut self, request: Request, align: u64, pool: &mut PayloadPool) -> Option<(Request, Payload)> {
        self.requests += 1;
        let bytes = Fit::buffer(&request, align);
        if bytes == 0 {
            self.reserve(Conn::weight(&request, align));
            return Some((request, Payload::NONE));
        }
        let payload = pool.allocate_unfilled(ByteLen(bytes));
        self.reserve(pool.held_bytes(payload));
        if request.command != Command::Write {
            return Some((request, payload));
        }
        self.window = if request.length.0 as usize >= LONG_PAYLOAD { SHORT_INPUT } else { INPUT };
        let data = payload.slice(ByteLen(request.offset.0 & (align - 1)));
        self.incoming = Some(Incoming { request, payload, data, filled: 0 });
        None
    }

    fn take_payload(&mut self, count: usize) {
        if let Some(incoming) = &mut self.incoming {
            incoming.filled += count;
            self.server.payload_taken(count);
        }
    }

    fn complete_payload(&mut self) -> Option<(Request, Payload)> {
        let complete = self.incoming.as_ref().is_some_and(|i| i.filled as u64 == i.request.length.0);
        let incoming = if complete { self.incoming.take() } else { None };
        incoming.map(|incoming| (incoming.request, incoming.payload))
    }

    /// The poll says that the socket has something, or has ended.
    pub fn hear_of_input(&mut self) {
        self.is_drained = false;
    }

    /// Reads the socket, into the payload that is owed and then into the input, which is empty. Returns the bytes; 0
    /// when none are there. At the end of the stream the connection is closing.
    pub fn receive(&mut self, now: Instant, pool: &mut PayloadPool) -> usize {
        debug_assert!(self.start == self.end, "the input is used up before more is read");
        if self.is_drained {
            return 0;
        }
        let (owed, target) = match &self.incoming {
            Some(i) => (i.request.length.0 as usize - i.filled, i.data.slice(ByteLen(i.filled as u64))),
            None => (0, Payload::NONE),
        };
        let rest: &mut [u8] = if owed == 0 { &mut [] } else { pool.bytes_mut(target, ByteLen(owed as u64)) };
        let received = match &mut self.tls {
            Some(tls) if owed > 0 => tls.receive(&self.socket, rest),
            Some(tls) => tls.receive(&self.socket, &mut self.input[..self.window]),
            None => {
                let mut buffers = [IoSliceMut::new(rest), IoSliceMut::new(&mut self.input[..self.window])];
                match readv(&self.socket, &mut buffers[usize::from(owed == 0)..]) {
                    Ok(0) => Received::End,
                    Ok(count) => {
                        self.is_drained = count < owed + self.window;
                        Received::Bytes(count)
                    }
                    Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
                    Err(_) => Received::Broken,
                }
            }
        };
        match received {
            Received::Bytes(count) => {
                (self.moved, self.came) = (now, now);
                self.take_payload(count.min(owed));
                (self.start, self.end) = (0, count - count.min(owed));
                return count;
            }
            Received::Nothing => {}
            Received::End => {
                self.fault = self.server.hung_up().err();
                self.closing = true;
            }
            Received::Broken => self.dead = true,
            Received::Refused(why) => self.refuse_tls(why),
        }
        0
    }

    /// Whether there is something to read of which the socket says nothing.
    pub fn holds_input(&mut self) -> bool {
        self.tls.as_mut().is_some_and(Stream::holds_input)
    }

    /// Sends what can be sent.
    pub fn send(&mut self, now: Instant, pool: &mut PayloadPool) {
        while !self.out.is_empty() && !self.dead {
            let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(2 * BATCH);
            let mut skip = self.sent;
            let mut total = 0;
            for message in self.out.iter().take(BATCH) {
                let data = match message.len {
                    ByteLen::ZERO => &[][..],
                    len => pool.bytes(message.payload, len),
                };
                for part in [message.lead.bytes(), data] {
                    let cut = skip.min(part.len());
                    skip -= cut;
                    if cut < part.len() {
                        total += part.len() - cut;
                        slices.push(IoSlice::new(&part[cut..]));
                    }
                }
            }
            if let Some(tls) = &mut self.tls {
                let count = tls.take(&slices);
                self.retire(count, pool);
                if count < total && !self.send_encrypted(now) {
                    break;
                }
                continue;
            }
            let mut no_control = SendAncillaryBuffer::default();
            match sendmsg(&self.socket, &slices, &mut no_control, SendFlags::NOSIGNAL) {
                Ok(count) => {
                    (self.moved, self.stuck) = (now, None);
                    self.retire(count, pool);
                    if count < total {
                        break;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.dead = true,
            }
        }
        self.send_encrypted(now);
        self.stuck = if self.has_output() { self.stuck.or(Some(now)) } else { None };
    }

    /// Sends what is encrypted. False: the socket takes no more now.
    fn send_encrypted(&mut self, now: Instant) -> bool {
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_to_send() && !self.dead) {
            match tls.send(&self.socket) {
                Ok(_) => (self.moved, self.stuck) = (now, None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
                Err(_) => self.dead = true,
            }
        }
        !self.dead
    }

    /// Says that nothing more comes, where there are words for it.
    pub fn say_goodbye(&mut self) {
        if let Some(tls) = self.tls.as_mut().filter(|_| !self.dead) {
            tls.say_goodbye(&self.socket);
        }
    }

    /// Forgets messages whose last byte is sent.
    fn retire(&mut self, count: usize, pool: &mut PayloadPool) {
        self.sent += count;
        while let Some(message) = self.out.front() {
            let size = message.lead.bytes().len() + message.len.0 as usize;
            if self.sent < size {
                return;
            }
            self.sent -= size;
            self.drop_front(pool);
        }
    }

    fn drop_front(&mut self, pool: &mut PayloadPool) {
        if let Some(message) = self.out.pop_front() {
            pool.release(message.payload);
            if let Some(bytes) = message.reserved {
                self.release(bytes);
            }
        }
    }

    /// Gives up everything that will never be sent or received. Requests under way are waited for.
    pub fn bury(&mut self, pool: &mut PayloadPool) {
        while !self.out.is_empty() {
            self.drop_front(pool);
        }
        self.drop_incoming(pool);
    }

    /// Gives up a payload whose rest will not come.
    pub fn drop_incoming(&mut self, pool: &mut PayloadPool) {
        if let Some(incoming) = self.incoming.take() {
            let bytes = pool.held_bytes(incoming.payload);
            pool.release(incoming.payload);
            self.release(bytes);
        }
    }

    /// Nothing is under way and nothing is left to send or read.
    pub fn is_finished(&self) -> bool {
        (self.closing || self.dead) && self.requests == 0 && (self.dead || !self.has_output())
    }

    /// Nothing is under way and nothing is left to send, and the client has said nothing more for `quiet`: it is not in the
    /// middle of what it had to say when the server began to end.
    pub fn is_quiet(&self, quiet: Span, since: Instant, now: Instant) -> bool {
        let is_idle = self.requests == 0 && (self.dead || !self.has_output());
        is_idle && (self.closing || self.dead || now.since(self.moved.later(since)) >= quiet)
    }

    pub fn has_output(&self) -> bool {
        !self.out.is_empty() || self.tls.as_ref().is_some_and(Stream::wants_to_send)
    }

    /// New requests are refused from now on.
    pub fn shut_down(&mut self) {
        self.server.shut_down();
    }

    /// What a client does for longer than it may: also one that has said goodbye, while there is something to send to it. A server that
    /// ends, or is short of memory, is less patient (`hurries`); one that has `waited` for its end long enough is no more.
    pub fn is_late(&self, caps: &Caps, hurries: bool, waited: bool, now: Instant) -> Option<Late> {
        let stall = if hurries { caps.handshake.min(caps.stall) } else { caps.stall };
        let owes = self.incoming.is_some() || self.has_output();
        // Each way by itself: one that sends a byte now and then and reads nothing owes all the same.
        let sends_late = self.incoming.is_some() && now.since(self.came) > stall;
        let reads_late = self.stuck.is_some_and(|since| now.since(since) > stall);
        let is_idle = !owes && !self.closing && self.requests == 0 && caps.idle > Span::ZERO;
        match self.session {
            None => (now.since(self.opened) > caps.handshake).then_some(Late::Handshake),
            Some(_) if owes => (waited || sends_late || reads_late).then_some(Late::Owes),
            Some(_) if is_idle => (now.since(self.moved) > caps.idle).then_some(Late::Idle),
            Some(_) => None,
        }
    }
}

/// Why a client is hung up on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Late {
    /// The handshake takes too long.
    Handshake,
    /// The rest of a message does not come, or replies are not read.
    Owes,
    /// It says nothing.
    Idle,
}

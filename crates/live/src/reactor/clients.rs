//! NBD clients of the reactor: accepting, serving, hanging up.

use super::conn::{Conn, Next};
use super::ops::{HostOp, Piece, Target};
use super::poll::{Interest, Ready, Source};
use super::slab::Key;
use super::{News, Reactor};
use crate::nbd::{Command, Cookie, Errno, Export, ExportError, Exports, Replies, Request, StatusReply};
use nandu_base::{ErrorKind, Flags, Instant, IoError, Op, Payload, TenantId};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::sync::Arc;

/// Bytes a client may send in one turn before others have theirs.
const BYTES_PER_TURN: usize = 1 << 20;
/// Socket buffers that are asked for; the kernel may give less.
const SOCKET_BUFFER: usize = 1 << 20;

/// Where NBD clients connect.
#[derive(Debug)]
pub enum Listener {
    /// A Unix socket.
    Unix(UnixListener),
    /// A TCP port.
    Tcp(TcpListener),
}

impl Listener {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Unix(listener) => listener.as_fd(),
            Listener::Tcp(listener) => listener.as_fd(),
        }
    }

    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Listener::Unix(listener) => listener.set_nonblocking(true),
            Listener::Tcp(listener) => listener.set_nonblocking(true),
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Unix(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(true)?;
                // Smaller buffers only cost system calls.
                let _ = rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER);
                Ok(socket.into())
            }
            Listener::Tcp(listener) => {
                let (socket, _) = listener.accept()?;
                socket.set_nonblocking(true)?;
                socket.set_nodelay(true)?;
                Ok(socket.into())
            }
        }
    }
}

impl Reactor {
    /// Offers `exports` at `listeners`: each export with the machine and the tenant of its requests. The machines are
    /// open.
    ///
    /// # Errors
    /// A listener cannot be waited for.
    pub fn offer(
        &mut self,
        exports: Vec<(Export, u32, TenantId)>,
        listeners: Vec<Listener>,
    ) -> Result<(), OfferError> {
        let target = |&(_, node, tenant): &(Export, u32, TenantId)| {
            let limits = self.graph.machine(node).limits();
            Target { node, tenant, max_io: limits.max_io.0, align: u64::from(limits.align) }
        };
        self.targets = exports.iter().map(target).collect();
        self.exports = Arc::new(Exports::new(exports.into_iter().map(|(export, ..)| export).collect())?);
        for (number, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking()?;
            self.poll.add(listener.fd(), Source::Listener(number as u32), Interest::READ)?;
        }
        self.listeners = listeners;
        Ok(())
    }

    pub(super) fn accept(&mut self, number: u32) {
        while !self.draining && !self.full {
            if self.clients.len() >= self.caps.connections {
                self.pause_accepting(true);
                return;
            }
            match self.listeners[number as usize].accept() {
                Ok(socket) => self.welcome(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Out of descriptors, most likely: tried again at the next sweep.
                    self.news.push(News::Client(format!("cannot be accepted: {error}")));
                    self.pause_accepting(true);
                    return;
                }
            }
        }
    }

    fn pause_accepting(&mut self, full: bool) {
        self.full = full;
        let interest = if full { Interest::default() } else { Interest::READ };
        for (number, listener) in self.listeners.iter().enumerate() {
            // A listener that cannot be changed is tried again when the next client leaves.
            let _ = self.poll.change(listener.fd(), Source::Listener(number as u32), interest);
        }
    }

    fn welcome(&mut self, socket: OwnedFd) {
        let conn = Conn::new(socket, Arc::clone(&self.exports), self.clock.now());
        let key = self.clients.insert(conn);
        let added = match self.clients.get(key) {
            Some(conn) => self.poll.add(conn.fd(), Source::Client(key), conn.interest),
            None => return,
        };
        match added {
            Ok(()) => self.list(key),
            Err(error) => {
                self.clients.remove(key);
                self.news.push(News::Client(format!("cannot be waited for: {error}")));
            }
        }
    }

    /// Has a connection looked at in the next turn.
    pub(super) fn list(&mut self, key: Key) {
        if let Some(conn) = self.clients.get_mut(key)
            && !std::mem::replace(&mut conn.listed, true)
        {
            self.listed.push(key);
        }
    }

    pub(super) fn client_ready(&mut self, key: Key, event: Ready) {
        if let Some(conn) = self.clients.get_mut(key) {
            // What such a peer still said is read if it is read anyway; what it did not say cannot be answered.
            conn.dead |= event.broken && !conn.interest.read;
            self.list(key);
        }
    }

    /// Reads and starts requests of every connection that was listed. Those that are not done stay listed.
    pub(super) fn serve_listed(&mut self, now: Instant) {
        if self.deal_is_due() {
            return; // every client is listed again when the deal is made
        }
        for at in 0..self.listed.len() {
            self.serve_client(self.listed[at], now);
        }
    }

    fn serve_client(&mut self, key: Key, now: Instant) {
        let mut budget = BYTES_PER_TURN;
        loop {
            let Some(conn) = self.clients.get_mut(key) else { return };
            match conn.next(&self.caps, &mut self.graph.pool) {
                Next::Start(request, payload) => {
                    let target = conn.session.map(|session| self.targets[session.export]);
                    self.start(
                        key,
                        request,
                        payload,
                        target.expect("requests come after the handshake"),
                        now,
                    );
                }
                Next::Read if budget > 0 => match conn.receive(now, &mut self.graph.pool) {
                    0 => break,
                    count => budget = budget.saturating_sub(count),
                },
                Next::Read | Next::Blocked | Next::Over => break,
            }
        }
    }

    fn start(&mut self, client: Key, request: Request, payload: Payload, target: Target, now: Instant) {
        let (op, payload) = match request.command {
            Command::Read { .. } => (Op::Read, self.graph.pool.allocate_unfilled(request.length)),
            Command::Write => (Op::Write, payload),
            Command::Flush => (Op::Flush, Payload::NONE),
            // Zeros that may leave a hole are what a trim leaves behind.
            Command::Trim | Command::WriteZeroes { no_hole: false, .. } => (Op::Trim, Payload::NONE),
            Command::WriteZeroes { no_hole: true, .. } => (Op::WriteZeroes, Payload::NONE),
            Command::BlockStatus { .. } | Command::Cache => return self.answer_at_once(client, &request),
        };
        let flags = if request.fua { Flags::FUA } else { Flags::NONE };
        let extent = (request.offset, request.length);
        let op = HostOp::new(client, request.cookie, target, op, flags, extent, payload, now);
        let slot = self.host.ops.insert(op);
        self.send_pieces(slot, now);
    }

    /// Nothing is known of what is allocated: everything is data.
    fn answer_at_once(&mut self, client: Key, request: &Request) {
        let Some(conn) = self.clients.get_mut(client) else { return };
        let Some(replies) = conn.session.map(|session| session.replies) else { return };
        if !matches!(request.command, Command::BlockStatus { .. }) {
            return conn.reply(replies.ok(request.cookie), 0);
        }
        let mut extents = Vec::new();
        let head = StatusReply::new(request, &mut extents).finish();
        let mut bytes = head.as_bytes().to_vec();
        bytes.append(&mut extents);
        conn.reply_bytes(bytes);
    }

    fn send_pieces(&mut self, slot: u32, now: Instant) {
        while let Some((Piece { offset, len, payload, cookie }, op)) = self.host.ops.next_piece(slot) {
            self.graph.pool.keep(payload);
            let target = op.target;
            self.graph.submit(
                target.node,
                op.op,
                op.flags,
                offset,
                len,
                payload,
                target.tenant,
                cookie,
                op.arrival,
                now,
                &mut self.host,
            );
        }
    }

    /// Pieces of a request have ended: send more, or answer.
    pub(super) fn go_on(&mut self, slot: u32, now: Instant) {
        match self.host.ops.take_finished(slot) {
            Some(op) => self.answer(op),
            None => self.send_pieces(slot, now),
        }
    }

    fn answer(&mut self, op: HostOp) {
        let HostOp { cookie, payload, .. } = op;
        let reserved = if payload.is_none() { 0 } else { op.len.0 };
        let Some(conn) = self.clients.get_mut(op.client) else {
            unreachable!("a connection is kept until its last request has ended");
        };
        let replies = conn.session.expect("requests come after the handshake").replies;
        match (op.error, op.op) {
            (None, Op::Read) => conn.reply_data(replies.read(cookie, op.offset, op.len), payload, op.len),
            (None, _) => {
                self.graph.pool.release(payload);
                conn.reply(replies.ok(cookie), reserved);
            }
            (Some(error), _) => {
                self.graph.pool.release(payload);
                let head = error_head(replies, cookie, &op, error);
                conn.reply(head, reserved);
            }
        }
        self.list(op.client);
    }

    /// Sends what the listed connections have to say, and decides what each waits for.
    pub(super) fn send_listed(&mut self) {
        let now = self.clock.now();
        let listed = std::mem::replace(&mut self.listed, std::mem::take(&mut self.spare_list));
        for &key in &listed {
            let Some(conn) = self.clients.get_mut(key) else { continue };
            conn.listed = false;
            conn.send(now, &mut self.graph.pool);
            if conn.dead {
                conn.bury(&mut self.graph.pool);
            } else if conn.closing {
                conn.drop_incoming(&mut self.graph.pool);
            }
            if conn.is_finished() {
                self.hang_up(key);
                continue;
            }
            self.await_client(key);
        }
        self.spare_list = listed;
        self.spare_list.clear();
    }

    fn await_client(&mut self, key: Key) {
        if self.deal_is_due() {
            return self.set_interest(key, false);
        }
        let Some(conn) = self.clients.get_mut(key) else { return };
        let next = conn.next(&self.caps, &mut self.graph.pool);
        let wants_read = match next {
            Next::Read => true,
            Next::Blocked => false,
            Next::Over => {
                if conn.is_finished() {
                    self.list(key); // what was just read ends it: it is hung up on in the next turn
                }
                false
            }
            Next::Start(request, payload) => {
                // Room was made by what was just sent.
                let target = conn.session.map(|session| self.targets[session.export]);
                let now = self.clock.now();
                self.start(key, request, payload, target.expect("requests come after the handshake"), now);
                self.list(key);
                return self.set_interest(key, true);
            }
        };
        self.set_interest(key, wants_read);
    }

    fn set_interest(&mut self, key: Key, read: bool) {
        let Some(conn) = self.clients.get_mut(key) else { return };
        let wanted = Interest { read, write: conn.has_output() && !conn.dead };
        if conn.dead {
            self.poll.remove(conn.fd()); // a broken socket would be reported for ever
        } else if wanted != conn.interest {
            conn.interest = wanted;
            conn.dead |= self.poll.change(conn.fd(), Source::Client(key), wanted).is_err();
        }
    }

    fn hang_up(&mut self, key: Key) {
        let Some(conn) = self.clients.remove(key) else { return };
        self.poll.remove(conn.fd());
        if let Some(fault) = &conn.fault {
            self.news.push(News::Client(fault.to_string()));
        }
        if self.full {
            self.pause_accepting(false);
        }
    }

    /// Hangs up on clients that take too long.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.full && self.clients.len() < self.caps.connections {
            self.pause_accepting(false);
        }
        for key in self.clients.keys() {
            let Some(conn) = self.clients.get_mut(key) else { continue };
            if !conn.dead && !conn.closing && conn.is_late(&self.caps, self.draining, now) {
                conn.dead = true;
                self.news.push(News::Client("takes too long".into()));
                self.list(key);
            }
        }
    }

    /// Accepts nobody any more and refuses new requests.
    pub fn drain(&mut self) {
        self.draining = true;
        for listener in std::mem::take(&mut self.listeners) {
            self.poll.remove(listener.fd());
        }
        for key in self.clients.keys() {
            if let Some(conn) = self.clients.get_mut(key) {
                conn.shut_down();
            }
        }
    }

    /// Whether every request of every client is answered and the answers are sent.
    pub fn is_drained(&self) -> bool {
        self.host.ops.alive() == 0 && self.clients.iter().all(|(_, conn)| conn.is_quiet())
    }

    /// Hangs up on everybody. Requests under way go on and are not answered.
    pub fn hang_up_all(&mut self) {
        for key in self.clients.keys() {
            if let Some(conn) = self.clients.get_mut(key) {
                conn.dead = true;
                self.list(key);
            }
        }
    }

    /// Clients that are connected.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }
}

/// Why exports cannot be offered.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// An export breaks a bound of the protocol.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The operating system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
}

fn error_head(replies: Replies, cookie: Cookie, op: &HostOp, error: IoError) -> crate::nbd::Head {
    let errno = match error.kind {
        ErrorKind::NoSpace => Errno::NoSpc,
        ErrorKind::Unsupported | ErrorKind::BadExtent | ErrorKind::NotErased | ErrorKind::OutOfOrder => {
            Errno::Inval
        }
        ErrorKind::ReadOnly => Errno::Perm,
        ErrorKind::Unreadable | ErrorKind::WriteFailed | ErrorKind::Gone | ErrorKind::Lost => Errno::Io,
    };
    let message = format!("{}: {}", op.op.name(), error.kind);
    match replies.structured() {
        Some(chunks) if op.op == Op::Read && error.at < op.len => {
            chunks.error_at(cookie, errno, op.offset + error.at, &message, crate::nbd::Place::Last)
        }
        _ => replies.error(cookie, errno, &message),
    }
}

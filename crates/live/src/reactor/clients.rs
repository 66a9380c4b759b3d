//! NBD clients of the reactor: accepting, serving, hanging up.

use super::conn::{Conn, Late, Next, TURNED_AWAY};
use super::metrics::Tally;
use super::ops::{Asker, Fit, HostOp, Target};
use super::poll::{Interest, Ready, Source};
use super::slab::Key;
use super::unsure::Unsure;
use super::{News, Reactor};
use crate::nbd::{
    Allocation, Command, Cookie, Errno, Export, ExportError, Exports, NbdError, Replies, Request, StatusReply,
};
use crate::tls::Acceptor;
use nandu_base::{ByteLen, ByteOffset, ErrorKind, Health, Instant, IoError, Op, Payload, Span, TenantId};
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes a client may send in one turn before others have theirs.
const BYTES_PER_TURN: usize = 1 << 20;
/// Parts of a file that one status request looks at; the client asks again from there.
const LOOKS: u32 = 1024;
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
        let target = |(export, &(_, node, tenant)): (u32, &(Export, u32, TenantId))| {
            let limits = self.graph.machine(node).limits();
            Target { export, node, tenant, max_io: limits.max_io.0, align: u64::from(limits.align) }
        };
        self.targets = (0..).zip(&exports).map(target).collect();
        self.served = vec![Tally::NONE; self.targets.len()];
        self.unsure = vec![Unsure::default(); self.targets.len()];
        self.exports = Arc::new(Exports::new(exports.into_iter().map(|(export, ..)| export).collect())?);
        for (number, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking()?;
            self.poll.add(listener.fd(), Source::Listener(number as u32), Interest::READ)?;
        }
        self.listeners = listeners;
        self.look_at_bonds(false);
        Ok(())
    }

    pub(super) fn accept(&mut self, number: u32) {
        while !self.draining && !self.full {
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

    /// Connections that may have, or have, a session.
    fn guests(&self) -> usize {
        self.clients.len() - self.turned_away
    }

    fn welcome(&mut self, socket: OwnedFd) {
        let most = self.caps.connections;
        let why = (self.guests() >= most).then(|| {
            format!("the server has {most} connections, its limit: try again when one has ended, or raise --max-connections")
        });
        if why.is_some() {
            self.turned += 1;
            if self.turned_away >= TURNED_AWAY {
                return; // dropped: the client sees the end of the stream
            }
        }
        let (exports, memory) = (Arc::clone(&self.exports), Rc::clone(&self.memory));
        let conn = Conn::new(socket, exports, memory, why, self.tls.clone(), self.clock.now());
        self.turned_away += usize::from(conn.is_turned_away);
        let key = self.clients.insert(conn);
        let added = match self.clients.get(key) {
            Some(conn) => self.poll.add(conn.fd(), Source::Client(key), conn.interest),
            None => return,
        };
        match added {
            Ok(()) => self.list(key),
            Err(error) => {
                self.forget(key);
                self.news.push(News::Client(format!("cannot be waited for: {error}")));
            }
        }
    }

    fn forget(&mut self, key: Key) -> Option<Conn> {
        let conn = self.clients.remove(key)?;
        self.turned_away -= usize::from(conn.is_turned_away);
        Some(conn)
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
            conn.hear_of_input();
            // What such a peer still said is read if it is read anyway; what it did not say cannot be answered.
            conn.dead |= event.broken && !conn.interest.read;
            self.list(key);
        }
    }

    /// Reads and starts requests of every connection that was listed. Those that are not done stay listed.
    pub(super) fn serve_listed(&mut self, now: Instant) {
        for at in 0..self.listed.len() {
            self.serve_client(self.listed[at], now);
        }
    }

    fn serve_client(&mut self, key: Key, now: Instant) {
        if self.waits_for_deal(key) {
            return; // it is listed again when the deal is made
        }
        let mut budget = BYTES_PER_TURN;
        loop {
            let Some(conn) = self.clients.get_mut(key) else { return };
            let next = conn.next(&self.caps, &self.targets, &mut self.graph.pool);
            listen_for_losses(conn, &mut self.host.lost, &self.targets, &mut self.unsure);
            match next {
                Next::Start(request, payload) => self.start(key, request, payload, now),
                Next::Read if budget > 0 => match conn.receive(now, &mut self.graph.pool) {
                    0 => break,
                    count => budget = budget.saturating_sub(count),
                },
                Next::Read | Next::Blocked | Next::Over => break,
            }
        }
    }

    fn start(&mut self, client: Key, request: Request, payload: Payload, now: Instant) {
        let Some(conn) = self.clients.get_mut(client) else {
            unreachable!("a request comes from a connection");
        };
        let target = self.targets[conn.session.expect("requests come after the handshake").export];
        match request.command {
            Command::BlockStatus { .. } => self.answer_status(client, &request, target),
            _ => self.begin(Asker::Client(client), target, &request, payload, now),
        }
    }

    /// Begins a request that has its buffer and, if it is a write, its data.
    pub(super) fn begin(
        &mut self,
        asker: Asker,
        target: Target,
        request: &Request,
        payload: Payload,
        now: Instant,
    ) {
        self.hear_losses();
        let unsure = &mut self.unsure[target.export as usize];
        let op = match request.command {
            // A hint is read too: it goes into the caches on the way, and to nobody.
            Command::Read { .. } | Command::Cache => Op::Read,
            Command::Write => Op::Write,
            Command::Flush => Op::Flush,
            // Zeros that may leave a hole are what a trim leaves behind.
            Command::Trim | Command::WriteZeroes { no_hole: false, .. } => Op::Trim,
            Command::WriteZeroes { no_hole: true, .. } => Op::WriteZeroes,
            Command::BlockStatus { .. } => unreachable!("it is answered from what the files say"),
        };
        let mut op = HostOp::new(asker, target, op, request, payload, now);
        if op.op.changes_data() {
            unsure.changes();
        }
        op.covers = unsure.covered_now();
        let slot = self.host.ops.insert(op);
        self.send_pieces(slot, now);
    }

    /// What is allocated, as far as the files say.
    fn answer_status(&mut self, client: Key, request: &Request, target: Target) {
        let mut extents = Vec::new();
        let Some(session) = self.clients.get_mut(client).and_then(|conn| conn.session) else { return };
        let mut reply = StatusReply::new(session.replies, request, &mut extents);
        let fit = Fit::new(request.offset, request.length, target.align);
        let (mut at, end) = (ByteOffset(fit.start), ByteOffset(fit.end));
        // What is before the request in its first block.
        let mut front = request.offset.0 - fit.start;
        let mut looks = 0;
        let mut goes_on = true;
        while at < end && goes_on {
            let Some((leaf, place, len)) = self.place_of(target.node, at, ByteLen(end.0 - at.0)) else {
                reply.push(ByteLen(end.0 - at.0 - front), Allocation::Data);
                break;
            };
            let backend = self.host.legs[leaf as usize].as_ref().map(|leg| &leg.backend);
            let mut push = |len: ByteLen, is_hole: bool| {
                looks += 1;
                let state = if is_hole { Allocation::ZeroHole } else { Allocation::Data };
                let before = front.min(len.0);
                front -= before;
                goes_on = reply.push(ByteLen(len.0 - before), state) && looks < LOOKS;
                goes_on
            };
            match backend {
                Some(backend) => backend.holes(place, len, &mut push),
                None => drop(push(len, false)),
            }
            at = at + len;
        }
        let head = reply.finish();
        let mut bytes = head.as_bytes().to_vec();
        bytes.append(&mut extents);
        if let Some(conn) = self.clients.get_mut(client) {
            conn.reply_bytes(bytes);
        }
    }

    /// The leaf that has the beginning of an extent at one place, where on it, and how much of it: through layers that keep data as
    /// they are. Of a mirror it is the leader, while both legs are whole.
    fn place_of(
        &self,
        mut node: u32,
        mut at: ByteOffset,
        len: ByteLen,
    ) -> Option<(u32, ByteOffset, ByteLen)> {
        loop {
            let machine = self.graph.machine(node);
            match self.kinds[node as usize] {
                "file" => return Some((node, at, len)),
                "slice" => {}
                "mirror" if machine.members().and_then(|of| of.health()) == Some(Health::Healthy) => {}
                _ => return None,
            }
            let (child, below) = machine.prepare(Op::Read, at, len)?;
            (node, at) = (self.children[node as usize][usize::from(child)], below);
        }
    }

    fn send_pieces(&mut self, slot: u32, now: Instant) {
        while let Some(piece) = self.host.ops.next_piece(slot) {
            self.graph.pool.keep(piece.payload);
            self.graph.submit(
                piece.target.node,
                piece.op,
                piece.flags,
                piece.offset,
                piece.len,
                piece.payload,
                piece.target.tenant,
                piece.cookie,
                piece.arrival,
                now,
                &mut self.host,
            );
        }
    }

    /// Exports hear of what was lost so far.
    pub fn hear_losses(&mut self) {
        note_losses(&mut self.host.lost, &self.targets, &mut self.unsure);
    }

    /// The device of an export of which something that was answered may be gone, and nobody has heard of it. Every machine is closed: what
    /// a device below could not write while it was closed is gone too, where no mirror or parity array has it elsewhere.
    pub fn untold_loss(&mut self) -> Option<&str> {
        for node in std::mem::take(&mut self.host.lost) {
            for at in 0..self.targets.len() {
                if self.stands_on(self.targets[at].node, node, false) {
                    self.unsure[at].lost();
                }
            }
        }
        let export = self.unsure.iter().position(Unsure::is_untold)?;
        Some(self.graph.name(self.targets[export].node))
    }

    /// Whether `below` is `node` or a part of it; unless `through_members` are followed, one that nothing can do without.
    pub(super) fn stands_on(&self, node: u32, below: u32, through_members: bool) -> bool {
        let has_members = self.graph.child_use(node, 0).is_some();
        let mut parts = self.children[node as usize].iter();
        node == below
            || (through_members || !has_members)
                && parts.any(|&part| self.stands_on(part, below, through_members))
    }

    /// Pieces of a request have ended: send more, or answer.
    pub(super) fn go_on(&mut self, slot: u32, now: Instant) {
        match self.host.ops.take_finished(slot, &mut self.graph.pool) {
            Some(mut op) => {
                self.doubt(&mut op);
                let took = now.since(op.arrival);
                self.served[op.target.export as usize].ended(op.op, op.len, took, op.error.is_some());
                self.answer(op);
            }
            None => self.send_pieces(slot, now),
        }
    }

    /// A flush fails whose client has not heard of a loss yet.
    fn doubt(&mut self, op: &mut HostOp) {
        if op.op.changes_data() {
            self.unsure[op.target.export as usize].change_ended();
        }
        if op.op != Op::Flush {
            return;
        }
        self.hear_losses();
        let heard = match op.asker {
            Asker::Client(key) => self.clients.get_mut(key).and_then(|conn| conn.heard.as_mut()),
            Asker::Block(number) => {
                let block = &mut self.blocks[number as usize];
                if std::mem::take(&mut block.doubts) && op.error.is_none() {
                    op.error = Some(IoError { kind: ErrorKind::Lost, at: ByteLen::ZERO, len: op.len });
                }
                Some(&mut block.heard)
            }
        };
        let Some(heard) = heard else { return };
        let unsure = &mut self.unsure[op.target.export as usize];
        if op.error.is_some() {
            unsure.flush_failed(heard);
        } else if !unsure.flushed(op.covers, heard) {
            op.error = Some(IoError { kind: ErrorKind::Lost, at: ByteLen::ZERO, len: op.len });
        }
    }

    fn answer(&mut self, op: HostOp) {
        match op.asker {
            Asker::Client(client) => self.answer_client(client, &op),
            Asker::Block(number) => self.answer_block(number, &op),
        }
    }

    fn answer_client(&mut self, client: Key, op: &HostOp) {
        let &HostOp { cookie, payload, .. } = op;
        let reserved = self.graph.pool.held_bytes(payload);
        let Some(conn) = self.clients.get_mut(client) else {
            unreachable!("a connection is kept until its last request has ended");
        };
        let replies = conn.session.expect("requests come after the handshake").replies;
        match (op.error, op.op) {
            (None, Op::Read) if !op.is_hint => {
                let data = payload.slice(op.front());
                conn.reply_data(replies.read(cookie, op.offset, op.len), data, op.len, reserved);
            }
            (None, _) => {
                self.graph.pool.release(payload);
                conn.reply(replies.ok(cookie, op.offset), reserved);
            }
            (Some(error), _) => {
                self.graph.pool.release(payload);
                let head = error_head(replies, cookie, op, error);
                conn.reply(head, reserved);
            }
        }
        self.list(client);
    }

    /// Sends what the listed connections have to say, and decides what each waits for; devices get their answers.
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
        let wakes = self.memory.wakes();
        if wakes {
            for key in self.clients.keys() {
                if self.clients.get(key).is_some_and(|conn| conn.starves) {
                    self.list(key);
                }
            }
        }
        self.submit_blocks(wakes);
    }

    fn await_client(&mut self, key: Key) {
        if self.waits_for_deal(key) {
            return self.set_interest(key, false);
        }
        let Some(conn) = self.clients.get_mut(key) else { return };
        let next = conn.next(&self.caps, &self.targets, &mut self.graph.pool);
        listen_for_losses(conn, &mut self.host.lost, &self.targets, &mut self.unsure);
        let wants_read = match next {
            Next::Read => {
                if conn.holds_input() {
                    self.list(key);
                }
                true
            }
            Next::Blocked => false,
            Next::Over => {
                if conn.is_finished() {
                    self.list(key); // what was just read ends it: it is hung up on in the next turn
                }
                false
            }
            Next::Start(request, payload) => {
                // Room was made by what was just sent.
                self.start(key, request, payload, self.clock.now());
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
        let Some(mut conn) = self.forget(key) else { return };
        conn.say_goodbye();
        self.poll.remove(conn.fd());
        if let Some(fault) = conn.fault.as_ref().filter(|_| !conn.is_turned_away) {
            self.news.push(match fault {
                NbdError::HungUp { .. } => News::HungUp(fault.to_string()),
                fault => News::Client(fault.to_string()),
            });
        }
        if self.full {
            self.pause_accepting(false);
        }
    }

    /// Hangs up on clients that take too long, and says how many were turned away.
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.full {
            self.pause_accepting(false);
        }
        let turned = std::mem::take(&mut self.turned);
        if turned > 0 {
            self.news.push(News::TurnedAway { clients: turned, most: self.caps.connections });
        }
        let hurries = self.draining || self.memory.is_short();
        let waited = self.draining && now.since(self.drain_began) > self.caps.stall;
        for key in self.clients.keys() {
            let Some(conn) = self.clients.get_mut(key) else { continue };
            if conn.dead {
                continue;
            }
            let Some(late) = conn.is_late(&self.caps, hurries, waited, now) else { continue };
            conn.dead = true;
            self.news.push(News::Client(match late {
                Late::Handshake => "takes too long for its handshake".into(),
                Late::Owes => "takes too long to send the rest of a message, or to read replies".into(),
                Late::Idle => format!("timed out: silent for {}", self.caps.idle),
            }));
            self.list(key);
        }
        self.sweep_controls(now);
        self.look_at_maintenance();
        self.look_at_bonds = true;
    }

    /// Connections from now on get these certificates; those that are there keep theirs.
    pub(crate) fn take_certificates(&mut self, acceptor: Acceptor) {
        self.tls.1 = Some(acceptor);
    }

    /// Accepts nobody any more and refuses new requests; limits of tenants hold nothing up.
    pub fn drain(&mut self) {
        self.draining = true;
        self.lift_limits();
        self.drain_began = self.clock.now();
        self.stop_blocks();
        for listener in std::mem::take(&mut self.listeners) {
            self.poll.remove(listener.fd());
        }
        for key in self.clients.keys() {
            if let Some(conn) = self.clients.get_mut(key) {
                conn.shut_down();
            }
        }
    }

    /// Whether every request of every client is answered and the answers are sent. What a client goes on to send is refused
    /// until it is silent, or has talked for as long as a handshake may take.
    pub fn is_drained(&self) -> bool {
        let (now, began) = (self.clock.now(), self.drain_began);
        let quiet = if now.since(began) > self.caps.handshake { Span::ZERO } else { self.caps.farewell };
        self.host.ops.alive() == 0
            && self.blocks_are_over()
            && self.clients.iter().all(|(_, conn)| conn.is_quiet(quiet, began, now))
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
        self.guests()
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

/// Exports hear of devices that were lost.
fn note_losses(lost: &mut Vec<u32>, targets: &[Target], unsure: &mut [Unsure]) {
    for node in lost.drain(..) {
        let exports = targets.iter().zip(&mut *unsure);
        exports.filter(|(target, _)| target.node == node).for_each(|(_, unsure)| unsure.lost());
    }
}

/// A connection hears of losses from when its session begins.
fn listen_for_losses(conn: &mut Conn, lost: &mut Vec<u32>, targets: &[Target], unsure: &mut [Unsure]) {
    if conn.heard.is_none()
        && let Some(session) = conn.session
    {
        note_losses(lost, targets, unsure);
        conn.heard = Some(unsure[targets[session.export].export as usize].losses());
    }
}

/// What an error is to clients. The numbers of NBD are those of Linux.
pub(super) fn errno_of(kind: ErrorKind) -> Errno {
    match kind {
        ErrorKind::NoSpace => Errno::NoSpc,
        ErrorKind::Unsupported | ErrorKind::BadExtent | ErrorKind::NotErased | ErrorKind::OutOfOrder => {
            Errno::Inval
        }
        ErrorKind::ReadOnly => Errno::Perm,
        ErrorKind::Unreadable | ErrorKind::WriteFailed | ErrorKind::Gone | ErrorKind::Lost => Errno::Io,
    }
}

fn error_head(replies: Replies, cookie: Cookie, op: &HostOp, error: IoError) -> crate::nbd::Head {
    let errno = errno_of(error.kind);
    let message = format!("{}: {}", op.op.name(), error.kind);
    match replies.structured(op.offset) {
        Some(chunks) if op.op == Op::Read && error.at < op.len && !op.is_hint => {
            chunks.error_at(cookie, errno, op.offset + error.at, &message, crate::nbd::Place::Last)
        }
        _ => replies.error(cookie, op.offset, errno, &message),
    }
}

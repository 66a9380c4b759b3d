//! One server session as a machine: handshake and transmission behind one door.

use std::sync::Arc;

use nandu_base::ByteLen;

use super::error::NbdError;
use super::export::{Export, Exports};
use super::handshake::{self, Handshake, Progress};
use super::options::{Answer, Door, Start, Tls};
use super::reply::Replies;
use super::transmission::{Received, Refusal, Request, Transmission};

/// What one call of [`Server::step`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Bytes of the input that are done with. The rest is input to the next call.
    pub consumed: usize,
    /// What happened.
    pub event: Event,
}

/// What the driver has to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// All input is consumed: read more from the peer.
    NeedMore,
    /// An option was answered: send what was appended to `out`. The peer waits for it.
    Answered,
    /// TLS starts: send `out` as it is, then give the rest of the input, and all that comes later, to TLS. What comes out of that is input from here
    /// on, and all that is sent goes in there. Only after [`Server::set_tls`].
    StartsTls,
    /// The transmission phase starts: send `out`. From here on nothing is written to `out` any more.
    Started(Session),
    /// Serve this request and answer it. After [`Command::Write`](super::Command::Write) its payload comes first:
    /// see [`Server::payload_taken`].
    Request(Request),
    /// Answer with [`Replies::refuse`].
    Refused(Refusal),
    /// Nothing is consumed: the payload of the last write is not taken yet.
    NeedPayload(ByteLen),
    /// The session is over. Answer what is in flight, send `out`, then close the connection. Any further input is
    /// dropped and gives this event again.
    Closed,
}

/// What was agreed upon at the end of the handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Session {
    /// Index of the chosen export in [`Exports::all`].
    pub export: usize,
    /// How to reply.
    pub replies: Replies,
    /// The client selected `base:allocation` and may ask for block status.
    pub block_status: bool,
}

impl From<Start> for Session {
    fn from(start: Start) -> Session {
        Session { export: start.export, replies: Replies::new(start.form), block_status: start.block_status }
    }
}

#[derive(Debug)]
enum Phase {
    Handshake(Handshake),
    Transmission(Transmission),
    Closed,
}

/// The server side of one connection. See the [module](super) for how to drive it.
///
/// Cost: no allocation and no search per request; under 200 bytes, and up to 64 KiB more during the handshake.
#[derive(Debug)]
pub struct Server {
    exports: Arc<Exports>,
    phase: Phase,
    door: Door,
}

impl Server {
    /// A session with a client that has just connected. Appends the greeting to `out`: the server speaks first.
    pub fn new(exports: Arc<Exports>, out: &mut Vec<u8>) -> Server {
        handshake::greet(out);
        Server { exports, phase: Phase::Handshake(Handshake::new()), door: Door::Open }
    }

    /// Reads `input` up to the next event.
    ///
    /// The events do not depend on how the stream is cut into inputs. During the handshake, answers are appended to
    /// `out`: at most one option's per call, so that `out` stays small if the driver sends it each time.
    ///
    /// # Errors
    /// A breach that cannot be answered. The session is closed then; send `out` and hang up.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Step, NbdError> {
        let done = match &mut self.phase {
            Phase::Handshake(handshake) => match handshake.step(&self.exports, &self.door, input, out) {
                Ok((consumed, progress)) => Ok(self.negotiated(consumed, progress)),
                Err(error) => Err(error),
            },
            Phase::Transmission(transmission) => match transmission.step(self.door == Door::Leaving, input) {
                Ok((consumed, received)) => Ok(self.received(consumed, received)),
                Err(error) => Err(error),
            },
            Phase::Closed => Ok(Step { consumed: input.len(), event: Event::Closed }),
        };
        if done.is_err() {
            self.phase = Phase::Closed;
        }
        done
    }

    fn negotiated(&mut self, consumed: usize, progress: Progress) -> Step {
        let event = match progress {
            Progress::NeedMore => Event::NeedMore,
            Progress::Answered(Answer::GoesOn) => Event::Answered,
            Progress::Answered(Answer::StartsTls) => Event::StartsTls,
            Progress::Answered(Answer::Starts(start)) => {
                let export = &self.exports.all()[start.export];
                self.phase = Phase::Transmission(Transmission::new(export, start));
                Event::Started(start.into())
            }
            Progress::Answered(Answer::Ends) => {
                self.phase = Phase::Closed;
                Event::Closed
            }
        };
        Step { consumed, event }
    }

    #[inline]
    fn received(&mut self, consumed: usize, received: Received) -> Step {
        let event = match received {
            Received::NeedMore => Event::NeedMore,
            Received::NeedPayload => Event::NeedPayload(self.payload_owed()),
            Received::Request(request) => Event::Request(request),
            Received::Refused(refusal) => Event::Refused(refusal),
            Received::Disconnect => {
                self.phase = Phase::Closed;
                Event::Closed
            }
        };
        Step { consumed, event }
    }

    /// Payload bytes of the last write that the driver has still to take from the stream. 0 at any other time.
    #[inline]
    pub fn payload_owed(&self) -> ByteLen {
        match &self.phase {
            Phase::Transmission(transmission) => ByteLen(transmission.payload().into()),
            _ => ByteLen::ZERO,
        }
    }

    /// The driver took `n` bytes of payload from the stream, out of its input or straight from the socket into the
    /// buffer of the write. The codec never sees them. Returns what is still owed.
    ///
    /// # Panics
    /// If `n` is more than [`Server::payload_owed`]: a fault of the driver that would put the stream out of step.
    #[inline]
    pub fn payload_taken(&mut self, n: usize) -> ByteLen {
        match &mut self.phase {
            Phase::Transmission(transmission) => transmission.payload_taken(n),
            _ => assert!(n == 0, "{n} payload bytes taken, none owed"),
        }
        self.payload_owed()
    }

    /// The server goes away: from now on options get `NBD_REP_ERR_SHUTDOWN` and requests `ESHUTDOWN`. What is in
    /// flight is the driver's to finish; only the client can end the session cleanly ("Terminating the transmission
    /// phase").
    pub fn shut_down(&mut self) {
        self.door = Door::Leaving;
    }

    /// Whether the session is encrypted. Before the first input; without this call it is not.
    pub fn set_tls(&mut self, tls: Tls) {
        if let Phase::Handshake(handshake) = &mut self.phase {
            handshake.set_tls(tls);
        }
    }

    /// There is no session for this client: options get `NBD_REP_ERR_POLICY` with `why`, and after the one that asks for an
    /// export the connection ends. For a connection that is still in its handshake.
    pub fn turn_away(&mut self, why: String) {
        self.door = Door::Shut(why);
    }

    /// The peer's stream ended.
    ///
    /// # Errors
    /// [`NbdError::HungUp`] unless the session was closed before.
    pub fn hung_up(&mut self) -> Result<(), NbdError> {
        let mid_message = match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Handshake(handshake) => handshake.mid_message(),
            Phase::Transmission(transmission) => transmission.mid_message(),
            Phase::Closed => return Ok(()),
        };
        Err(NbdError::HungUp { mid_message })
    }

    /// What is on offer.
    pub fn exports(&self) -> &[Export] {
        self.exports.all()
    }
}

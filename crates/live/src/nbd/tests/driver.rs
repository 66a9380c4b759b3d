//! A small server on memory, the way a driver uses the codec. For tests of whole sessions.

use std::sync::Arc;

use super::nbd::{Command, Event, Exports, NbdError, Replies, Request, Server, StatusReply};

/// One connection and the bytes behind it. Byte `i` of an export starts as `i mod 256`.
pub struct Memory {
    server: Server,
    replies: Option<Replies>,
    bytes: Vec<u8>,
    write: Option<(Request, Vec<u8>)>,
}

impl Memory {
    /// The connection and the greeting.
    pub fn connect(exports: Arc<Exports>) -> (Memory, Vec<u8>) {
        let mut out = Vec::new();
        let server = Server::new(exports, &mut out);
        (Memory { server, replies: None, bytes: Vec::new(), write: None }, out)
    }

    /// Takes what the client sent and returns what the server answers at once.
    pub fn say(&mut self, mut input: &[u8]) -> Result<Vec<u8>, NbdError> {
        let mut out = Vec::new();
        loop {
            let step = self.server.step(input, &mut out)?;
            input = &input[step.consumed..];
            match step.event {
                Event::NeedMore | Event::Closed => return Ok(out),
                Event::Answered => {}
                Event::StartsTls => panic!("it was not offered"),
                Event::Started(session) => {
                    self.replies = Some(session.replies);
                    let size = self.server.exports()[session.export].size.0;
                    self.bytes = (0..size).map(|i| i as u8).collect();
                }
                Event::Request(request) if request.command == Command::Write => {
                    self.write = Some((request, Vec::new()));
                }
                Event::Request(request) => self.serve(request, &mut out),
                Event::Refused(refusal) => {
                    out.extend(self.replies.expect("started").refuse(&refusal).as_bytes());
                }
                Event::NeedPayload(owed) => {
                    let n = input.len().min(owed.0 as usize);
                    if n == 0 {
                        return Ok(out);
                    }
                    let left = self.server.payload_taken(n);
                    let (request, mut data) = self.write.take().expect("a write is waiting");
                    data.extend(&input[..n]);
                    input = &input[n..];
                    if left.0 == 0 {
                        self.store(request, &data);
                        let replies = self.replies.expect("started");
                        out.extend(replies.ok(request.cookie, request.offset).as_bytes());
                    } else {
                        self.write = Some((request, data));
                    }
                }
            }
        }
    }

    fn store(&mut self, request: Request, data: &[u8]) {
        let start = request.offset.0 as usize;
        self.bytes[start..start + data.len()].copy_from_slice(data);
    }

    fn serve(&mut self, request: Request, out: &mut Vec<u8>) {
        let replies = self.replies.expect("started");
        let extent = request.offset.0 as usize..(request.offset.0 + request.length.0) as usize;
        match request.command {
            Command::Read { .. } => {
                out.extend(replies.read(request.cookie, request.offset, request.length).as_bytes());
                out.extend(&self.bytes[extent]);
            }
            Command::WriteZeroes { .. } => {
                self.bytes[extent].fill(0);
                out.extend(replies.ok(request.cookie, request.offset).as_bytes());
            }
            Command::BlockStatus { .. } => {
                let mut extents = Vec::new();
                out.extend(StatusReply::new(replies, &request, &mut extents).finish().as_bytes());
                out.extend(extents);
            }
            _ => out.extend(replies.ok(request.cookie, request.offset).as_bytes()),
        }
    }
}

//! Figures over HTTP, for Prometheus and its like: `GET /metrics` at a Unix socket or a port.
//!
//! A thread of its own answers, one request after the other, and asks the reactor as a control client does: a client here that is slow, or silent,
//! holds up the next one here for some seconds and nobody else. Nothing can be changed here. HTTP/1.1 without keep-alive; what is longer or slower than a
//! request has reason to be is hung up on.

use crate::listen::{self, SocketFile};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use serde_json::Value;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Longest head of a request.
const HEAD: u64 = 8 << 10;
/// How long a client may take for all that it says and hears.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where figures are told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetricsAt {
    /// At a Unix socket.
    Unix(PathBuf),
    /// At a port.
    Tcp(SocketAddr),
}

impl FromStr for MetricsAt {
    type Err = String;

    /// `9100` and `:9100` are ports of localhost, `0.0.0.0:9100` and `[::]:9100` are addresses, and all that has a `/` in it is the path of a socket.
    fn from_str(text: &str) -> Result<MetricsAt, String> {
        if text.contains('/') {
            return Ok(MetricsAt::Unix(text.into()));
        }
        let port = text.strip_prefix(':').unwrap_or(text).parse::<u16>();
        let local = port.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        local.or_else(|_| text.parse()).map(MetricsAt::Tcp).map_err(|_| {
            "a port such as 9100, an address such as 127.0.0.1:9100, or the path of a socket such as /run/nandu.metrics is wanted".into()
        })
    }
}

impl fmt::Display for MetricsAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MetricsAt::Unix(path) => write!(f, "{}", path.display()),
            MetricsAt::Tcp(address) => write!(f, "http://{address}/metrics"),
        }
    }
}

enum Door {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Takes the address; what answers there, and the socket that is removed at the end.
///
/// # Errors
/// The address cannot be had.
pub(super) fn take(at: &MetricsAt) -> io::Result<(Metrics, Option<SocketFile>)> {
    match at {
        MetricsAt::Unix(path) => {
            // Whoever may see the folder may read figures.
            let (listener, file) = listen::unix(path, Mode::from_raw_mode(0o666))?;
            Ok((Metrics { door: Door::Unix(listener), at: at.clone() }, Some(file)))
        }
        MetricsAt::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            let at = MetricsAt::Tcp(listener.local_addr()?);
            Ok((Metrics { door: Door::Tcp(listener), at }, None))
        }
    }
}

/// The address, taken.
pub(super) struct Metrics {
    door: Door,
    /// With the port that was taken.
    pub at: MetricsAt,
}

impl Metrics {
    /// Begins to answer. `reactor` is one end of a control connection. The thread ends when the other end is closed.
    ///
    /// # Errors
    /// There is no room for a thread.
    pub fn serve(self, reactor: UnixStream) -> io::Result<()> {
        let thread = std::thread::Builder::new().name("nandu-metrics".into());
        thread.spawn(move || {
            let mut reactor = BufReader::new(reactor);
            while self.wait(reactor.get_ref()) {
                let answered = match &self.door {
                    Door::Unix(listener) => {
                        listener.accept().map(|(socket, _)| answer_within(PATIENCE, &socket, &mut reactor))
                    }
                    Door::Tcp(listener) => {
                        listener.accept().map(|(socket, _)| answer_within(PATIENCE, &socket, &mut reactor))
                    }
                };
                match answered {
                    Ok(_) => {} // a client that went is nobody's trouble, and an end of the server is seen above
                    Err(_) => std::thread::park_timeout(PATIENCE / 5), // no descriptor is left, most likely
                }
            }
        })?;
        Ok(())
    }

    /// Waits for a client. False when the server has ended.
    fn wait(&self, reactor: &UnixStream) -> bool {
        let door = match &self.door {
            Door::Unix(listener) => listener.as_fd(),
            Door::Tcp(listener) => listener.as_fd(),
        };
        let mut fds = [PollFd::new(&door, PollFlags::IN), PollFd::new(reactor, PollFlags::IN)];
        match poll(&mut fds, None) {
            // The reactor says nothing unasked: this is its end.
            Ok(_) => fds[1].revents().is_empty(),
            Err(error) => error == Errno::INTR,
        }
    }
}

/// A socket that is given up at a time, however little at a time comes or goes.
#[derive(Clone, Copy)]
struct Until<'a, S> {
    socket: &'a S,
    end: Instant,
}

impl<S: AsFd> Until<'_, S> {
    fn bound(&self, what: Timeout) -> io::Result<()> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(set_socket_timeout(self.socket, what, Some(left))?)
    }
}

impl<'a, S: AsFd> Read for Until<'a, S>
where
    &'a S: Read,
{
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.bound(Timeout::Recv)?;
        self.socket.read(into)
    }
}

impl<'a, S: AsFd> Write for Until<'a, S>
where
    &'a S: Write,
{
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.bound(Timeout::Send)?;
        self.socket.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// Answers one request of a client that may take so long for all of it.
fn answer_within<'a, S: AsFd>(
    patience: Duration,
    socket: &'a S,
    reactor: &mut BufReader<UnixStream>,
) -> io::Result<()>
where
    &'a S: Read + Write,
{
    let end = Instant::now() + patience;
    answer(Until { socket, end }, Until { socket, end }, reactor)
}

/// Answers one request.
///
/// # Errors
/// The client has gone or is too slow, or the reactor has ended.
fn answer(from: impl Read, mut to: impl Write, reactor: &mut BufReader<UnixStream>) -> io::Result<()> {
    let mut from = BufReader::new(from.take(HEAD));
    let mut first = String::new();
    from.read_line(&mut first)?;
    let mut line = String::new();
    while from.read_line(&mut line)? > 0 && !line.trim().is_empty() {
        line.clear();
    }
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => {
            ("200 OK", "text/plain; version=0.0.4; charset=utf-8", figures(reactor)?)
        }
        ("GET" | "HEAD", "/") => ("200 OK", "text/plain; charset=utf-8", "Figures are at /metrics.\n".into()),
        ("GET" | "HEAD", _) => {
            ("404 Not Found", "text/plain; charset=utf-8", "There is nothing but /metrics.\n".into())
        }
        _ => ("405 Method Not Allowed", "text/plain; charset=utf-8", "Only GET and HEAD.\n".into()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if method == "HEAD" { "" } else { &body };
    to.write_all(head.as_bytes())?;
    to.write_all(body.as_bytes())?;
    to.flush()
}

fn figures(reactor: &mut BufReader<UnixStream>) -> io::Result<String> {
    let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
    reactor.get_mut().write_all(b"metrics\n").map_err(|_| gone())?;
    let mut line = String::new();
    match reactor.read_line(&mut line) {
        Ok(1..) => {}
        _ => return Err(gone()),
    }
    let answer: Value = serde_json::from_str(&line).map_err(|_| gone())?;
    answer["metrics"].as_str().map(String::from).ok_or_else(gone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ports_addresses_or_paths() {
        let read = |text: &str| text.parse::<MetricsAt>().map(|at| at.to_string());
        assert_eq!(read("9100").as_deref(), Ok("http://127.0.0.1:9100/metrics"));
        assert_eq!(read(":9100").as_deref(), Ok("http://127.0.0.1:9100/metrics"));
        assert_eq!(read("[::1]:9100").as_deref(), Ok("http://[::1]:9100/metrics"));
        assert_eq!(read("./m.sock").as_deref(), Ok("./m.sock"));
        for wrong in ["", "70000", "localhost:9100", "m.sock"] {
            assert!(read(wrong).is_err_and(|why| why.contains("the path of a socket")), "{wrong}");
        }
    }

    #[test]
    fn only_a_get_of_the_figures_gets_them() {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let reactor = std::thread::spawn(move || {
            let mut asked = BufReader::new(theirs.try_clone().expect("a descriptor"));
            let mut line = String::new();
            let mut times = 0;
            while asked.read_line(&mut line).expect("a line") > 0 {
                assert_eq!(std::mem::take(&mut line), "metrics\n");
                theirs.write_all(b"{\"ok\":true,\"metrics\":\"nandu_up 1\\n\"}\n").expect("it is read");
                times += 1;
            }
            times
        });
        let mut ours = BufReader::new(ours);
        let mut ask = |request: &str| {
            let mut said = Vec::new();
            answer(request.as_bytes(), &mut said, &mut ours).expect("an answer");
            String::from_utf8(said).expect("text")
        };
        let full = ask("GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(
            full.starts_with("HTTP/1.1 200 OK\r\n")
                && full.ends_with("Content-Length: 11\r\nConnection: close\r\n\r\nnandu_up 1\n"),
            "{full}"
        );
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.ends_with("Content-Length: 11\r\nConnection: close\r\n\r\n"), "{head}");
        assert!(ask("GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        for odd in ["", "\r\n", "GET", "\u{0}\u{1}", &"x".repeat(20_000)] {
            assert!(
                ask(odd).starts_with("HTTP/1.1 405 ") || ask(odd).starts_with("HTTP/1.1 404 "),
                "{odd:?}"
            );
        }
        drop(ours);
        assert_eq!(reactor.join().expect("no panic"), 2);
    }

    /// Also one that never lets anybody wait for its next byte.
    #[test]
    fn a_client_is_given_up_when_its_time_is_over() {
        let (ours, mut theirs) = UnixStream::pair().expect("two sockets");
        let (reactor, _other) = UnixStream::pair().expect("two sockets");
        theirs.write_all(b"GET /metrics HTTP/1.1\r\n").expect("room");
        let answered = answer_within(Duration::ZERO, &ours, &mut BufReader::new(reactor));
        assert_eq!(answered.map_err(|e| e.kind()), Err(io::ErrorKind::TimedOut));
    }
}

//! What to serve and how, and what is heard of it.

use super::metrics::MetricsAt;
use super::stop::Stopper;
use crate::backend::FileIo;
use crate::reactor::watchdog::Held;
use crate::reactor::{Caps, LegNews, News};
use crate::tls::TlsOptions;
use crate::ublk::UblkNumber;
use nandu_base::{Gone, Health, Notice, OpenError, Span, TenantShare};
use nandu_stack::Stack;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;

/// What tenants may ask for now, by their names; or why that cannot be read.
pub type Reload = Box<dyn FnMut() -> Result<Vec<TenantShare>, String> + Send>;

/// What to serve and how.
pub struct ServeOptions {
    /// The stack.
    pub stack: Stack,
    /// Unix sockets for NBD clients. One that a dead server left is replaced.
    pub unix: Vec<PathBuf>,
    /// A TCP address for NBD clients; port 0 takes a free one. The protocol has no password: anything but localhost
    /// is open to whoever reaches it.
    pub tcp: Option<SocketAddr>,
    /// Offer the exports as block devices of the kernel too, `/dev/ublkbN`.
    pub ublk: Option<UblkNumber>,
    /// A Unix socket for control commands ([`crate::ctl`]), made with mode 0600.
    pub control: Option<PathBuf>,
    /// How clients reach exports by TLS; without it all is in the clear.
    pub tls: Option<TlsOptions>,
    /// Where figures are told over HTTP.
    pub metrics: Option<MetricsAt>,
    /// A command for `sh -c` that runs while the stack is served; its end is the end of the server. It finds `uri` (of
    /// the first export), `uris`, `unixsocket`, `port` and `ublk` (the block devices) in its environment. Without an address, a private socket is
    /// made.
    pub run: Option<String>,
    /// A file for the number of the process, written when clients can connect and removed at the end.
    pub pidfile: Option<PathBuf>,
    /// Make files that are missing, and initialise blank members.
    pub create: bool,
    /// Start a redundant device on what is there, although the rest may hold newer data.
    pub alone: bool,
    /// Open stores that are damaged, without what is damaged in them.
    pub salvage: bool,
    /// Blank members hold the same data everywhere: nothing is copied from one to the other.
    pub assume_clean: bool,
    /// Names of the exports to offer. Empty: all.
    pub exports: Vec<String>,
    /// Who does the operations of files that may sleep.
    pub file_io: FileIo,
    /// How long the server polls for requests before it sleeps, where that has paid; zero for never. Polling makes a client with one request at a time
    /// quicker. With one processor nothing polls. Default 50 us.
    pub poll_max: Span,
    /// Refuse all changes by clients. The machines still write their own records.
    pub read_only: bool,
    /// The file that the stack was read from: it never becomes a leg, and it is changed when `replace` gives a leg another file.
    pub stack_file: Option<PathBuf>,
    /// Blank files or devices that take the places of legs that fail, one after the other.
    pub spares: Vec<PathBuf>,
    /// Where relative paths of files start.
    pub base: PathBuf,
    /// The seed of the machines' random choices. A server should have one of its own: the ids of new sets come from it.
    pub seed: u64,
    /// Limits for clients.
    pub caps: Caps,
    /// End on SIGTERM and SIGINT. One server of a process may set it.
    pub signals: bool,
    /// Reads anew what tenants may ask for, on SIGHUP; without it no limit changes.
    pub reload: Option<Reload>,
    /// A command for `sh -c` that runs on each [`Event`](super::hook::Event).
    pub on_change: Option<String>,
    /// Take the sockets and answer the questions of a service manager such as systemd, when the environment says that there is one: sockets that it
    /// listens at already, word when the server is ready or ends, signs of life. One server of a process may set it.
    pub service: bool,
    /// After how long one event that holds the server is reported to `alarm`, and a start or an end of a device that takes so long; zero for never.
    /// Default 5 s.
    pub watchdog: Span,
    /// Hears what is to be said while the server stands still, on a thread of its own.
    pub alarm: Box<dyn Fn(&Report) + Send>,
    /// Faults to plant, for tests that must find them. No command line sets it.
    pub planted: BTreeSet<String>,
    /// Another way to end it, for callers in the same process.
    pub stopper: Option<Stopper>,
}

impl ServeOptions {
    /// Serves all exports of `stack`, paths relative to the current directory; an address is still to be set.
    pub fn new(stack: Stack) -> ServeOptions {
        ServeOptions {
            stack,
            unix: Vec::new(),
            tcp: None,
            ublk: None,
            control: None,
            metrics: None,
            run: None,
            pidfile: None,
            create: false,
            assume_clean: false,
            alone: false,
            salvage: false,
            exports: Vec::new(),
            file_io: FileIo::Auto,
            poll_max: Span::from_us(50),
            tls: None,
            read_only: false,
            stack_file: None,
            spares: Vec::new(),
            base: PathBuf::from("."),
            seed: fresh_seed(),
            caps: Caps::default(),
            signals: true,
            reload: None,
            on_change: None,
            service: false,
            watchdog: Span::from_secs(5),
            alarm: Box::new(|report| report.print()),
            planted: BTreeSet::new(),
            stopper: None,
        }
    }
}

/// A seed that no other start has: from the system's random numbers, or where there are none from the time and the process.
fn fresh_seed() -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    match read {
        Ok(()) => u64::from_le_bytes(bytes),
        Err(_) => {
            let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            since.as_nanos() as u64 ^ u64::from(std::process::id()) << 40
        }
    }
}

/// What happens to a server. The text is for people; [`Report::Ready`] is for programs too.
#[derive(Clone, Debug)]
pub enum Report {
    /// Where an emulated drive keeps what it holds.
    Holds {
        /// Its name.
        device: String,
        /// Where, and how much that may become.
        what: String,
    },
    /// The kernel has no io_uring for this process: threads do the operations of files.
    NoRing {
        /// What it says.
        why: String,
    },
    /// Where figures are told over HTTP.
    Metrics {
        /// The address.
        at: MetricsAt,
    },
    /// A salvage went on without something.
    Gone {
        /// The drive.
        device: String,
        /// What is gone.
        what: String,
    },
    /// A file or a store is missing, or too short: the start goes on, and what stands above decides.
    Missing {
        /// The leaf.
        device: String,
        /// Why it cannot be used, and what helps.
        why: String,
    },
    /// A machine has started, or could not.
    Opened {
        /// Its name.
        device: String,
        /// How it went.
        result: Result<(), OpenError>,
    },
    /// A machine has not started, or not ended, for some time.
    Waits {
        /// Its name.
        device: String,
        /// Whether it is to start.
        starts: bool,
        /// Legs that have not answered, with the requests that they owe; none where it waits for nothing outside.
        legs: Vec<(String, u32)>,
        /// For how long.
        span: Span,
    },
    /// Clients can connect.
    Ready {
        /// For each export, in the order of the stack file, one for each address, and where its block device is.
        uris: Vec<String>,
    },
    /// Something happened while running.
    News(News),
    /// Anybody who reaches this address can read and write.
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// One event has held the server for the bound of the watchdog, and still does.
    Stands {
        /// Where.
        held: Held,
        /// For how long.
        span: Span,
    },
    /// It goes on.
    GoesOn {
        /// Where it was.
        held: Held,
        /// For how long it stood still.
        span: Span,
    },
    /// SIGHUP came: the log is to be opened anew.
    HangUp,
    /// What tenants may ask for was read again.
    Reloaded {
        /// Those for whom something has changed.
        tenants: Vec<String>,
    },
    /// It could not be read again.
    NotReloaded {
        /// Why.
        why: String,
    },
    /// Certificates were read again; or why those of before are kept.
    Certificates {
        /// Their folder.
        folder: PathBuf,
        /// Whether connections from now on get the new ones.
        result: Result<(), String>,
    },
    /// No new requests are taken.
    Draining,
    /// Everything is durable and marked as cleanly closed.
    Closed,
}

/// How much a report matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Somebody has to do something now.
    Error,
    /// Something is not as it should be.
    Warn,
    /// What one wants to find in a log later.
    Info,
    /// What only helps to find a fault.
    Debug,
}

impl Level {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }
}

impl Report {
    /// How much it matters.
    pub fn level(&self) -> Level {
        match self {
            Report::Stands { .. } | Report::News(News::Device(_, Notice::Health(Health::Failed))) => {
                Level::Error
            }
            Report::Gone { .. }
            | Report::Missing { .. }
            | Report::Waits { .. }
            | Report::Exposed { .. }
            | Report::GoesOn { .. }
            | Report::NotReloaded { .. }
            | Report::Certificates { result: Err(_), .. }
            | Report::Opened { result: Err(_), .. }
            | Report::News(
                News::Leg(
                    _,
                    LegNews::Faulty(_)
                    | LegNews::StillGone(_)
                    | LegNews::Stays(_)
                    | LegNews::Replaced(_, Some(_)),
                )
                | News::Device(
                    _,
                    Notice::Health(Health::Exposed | Health::Degraded)
                    | Notice::Differ { .. }
                    | Notice::NotGrown
                    | Notice::Refused(_),
                )
                | News::Cache(_, Health::Degraded)
                | News::NotTaken(..)
                | News::Gone(..)
                | News::Left { .. }
                | News::Moved { result: Err(_), .. }
                | News::Sized { result: Err(_), .. }
                | News::Spare { .. }
                | News::TurnedAway { .. }
                | News::BlockGone(_),
            ) => Level::Warn,
            Report::News(News::HungUp(_)) => Level::Debug,
            Report::Holds { .. }
            | Report::NoRing { .. }
            | Report::Metrics { .. }
            | Report::Opened { .. }
            | Report::Ready { .. }
            | Report::HangUp
            | Report::Reloaded { .. }
            | Report::Certificates { result: Ok(()), .. }
            | Report::Draining
            | Report::Closed
            | Report::News(
                News::Leg(_, LegNews::Back | LegNews::Replaced(_, None))
                | News::Device(..)
                | News::Cache(..)
                | News::UsedAgain { .. }
                | News::Moved { result: Ok(_), .. }
                | News::Sized { result: Ok(_), .. }
                | News::Extended { .. }
                | News::Client(_),
            ) => Level::Info,
        }
    }

    /// As a line of a log: the time of day in UTC, the level, and what happened.
    pub fn line(&self) -> String {
        let time = crate::wall::rfc3339(std::time::SystemTime::now());
        format!("{time} {:<5} {self}", self.level().word())
    }
}

fn place(held: &Held) -> String {
    match held {
        Held::Machine(name) => format!("one event in `{name}`"),
        Held::Files(name) => format!("one operation on the files of `{name}`"),
        Held::Elsewhere => "something outside the devices".into(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Report::Holds { device, what } => write!(f, "{device}: {what}"),
            Report::NoRing { why } => write!(f, "files: threads do their operations, for {why}"),
            Report::Metrics { at } => write!(f, "metrics for Prometheus: {at}"),
            Report::Gone { device, what } => write!(f, "{device}: GONE: {what}"),
            Report::Missing { device, why } => write!(f, "{device}: not open: {why}"),
            Report::Waits { device, starts, legs, span } => {
                let what = if *starts { "open" } else { "closed" };
                write!(f, "{device}: not {what} after {span}")?;
                for (n, (leg, requests)) in legs.iter().enumerate() {
                    let [before, s] =
                        [if n == 0 { "; it waits for" } else { "," }, if *requests == 1 { "" } else { "s" }];
                    write!(f, "{before} `{leg}`, which has not answered {requests} request{s}")?;
                }
                Ok(())
            }
            Report::Opened { device, result: Ok(()) } => write!(f, "{device}: open"),
            Report::Opened { device, result: Err(error) } => write!(f, "{device}: not open: {error}"),
            Report::Ready { uris } => f.write_str(&uris.join("\n")),
            Report::News(News::Leg(leg, LegNews::Faulty(0))) => write!(f, "{leg}: failed by operator"),
            Report::News(News::Leg(leg, LegNews::Faulty(errno))) => {
                let error = std::io::Error::from_raw_os_error(*errno);
                write!(f, "{leg}: failed: {error}; repair it, then `nandu ctl SOCKET add {leg}`")
            }
            Report::News(News::Leg(leg, LegNews::Back)) => write!(f, "{leg}: back"),
            Report::News(News::Leg(leg, LegNews::StillGone(why))) => write!(f, "{leg}: not added: {why}"),
            Report::News(News::Leg(leg, LegNews::Stays(why))) => write!(f, "{leg}: {why}"),
            Report::News(News::Leg(leg, LegNews::Replaced(file, None))) => {
                write!(
                    f,
                    "{leg}: {} has taken its place; the old file holds no records any more",
                    file.display()
                )
            }
            Report::News(News::Leg(leg, LegNews::Replaced(file, Some(why)))) => write!(
                f,
                "{leg}: {} has taken its place; the old file keeps its records, do not start with it: {why}",
                file.display()
            ),
            Report::News(News::Device(device, notice)) => say(f, device, *notice),
            Report::News(News::Cache(device, Health::Healthy)) => {
                write!(f, "{device}: healthy: its rings are in use")
            }
            Report::News(News::Cache(device, _)) => write!(
                f,
                "{device}: degraded: it serves from its disk alone, without rings; whatever is not lost is there, and only there"
            ),
            Report::News(News::NotTaken(device, child)) => {
                write!(
                    f,
                    "{device}: rejected leg {child}: its records belong to another set; `nandu ctl SOCKET replace {child}` overwrites them"
                )
            }
            Report::News(News::Gone(device, leg, gone)) => {
                write!(f, "{device}: GONE: {}", said_of(leg, *gone))
            }
            Report::News(News::Left { device, leg, left, is_leg }) => {
                write!(f, "{device}: `{leg}` is left out: {}", left.why)?;
                // After a failed request it does not come back by itself, whatever is tried right now.
                match *is_leg && (!left.comes || left.errno != 0) {
                    true => write!(f, "; repair it, then `nandu ctl SOCKET add {leg}`"),
                    false => Ok(()),
                }
            }
            Report::News(News::UsedAgain { device, leg }) => write!(f, "{device}: `{leg}` is used again"),
            Report::News(News::Moved { leg, result: Ok(copy) }) => {
                write!(
                    f,
                    "{leg}: the stack file names its new file; as it was it is kept in {}",
                    copy.display()
                )
            }
            Report::News(News::Moved { leg, result: Err(why) }) => {
                write!(
                    f,
                    "{leg}: the stack file still names its old file: {why}; name the new one before the next start"
                )
            }
            Report::News(News::Sized { device, result: Ok(copy) }) => {
                write!(
                    f,
                    "{device}: the stack file says the new sizes; as it was it is kept in {}",
                    copy.display()
                )
            }
            Report::News(News::Sized { device, result: Err(why) }) => {
                write!(f, "{device}: the stack file still says the old sizes: {why}; correct `size`")
            }
            Report::News(News::Extended { device, leg, file, copy }) => {
                write!(f, "{device}: `{leg}` is one more leg, in {}", file.display())?;
                match copy {
                    Some(copy) => {
                        write!(f, "; the stack file names it, and is kept as it was in {}", copy.display())
                    }
                    None => Ok(()),
                }
            }
            Report::News(News::Spare { leg, file, result: Ok(()) }) => {
                write!(f, "{leg}: the spare {} has taken its place", file.display())
            }
            Report::News(News::Spare { leg, file, result: Err(why) }) => {
                write!(f, "{leg}: the spare {} is not used: {why}", file.display())
            }
            Report::News(News::HungUp(what)) => write!(f, "a client: {what}"),
            Report::Exposed { address } => write!(
                f,
                "{address}: NBD has no password: whoever reaches this address can read and write everything"
            ),
            Report::Stands { held, span } => {
                write!(f, "watchdog: {} has blocked the server for {span}; no client is served", place(held))
            }
            Report::GoesOn { held, span } => {
                write!(f, "watchdog: the server runs again: {} blocked it for {span}", place(held))
            }
            Report::News(News::BlockGone(path)) => {
                write!(f, "{path}: another program has taken it away; it is not served any more")
            }
            Report::News(News::Client(what)) => write!(f, "a client {what}"),
            Report::News(News::TurnedAway { clients, most }) => {
                write!(f, "{clients} connections refused: {most} are open, the limit of --max-connections")
            }
            Report::HangUp => f.write_str(
                "SIGHUP: limits of tenants that come from a stack file, and certificates, are read again",
            ),
            Report::Reloaded { tenants } if tenants.is_empty() => {
                f.write_str("no limit of a tenant has changed")
            }
            Report::Reloaded { tenants } => write!(f, "new limits hold for: {}", tenants.join(", ")),
            Report::NotReloaded { why } => write!(f, "the limits stay as they were: {why}"),
            Report::Certificates { folder, result: Ok(()) } => {
                write!(f, "connections from now on get the certificates that are in {}", folder.display())
            }
            Report::Certificates { result: Err(why), .. } => {
                write!(f, "the certificates stay as they were: {why}")
            }
            Report::Draining => f.write_str("draining requests in flight"),
            Report::Closed => f.write_str("closed"),
        }
    }
}

/// What a start that salvages went on without, in words.
fn said_of(leg: &str, gone: Gone) -> String {
    match gone {
        Gone::Leg => format!(
            "the records of `{leg}`: the others go on without it, and without what only it held; give it back blank with \
             `nandu ctl SOCKET replace`"
        ),
        Gone::Set => format!(
            "the records of all legs: `{leg}` leads a new set with the data that it has; what only the others or a journal held, and \
             the list of data that were lost before"
        ),
        Gone::Member => {
            format!("the records of `{leg}`: it is taken as it is, and what it has missed is not known")
        }
        Gone::List => {
            format!("the list of lost data on `{leg}`: what was lost before may read as something older")
        }
        Gone::Openings(1) => format!("what was written to `{leg}` in the last opening: it is an older copy"),
        Gone::Openings(n) => {
            format!("what was written to `{leg}` in the last {n} openings: it is an older copy")
        }
        Gone::Groups(first, last) => format!(
            "groups {first} to {last} of `{leg}`: any page that was written in them reads as something older; nothing says which"
        ),
        Gone::Dirty(bytes) => format!(
            "`{leg}`, which may have had something newer of {bytes} bytes: they fail until they are written whole, and `nandu ctl SOCKET status` \
             and `nandu examine` name them"
        ),
        Gone::Page(byte) => format!(
            "what cannot be read at byte {byte} of `{leg}`: if pages were written in a group there, they read as something older"
        ),
    }
}

fn say(f: &mut fmt::Formatter<'_>, device: &str, notice: Notice) -> fmt::Result {
    match notice {
        Notice::Health(Health::Healthy) => write!(f, "{device}: healthy: all legs are in sync"),
        Notice::Health(Health::Exposed) => {
            write!(f, "{device}: exposed: some data are on one leg only, for longer than allowed")
        }
        Notice::Health(Health::Degraded) => {
            write!(f, "{device}: degraded: a leg is out or not in sync; one more failure may lose data")
        }
        Notice::Health(Health::Failed) => {
            write!(
                f,
                "{device}: failed: too few members can serve, or one failed a request that must not fail"
            )
        }
        Notice::Differ { at, len, mends } => {
            let what = if mends { "repaired" } else { "not repaired" };
            write!(f, "{device}: scrub: mismatch at byte {}, {len} long: {what}", at.0)
        }
        Notice::Scrubbed { differing, unreadable } => {
            write!(f, "{device}: scrub: {differing} blocks differed, {unreadable} could not be read")
        }
        Notice::Mismatch { at, len } => {
            write!(f, "{device}: damaged: {len} from byte {} on do not have their checksum", at.0)
        }
        Notice::Retaken { regions, differing } => write!(
            f,
            "{device}: {regions} regions were being written when it stopped: their checksums are made anew ({differing} blocks differ)"
        ),
        Notice::Grown(size) => write!(f, "{device}: grown: it serves {size} from now on"),
        Notice::NotGrown => {
            write!(
                f,
                "{device}: not grown: a leg was lost or did not take its new records; it serves what it did"
            )
        }
        Notice::Refused(_) => write!(f, "{device}: a leg is rejected"),
        Notice::Gone(..) => write!(f, "{device}: GONE: records of a leg"),
    }
}

impl Report {
    /// Prints a report: URIs on standard output, everything else as a line of a log on standard error.
    pub fn print(&self) {
        match self {
            Report::Ready { .. } => {
                use std::io::Write;
                let mut out = std::io::stdout().lock();
                // A reader that has gone away does not stop the server.
                let _ = writeln!(out, "{self}").and_then(|()| out.flush());
            }
            _ => {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "{}", self.line());
            }
        }
    }
}

/// How a server ended that ended cleanly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The exit status of the command, as a shell gives it (128 + signal when one killed it). `None` without a
    /// command, or when the server ended first.
    pub child: Option<i32>,
}

impl Ended {
    /// The exit status to pass on.
    pub fn exit_code(&self) -> u8 {
        self.child.map_or(0, |status| status as u8)
    }
}

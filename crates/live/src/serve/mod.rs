//! `serve`: a stack from its start to its clean end.
//!
//! *Start.* Addresses are taken first, then the files are opened and locked, then the machines are opened children
//! first, each awaited before the next. With `create` files are made before, when all that are there have been looked at
//! ([`members`]); a start that fails takes them away again. A file that is missing does not stop the start: the machine above decides
//! whether it can do without. Clients are accepted once every export is open.
//!
//! *End.* On SIGTERM, SIGINT, [`Stopper::stop`] or the end of the command of [`ServeOptions::run`]: nobody is accepted
//! any more, new requests get `ESHUTDOWN`, what is under way is answered, then the machines are closed parents first,
//! which makes everything durable. On SIGHUP limits of tenants and certificates are read anew. A second signal ends it at once, as a crash would: see `docs/reference/guarantees.md`.

mod error;
mod hook;
mod media;
mod members;
mod metrics;
mod options;
mod service;
mod stop;

pub use error::ServeError;
pub use hook::Event;
pub use metrics::MetricsAt;
pub use options::{Ended, Level, Reload, Report, ServeOptions};
pub use stop::Stopper;

use crate::backend::candidate::Undo;
use crate::backend::{Completions, FileIo};
use crate::listen::{self, SocketFile};
use crate::nbd::{BlockSizes, Export, Tls};
use crate::reactor::watchdog::{Bark, Watchdog};
use crate::reactor::{BlockOffer, Leaves, Listener, Reactor, Setup, WIDEST_BLOCK};
use crate::tls::Acceptor;
use crate::ublk::{Device, Driver, Shape, UblkNumber};
use nandu_base::{ByteLen, Content, Instant, Limits, MediumSpec, OpenError, OpenOptions, Span, TenantId};
use nandu_stack::{BuildOptions, Built, BuiltPart, Graph};
use rustix::fs::Mode;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use stop::{Child, Signals, Watched};

/// Serves a stack until it is told to stop. `report` hears what happens.
///
/// # Errors
/// What was wrong, where and why, and what would help; see [`ServeError::exit_code`].
pub fn serve(mut options: ServeOptions, report: &mut dyn FnMut(&Report)) -> Result<Ended, ServeError> {
    if options.caps.memory < options.caps.least_memory() {
        return Err(ServeError::Memory { asked: options.caps.memory, least: options.caps.least_memory() });
    }
    let planted = options.planted.clone();
    let build = BuildOptions { seed: options.seed, planted, ..BuildOptions::default() };
    let built = options.stack.build(&build)?;
    options.pidfile.as_deref().map(stop::PidFile::check).transpose()?;
    let tls = tls(&options)?;
    let exports = chosen_exports(&options, &built)?;
    let spares = spares(&options)?;
    let files = files(&options, &built);
    let addresses = Addresses::take(&options, exports.len() as u32)?;
    let mut made = members::make(&options, &built)?;
    let Assembled { mut reactor, no_ring, missing, drives, gone, made: stores } =
        assemble(&options, built, exports.len(), tls)?;
    no_ring.into_iter().for_each(|why| report(&Report::NoRing { why }));
    reactor.keep_spares(spares);
    made.also(stores);
    for (device, what) in gone {
        report(&Report::Gone { device, what });
    }
    for (device, what) in drives {
        report(&Report::Holds { device, what });
    }
    let manager = options.service.then(service::Manager::of_process).flatten();
    let watchdog = watch(&mut options, &reactor, manager.as_ref())?;
    let reload = options.reload.take();
    let hook = options.on_change.clone().map(hook::Hook::start).transpose()?;
    let mut both = |said: &Report| {
        report(said);
        if let Some(hook) = &hook {
            hook.hear(said);
        }
    };
    let report: &mut dyn FnMut(&Report) = &mut both;
    let server = Server {
        reactor,
        reload,
        report,
        options: &options,
        files,
        signals: None,
        signalled: 0,
        child: None,
        manager,
        _watchdog: watchdog,
        stop: false,
    };
    server.run(exports, addresses, missing, made)
}

/// Starts the thread that says when the reactor stands still, and to a service manager that it does not.
fn watch(
    options: &mut ServeOptions,
    reactor: &Reactor,
    manager: Option<&service::Manager>,
) -> std::io::Result<Option<Watchdog>> {
    let lives = manager.and_then(|manager| manager.lives);
    let bound = match (options.watchdog, lives) {
        (Span::ZERO, None) => return Ok(None),
        (Span::ZERO, Some(lives)) => lives,
        (bound, _) => Duration::from_nanos(bound.0),
    };
    let says = options.watchdog > Span::ZERO;
    let alarm = std::mem::replace(&mut options.alarm, Box::new(|_| {}));
    let manager = manager.and_then(service::Manager::again);
    let names = (0..reactor.graph().len() as u32).map(|node| reactor.graph().name(node).to_string());
    let span = |took: Duration| Span(took.as_nanos() as u64);
    let say = move |bark| match (bark, &manager) {
        (Bark::Lives, Some(manager)) => manager.say("WATCHDOG=1"),
        (Bark::Stands(held, took), _) if says => alarm(&Report::Stands { held, span: span(took) }),
        (Bark::GoesOn(held, took), _) if says => alarm(&Report::GoesOn { held, span: span(took) }),
        _ => {}
    };
    Watchdog::start(reactor.beat(), bound, lives, names.collect(), Box::new(say)).map(Some)
}

/// An export of the stack file that is to be offered.
struct Chosen {
    name: String,
    description: String,
    node: u32,
    tenant: TenantId,
    read_only: bool,
}

fn chosen_exports(options: &ServeOptions, built: &Built) -> Result<Vec<Chosen>, ServeError> {
    let known = || built.exports.iter().map(|export| export.name.clone()).collect();
    let wanted = |name: &String| options.exports.is_empty() || options.exports.contains(name);
    if let Some(name) = options.exports.iter().find(|name| built.exports.iter().all(|e| e.name != **name)) {
        return Err(ServeError::NoExport { name: name.clone(), known: known() });
    }
    let exports = built.exports.iter().filter(|export| wanted(&export.name));
    Ok(exports
        .map(|export| Chosen {
            name: export.name.clone(),
            description: export.table.description.clone().unwrap_or_default(),
            node: export.node,
            tenant: export.tenant,
            read_only: options.read_only || export.table.read_only,
        })
        .collect())
}

/// Leaves that have a file or block device, with that and their size.
fn files(options: &ServeOptions, built: &Built) -> Vec<(String, PathBuf, ByteLen)> {
    let file = |part: &BuiltPart| match &part.medium {
        MediumSpec::Block(spec) => {
            Some((part.name.clone(), options.base.join(spec.path.as_deref()?), spec.capacity))
        }
        _ => None,
    };
    built.parts.iter().filter_map(file).collect()
}

/// The spares, wherever the server may go. All are there: nothing is made under their names.
fn spares(options: &ServeOptions) -> Result<Vec<PathBuf>, ServeError> {
    let spare = |path: &PathBuf| {
        let refused = |why: String| ServeError::Spare { path: path.display().to_string(), why };
        let file =
            std::path::absolute(options.base.join(path)).map_err(|error| refused(error.to_string()))?;
        let meta = std::fs::metadata(&file).map_err(|error| refused(error.to_string()))?;
        match meta.is_dir() {
            true => Err(refused("it is a directory".into())),
            false => Ok(file),
        }
    };
    options.spares.iter().map(spare).collect()
}

/// A stack that is put together.
struct Assembled {
    reactor: Reactor,
    /// Why io_uring is done without.
    no_ring: Option<String>,
    /// Leaves whose file or store is missing, with reasons.
    missing: Vec<(String, String)>,
    /// Where each emulated drive keeps what it holds.
    drives: Vec<(String, String)>,
    /// What a salvage has given up.
    gone: Vec<(String, String)>,
    /// Stores that were made.
    made: Vec<Undo>,
}

/// Opens the files and puts everything together.
fn assemble(
    options: &ServeOptions,
    built: Built,
    exports: usize,
    tls: (Tls, Option<Acceptor>),
) -> Result<Assembled, ServeError> {
    let (completions, no_ring) = completions(options, &built)?;
    let media::Media { legs, mut computed, missing, drives, gone, made } =
        media::open(options, &built, &completions)?;
    let is_emulated = |medium: &MediumSpec| !matches!(medium, MediumSpec::None | MediumSpec::Block(_));
    let emulated = built.parts.iter().map(|part| is_emulated(&part.medium)).collect();
    let shares = options.stack.shares();
    let is_direct = |part: &BuiltPart| matches!(&part.medium, MediumSpec::Block(spec) if spec.direct);
    let leaves = Leaves {
        kind: options
            .stack
            .devices
            .iter()
            .map(|device| &device.kind)
            .find(|kind| kind.name == "file")
            .cloned(),
        base: options.base.clone(),
        direct: built.parts.iter().map(is_direct).collect(),
    };
    let kinds = built.parts.iter().map(|part| part.kind).collect();
    let children = built.parts.iter().map(|part| part.children.clone()).collect();
    let parts = built.into_parts(|node, _| computed[node as usize].take());
    let graph = Graph::new(parts, Content::Bytes, shares.len());
    let how = OpenOptions {
        create: options.create,
        alone: options.alone,
        assume_clean: options.assume_clean,
        salvage: options.salvage,
    };
    let media = legs;
    let caps = options.caps;
    let devices = if options.ublk.is_some() { exports } else { 0 };
    let setup = Setup {
        graph,
        kinds,
        children,
        media,
        completions,
        how,
        caps,
        devices,
        shares,
        emulated,
        poll_max: poll_max(options),
        leaves,
        tls,
    };
    Ok(Assembled { reactor: Reactor::new(setup)?, no_ring, missing, drives, gone, made })
}

/// Whether nobody else runs while the reactor does.
fn has_one_processor() -> bool {
    std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1)
}

/// How long waits poll: never where a client could not run meanwhile.
fn poll_max(options: &ServeOptions) -> Span {
    if has_one_processor() { Span::ZERO } else { options.poll_max }
}

/// Whether sessions are encrypted, and by whom.
fn tls(options: &ServeOptions) -> Result<(Tls, Option<Acceptor>), ServeError> {
    let Some(wanted) = &options.tls else { return Ok((Tls::Absent, None)) };
    let acceptor = Acceptor::new(wanted)?;
    Ok((if wanted.is_optional { Tls::Offered } else { Tls::Required }, Some(acceptor)))
}

/// Where the ends of requests come from, with a ring if files are to have one; and why there is none although they are.
fn completions(
    options: &ServeOptions,
    built: &Built,
) -> Result<(Arc<Completions>, Option<String>), ServeError> {
    let mut completions = Completions::new()?;
    let has_files =
        built.parts.iter().any(|part| matches!(&part.medium, MediumSpec::Block(spec) if spec.path.is_some()));
    let no_ring =
        if has_files { completions.use_ring(options.file_io, has_one_processor()).err() } else { None };
    let why = no_ring.map(|error| format!("the kernel refuses io_uring: {error}"));
    match why {
        Some(why) if options.file_io == FileIo::Uring => Err(ServeError::NoRing { why }),
        why => Ok((Arc::new(completions), why)),
    }
}

/// The sockets of a server.
struct Addresses {
    listeners: Vec<Listener>,
    unix: Vec<PathBuf>,
    tcp: Vec<std::net::SocketAddr>,
    control: Option<std::os::unix::net::UnixListener>,
    metrics: Option<metrics::Metrics>,
    /// The driver of block devices, and the number of the first.
    ublk: Option<(Rc<Driver>, UblkNumber)>,
    _files: Vec<SocketFile>,
    _private: Option<stop::PrivateDir>,
}

impl Addresses {
    /// Takes the addresses of so many exports.
    fn take(options: &ServeOptions, exports: u32) -> Result<Addresses, ServeError> {
        let handed = if options.service { service::handed()? } else { service::Handed::default() };
        let mut taken = Addresses {
            listeners: Vec::new(),
            unix: Vec::new(),
            tcp: Vec::new(),
            control: handed.control,
            metrics: None,
            ublk: None,
            _files: Vec::new(),
            _private: None,
        };
        if let Some(number) = options.ublk {
            let driver = Driver::open()?;
            driver.refuse_in_use(number, exports)?;
            taken.ublk = Some((Rc::new(driver), number));
        }
        let mut unix = options.unix.clone();
        let has_other = options.tcp.is_some() || options.ublk.is_some() || !handed.nbd.is_empty();
        if unix.is_empty() && !has_other {
            if options.run.is_none() {
                return Err(ServeError::NoAddress);
            }
            let dir = stop::PrivateDir::new()?;
            unix.push(dir.path().join("nbd.sock"));
            taken._private = Some(dir);
        }
        let refused = |at: String| move |error| ServeError::Address { at, error };
        for path in unix {
            let mode = Mode::from_raw_mode(0o777);
            let (listener, file) = listen::unix(&path, mode).map_err(refused(path.display().to_string()))?;
            taken.listeners.push(Listener::Unix(listener));
            taken._files.push(file);
            taken.unix.push(path);
        }
        if let Some(address) = options.tcp {
            let (listener, address) = listen::tcp(address).map_err(refused(address.to_string()))?;
            taken.listeners.push(listener);
            taken.tcp.push(address);
        }
        for listener in handed.nbd {
            match &listener {
                Listener::Unix(socket) => {
                    let address = socket.local_addr()?;
                    taken.unix.extend(address.as_pathname().map(PathBuf::from));
                }
                Listener::Tcp(socket) => taken.tcp.push(socket.local_addr()?),
            }
            taken.listeners.push(listener);
        }
        if let Some(path) = &options.control {
            let mode = Mode::RUSR | Mode::WUSR;
            let (listener, file) = listen::unix(path, mode).map_err(refused(path.display().to_string()))?;
            taken.control = Some(listener);
            taken._files.push(file);
        }
        if let Some(at) = &options.metrics {
            let (metrics, file) = metrics::take(at).map_err(refused(at.to_string()))?;
            taken.metrics = Some(metrics);
            taken._files.extend(file);
        }
        Ok(taken)
    }

    /// Where an export is found: at each address.
    fn uris(&self, export: &str, needs_tls: bool) -> Vec<String> {
        let scheme = if needs_tls { "nbds" } else { "nbd" };
        let unix = self.unix.iter().map(|path| listen::unix_uri(scheme, export, path));
        unix.chain(self.tcp.iter().map(|&address| listen::tcp_uri(scheme, export, address))).collect()
    }
}

/// A server on its way from start to end.
struct Server<'a> {
    reactor: Reactor,
    reload: Option<Reload>,
    report: &'a mut dyn FnMut(&Report),
    options: &'a ServeOptions,
    /// Leaves that have a file or block device, with that and their size.
    files: Vec<(String, PathBuf, ByteLen)>,
    signals: Option<Signals>,
    signalled: u32,
    child: Option<Child>,
    manager: Option<service::Manager>,
    _watchdog: Option<Watchdog>,
    stop: bool,
}

/// How long a start or an end may take before a word is said: the bound of the watchdog, then twice as long each time.
struct Patience {
    began: Instant,
    /// None where nothing is said.
    ends: Option<Instant>,
}

impl Patience {
    fn new(now: Instant, bound: Span) -> Patience {
        Patience { began: now, ends: (bound > Span::ZERO).then_some(now + bound) }
    }
}

impl Server<'_> {
    fn run(
        mut self,
        exports: Vec<Chosen>,
        mut addresses: Addresses,
        missing: Vec<(String, String)>,
        made: members::Made,
    ) -> Result<Ended, ServeError> {
        if self.options.signals {
            let signals = Signals::new()?;
            self.reactor.watch(signals.ends(), Watched::Signal as u32)?;
            self.reactor.watch(signals.hang_ups(), Watched::HangUp as u32)?;
            self.signals = Some(signals);
        }
        if let Some(stopper) = &self.options.stopper {
            self.reactor.watch(stopper.fd(), Watched::Stopper as u32)?;
        }
        self.open(&exports, &missing)?;
        let tls = self.options.tls.as_ref().filter(|tls| !tls.is_optional);
        let knows_clients = tls.is_some_and(|tls| tls.verify_clients);
        let is_open = |address: &std::net::SocketAddr| !address.ip().is_loopback() && !knows_clients;
        for &address in addresses.tcp.iter().filter(|address| is_open(address)) {
            (self.report)(&Report::Exposed { address });
        }
        let offers =
            exports.iter().map(|export| offer(export, self.reactor.graph().machine(export.node).limits()));
        let offers: Vec<(Export, u32, TenantId)> =
            offers.zip(&exports).map(|(offer, chosen)| (offer, chosen.node, chosen.tenant)).collect();
        self.reactor.offer(offers, std::mem::take(&mut addresses.listeners))?;
        let blocks = self.offer_blocks(&exports, &addresses)?;
        let uris = exports.iter().enumerate().flat_map(|(at, export)| {
            addresses.uris(&export.name, tls.is_some()).into_iter().chain(blocks.get(at).cloned())
        });
        let uris: Vec<String> = uris.collect();
        if let Some(listener) = addresses.control.take() {
            self.reactor.control(listener)?;
        }
        if let Some(metrics) = addresses.metrics.take() {
            (self.report)(&Report::Metrics { at: metrics.at.clone() });
            metrics.serve(self.reactor.inside_control()?)?;
        }
        let _pidfile = self.options.pidfile.as_deref().map(stop::PidFile::write).transpose()?;
        made.keep();
        if let Some(path) = &self.options.stack_file {
            self.reactor.keep_stack_file(path);
        }
        (self.report)(&Report::Ready { uris: uris.clone() });
        if let Some(manager) = &self.manager {
            manager.say("READY=1\nSTATUS=serving");
        }
        if let Some(command) = &self.options.run {
            let child = Child::start(command, &uris, &blocks, &addresses)?;
            self.reactor.watch(child.fd(), Watched::Child as u32)?;
            self.child = Some(child);
        }
        while !self.stop {
            self.turn()?;
        }
        self.end()
    }

    /// Offers the exports as block devices too, where that is wanted, and waits until the devices are there. Says where.
    fn offer_blocks(&mut self, exports: &[Chosen], addresses: &Addresses) -> Result<Vec<String>, ServeError> {
        let Some((driver, first)) = &addresses.ublk else { return Ok(Vec::new()) };
        let shape = |export: &Chosen| {
            let limits = self.reactor.graph().machine(export.node).limits();
            Shape {
                export: export.name.clone(),
                size: limits.capacity,
                block: limits.align.into(),
                widest: WIDEST_BLOCK,
                preferred: limits.preferred.into(),
                read_only: export.read_only,
            }
        };
        let shapes: Vec<Shape> = exports.iter().map(shape).collect();
        let devices = Device::open_all(driver, *first, &shapes, self.reactor.wake_fd())?;
        let devices = devices.into_iter().enumerate().map(|(export, device)| BlockOffer {
            export,
            path: device.path(),
            depth: device.depth(),
            is_taken_over: device.is_taken_over(),
            port: Box::new(device),
        });
        self.reactor.offer_blocks(devices.collect());
        while !self.reactor.blocks_are_live()? {
            self.turn()?;
            if self.stop {
                return Err(ServeError::Interrupted);
            }
        }
        Ok(self.reactor.block_paths().map(String::from).collect())
    }

    /// One turn of the reactor, and what came of it.
    fn turn(&mut self) -> Result<(), ServeError> {
        self.reactor.turn()?;
        for news in self.reactor.take_news() {
            (self.report)(&Report::News(news));
        }
        for number in self.reactor.take_outside() {
            match Watched::of(number) {
                Watched::Signal => self.signalled += self.signals.as_ref().map_or(0, Signals::take),
                Watched::Stopper => {
                    if let Some(stopper) = &self.options.stopper {
                        self.reactor.unwatch(stopper.fd());
                    }
                }
                Watched::Child => {
                    if let Some(child) = &mut self.child {
                        self.reactor.unwatch(child.fd());
                        child.reap()?;
                    }
                }
                Watched::HangUp => {
                    if self.signals.as_ref().map_or(0, Signals::take_hang_ups) > 0 {
                        (self.report)(&Report::HangUp);
                        self.reload();
                    }
                    continue;
                }
            }
            self.stop = true;
        }
        self.stop |= self.reactor.wants_end();
        if self.signalled > 1 {
            return Err(ServeError::Interrupted);
        }
        Ok(())
    }

    /// One turn while machine `node` starts or ends, and a word when that takes long.
    fn turn_or_say(&mut self, node: u32, starts: bool, patience: &mut Patience) -> Result<(), ServeError> {
        self.reactor.look_again(patience.ends);
        let turned = self.turn();
        self.reactor.look_again(None);
        turned?;
        let now = self.reactor.now();
        if let Some(ends) = patience.ends.filter(|&ends| now >= ends) {
            let device = self.reactor.graph().name(node).to_string();
            let (legs, span) = (self.reactor.legs_that_owe(), ends.since(patience.began));
            (self.report)(&Report::Waits { device, starts, legs, span });
            patience.ends = Some(now + span);
        }
        Ok(())
    }

    /// Reads anew what tenants may ask for, and certificates.
    fn reload(&mut self) {
        if let Some(read) = &mut self.reload {
            let said = match read().and_then(|shares| self.reactor.take_shares(&shares)) {
                Ok(tenants) => Report::Reloaded { tenants },
                Err(why) => Report::NotReloaded { why },
            };
            (self.report)(&said);
        }
        if let Some(tls) = &self.options.tls {
            let read = Acceptor::new(tls).map(|acceptor| self.reactor.take_certificates(acceptor));
            let (folder, result) = (tls.certificates.clone(), read.map_err(|error| error.to_string()));
            (self.report)(&Report::Certificates { folder, result });
        }
    }

    /// Opens every machine, children first, and checks that the exports can be served.
    fn open(&mut self, exports: &[Chosen], missing: &[(String, String)]) -> Result<(), ServeError> {
        for node in 0..self.reactor.graph().len() as u32 {
            self.reactor.open(node);
            let mut patience = Patience::new(self.reactor.now(), self.options.watchdog);
            let result = loop {
                if let Some(result) = self.reactor.graph().open_result(node) {
                    break result.clone();
                }
                self.turn_or_say(node, true, &mut patience)?;
                if self.stop {
                    return Err(ServeError::Interrupted);
                }
            };
            let device = self.reactor.graph().name(node).to_string();
            match missing.iter().find(|(leaf, _)| *leaf == device) {
                Some((_, why)) => (self.report)(&Report::Missing { device, why: why.clone() }),
                None => (self.report)(&Report::Opened { device, result }),
            }
        }
        for export in exports {
            let graph = self.reactor.graph();
            if let Some(Err(error)) = graph.open_result(export.node) {
                let (device, error) = (graph.name(export.node).to_string(), error.clone());
                let longer = |(leaf, path, size): &(String, PathBuf, ByteLen)| {
                    Some((leaf.clone(), crate::examine::made_longer(path, *size)?))
                };
                let longer = self.files.iter().filter_map(longer);
                let missing: Vec<_> = missing.iter().cloned().chain(longer).collect();
                let refused = self.refused_below(&error, &missing);
                return Err(ServeError::Open {
                    device,
                    error,
                    missing: refused.into_iter().chain(missing).collect(),
                });
            }
        }
        Ok(())
    }

    /// The device that another one misses, when it is there and does not start: why, and so on down to the one that has found something. Those that
    /// are missing are known.
    fn refused_below(&self, error: &OpenError, missing: &[(String, String)]) -> Vec<(String, String)> {
        let graph = self.reactor.graph();
        let (mut refused, mut error) = (Vec::new(), error);
        while let OpenError::Gone { device } = error {
            let node = (0..graph.len() as u32).find(|&node| graph.name(node) == device);
            let Some(Err(why)) = node.and_then(|node| graph.open_result(node)) else { break };
            if missing.iter().any(|(known, _)| known == device) {
                break;
            }
            refused.push((device.clone(), why.to_string()));
            error = why;
        }
        refused
    }

    /// Answers what is under way, hangs up, and closes the machines.
    fn end(mut self) -> Result<Ended, ServeError> {
        (self.report)(&Report::Draining);
        if let Some(manager) = &self.manager {
            manager.say("STOPPING=1\nSTATUS=answering what is under way");
        }
        if let Some(child) = &mut self.child {
            child.terminate();
        }
        self.reactor.drain();
        while !self.reactor.is_drained() {
            self.turn()?;
        }
        let deleted = self.reactor.delete_blocks();
        self.reactor.hang_up_all();
        while self.reactor.clients() > 0 {
            self.turn()?;
        }
        self.reactor.hear_losses();
        for node in self.reactor.graph().order().rev() {
            if !self.reactor.graph().is_open(node) {
                continue;
            }
            self.reactor.close(node);
            let mut patience = Patience::new(self.reactor.now(), self.options.watchdog);
            while self.reactor.graph().is_open(node) {
                self.turn_or_say(node, false, &mut patience)?;
            }
        }
        self.reactor.finish_stores().map_err(|(device, errno)| {
            let error = std::io::Error::from_raw_os_error(errno);
            ServeError::Store { device, error }
        })?;
        if let Some(device) = self.reactor.untold_loss() {
            return Err(ServeError::Unsaved { device: device.to_string() });
        }
        deleted?;
        (self.report)(&Report::Closed);
        self.reactor.say_closed();
        Ok(Ended { child: self.child.and_then(|child| child.status()) })
    }
}

/// What an export tells its clients.
fn offer(chosen: &Chosen, limits: &Limits) -> Export {
    let block = u64::from(limits.align);
    let preferred = ByteLen(u64::from(limits.preferred).next_power_of_two().clamp(block.max(512), 1 << 20));
    // The reactor fits requests to blocks. The protocol has no word for wider ones, and refuses them.
    let is_fitted = block.is_power_of_two() && block <= WIDEST_BLOCK;
    let minimum = ByteLen(if is_fitted { 1 } else { block });
    // Longer requests are cut.
    let maximum = limits.max_io.0.clamp(1 << 20, 32 << 20) / block * block;
    Export {
        description: chosen.description.clone(),
        read_only: chosen.read_only,
        can_flush: true,
        can_fua: true,
        can_trim: true,
        can_write_zeroes: true,
        can_cache: true,
        // A file system may have to write zeros itself, and nobody knows before.
        knows_fast_zero: false,
        multi_conn: true,
        blocks: BlockSizes { minimum, preferred, maximum: ByteLen(maximum.max(preferred.0)) },
        ..Export::new(chosen.name.clone(), ByteLen(limits.capacity.0 / block * block))
    }
}

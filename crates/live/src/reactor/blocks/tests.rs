//! The reactor behind a kernel of the tests, which has no requests but those that it is given.

use super::*;
use crate::backend::file::FileBackend;
use crate::backend::memory::Memory as InMemory;
use crate::backend::{BlockBackend, Completions};
use crate::nbd::{Export, Tls};
use crate::reactor::{Caps, Leaves, Setup};
use nandu_base::{Content, MediumSpec, OpenOptions, Rng, TenantId};
use nandu_stack::{BuildOptions, BuiltPart, Graph, Stack};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const SIZE: u64 = 8 << 20;
const DEPTH: u16 = 128;
const STACK: &str = "[export.data]\ndevice = \"leg\"\n[device.leg]\nkind = \"memory\"\nsize = \"8 MiB\"\n";

/// What the kernel of the tests has and hears.
#[derive(Default)]
struct Kernel {
    says: VecDeque<Said>,
    /// Data of writes that it gives, and of reads that it has got.
    data: BTreeMap<u16, Vec<u8>>,
    answers: BTreeMap<u16, i32>,
    /// Answers that are not handed over yet.
    staged: Vec<(u16, i32)>,
    stops: bool,
    deleted: bool,
}

#[derive(Clone, Default)]
struct Fake(Rc<RefCell<Kernel>>);

impl Port for Fake {
    fn start(&mut self) {
        self.0.borrow_mut().says.push_back(Said::Started(Ok(())));
    }

    fn stop(&mut self) {
        self.0.borrow_mut().stops = true;
    }

    fn take(&mut self) -> Option<Said> {
        self.0.borrow_mut().says.pop_front()
    }

    fn data_of(&self, tag: u16, into: &mut [u8]) -> Result<(), rustix::io::Errno> {
        let kernel = self.0.borrow();
        let data = kernel.data.get(&tag).ok_or(rustix::io::Errno::INVAL)?;
        into.copy_from_slice(data);
        Ok(())
    }

    fn give(&self, tag: u16, data: &[u8]) -> Result<(), rustix::io::Errno> {
        self.0.borrow_mut().data.insert(tag, data.to_vec());
        Ok(())
    }

    fn answer(&mut self, tag: u16, result: i32) {
        self.0.borrow_mut().staged.push((tag, result));
    }

    fn submit(&mut self) -> bool {
        let mut kernel = self.0.borrow_mut();
        for (tag, result) in std::mem::take(&mut kernel.staged) {
            assert_eq!(kernel.answers.insert(tag, result), None, "a request is answered once");
        }
        true
    }

    fn delete(self: Box<Self>) -> Result<(), UblkError> {
        self.0.borrow_mut().deleted = true;
        Ok(())
    }
}

/// A stack in memory that is served to the kernel of the tests.
struct Bench {
    reactor: Reactor,
    kernel: Fake,
}

impl Bench {
    fn new(caps: Caps, read_only: bool) -> Bench {
        Bench::of(caps, read_only, false)
    }

    fn of(caps: Caps, read_only: bool, is_taken_over: bool) -> Bench {
        Bench::over(STACK, Path::new("."), caps, read_only, is_taken_over)
    }

    /// A stack whose files lie in a folder.
    fn over(stack: &str, folder: &Path, caps: Caps, read_only: bool, is_taken_over: bool) -> Bench {
        let stack = Stack::parse(stack).unwrap_or_else(|error| panic!("{error}"));
        let built = stack.build(&BuildOptions::default()).expect("it is right");
        let kinds: Vec<_> = built.parts.iter().map(|part| part.kind).collect();
        let children = built.parts.iter().map(|part| part.children.clone()).collect();
        let completions = Arc::new(Completions::new().expect("a descriptor"));
        let backend = |(node, part): (usize, &BuiltPart)| {
            let MediumSpec::Block(spec) = &part.medium else { return None };
            let backend: Box<dyn BlockBackend> = match spec.path {
                None => Box::new(InMemory::new(node as u32)),
                Some(_) => {
                    let completions = Arc::clone(&completions);
                    Box::new(FileBackend::open(node as u32, spec, folder, completions).expect("it is there"))
                }
            };
            Some((backend, true))
        };
        let media = built.parts.iter().enumerate().map(backend).collect();
        let emulated = vec![false; kinds.len()];
        let shares = stack.shares();
        let leaves = Leaves { kind: None, base: ".".into(), direct: emulated.clone() };
        let graph = Graph::new(built.into_parts(|_, _| None), Content::Bytes, shares.len());
        let top = kinds.len() as u32 - 1;
        let how = OpenOptions { create: true, alone: false, assume_clean: false, salvage: false };
        let (devices, tls) = (1, (Tls::Absent, None));
        let mut reactor = Reactor::new(Setup {
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
            poll_max: nandu_base::Span::ZERO,
            leaves,
            tls,
        })
        .expect("descriptors");
        for node in 0..=top {
            reactor.open(node);
            while reactor.graph().open_result(node).is_none() {
                reactor.completions.wake();
                reactor.turn().expect("it can wait");
            }
        }
        let export = Export { read_only, ..Export::new("data", ByteLen(SIZE)) };
        reactor.offer(vec![(export, top, TenantId(1))], Vec::new()).expect("it is right");
        let kernel = Fake::default();
        let port: Box<dyn Port> = Box::new(kernel.clone());
        let path = "/dev/ublkb0".to_string();
        reactor.offer_blocks(vec![BlockOffer { export: 0, port, path, depth: DEPTH, is_taken_over }]);
        while !reactor.blocks_are_live().expect("it starts") {
            reactor.turn().expect("it can wait");
        }
        Bench { reactor, kernel }
    }

    fn ask(&mut self, tag: u16, op: u8, flags: u32, start: u64, sectors: u32, data: Option<Vec<u8>>) {
        let mut kernel = self.kernel.0.borrow_mut();
        kernel.answers.remove(&tag);
        kernel.data.remove(&tag);
        data.map(|data| kernel.data.insert(tag, data));
        kernel.says.push_back(Said::Request(tag, Descriptor { op, flags, sectors, start }));
    }

    /// Turns until so many requests are answered.
    fn answers(&mut self, count: usize) -> BTreeMap<u16, i32> {
        while self.kernel.0.borrow().answers.len() < count {
            // A real kernel makes the descriptor of the completions readable.
            self.reactor.completions.wake();
            self.reactor.turn().expect("it can wait");
        }
        std::mem::take(&mut self.kernel.0.borrow_mut().answers)
    }

    fn call(&mut self, op: u8, start: u64, sectors: u32, data: Option<Vec<u8>>) -> i32 {
        self.ask(0, op, 0, start, sectors, data);
        self.answers(1)[&0]
    }

    fn data(&self, tag: u16) -> Vec<u8> {
        self.kernel.0.borrow().data[&tag].clone()
    }
}

#[test]
fn a_device_answers_as_a_plain_copy_would() {
    let mut bench = Bench::new(Caps::default(), false);
    let (mut rng, mut copy) = (Rng::new(1), vec![0_u8; SIZE as usize]);
    for round in 0..500_u64 {
        let start = rng.below(SIZE / SECTOR - 64);
        let sectors = 1 + rng.below(64) as u32;
        let place = (start * SECTOR) as usize..((start + u64::from(sectors)) * SECTOR) as usize;
        let len = place.len() as i32;
        match rng.below(5) {
            0 => {
                let data: Vec<u8> = place.clone().map(|at| (at as u64 / 7 + round) as u8).collect();
                copy[place].copy_from_slice(&data);
                assert_eq!(bench.call(op::WRITE, start, sectors, Some(data)), len);
            }
            1 => assert_eq!(bench.call(op::FLUSH, 0, 0, None), 0),
            2 => {
                copy[place].fill(0);
                assert_eq!(bench.call(op::WRITE_ZEROES, start, sectors, None), len);
            }
            _ => {
                assert_eq!(bench.call(op::READ, start, sectors, None), len);
                assert_eq!(bench.data(0), copy[place], "round {round}");
            }
        }
    }
}

#[test]
fn a_full_queue_is_answered_within_the_bounds_of_memory() {
    let bytes = ByteLen::mib(4);
    let mut bench = Bench::new(Caps { bytes, ..Caps::default() }, false);
    for tag in 0..DEPTH {
        let start = u64::from(tag % 7) * 2048;
        bench.ask(tag, op::READ, 0, start, 2048, None);
    }
    let mut most = 0;
    while bench.kernel.0.borrow().answers.len() < usize::from(DEPTH) {
        bench.reactor.completions.wake();
        bench.reactor.turn().expect("it can wait");
        most = most.max(bench.reactor.memory.used());
        assert!(most <= bytes.0, "{most} bytes are held");
    }
    let answers = bench.answers(usize::from(DEPTH));
    assert!(answers.values().all(|&result| result == 1 << 20), "{answers:?}");
    assert_eq!(bench.reactor.memory.used(), 0);
}

#[test]
fn a_device_waits_for_memory_that_others_hold_and_goes_on_with_it() {
    let mut bench = Bench::new(Caps::default(), false);
    // Somebody else has all that is common.
    let (memory, all) = (Rc::clone(&bench.reactor.memory), Caps::default().memory.0);
    memory.change(0, all);
    let share = (1..).find(|&bytes| !memory.is_left(0, bytes << 20)).expect("it is bounded") - 1;
    for tag in 0..DEPTH {
        bench.ask(tag, op::READ, 0, 0, 2048, None);
    }
    // Nothing ends by itself in between: a read of memory is answered in its turn, and gives back what it held.
    let answers = bench.answers(usize::from(DEPTH));
    assert!(share > 0 && answers.values().all(|&result| result == 1 << 20), "{answers:?}");
    memory.change(all, 0);
    assert_eq!(memory.used(), 0);
}

#[test]
fn what_cannot_be_served_is_refused_and_the_device_goes_on() {
    let mut bench = Bench::new(Caps::default(), false);
    let end = SIZE / SECTOR;
    assert_eq!(bench.call(4, 0, 8, None), -95, "no such request");
    assert_eq!(bench.call(op::READ, end - 1, 2, None), -22, "beyond the end");
    assert_eq!(bench.call(op::READ, u64::MAX / 2, 2, None), -22, "beyond all numbers");
    assert_eq!(bench.call(op::READ, 0, 0, None), -22, "nothing");
    assert_eq!(bench.call(op::WRITE, 0, 8, None), -5, "its data cannot be had");
    assert_eq!(bench.call(op::WRITE, end - 8, 8, Some(vec![7; 4096])), 4096);
    assert_eq!(bench.call(op::READ, end - 8, 8, None), 4096);
    assert_eq!(bench.data(0), [7; 4096]);
    assert_eq!(bench.reactor.memory.used(), 0);
    let mut bench = Bench::new(Caps::default(), true);
    assert_eq!(bench.call(op::WRITE, 0, 8, Some(vec![7; 4096])), -1, "read-only");
    assert_eq!(bench.call(op::DISCARD, 0, 8, None), -1, "read-only");
    assert_eq!(bench.call(op::FLUSH, 0, 0, None), 0);
}

#[test]
fn the_first_flush_after_a_loss_fails() {
    let mut bench = Bench::new(Caps::default(), false);
    assert_eq!(bench.call(op::WRITE, 0, 8, Some(vec![7; 4096])), 4096);
    bench.reactor.host.lost.push(0);
    assert_eq!(bench.call(op::FLUSH, 0, 0, None), -5);
    assert_eq!(bench.call(op::FLUSH, 0, 0, None), 0);
}

/// A stack in memory has forgotten everything with the server that died.
#[test]
fn the_first_flush_of_a_device_that_is_taken_over_fails_where_answers_are_forgotten() {
    let mut bench = Bench::of(Caps::default(), false, true);
    assert_eq!(bench.call(op::WRITE, 0, 8, Some(vec![7; 4096])), 4096);
    assert_eq!(bench.call(op::FLUSH, 0, 0, None), -5);
    assert_eq!(bench.call(op::FLUSH, 0, 0, None), 0);
}

/// Whatever stands above files, the device itself says whether they have what it has answered.
#[test]
fn the_first_flush_of_a_device_that_is_taken_over_succeeds_where_files_have_what_was_answered() {
    let file =
        |name: &str| format!("[device.{name}]\nkind = \"file\"\npath = \"{name}.img\"\nsize = \"10 MiB\"\n");
    let of = |top: &str, more: &str| {
        format!("[export.data]\ndevice = \"{top}\"\n{more}{}{}", file("a"), file("b"))
    };
    let above = |options: &str| of("top", &format!("[device.top]\n{options}\n"));
    let mirror = "legs = [\"a\", \"b\"]\nregion_size = \"64 KiB\"\ninitial_sync = \"assume-clean\"";
    for (stack, keeps) in [
        (format!("[export.data]\ndevice = \"a\"\n{}", file("a")), true),
        (above("kind = \"stripe\"\nlegs = [\"a\", \"b\"]\nchunk = \"64 KiB\""), true),
        (above("kind = \"concat\"\nparts = [\"a\", \"b\"]"), true),
        (above(&format!("kind = \"mirror\"\n{mirror}")), true),
        // A leg that is late has writes in the memory of the server.
        (above(&format!("kind = \"hetero-mirror\"\n{mirror}")), false),
        (of("top", "[device.top]\nkind = \"slice\"\nbelow = \"a\"\nsize = \"9 MiB\"\n").replace(&file("b"), ""), true),
        (of("top", "[device.top]\nkind = \"integrity\"\nbelow = \"a\"\n").replace(&file("b"), ""), true),
        (of("top", "[device.top]\nkind = \"queue\"\nbelow = \"a\"\n").replace(&file("b"), ""), true),
        (
            of("top", "[device.top]\nkind = \"cache\"\nbelow = \"a\"\nsize = \"1 MiB\"\nwrite = { kind = \"writeback\" }\n")
                .replace(&file("b"), ""),
            false,
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.img", "b.img"] {
            let file = std::fs::File::create(folder.path().join(name)).expect("a file");
            file.set_len(10 << 20).expect("room");
        }
        let mut bench = Bench::over(&stack, folder.path(), Caps::default(), false, true);
        assert_eq!(bench.call(op::WRITE, 0, 8, Some(vec![7; 4096])), 4096, "{stack}");
        assert_eq!(bench.call(op::FLUSH, 0, 0, None), if keeps { 0 } else { -5 }, "{stack}");
        assert_eq!(bench.call(op::FLUSH, 0, 0, None), 0, "{stack}");
    }
}

#[test]
fn a_device_is_served_until_it_is_stopped() {
    let mut bench = Bench::new(Caps::default(), false);
    bench.reactor.drain();
    assert!(bench.kernel.0.borrow().stops);
    // A file system writes what it holds before its device goes.
    assert_eq!(bench.call(op::WRITE, 8, 8, Some(vec![7; 4096])), 4096);
    assert!(!bench.reactor.is_drained());
    bench.kernel.0.borrow_mut().says.push_back(Said::Stopped);
    bench.kernel.0.borrow_mut().says.extend(vec![Said::Left; usize::from(DEPTH)]);
    while !bench.reactor.is_drained() {
        bench.reactor.completions.wake();
        bench.reactor.turn().expect("it can wait");
    }
    assert!(bench.reactor.take_news().is_empty());
    bench.reactor.delete_blocks().expect("it is over");
    assert!(bench.kernel.0.borrow().deleted);
}

#[test]
fn a_device_that_another_program_takes_away_is_said_once() {
    let mut bench = Bench::new(Caps::default(), false);
    bench.kernel.0.borrow_mut().says.extend(vec![Said::Left; usize::from(DEPTH)]);
    bench.reactor.completions.wake();
    bench.reactor.turn().expect("it can wait");
    assert_eq!(bench.reactor.take_news(), [News::BlockGone("/dev/ublkb0".into())]);
    bench.reactor.drain();
    assert!(bench.reactor.is_drained() && !bench.kernel.0.borrow().stops);
}

#[test]
fn a_request_is_what_the_kernel_asks_for() {
    let asked = |op, flags| Descriptor { op, flags, sectors: 8, start: 16 };
    let of = |op, flags| request_of(3, &asked(op, flags), SIZE, false).expect("it can be served");
    let write = of(op::WRITE, request_flag::FUA);
    assert_eq!((write.command, write.fua), (Command::Write, true));
    assert_eq!((write.offset, write.length, write.cookie), (ByteOffset(8192), ByteLen(4096), Cookie(3)));
    assert!(!of(op::WRITE, 0).fua);
    let zeroes = |no_hole| Command::WriteZeroes { no_hole, fast: false };
    assert_eq!(of(op::WRITE_ZEROES, request_flag::NO_UNMAP).command, zeroes(true));
    assert_eq!(of(op::WRITE_ZEROES, 0).command, zeroes(false));
    assert_eq!(of(op::DISCARD, 0).command, Command::Trim);
    let flush = of(op::FLUSH, 0);
    assert_eq!((flush.offset, flush.length), (ByteOffset(0), ByteLen::ZERO));
}

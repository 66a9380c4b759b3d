//! An executor that writes down what it is given: tests look at lists of operations, and no time passes.
//!
//! The model test holds every list against what flash allows, whatever map planned it: a page is programmed once between two erases and in the order of its block, what is
//! read is there, what is erased has no newest version of a page, and an operation waits only for what was given before.

use super::flash::{After, Awaited, Copying, Erasing, Flash, Job, Pieces, Programming, Reading};
use super::pages::Pages;
use crate::mapping::Tp;
use crate::{BlockId, Cursor, Ppn, Units};
use nandu_base::{Cx, Instant, Oob, Overlay, Report, ReqId, Step, TenantId, Work};

/// An operation that was given. What it waits for is the place in the list of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    Read(Job, Ppn, Option<usize>),
    Program(Job, Ppn, Option<usize>),
    Copy(Ppn, Ppn),
    Erase(BlockId),
}

/// See the module's page.
pub(super) struct Tape {
    units: Units,
    pub entries: Vec<Entry>,
    /// Whether it says that something waits, so that nothing comes as a run.
    pub waits: bool,
    group: u32,
    work: Work,
}

impl Tape {
    pub fn new(units: Units, waits: bool) -> Tape {
        Tape { units, entries: Vec::new(), waits, group: 0, work: Work::Read }
    }

    fn note(&mut self, entry: Entry) -> usize {
        self.entries.push(entry);
        self.entries.len() - 1
    }
}

/// The operation that a token stands for.
fn place(after: After) -> Option<usize> {
    (after.node > 0).then(|| after.node as usize - 1)
}

fn nothing() -> After {
    After::at(Instant::ZERO)
}

impl Flash for Tape {
    type Tally = ();
    type Given = usize;
    type Run = ();
    type Placed = ();

    fn tally(_: &Cx<'_>) {}
    fn charge(_: &mut (), _: TenantId, _: Work, _: &mut Cx<'_>) {}

    fn units(&self) -> &Units {
        &self.units
    }
    fn units_mut(&mut self) -> &mut Units {
        &mut self.units
    }
    fn unit(&self, ppn: Ppn) -> u64 {
        u64::from(self.units.place(ppn).0)
    }
    fn die_of(&self, ppn: Ppn) -> u32 {
        self.units.chips().plane(self.units.place(ppn))
    }
    fn is_wide(&self) -> bool {
        self.units.width() > 1
    }

    fn work_for(&mut self, work: Work) -> Work {
        std::mem::replace(&mut self.work, work)
    }
    fn begin_group(&mut self) {
        self.group += 1;
    }
    fn group(&self) -> u32 {
        self.group
    }
    fn holds_back(&self) -> bool {
        self.waits
    }

    fn read(&mut self, reading: Reading, _: &mut Pieces<Self>, _: &mut Cx<'_>) -> usize {
        self.note(Entry::Read(reading.job, reading.ppn, place(reading.after)))
    }
    fn program(&mut self, what: Programming<usize>, _: &mut Pieces<Self>, _: &mut Cx<'_>) -> usize {
        self.note(Entry::Program(what.job, what.ppn, place(what.after)))
    }
    fn copy(&mut self, copying: Copying, _: &mut Pieces<Self>, _: &mut Cx<'_>) -> usize {
        self.note(Entry::Copy(copying.from, copying.to))
    }
    fn move_now(&mut self, copying: Copying, _: &mut Pieces<Self>, _: &mut Cx<'_>) -> usize {
        self.note(Entry::Copy(copying.from, copying.to))
    }
    fn carry(&mut self, copying: Copying, _: [Job; 2], _: &mut Pieces<Self>, _: &mut Cx<'_>) -> usize {
        self.note(Entry::Copy(copying.from, copying.to))
    }
    fn erase(&mut self, erasing: Erasing, _: &mut Cx<'_>) {
        self.note(Entry::Erase(erasing.unit));
    }

    fn run(_: &Cx<'_>) {}
    fn read_at_once(&mut self, ppn: Ppn, _: &mut ()) {
        self.note(Entry::Read(Job::Read, ppn, None));
    }
    fn program_at_once(&mut self, ppn: Ppn, _: u32, _: u32, _: &mut ()) {
        self.note(Entry::Program(Job::Program, ppn, None));
    }
    fn move_at_once(&mut self, from: Ppn, to: Ppn, _: u32, _: &mut ()) {
        self.note(Entry::Copy(from, to));
    }
    fn keep_behind(&mut self, _: BlockId, _: ()) {}
    fn store(&self, _: Ppn, _: Option<Ppn>, _: Option<Overlay>, _: Oob, _: (), _: &mut Cx<'_>) {}
    fn programmed(&mut self, _: u32, _: &mut ()) {}
    fn moved_away(&mut self, _: BlockId, _: &(), _: TenantId, _: &mut Cx<'_>) {}
    fn join(&mut self, _: &(), _: &mut Pieces<Self>) {}
    fn fetch(&self, _: ReqId, _: &Pages, _: u32, _: Option<u64>, _: &mut Cx<'_>) {}

    fn finish_run(&mut self, id: ReqId, _: &(), _: TenantId, _: Work, cx: &mut Cx<'_>) -> Step {
        Step::FinishAt(id, cx.now)
    }
    fn finish_pieces(&mut self, id: ReqId, _: Pieces<Self>, cx: &mut Cx<'_>) -> Step {
        Step::FinishAt(id, cx.now)
    }
    fn finish_all(&mut self, id: ReqId, _: Pieces<Self>, _: (), cx: &mut Cx<'_>) -> Step {
        Step::FinishAt(id, cx.now)
    }
    fn finish_recorded(&mut self, id: ReqId, _: Pieces<Self>, _: After, cx: &mut Cx<'_>) -> Step {
        Step::FinishAt(id, cx.now)
    }
    fn finish_flush(&mut self, id: ReqId, _: After, _: TenantId, cx: &mut Cx<'_>) -> Step {
        Step::FinishAt(id, cx.now)
    }
    fn hand_over(&mut self, _: BlockId, _: u32, _: u32) {}
    fn pools_are(&mut self, _: &[u32]) {}
    fn wait_for_pool(&mut self, _: u32, _: &mut Pieces<Self>) {}

    fn behind(&self, given: usize, _: &Pieces<Self>) -> After {
        After::node(given as u32 + 1, Instant::ZERO)
    }
    fn recorded(&self, _: &Cx<'_>) -> After {
        nothing()
    }
    fn recorded_behind(&self, _: usize, _: &Cx<'_>) -> After {
        nothing()
    }
    fn all_given(&self) -> After {
        nothing()
    }
    fn all_changes(&mut self, _: &Cx<'_>) -> After {
        nothing()
    }
    fn behind_all(&mut self, _: &Cx<'_>) -> After {
        nothing()
    }
    fn behind_anchors(&self, after: After) -> After {
        after
    }
    fn behind_opened(&self, after: After) -> After {
        after
    }
    fn fence(&mut self, after: After) -> After {
        after
    }
    fn opened(&mut self, _: Cursor) {}

    fn entries_are_there(&self, _: After) -> bool {
        true
    }
    fn entry_comes(&mut self, _: Tp, after: After) -> After {
        after
    }
    fn await_later(&self, after: After) -> Awaited {
        Awaited { after, number: 0 }
    }
    fn still_awaited(&self, awaited: &Awaited, _: &Cx<'_>) -> After {
        awaited.after
    }

    fn keep_until(&mut self, _: BlockId, _: After) {}
    fn keep_until_all_is_done(&mut self, _: Ppn, _: &Cx<'_>) {}
    fn keep_until_changes(&mut self, _: Ppn, _: &mut Option<After>, _: &Cx<'_>) {}
    fn say_given_up(&self, _: Ppn, _: After, _: &mut Cx<'_>) {}
    fn writer_waits(&self, _: Ppn) -> bool {
        false
    }

    fn serve(&mut self, _: &mut Cx<'_>) {}
    fn scan(&mut self, _: u32, _: u64, _: &mut Cx<'_>) -> After {
        nothing()
    }
    fn restart_units(&mut self) {}
    fn restart_entries(&mut self) {}

    fn slc_erases(&self) -> u64 {
        0
    }
    fn report_slc(&mut self, _: &mut Report) {}
}

mod tests {
    use super::*;
    use crate::gc::Greedy;
    use crate::log_block::{Bast, BlockMap, Fast, Homes, LogBlocks, LogMap, Region, Shape};
    use crate::mapping::{Cftl, Dftl, MapShape, Mapping, PageMap, Tpftl};
    use crate::placement::{Axis, RoundRobin};
    use crate::plan::level::Leveller;
    use crate::plan::pages::PageShape;
    use crate::plan::translate::Paging;
    use crate::plan::{Host, Parts, Planner};
    use crate::{BlockTable, Layout, Lpn, MapArea};
    use nandu_base::{
        BuildContext, ByteLen, ByteOffset, ChargeTable, Content, Draft, Flags, Op, Owner, Payload,
        PayloadPool, Peek, Precondition, RequestTable, Rng, State,
    };

    const PAGES: u32 = 64;
    const LAYOUT: (u32, u32, u32) = (2, 12, 8);

    /// A planner with who asks it.
    struct Desk<M> {
        plan: Planner<M, Tape>,
        requests: RequestTable,
        pool: PayloadPool,
        charges: ChargeTable,
    }

    impl<M: Mapping> Desk<M> {
        fn new(map: M, map_blocks: u32, waits: bool) -> Desk<M> {
            let (planes, blocks, pages) = LAYOUT;
            let layout = Layout::new(planes, blocks, pages).expect("it is small");
            Desk::of(map, map_blocks, waits, Units::single(layout), 1)
        }

        /// A drive whose units are these, and of which a step of collection ends with so many pages.
        fn of(map: M, map_blocks: u32, waits: bool, units: Units, stripe: u32) -> Desk<M> {
            let layout = *units.layout();
            let planes = layout.planes;
            let host = Host {
                page: PageShape { bits: 12, sectors: 8 },
                plane_bits: 0,
                logical: PAGES,
                reserved: 3 + map_blocks,
                needed: 0,
                gc_start: 2,
                merges: true,
                urgent: 1,
                separate: true,
                stripe,
                bits_per_cell: 1,
                trim_records: 8,
                by_rule_from: u32::MAX,
            };
            let mut table = BlockTable::with_wear(layout, Default::default());
            table.set_rooms(host.reserved, 0);
            let area = MapArea::new(layout, &vec![map_blocks; planes as usize], vec![(0..planes).collect()]);
            let cx = BuildContext {
                name: "tape",
                children: &[],
                seed: 1,
                tenants: 1,
                shares: &[],
                planted: &Default::default(),
                precondition: Precondition::Empty,
            };
            let parts = Parts {
                host,
                map,
                paging: Paging::new(area, false, false, None),
                blocks: table,
                exec: Tape::new(units, waits),
                turns: RoundRobin::new(
                    [Axis::Channel, Axis::Chip, Axis::Die, Axis::Plane],
                    [planes, 1, 1, 1],
                    |at| at[0],
                ),
                policy: Box::new(Greedy(Default::default())),
                leveller: Leveller::new(Box::new(crate::wear::Threshold::new(u32::MAX, 1, planes)), planes),
                tenants: None,
                streams: None,
                slc: None,
            };
            Desk {
                plan: Planner::new(parts, &cx),
                requests: RequestTable::new(),
                pool: PayloadPool::new(Content::Nothing),
                charges: ChargeTable::new(2),
            }
        }

        /// Asks for sectors of the drive; returns what was given for it.
        fn ask(&mut self, op: Op, sector: u64, sectors: u64) -> Vec<Entry> {
            let from = self.plan.exec.entries.len();
            let mut effects = Vec::new();
            let mut cx = Cx {
                now: Instant(7),
                requests: &mut self.requests,
                pool: &mut self.pool,
                medium: None,
                charges: &mut self.charges,
                peek: Peek::new(&[], &[], &[], Instant(7)),
                effects: &mut effects,
            };
            let draft = Draft {
                op,
                flags: Flags::NONE,
                offset: ByteOffset(sector * 512),
                len: ByteLen(sectors * 512),
                payload: Payload::NONE,
                cookie: 0,
            };
            let id = cx.own(TenantId(1), draft);
            cx.requests[id].owner = Owner::HOST;
            cx.requests[id].state = State::Sent;
            let step = match op {
                Op::Read => self.plan.read(id, &mut cx),
                Op::Write => self.plan.write(id, &mut cx),
                Op::Flush => self.plan.flush(id, &mut cx),
                _ => self.plan.trim(id, &mut cx),
            };
            assert_eq!(step, Step::FinishAt(id, Instant(7)));
            self.plan.exec.entries[from..].to_vec()
        }
    }

    fn page_map(waits: bool) -> Desk<PageMap> {
        Desk::new(PageMap::new(PAGES), 0, waits)
    }

    fn dftl(waits: bool) -> Desk<Dftl> {
        // Two translation pages of 32 entries, and RAM for four entries.
        Desk::new(Dftl::new(MapShape::new(PAGES, 5, 0), 32), 2, waits)
    }

    #[test]
    fn a_whole_page_is_one_program_and_comes_back_by_one_read() {
        let mut desk = page_map(false);
        let written = desk.ask(Op::Write, 0, 16);
        let [Entry::Program(Job::Program, a, None), Entry::Program(Job::Program, b, None)] = written[..]
        else {
            panic!("{written:?}");
        };
        assert_ne!(desk.plan.exec.die_of(a), desk.plan.exec.die_of(b), "planes take turns");
        assert_eq!(desk.ask(Op::Read, 8, 8), [Entry::Read(Job::Read, b, None)]);
        assert_eq!(desk.ask(Op::Read, 160, 8), [], "nothing was written there");
    }

    #[test]
    fn a_part_of_a_page_is_read_first_and_programmed_behind_that() {
        let mut desk = page_map(false);
        let written = desk.ask(Op::Write, 0, 8);
        let [Entry::Program(_, old, None)] = written[..] else { panic!("{written:?}") };
        let written = desk.ask(Op::Write, 2, 3);
        let [Entry::Read(Job::PreRead, read, None), Entry::Program(Job::Program, new, Some(1))] = written[..]
        else {
            panic!("{written:?}");
        };
        assert_eq!(read, old);
        assert_ne!(new, old);
    }

    #[test]
    fn an_entry_that_is_not_in_ram_is_read_before_the_page() {
        let mut desk = dftl(false);
        for lpn in 0..PAGES {
            desk.ask(Op::Write, u64::from(lpn) * 8, 8);
        }
        let from = desk.plan.exec.entries.len();
        let read = desk.ask(Op::Read, 0, 8);
        // An entry that has changed leaves the RAM for it, which takes a read and a program of its own.
        let map = read.iter().rposition(|entry| matches!(entry, Entry::Read(Job::MapRead, ..)));
        let map = map.expect("RAM has the entries of the last four pages only");
        let at = desk.plan.map.get(Lpn(0)).expect("it was written");
        assert_eq!(read.last(), Some(&Entry::Read(Job::Read, at, Some(from + map))), "{read:?}");
    }

    /// What flash allows, of a list of operations.
    struct Chips {
        layout: Layout,
        /// Whether each page is programmed, and pages programmed of each block.
        is_programmed: Vec<bool>,
        next: Vec<u32>,
    }

    impl Chips {
        fn take(&mut self, entry: Entry, at: usize) {
            let waits_for = match entry {
                Entry::Read(.., after) | Entry::Program(.., after) => after,
                Entry::Copy(..) | Entry::Erase(_) => None,
            };
            assert!(waits_for.is_none_or(|after| after < at), "{entry:?} waits for what comes later");
            match entry {
                Entry::Read(_, ppn, _) => {
                    assert!(self.is_programmed[ppn.0 as usize], "{entry:?}: nothing is there")
                }
                Entry::Program(_, to, _) => self.program(to),
                Entry::Copy(from, to) => {
                    assert!(self.is_programmed[from.0 as usize], "{entry:?}: nothing is there");
                    self.program(to);
                }
                Entry::Erase(block) => {
                    let first = self.layout.first_page(block).0;
                    (first..first + self.layout.pages)
                        .for_each(|page| self.is_programmed[page as usize] = false);
                    self.next[block.0 as usize] = 0;
                }
            }
        }

        fn program(&mut self, to: Ppn) {
            let block = self.layout.block(to).0 as usize;
            assert!(!self.is_programmed[to.0 as usize], "{to:?} is programmed twice");
            assert_eq!(self.next[block], self.layout.page(to), "{to:?} is out of the order of its block");
            self.next[block] += 1;
            self.is_programmed[to.0 as usize] = true;
        }
    }

    /// Random requests; returns all that was given, and where each page lies in the end.
    fn random<M: Mapping>(mut desk: Desk<M>, seed: u64) -> (Vec<Entry>, Vec<Option<Ppn>>) {
        let mut rng = Rng::new(seed);
        let layout = *desk.plan.blocks.layout();
        let (pages, blocks) = (layout.ppn_end() as usize, layout.block_end() as usize);
        let mut chips = Chips { layout, is_programmed: vec![false; pages], next: vec![0; blocks] };
        let mut seen = 0;
        for _ in 0..600 {
            let sectors = 1 + rng.below(24);
            let sector = rng.below(u64::from(PAGES) * 8 - sectors + 1);
            let op = [Op::Read, Op::Write, Op::Write, Op::Write, Op::Trim, Op::Flush][rng.below(6) as usize];
            desk.ask(op, sector, if op == Op::Flush { 0 } else { sectors });
            while seen < desk.plan.exec.entries.len() {
                chips.take(desk.plan.exec.entries[seen], seen);
                seen += 1;
            }
            for ppn in (0..PAGES).filter_map(|lpn| desk.plan.map.get(Lpn(lpn))) {
                assert!(
                    chips.is_programmed[ppn.0 as usize],
                    "seed {seed}: the newest version at {ppn:?} is erased"
                );
            }
            let checked = match desk.plan.map.log_blocks() {
                Some(_) => desk.plan.check_logged(),
                None => desk.plan.check_blocks(),
            };
            checked.unwrap_or_else(|why| {
                panic!("{} seed {seed}: {}: {}", std::any::type_name::<M>(), why.invariant, why.what)
            });
        }
        let erases = desk.plan.exec.entries.iter().filter(|entry| matches!(entry, Entry::Erase(_))).count();
        assert!(erases > 5, "seed {seed}: the drive collects");
        let at = (0..PAGES).map(|lpn| desk.plan.map.get(Lpn(lpn))).collect();
        (desk.plan.exec.entries, at)
    }

    /// A log-block map whose pools are the planes.
    fn log_blocks(of_pool: impl Fn(Region) -> Box<dyn LogBlocks>) -> Desk<LogMap> {
        let (planes, blocks, pages) = LAYOUT;
        let layout = Layout::new(planes, blocks, pages).expect("it is small");
        let homes = Homes { first: 0, logical: PAGES, unit: 1, order: (0..planes).collect() };
        let logical = homes.most_in_a_pool().div_ceil(pages);
        let map = |plane| (layout.first_block(plane), of_pool(Region::new(Shape { pages, blocks, logical })));
        let maps = (0..planes).map(map).collect();
        Desk::new(LogMap::new(vec![homes], layout, maps, false), 0, false)
    }

    #[test]
    fn every_list_is_one_that_flash_allows() {
        for seed in 0..20 {
            random(page_map(false), seed);
            random(dftl(false), seed);
            random(Desk::new(Tpftl::new(MapShape::new(PAGES, 5, 0), 60), 2, false), seed);
            random(Desk::new(Cftl::new(MapShape::new(PAGES, 5, 0), 64, 8, None), 2, false), seed);
            random(log_blocks(|region| Box::new(BlockMap::new(region, 2))), seed);
            random(log_blocks(|region| Box::new(Bast::new(region, 3, false))), seed);
            random(log_blocks(|region| Box::new(Fast::new(region, 3, true, false))), seed);
        }
    }

    /// A drive whose units lie over two planes.
    fn wide<M: Mapping>(map: M, map_blocks: u32, stripe: u32) -> Desk<M> {
        let (planes, blocks, pages) = LAYOUT;
        let chips = Layout::new(planes, blocks, pages).expect("it is small");
        let units = Units::new(chips, planes, (0..planes).collect(), |_| false).expect("all blocks are good");
        Desk::of(map, map_blocks, true, units, stripe)
    }

    /// Reads of pages that move and programs of them, as a word.
    fn moves(entries: &[Entry]) -> String {
        let letter = |entry: &Entry| match entry {
            Entry::Read(Job::MoveRead, ..) => Some('r'),
            Entry::Program(Job::MoveProgram, ..) => Some('p'),
            _ => None,
        };
        entries.iter().filter_map(letter).collect()
    }

    #[test]
    fn a_stripe_that_moves_is_read_before_it_is_programmed() {
        for seed in 0..20 {
            for entries in [
                random(wide(PageMap::new(PAGES), 0, 2), seed).0,
                random(wide(Dftl::new(MapShape::new(PAGES, 5, 0), 32), 2, 2), seed).0,
            ] {
                let moves = moves(&entries);
                let (pairs, alone) = (moves.matches("rrpp").count(), moves.replace("rrpp", ""));
                assert!(pairs > 5, "seed {seed}: {moves}");
                // A page alone ends the stripe of the block before, or is the last of its own.
                assert_eq!(alone.replace("rp", ""), "", "seed {seed}: {moves}");
            }
            assert_eq!(moves(&random(wide(PageMap::new(PAGES), 0, 1), seed).0), "");
        }
    }

    /// What is given as a run and what is given page by page is the same: one plan, two ways to carry it out.
    #[test]
    fn the_short_way_plans_the_same_as_the_long_one() {
        for seed in 0..20 {
            assert_eq!(random(page_map(false), seed), random(page_map(true), seed), "seed {seed}");
            assert_eq!(random(dftl(false), seed), random(dftl(true), seed), "seed {seed}");
        }
    }
}

//! What a seed means: the stack, the load and the power cuts, all drawn from one number.
//!
//! Features are switched off at random, so that rare mixes occur. The stack is drawn as the text of a stack file, which a
//! failure prints.

use super::case::Ground;
use super::draw::{self, Drive, Family, Shape};
use nandu_base::{Precondition, Ratio, Registry, Rng, Span};

/// What the host does.
#[derive(Clone, Debug)]
pub struct Load {
    /// Requests in all, without those that read everything back.
    pub requests: u32,
    /// Most requests under way.
    pub depth: u32,
    /// Weights of read, write, flush, trim and write-zeroes.
    pub weights: [u64; 5],
    /// One in this many changes carries FUA; 0 for none.
    pub fua_one_in: u64,
    /// Longest request in sectors.
    pub longest: u64,
    /// One in this many requests is of a whole 4 KiB page or more; 0 for none.
    pub whole_one_in: u64,
    /// Share of the device, as 1 / 2^n, that most requests go to.
    pub hot: u32,
    /// Longest time between requests.
    pub gap: Span,
    /// One in this many gaps is a hundred times as long; 0 for none.
    pub idle_one_in: u64,
}

/// What is drawn. Seeds that were kept as tests draw what was drawn when they failed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Draws {
    /// Requests and power cuts at random.
    Random,
    /// Some short-range patterns too.
    Patterns,
    /// All patterns, power cuts that are aimed at erases, and cuts beside the run, early in it.
    Aimed,
    /// The same, and cuts beside the run at any time.
    Spread,
    /// The same, and hosts that look what a failed write left, and flush that.
    Doubts,
    /// The same, and arrays that grow.
    Growth,
}

/// What short-range patterns a load has beside its random requests: they are rare at random, and the hardest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hammer {
    /// One block is written over and over, and flushed in between, while earlier writes of it are under way; and its neighbour.
    OneBlock,
    /// Neighbouring blocks are trimmed one after the other, with writes in between or without.
    AdjacentTrims,
    /// Blocks that are no neighbours are trimmed and put on record one by one: more records than a drive keeps.
    ManyRecords,
    /// Blocks are written one after the other, and a long write follows some way behind, where a log or a ring clears its oldest data;
    /// what it wrote is flushed.
    Trail,
    /// A few blocks are trimmed, the trim is put on record, and they are written at once, while all others are written over: the record is
    /// given up while what replaces it is on its way.
    Rewrite,
}

impl Hammer {
    /// Those of [`Draws::Patterns`].
    const FIRST: [Hammer; 3] = [Hammer::OneBlock, Hammer::AdjacentTrims, Hammer::ManyRecords];
}

/// A power cut.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Arrivals and events since the start or the last cut.
    pub after: u32,
    /// Cut again after so many events of the start that follows, and so on.
    pub again: Vec<u32>,
    /// Read everything back at once.
    pub look: bool,
    /// One leg of a mirror dies with the cut, if both are current, and is missing until the next cut.
    pub leg_dies: bool,
    /// Comes at the latest so many arrivals and events after a device was lost: two failures close together are rare
    /// otherwise, and the hardest.
    pub after_loss: Option<u32>,
    /// Only the process dies, where a cut has more to take.
    pub process: bool,
    /// Waits, not for ever, until something is being erased; where everything is read back at once, until a flush is answered meanwhile.
    pub in_an_erase: bool,
}

/// How an array grows.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// It is asked to when so many requests are left, and once in so many more until it has done so.
    pub left: u32,
    /// Requests between.
    pub every: u32,
    /// By so many bytes each leg is longer then.
    pub bytes: u64,
}

impl Growth {
    fn draw(load: &Load, rng: &mut Rng) -> Growth {
        let left = rng.between(1, u64::from(load.requests)) as u32;
        Growth { left, every: rng.between(1, 20) as u32, bytes: 4096 * rng.between(64, 200) }
    }
}

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// The stack file.
    pub toml: String,
    /// State of the drives at the start.
    pub precondition: Precondition,
    /// What the host does.
    pub load: Load,
    /// Power cuts, in order.
    pub cuts: Vec<Cut>,
    /// Power cuts of a copy, beside the run: at most so many.
    pub peeks: u32,
    /// One in so many moments at which something is erased is such a cut.
    pub peek_one_in: u64,
    /// An operator scrubs a mirror, swaps its roles or replaces a leg once in so many requests; 0 for never.
    pub chore_one_in: u64,
    /// An array whose legs are leaves becomes longer.
    pub growth: Option<Growth>,
    /// Time that a mirror has to make its legs equal once nobody asks for anything. A stack file may clear regions an hour
    /// after their last use, and a drawn drive with a small map may take seconds to store what a resync gave it.
    pub rest: Span,
    /// Before one in this many requests something about tenants changes; 0 for never.
    pub change_one_in: u64,
    /// Whether a tenant of a shared drive means harm.
    pub has_adversary: bool,
    /// What three of four requests are about in some seeds.
    pub hammer: Option<Hammer>,
    /// Whether the host reads what a write that failed was about, and flushes it before it goes on.
    pub doubts: bool,
    /// Whether the run ends with a clean close and a start after it.
    pub close: bool,
    /// Whether what was acknowledged must survive, flushed or not. Not drawn.
    pub acknowledged: bool,
}

impl Plan {
    /// What its run stands on.
    pub fn ground(&self) -> Ground {
        Ground {
            stack: self.toml.clone(),
            precondition: self.precondition,
            seed: self.seed,
            depth: self.load.depth,
            rest: self.rest,
            harm: self.has_adversary,
            acknowledged: self.acknowledged,
        }
    }

    /// The plan of `seed`, with stacks that `registry` can build.
    pub fn draw(seed: u64, shape: &Shape, crashes: bool, draws: Draws, registry: &Registry) -> Plan {
        let root = Rng::new(seed);
        // A generator of its own, as below.
        let mut growths = root.fork(66);
        let grows = draws >= Draws::Growth && growths.below(6) == 0;
        let toml = draw::stack(shape, &mut root.fork(1), grows, registry);
        let mut rng = root.fork(2);
        let mut precondition = if rng.below(4) == 0 { Precondition::Filled } else { Precondition::Empty };
        let is_trimmed = *shape == Shape::Named(Family::Ssd(Drive::Trimmed));
        let load = if is_trimmed { Load::draw(&mut rng).of_trims() } else { Load::draw(&mut rng) };
        // A generator of its own: what else a seed draws stays as it was.
        let fragmented = Precondition::Fragmented(Ratio::new(root.fork(4).below(101), 100));
        for (fork, other) in [(3, Precondition::Aged), (5, fragmented)] {
            let is_drawn = precondition == Precondition::Filled && root.fork(fork).below(2) == 0;
            if is_drawn && draw::can_start(&toml, other, registry) {
                precondition = other;
            }
        }
        let most = if is_trimmed { 16 } else { 4 };
        // Checksums of what was being written at a cut are made from what is there: wrong data among it is not seen.
        let rots = [Family::MirrorThatRots, Family::ParityThatRots].map(Shape::Named).contains(shape);
        let count = if crashes && !rots { 1 + rng.below(most) } else { 0 };
        let mut cuts: Vec<Cut> = (0..count).map(|_| Cut::draw(&load, &mut rng)).collect();
        let rest = Span::from_secs(if matches!(shape, Shape::File(_)) { 3 * 3600 } else { 60 });
        // A generator of its own each: what else a seed draws stays as it was.
        let chore_one_in = *root.fork(6).pick(&[0, 30, 100]);
        let changing = [
            Family::Ssd(Drive::Dealing),
            Family::Queue,
            Family::QueueOverTenants,
            Family::FairDies,
            Family::Everything,
        ];
        let may_change = changing.map(Shape::Named).contains(shape);
        let change_one_in = if may_change { *root.fork(6).pick(&[0, 8, 30, 100]) } else { 0 };
        let is_shared =
            matches!(shape, Shape::Named(Family::Ssd(Drive::Tenants | Drive::Lending | Drive::Dealing)));
        let is_queued = *shape == Shape::Named(Family::QueueOverTenants);
        // What leaves a write buffer is another tenant's as often as not, and later than the request that brought it.
        let has_adversary = is_shared && root.fork(8).below(3) == 0 && !toml.contains("write_buffer")
            || is_queued && root.fork(8).below(2) == 0;
        let close = rng.below(2) == 0;
        let mut hammers = root.fork(9);
        let is_hammered = hammers.below(2) == 0 && draws >= Draws::Patterns;
        let mut hammer = is_hammered.then(|| *hammers.pick(&Hammer::FIRST));
        let (mut peeks, mut peek_one_in) = (0, 4);
        if draws >= Draws::Aimed {
            let mut rng = root.fork(10);
            match rng.below(8) {
                0 => hammer = Some(Hammer::Trail),
                1 => hammer = Some(Hammer::Rewrite),
                _ => {}
            }
            peeks = if crashes && !rots && root.fork(11).below(2) == 0 { 8 } else { 0 };
            cuts.iter_mut().for_each(|cut| cut.in_an_erase = rng.below(2) == 0);
        }
        if draws >= Draws::Spread {
            peek_one_in = *root.fork(12).pick(&[4, 32, 128]);
        }
        let growth = grows.then(|| Growth::draw(&load, &mut growths));
        Plan {
            seed,
            toml,
            precondition,
            load,
            cuts,
            peeks,
            peek_one_in,
            chore_one_in,
            growth,
            change_one_in,
            has_adversary,
            rest,
            hammer,
            // Where tenants change, what was written may be nobody's by then.
            doubts: draws >= Draws::Doubts && change_one_in == 0 && root.fork(13).below(2) == 0,
            close,
            acknowledged: false,
        }
    }
}

impl Load {
    fn draw(rng: &mut Rng) -> Load {
        let mut weight = |least: u64| least.max(*rng.pick(&[0, 1, 4, 16]));
        let weights = [weight(1), weight(4), weight(0), weight(0), weight(0)];
        Load {
            requests: rng.between(20, 400) as u32,
            depth: *rng.pick(&[1, 2, 4, 16]),
            weights,
            fua_one_in: *rng.pick(&[0, 2, 10]),
            longest: longest(rng),
            whole_one_in: *rng.pick(&[0, 1, 2]),
            hot: rng.below(6) as u32,
            gap: *rng.pick(&[Span::ZERO, Span::from_us(20), Span::from_us(300), Span::from_ms(2)]),
            idle_one_in: *rng.pick(&[0, 10, 60]),
        }
    }

    /// The same with trims and flushes among many writes, as close together as the drive lets them: so trims are being put
    /// on record on one die while others clear blocks.
    fn of_trims(self) -> Load {
        Load {
            weights: [1, 16, 3, 3, 0],
            depth: 16,
            gap: Span::ZERO,
            idle_one_in: 0,
            requests: 800,
            whole_one_in: 1,
            longest: 24,
            ..self
        }
    }
}

/// Sectors of the longest request, at most as many as a device has: few, or now and then whole stretches of it. The second from a generator of its own: what
/// else a seed draws stays as it was.
fn longest(rng: &mut Rng) -> u64 {
    let few = *rng.pick(&[1, 8, 24, 64]);
    let mut own = rng.fork(43);
    if own.below(12) == 0 { *own.pick(&[200, 1000]) } else { few }
}

impl Cut {
    fn draw(load: &Load, rng: &mut Rng) -> Cut {
        let again = [rng.below(3) == 0, rng.below(4) == 0].map(|yes| yes.then(|| rng.below(40) as u32));
        Cut {
            after: rng.between(1, u64::from(load.requests) * 2) as u32,
            again: again.into_iter().flatten().collect(),
            look: rng.below(2) == 0,
            leg_dies: rng.below(4) == 0,
            after_loss: (rng.below(2) == 0).then(|| rng.between(1, 30) as u32),
            process: rng.below(2) == 0,
            in_an_erase: false,
        }
    }
}

//! Which members belong together: none of them is an older copy of itself.
//!
//! Each opening draws a *generation* that no other has, and tells all members of it twice before the first request is served. First each member says
//! *opening*, with the new generation and the one before it (its *base*). When all of them have that durably, each says *open*. So at a start
//!
//! - all members name the same generation, or
//! - some say that they are opening from the generation that the others name: a cut came in between, and nothing was served since; or
//! - a member was put back as it was at an earlier stop. It names a generation that no other one names, not even as a base: it is refused.
//!
//! A member that says *opening* stands for its base, unless another one names the new generation too. What nobody can notice: all members put back to
//! the same stop.
//!
//! `tests/generations.rs` runs an exhaustive model of it. Cost: two superblocks and two flushes for each member at each opening.

/// Names an opening. The number is one more than that of the opening before, the tag is drawn: two openings that know nothing of each other
/// do not have the same name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Generation {
    /// How many openings there were. Zero: none.
    pub number: u64,
    /// Drawn.
    pub tag: u64,
}

impl Generation {
    /// Before the first opening.
    pub const NONE: Generation = Generation { number: 0, tag: 0 };
}

/// What a member says of openings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Claim {
    /// The newest opening that it knows of.
    pub generation: Generation,
    /// The one before it; [`Generation::NONE`] once all members know of the newest.
    pub base: Generation,
    /// All members know of the newest: it may have been served.
    pub is_open: bool,
}

/// Why members do not belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The member that is older, by its place.
    pub member: usize,
    /// How many openings it has missed, at least.
    pub behind: u64,
}

/// The generation that counts where old members are taken all the same, and which ones those are.
pub fn salvage(claims: &[Claim]) -> (Generation, Vec<Stale>) {
    let served = claims.iter().map(|claim| if claim.is_open { claim.generation } else { claim.base });
    let counts = served.max().unwrap_or(Generation::NONE);
    let is_old = |claim: &Claim| claim.generation != counts && (claim.is_open || claim.base != counts);
    let behind = |claim: &Claim| counts.number.saturating_sub(claim.generation.number);
    let old = claims.iter().enumerate().filter(|(_, claim)| is_old(claim));
    (counts, old.map(|(member, claim)| Stale { member, behind: behind(claim) }).collect())
}

/// The generation that counts of members that claim this, or which one is old.
///
/// # Errors
/// A member is older than the others.
pub fn decide(claims: &[Claim]) -> Result<Generation, Stale> {
    let names = |claim: &Claim, generation: Generation| {
        claim.generation == generation || (!claim.is_open && claim.base == generation)
    };
    let known_to_others = |at: usize, generation: Generation| {
        claims.iter().enumerate().any(|(other, claim)| other != at && names(claim, generation))
    };
    let stands_for: Vec<Generation> = claims
        .iter()
        .enumerate()
        .map(|(at, claim)| match claim.is_open || known_to_others(at, claim.generation) {
            true => claim.generation,
            false => claim.base,
        })
        .collect();
    // What is opening by some and open by none was never served: then it is the base that counts.
    let newest = stands_for.iter().copied().max().unwrap_or(Generation::NONE);
    let explains = |counts: Generation| claims.iter().all(|claim| names(claim, counts));
    let bases = claims.iter().filter(|claim| !claim.is_open).map(|claim| claim.base);
    let candidates = std::iter::once(newest).chain(bases);
    if let Some(counts) = candidates.filter(|&counts| explains(counts)).max() {
        return Ok(counts);
    }
    let number = |at: &usize| claims[*at].generation.number;
    let member = (0..claims.len()).min_by_key(number).unwrap_or(0);
    let most = (0..claims.len()).map(|at| number(&at)).max().unwrap_or(0);
    Err(Stale { member, behind: most - number(&member) })
}

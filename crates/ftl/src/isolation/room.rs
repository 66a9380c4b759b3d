//! Why a lender has a lent unit back for at most one forced collection (O3-4, W3-2).
//!
//! A tenant that owes d units may open another unit for its host only while it can still give back all of them, each for one
//! collection. Let its *room* R be the pages that moved pages can still take: those left in its open unit for moved pages, and all
//! of its erased units. Let v1 <= v2 <= ... be the valid pages of its full units, P the pages of a unit, and c_i = min(P, v_i + 1),
//! or P where there is no such unit: what clearing the i-th takes from the room, one page for a record of trims with it. The
//! rule is
//!
//! > R >= c_1 + ... + c_(d+1), after the unit is opened.
//!
//! *Then the demand for one unit is met by one collection.* When an erased unit can be handed over and the rule still holds for d - 1,
//! none is needed. Else the emptiest unit is cleared, which takes c_1 <= R and gives P back: R + P - c_1. An erased unit is there
//! now: either the moved pages fitted the open unit, then it is the one that was just erased; or they took another erased one,
//! then R was at least P before, and what was erased replaces it. Handing it over leaves R - c_1 >= c_2 + ... + c_(d+1), and that is
//! the rule for d - 1 with the unit gone from the list. Where c_1 = P, nothing is gained by clearing, but then R >= (d + 1) P, so there
//! are d erased units and none is cleared at all.
//!
//! *The rule stays true.* Pages that the host overwrites or trims make the v_i smaller. The tenant's own collection, which takes the
//! emptiest unit while it owes, turns R into R - c_1 + P, and the sum into one with c_(d+2) <= P in place of c_1. A collection under way is
//! finished first, and counts as the one that is forced. A further loan adds P to the room and at most P to the sum.
//!
//! *What it does not cover.* A power cut tears pages of the room, at most one for each die, so what is owed at a cut may take
//! a second collection. And loans are settled anew by what is written, so a debtor loses the erased units among those it has borrowed, more than
//! the rule would let it give: a start lends one again where nothing can be cleared without.
//!
//! Cost: one pass over the units of a group for each unit that a debtor opens.

/// Room that `victims` collections take at most, in pages: those of the emptiest of units with so many valid pages, `pages` in a unit.
/// `scratch` is used for sorting. `begun` has the valid pages that are left of a unit that is being cleared: it goes first.
pub fn needed(
    valid: impl Iterator<Item = u32>,
    begun: Option<u32>,
    victims: u32,
    pages: u32,
    scratch: &mut Vec<u32>,
) -> u64 {
    scratch.clear();
    scratch.extend(valid.map(|valid| (valid + 1).min(pages)));
    let others = (victims as usize).saturating_sub(usize::from(begun.is_some()));
    if scratch.len() > others && others > 0 {
        scratch.select_nth_unstable(others - 1);
    }
    let known = others.min(scratch.len());
    let first = begun.filter(|_| victims > 0).map_or(0, |valid| u64::from((valid + 1).min(pages)));
    let sum: u64 = scratch[..known].iter().map(|&cost| u64::from(cost)).sum();
    first + sum + (others - known) as u64 * u64::from(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The obvious model: sort, pad, add up.
        #[test]
        fn agrees_with_sorting(
            valid in prop::collection::vec(0u32..=8, 0..12),
            begun in prop::option::of(0u32..=8),
            victims in 0u32..8,
        ) {
            let mut costs: Vec<u64> = valid.iter().map(|&v| u64::from((v + 1).min(8))).collect();
            costs.sort_unstable();
            costs.resize(costs.len().max(8), 8);
            let mut costs = costs.into_iter();
            let want: u64 = (0..victims)
                .map(|at| match begun {
                    Some(valid) if at == 0 => u64::from((valid + 1).min(8)),
                    _ => costs.next().unwrap_or(8),
                })
                .sum();
            prop_assert_eq!(needed(valid.iter().copied(), begun, victims, 8, &mut Vec::new()), want);
        }
    }
}

//! The Pareto front: the points than which no other is better in one goal and no worse in all others.
//!
//! Points are taken in the order of their costs, the first cost first. A point that is dominated at all is then dominated by a point
//! of the front before it, so each is held against the front alone: points times front, not points squared. Of points with
//! equal costs none dominates another: all of them are on the front or none.

/// For each point whether it is on the front. Points without all costs are not. With no goal the front is empty.
pub fn front(costs: &[Option<Vec<i128>>]) -> Vec<bool> {
    let mut order: Vec<(&[i128], usize)> = Vec::new();
    for (i, costs) in costs.iter().enumerate() {
        order.extend(costs.as_deref().filter(|c| !c.is_empty()).map(|c| (c, i)));
    }
    order.sort();
    let mut on = vec![false; costs.len()];
    let mut front: Vec<&[i128]> = Vec::new();
    for (mine, i) in order {
        if !front.iter().any(|other| dominates(other, mine)) {
            on[i] = true;
            if front.last() != Some(&mine) {
                front.push(mine);
            }
        }
    }
    on
}

/// Whether `a` is nowhere worse than `b` and somewhere better.
fn dominates(a: &[i128], b: &[i128]) -> bool {
    a != b && a.iter().zip(b).all(|(a, b)| a <= b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition.
    fn slow(costs: &[Option<Vec<i128>>]) -> Vec<bool> {
        let all = |mine: &Vec<i128>| !costs.iter().flatten().any(|other| dominates(other, mine));
        costs.iter().map(|c| c.as_ref().is_some_and(|mine| !mine.is_empty() && all(mine))).collect()
    }

    #[test]
    fn ties_are_on_the_front_together() {
        let costs = [[1, 5], [5, 1], [1, 5], [3, 3], [3, 4], [5, 5]].map(|c| Some(c.to_vec()));
        assert_eq!(front(&costs), [true, true, true, true, false, false]);
        assert_eq!(front(&[Some(Vec::new()), None]), [false, false]);
    }

    proptest! {
        #[test]
        fn the_front_is_what_the_definition_says(
            rows in (1usize..4).prop_flat_map(|goals| {
                proptest::collection::vec(proptest::option::weighted(0.9, proptest::collection::vec(-4i128..4, goals)), 0..60)
            }),
        ) {
            prop_assert_eq!(front(&rows), slow(&rows));
        }
    }
}

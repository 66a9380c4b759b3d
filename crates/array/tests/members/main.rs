//! Small models of openings, tried exhaustively: every sequence of starts, writes, cuts between any two durable
//! steps, departures and returns up to a bound, with one older copy of one member made at any stop and put back at
//! any later one.
//!
//! The decisions are those of the machines (`mirror::decide`, `parity::decide`); what the machines do between two
//! durable steps is one step here. Each rule can be broken, and then the model must find what goes wrong.

mod many;
mod pair;

use std::collections::BTreeSet;
use std::fmt::Debug;

/// Versions that a block may show, one bit each.
type Versions = u16;

/// What a model can do from a state: the states after each step, or what is wrong.
trait Model: Clone + Ord + Debug {
    fn next(&self, out: &mut Vec<Self>) -> Result<(), String>;
}

/// Looks at every state that can be reached; how many there are, or the first that is wrong.
fn explore<M: Model>(start: M) -> Result<usize, String> {
    let mut seen = BTreeSet::from([start.clone()]);
    let (mut front, mut next) = (vec![start], Vec::new());
    while !front.is_empty() {
        let mut after = Vec::new();
        for state in front {
            next.clear();
            state.next(&mut next).map_err(|wrong| format!("{wrong}: from {state:#?}"))?;
            after.extend(next.drain(..).filter(|new| seen.insert(new.clone())));
        }
        front = after;
    }
    Ok(seen.len())
}

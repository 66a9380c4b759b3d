//! First come, first served: the order of arrival. Cost: nothing.
//!
//! A drive with this rule alone never asks: the times of a request are known when it comes. The rule is here for the
//! comparison of rules on equal terms.

use super::Waiting;

/// The request that came first.
pub fn choose(_seen: &[Waiting]) -> usize {
    0
}

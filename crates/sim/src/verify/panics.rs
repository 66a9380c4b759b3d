//! Panics as violations: an assertion of a machine that fails is a broken invariant, with a seed.

use nandu_base::Violation;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// What this thread is doing, while its panics are caught.
    static DOING: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Panics of threads that run a seed stay quiet: they come out as violations. Where a panic ends the program, it says
/// what was being done.
fn install() {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let doing = DOING.with(|d| d.borrow().clone());
            match doing {
                None => before(info),
                Some(doing) if cfg!(panic = "abort") => {
                    before(info);
                    eprintln!("while {doing}");
                }
                Some(_) => {}
            }
        }));
    });
}

/// Runs `work`; a panic in it becomes a violation. What unwinds with something else than words is no assertion of a machine (an
/// exception of a policy in another language) and goes on.
pub(super) fn caught<R>(doing: String, work: impl FnOnce() -> R) -> Result<R, Violation> {
    install();
    DOING.with(|d| *d.borrow_mut() = Some(doing));
    let result = catch_unwind(AssertUnwindSafe(work));
    DOING.with(|d| *d.borrow_mut() = None);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| s.to_string()));
        violation(text.unwrap_or_else(|| resume_unwind(panic)))
    })
}

/// The invariants that machines assert in words, as `name: what happened`.
fn violation(text: String) -> Violation {
    let named = text.split_once(": ").and_then(|(word, what)| {
        let name = NAMED.iter().find(|name| **name == word)?;
        Some(Violation { invariant: name, what: what.to_string() })
    });
    named.unwrap_or(Violation { invariant: "panic", what: text })
}

const NAMED: &[&str] = &[
    "I-1",
    "I-2",
    "I-3",
    "I-4",
    "I-5",
    "I-6",
    "I-7",
    "I-8",
    "I-12",
    "I-13",
    "I-14",
    "I-16",
    "I-17",
    "I-18",
    "I-19",
    "I-20",
    "block_mode",
    "whole_stripes",
    "intent_before_data",
    "one_in_flight_per_block_and_leg",
    "ack_has_a_holder",
    "flush_covers_leader",
    "flush_alone_needs_l_or_solo",
    "flush_snapshot_at_issue",
    "clear_needs_both_flushed",
    "read_only_current",
    "lost_never_read",
    "lost_clear_after_flush",
    "solo_after_drain_and_flush",
    "solo_before_lone_ack",
    "solo_gen_is_fresh",
    "pair_again_l_covers_d",
    "no_promotion_while_half_joined",
    "marks_reset_on_leave",
    "payload_held_until_acked",
    "copy_holds_slot",
    "slot_alternates_after_flush",
    "open_durable_before_serve",
    "exposure_bounded_or_announced",
    "quiet_means_equal_and_clean",
    "parity_is_xor",
    "one_write_per_stripe",
    "journal_before_place",
    "parity_before_rebuild",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_names_its_invariant_once() {
        let found = violation("I-20: page 7 is erased too early".into());
        assert_eq!((found.invariant, &found.what[..]), ("I-20", "page 7 is erased too early"));
        let found = violation("index 3: out of range".into());
        assert_eq!((found.invariant, &found.what[..]), ("panic", "index 3: out of range"));
    }
}

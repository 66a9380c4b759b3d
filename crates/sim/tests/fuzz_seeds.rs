//! Cases of the verified simulation: the fuzzer's starting inputs, and bytes near them, as an ordinary test.

#[path = "../../../fuzz/checks/case.rs"]
mod check;
#[path = "../../../fuzz/checks/mod.rs"]
mod near;

#[test]
fn seeds_and_what_is_near_them_are_answered() {
    near::replay("case", 100, check::check);
}

//! Records of arrays: the fuzzer's starting inputs, and bytes near them, as an ordinary test.

#[path = "../../../fuzz/checks/records.rs"]
mod check;
#[path = "../../../fuzz/checks/mod.rs"]
mod near;

#[test]
fn seeds_and_what_is_near_them_are_answered() {
    near::replay("records", 2000, check::check);
}

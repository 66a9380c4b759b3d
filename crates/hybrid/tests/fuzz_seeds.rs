//! Records of hybrid disks: the fuzzer's starting inputs, and bytes near them, as an ordinary test.

#[path = "../../../fuzz/checks/hybrid_records.rs"]
mod check;
#[path = "../../../fuzz/checks/mod.rs"]
mod near;

#[test]
fn seeds_and_what_is_near_them_are_answered() {
    near::replay("hybrid_records", 2000, check::check);
}

//! Traces, descriptions of columns and fio jobs: the fuzzer's starting inputs, and bytes near them, as ordinary tests.

#[path = "../../../fuzz/checks/columns.rs"]
mod columns;
#[path = "../../../fuzz/checks/fio_job.rs"]
mod fio_job;
#[path = "../../../fuzz/checks/mod.rs"]
mod near;
#[path = "../../../fuzz/checks/trace.rs"]
mod trace;

#[test]
fn seeds_and_what_is_near_them_are_answered() {
    near::replay("trace", 400, trace::check);
}

#[test]
fn columns_and_what_is_near_them_are_answered() {
    near::replay("columns", 400, columns::check);
}

#[test]
fn fio_jobs_and_what_is_near_them_are_answered() {
    near::replay("fio_job", 400, fio_job::check);
}

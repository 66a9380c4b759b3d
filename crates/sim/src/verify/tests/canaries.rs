//! Histories written by hand, of sector 0. Most of them end with a read that must be rejected: an oracle that lets one of
//! them pass would let a real fault pass.

use super::*;

fn oracle() -> Bench<Oracle> {
    Bench::new(Oracle::new(ByteLen::kib(4), 1))
}

impl Bench<Oracle> {
    fn write(&mut self) -> u32 {
        self.comes(Op::Write, Flags::NONE, 0, 1)
    }

    fn written(&mut self) -> u32 {
        let serial = self.write();
        self.ends(serial);
        serial
    }

    fn flushed(&mut self) {
        let flush = self.comes(Op::Flush, Flags::NONE, 0, 0);
        self.ends(flush);
    }

    fn reads(&mut self, serial: u32) -> bool {
        let read = self.comes(Op::Read, Flags::NONE, 0, 1);
        self.finds(read, &[stamp(serial)])
    }
}

fn stamp(serial: u32) -> Stamp {
    if serial == 0 { Stamp::ZERO } else { Stamp::new(serial, 0) }
}

#[test]
fn a_stale_read_is_rejected() {
    let mut b = oracle();
    let (old, new) = (b.written(), b.written());
    assert!(b.reads(new));
    assert!(!b.reads(old));
}

#[test]
fn data_of_another_sector_is_rejected() {
    let mut b = oracle();
    let write = b.comes(Op::Write, Flags::NONE, 0, 2);
    b.ends(write);
    let read = b.comes(Op::Read, Flags::NONE, 0, 1);
    assert!(!b.finds(read, &[Stamp::new(write, 1)]));
}

#[test]
fn data_that_nobody_has_written_is_rejected() {
    let mut b = oracle();
    let write = b.written();
    assert!(!b.reads(write + 5));
    assert!(!b.reads(0));
}

#[test]
fn a_read_beside_a_write_may_find_either_and_a_later_one_may_not() {
    let mut b = oracle();
    let old = b.written();
    let new = b.write();
    assert!(b.reads(new));
    assert!(b.reads(old));
    let early = b.comes(Op::Read, Flags::NONE, 0, 1);
    b.ends(new);
    assert!(b.finds(early, &[stamp(old)]));
    assert!(!b.reads(old));
}

#[test]
fn what_two_concurrent_writes_leave_does_not_change_once_read() {
    let mut b = oracle();
    let (x, y) = (b.write(), b.write());
    b.ends(y);
    b.ends(x);
    assert!(b.reads(x));
    assert!(b.reads(x));
    assert!(!b.reads(y));
}

#[test]
fn flushed_data_survives_a_cut() {
    let mut b = oracle();
    let old = b.written();
    b.flushed();
    let new = b.written();
    b.oracle.cut();
    assert!(b.reads(old), "what was not flushed may be lost");
    assert!(!b.reads(new), "and does not come back once the old data was seen");
    let mut b = oracle();
    let (old, new) = (b.written(), b.written());
    b.flushed();
    b.oracle.cut();
    assert!(!b.reads(old));
    assert!(b.reads(new));
}

#[test]
fn a_flush_covers_only_what_was_acknowledged_before_it_came() {
    let mut b = oracle();
    let write = b.write();
    let flush = b.comes(Op::Flush, Flags::NONE, 0, 0);
    b.ends(write);
    b.ends(flush);
    b.oracle.cut();
    assert!(b.reads(0));
}

#[test]
fn a_write_with_fua_survives_a_cut_at_once() {
    let mut b = oracle();
    let write = b.comes(Op::Write, Flags::FUA, 0, 1);
    b.ends(write);
    b.oracle.cut();
    assert!(!b.reads(0));
    assert!(b.reads(write));
}

#[test]
fn a_flushed_trim_does_not_come_undone() {
    let mut b = oracle();
    let write = b.written();
    b.flushed();
    let trim = b.comes(Op::Trim, Flags::NONE, 0, 1);
    b.ends(trim);
    b.flushed();
    b.oracle.cut();
    assert!(!b.reads(write));
    assert!(b.reads(0));
}

#[test]
fn what_a_read_found_after_a_cut_stays_over_the_next_cut() {
    let mut b = oracle();
    let (old, new) = (b.written(), b.written());
    b.oracle.cut();
    assert!(b.reads(old));
    b.oracle.cut();
    assert!(!b.reads(new));
    assert!(!b.reads(0));
    assert!(b.reads(old));
}

#[test]
fn what_nobody_read_after_a_cut_may_still_be_anything() {
    let mut b = oracle();
    let (old, new) = (b.written(), b.written());
    b.oracle.cut();
    b.flushed();
    b.oracle.cut();
    assert!(b.reads(new));
    assert!(!b.reads(old));
}

#[test]
fn a_failed_write_is_old_or_new_until_a_read_or_a_write_decides() {
    let mut b = oracle();
    let old = b.written();
    let failed = b.write();
    b.fails(failed);
    assert!(b.reads(old));
    assert!(!b.reads(failed));
    let again = b.written();
    assert!(!b.reads(failed));
    assert!(b.reads(again));
}

#[test]
fn a_lost_device_loses_what_was_not_flushed_and_nothing_else() {
    let mut b = oracle();
    let old = b.written();
    b.flushed();
    let new = b.written();
    b.oracle.device_cut();
    assert!(b.reads(old));
    assert!(!b.reads(new));
    let mut b = oracle();
    let (old, new) = (b.written(), b.written());
    b.flushed();
    b.oracle.device_cut();
    assert!(!b.reads(old));
    assert!(b.reads(new));
}

#[test]
fn a_clean_end_is_a_flush() {
    let mut b = oracle();
    let (old, new) = (b.written(), b.written());
    b.oracle.closed();
    b.oracle.cut();
    assert!(!b.reads(old));
    assert!(b.reads(new));
}

#[test]
fn the_ledger_rejects_what_is_stale_too() {
    let mut b = Bench::new(Ledger::new(ByteLen::kib(8)));
    let write = |b: &mut Bench<Ledger>, first, count| {
        let serial = b.comes(Op::Write, Flags::NONE, first, count);
        b.ends(serial);
        serial
    };
    let (old, new) = (write(&mut b, 0, 16), write(&mut b, 0, 8));
    let part = write(&mut b, 3, 2);
    let read = |b: &mut Bench<Ledger>, at, serial| {
        let read = b.comes(Op::Read, Flags::NONE, at, 1);
        b.finds(read, &[Stamp::new(serial, at)])
    };
    assert!(read(&mut b, 0, new) && read(&mut b, 3, part) && read(&mut b, 8, old));
    assert!(!read(&mut b, 0, old) && !read(&mut b, 4, new) && !read(&mut b, 8, new));
    let trim = b.comes(Op::Trim, Flags::NONE, 0, 16);
    b.ends(trim);
    assert!(!read(&mut b, 4, part) && !read(&mut b, 8, old));
    let zeros = b.comes(Op::Read, Flags::NONE, 0, 16);
    assert!(b.finds(zeros, &[Stamp::ZERO; 16]));
}

//! Payloads in every mode.

use super::*;
const PAGE: ByteLen = ByteLen(4096);

#[test]
fn a_run_is_copied_sliced_and_recognised() {
    let mut pool = PayloadPool::new(Content::Stamps);
    let write = Payload::run(Stamp::new(7, 100));
    let read = pool.allocate(PAGE);
    pool.copy(write, read, PAGE);
    assert!(pool.equal(write, read, PAGE));
    assert_eq!(pool.as_run(read, 0, 8), Some(Stamp::new(7, 100)));
    assert_eq!(pool.as_run(read.slice(ByteLen(1024)), 0, 2), Some(Stamp::new(7, 102)));
    pool.zero(read.slice(ByteLen(512)), ByteLen(512));
    assert_eq!(pool.as_run(read, 0, 8), None);
    pool.release(read);
    assert_eq!(pool.living(), 0);
}

#[test]
fn records_among_stamps_keep_their_bytes() {
    let mut pool = PayloadPool::new(Content::Stamps);
    let record = pool.allocate_metadata(PAGE);
    pool.bytes_mut(record, PAGE).fill(0xA5);
    let (a, b) = (pool.allocate(PAGE), pool.allocate(PAGE));
    pool.fill_run(a, 0, 8, Stamp::new(1, 0));
    pool.copy(record, a.slice(ByteLen(1024)), ByteLen(1024));
    pool.copy(a, b, PAGE);
    assert!(pool.equal(a, b, PAGE));
    assert_eq!(pool.as_run(b.slice(ByteLen(1024)), 0, 1), None);
    let back = pool.allocate_metadata(PAGE);
    pool.copy(b, back, PAGE);
    assert_eq!(pool.bytes(back, PAGE)[1024..2048], [0xA5; 1024]);
    assert_eq!(pool.bytes(back, PAGE)[..1024], [0; 1024]);
}

#[test]
fn nothing_costs_nothing() {
    let mut pool = PayloadPool::new(Content::Nothing);
    let p = pool.allocate(PAGE);
    assert!(p.is_none());
    pool.keep(p);
    pool.release(p);
    pool.copy(p, p, PAGE);
    assert_eq!(pool.living(), 0);
}

#[test]
fn metadata_holds_bytes_in_every_mode() {
    for content in [Content::Nothing, Content::Stamps, Content::Bytes] {
        let mut pool = PayloadPool::new(content);
        let p = pool.allocate_metadata(PAGE);
        pool.bytes_mut(p, PAGE)[..4].copy_from_slice(b"NAND");
        assert_eq!(&pool.bytes(p, PAGE)[..4], b"NAND");
        pool.keep(p);
        pool.release(p);
        pool.release(p);
        assert_eq!(pool.living(), 0);
        let again = pool.allocate_metadata(PAGE);
        assert_eq!(&pool.bytes(again, PAGE)[..4], &[0; 4]);
    }
}

#[test]
#[should_panic(expected = "released twice")]
fn releasing_twice_is_caught() {
    let mut pool = PayloadPool::new(Content::Stamps);
    let p = pool.allocate(PAGE);
    pool.release(p);
    pool.release(p);
}

/// A buffer that was given back is used again, whatever was given back after it.
#[test]
fn long_and_short_buffers_do_not_push_each_other_out() {
    let mut pool = PayloadPool::new(Content::Bytes);
    let long = ByteLen::kib(256);
    let first = pool.allocate_unfilled(long);
    let pages: Vec<Payload> = (0..64).map(|_| pool.allocate_snug(PAGE)).collect();
    pool.release(first);
    pages.iter().for_each(|&page| pool.release(page));
    assert_eq!(pool.allocate_unfilled(long).buffer, first.buffer);
    let again = pool.allocate_snug(PAGE);
    assert!(pages.iter().any(|page| page.buffer == again.buffer));
}

/// What was free makes way for another size.
#[test]
fn free_buffers_take_no_more_than_their_bound() {
    let mut pool = PayloadPool::new(Content::Bytes);
    let all = PayloadPool::IDLE_MAX as u64 / PAGE.0 + 100;
    let pages: Vec<Payload> = (0..all).map(|_| pool.allocate_snug(PAGE)).collect();
    pages.iter().for_each(|&page| pool.release(page));
    assert_eq!(pool.idle, PayloadPool::IDLE_MAX);
    let long = ByteLen::mib(1);
    let first = pool.allocate_unfilled(long);
    assert_eq!(pool.idle, PayloadPool::IDLE_MAX - long.0 as usize);
    pool.release(first);
    assert_eq!(pool.allocate_unfilled(long).buffer, first.buffer);
}

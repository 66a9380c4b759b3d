//! Arrays against an obvious model: one flat row of stamps.

use nandu_base::{Ask, ErrorKind, Flags, Instant, Op, Rng, SECTOR, Span, Stamp};
use nandu_stack::testbed::Testbed;
use nandu_stack::{BuildOptions, builtin};
use std::collections::BTreeMap;

const UNITS: [(&str, &str); 4] = [
    ("stripe", "kind = \"stripe\"\nlegs = [\"a\", \"b\", \"c\"]\nchunk = \"4 KiB\""),
    ("one leg", "kind = \"stripe\"\nlegs = [\"c\"]\nchunk = \"8 KiB\""),
    ("concat", "kind = \"concat\"\nparts = [\"a\", \"b\", \"c\"]"),
    ("slice", "kind = \"slice\"\nbelow = \"c\"\noffset = \"4 KiB\"\nsize = \"40 KiB\""),
];

/// Three leaves of unlike size and speed, those of them that `top` mentions, below it.
fn stack(top: &str) -> String {
    let leaves = [("a", "36 KiB", "10 us"), ("b", "64 KiB", "70 us"), ("c", "48 KiB", "5 us")];
    let mut text = format!("[export.data]\ndevice = \"top\"\n[device.top]\n{top}\n");
    for (name, size, latency) in leaves {
        if top.contains(&format!("\"{name}\"")) {
            text +=
                &format!("[device.{name}]\nkind = \"memory\"\nsize = \"{size}\"\nlatency = \"{latency}\"\n");
        }
    }
    text
}

fn bed(top: &str, planted: &[&str]) -> Testbed {
    let planted = planted.iter().map(|p| p.to_string()).collect();
    Testbed::new(&stack(top), &builtin(), BuildOptions { seed: 1, planted, ..BuildOptions::default() })
        .unwrap()
}

/// Random requests, several at a time but never two on one place. The first difference from the model, if there is one.
fn race(bed: &mut Testbed, seed: u64, rounds: usize) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let sectors = bed.capacity(0) / SECTOR;
    let mut model = vec![Stamp::ZERO; sectors as usize];
    for _ in 0..rounds {
        let mut reads: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        let mut busy = vec![false; sectors as usize];
        for _ in 0..rng.between(1, 6) {
            let len = rng.between(1, 40.min(sectors));
            let at = rng.below(sectors - len + 1);
            let range = at as usize..(at + len) as usize;
            if busy[range.clone()].iter().any(|&b| b) {
                continue;
            }
            busy[range.clone()].fill(true);
            let op =
                *rng.pick(&[Op::Read, Op::Read, Op::Write, Op::Write, Op::Trim, Op::WriteZeroes, Op::Flush]);
            let (offset, bytes) = if op == Op::Flush { (0, 0) } else { (at * SECTOR, len * SECTOR) };
            let serial = bed.submit(0, op, Flags::NONE, offset, bytes);
            match op {
                Op::Read => drop(reads.insert(serial, (range.start, range.end))),
                Op::Write => range.for_each(|s| model[s] = Stamp::new(serial, s as u64)),
                Op::Trim | Op::WriteZeroes => model[range].fill(Stamp::ZERO),
                _ => {}
            }
        }
        bed.settle();
        for done in bed.take_done() {
            if let Some(error) = done.error {
                return Err(format!("{:?} failed: {error}", done.op));
            }
            if let Some(&(from, to)) = reads.get(&done.serial)
                && done.data != model[from..to]
            {
                return Err(format!(
                    "sectors {from}..{to}: {:?} instead of {:?}",
                    done.data,
                    &model[from..to]
                ));
            }
        }
        assert_eq!(bed.graph().requests.alive(), 0);
        assert_eq!(bed.graph().pool.living(), 0);
    }
    Ok(())
}

#[test]
fn arrays_are_rows_of_sectors() {
    for (name, top) in UNITS {
        for seed in 0..8 {
            race(&mut bed(top, &[]), seed, 60).unwrap_or_else(|why| panic!("{name}, seed {seed}: {why}"));
        }
    }
}

#[test]
fn planted_faults_are_seen() {
    for (top, fault) in [(0, "stripe.wrong-leg"), (2, "concat.same-slice"), (3, "slice.off-by-one")] {
        assert!(race(&mut bed(UNITS[top].1, &[fault]), 1, 60).is_err(), "{fault} is not seen");
    }
}

#[test]
fn capacities_follow_the_legs() {
    let capacity = |at: usize| bed(UNITS[at].1, &[]).capacity(0) >> 10;
    assert_eq!([capacity(0), capacity(1), capacity(2), capacity(3)], [3 * 36, 48, 36 + 64 + 48, 40]);
}

#[test]
fn a_failure_is_counted_from_the_start_of_the_request() {
    // Chunks of 4 KiB: leg b holds chunks 1, 4, 7. Its second chunk is chunk 4, at 16 KiB.
    let mut bed = bed(UNITS[0].1, &[]);
    bed.spoil("b", 4096 + 512, 1024, ErrorKind::Unreadable);
    let error = bed.go(Op::Read, 8192, 16384).error.expect("it touches the bad sectors");
    assert_eq!((error.kind, error.at.0, error.len.0), (ErrorKind::Unreadable, 8192 + 512, 1024));
    assert_eq!(bed.go(Op::Read, 0, 16384).error, None);
    let error = bed.go(Op::Trim, 4096, 24576).error.expect("the run of leg b touches the bad sectors");
    assert_eq!((error.at.0, error.len.0), (12288 + 512, 1024));
    let error = bed.go(Op::Read, 16384, 4096).error.expect("a forwarded read fails as well");
    assert_eq!((error.at.0, error.len.0), (512, 1024));
}

#[test]
fn a_failure_behind_a_border_of_a_concat() {
    let mut bed = bed(UNITS[2].1, &[]);
    bed.spoil("b", 512, 512, ErrorKind::WriteFailed);
    let error = bed.go(Op::Write, 35 << 10, 4096).error.expect("it reaches into b");
    assert_eq!((error.kind, error.at.0, error.len.0), (ErrorKind::WriteFailed, 1024 + 512, 512));
}

#[test]
fn the_slowest_leg_is_the_latency() {
    let mut bed = bed(UNITS[0].1, &[]);
    let now = Instant::ZERO;
    let guess =
        bed.graph().expected_latency(3, Op::Read, nandu_base::ByteOffset(0), nandu_base::ByteLen(12288), now);
    assert_eq!(guess, Span(70_000 + 4096 * 1_000_000_000 / (4 << 30)));
    assert_eq!(bed.go(Op::Read, 0, 12288).latency, guess);
    assert_eq!(bed.go(Op::Flush, 0, 0).latency, Span::from_us(70));
}

/// What is expected of a request is what it takes on devices that stand still: of the legs that it touches, and of no other.
#[test]
fn what_is_expected_is_what_it_takes() {
    let wanted = [(Op::Read, 0, 4096), (Op::Read, 8192, 4096), (Op::Read, 512, 1024), (Op::Read, 2048, 4096)];
    let wanted =
        wanted.into_iter().chain([(Op::Write, 34 << 10, 4096), (Op::Write, 0, 512), (Op::Flush, 0, 0)]);
    for (op, offset, len) in wanted {
        for (name, top) in UNITS {
            let mut bed = bed(top, &[]);
            let (node, now) = (bed.node("top"), bed.now());
            let place = (nandu_base::ByteOffset(offset), nandu_base::ByteLen(len));
            let guess = bed.graph().expected_latency(node, op, place.0, place.1, now);
            assert_eq!(bed.go(op, offset, len).latency, guess, "{name}: {op:?} {offset} {len}");
        }
    }
}

/// That a leg is lost, and back, is told upwards at once: a mirror above leaves it out before any request fails.
#[test]
fn the_loss_of_a_leg_is_told_upwards() {
    let fault =
        "kind = \"fault\"\nbelow = \"disk\"\nloss = { kind = \"at\", at = \"5 ms\", outage = \"1 s\" }\n";
    for array in
        ["kind = \"stripe\"\nlegs = [\"bad\", \"good\"]", "kind = \"concat\"\nparts = [\"good\", \"bad\"]"]
    {
        let mut text = format!(
            "[export.data]\ndevice = \"top\"\n[device.top]\nkind = \"mirror\"\nlegs = [\"array\", \"single\"]\n\
             [device.array]\n{array}\n[device.bad]\n{fault}"
        );
        for (name, size) in [("disk", 512), ("good", 512), ("single", 1024)] {
            text +=
                &format!("[device.{name}]\nkind = \"memory\"\nsize = \"{size} KiB\"\nlatency = \"10 us\"\n");
        }
        let mut bed =
            Testbed::new(&text, &builtin(), BuildOptions { seed: 1, ..BuildOptions::default() }).unwrap();
        let is_member = |bed: &mut Testbed| bed.report("top", Ask::Counters).counter("leg_a_is_member");
        bed.run_until(Instant::ZERO + Span::from_ms(4));
        assert_eq!(is_member(&mut bed), Some(1), "{array}");
        bed.run_until(Instant::ZERO + Span::from_ms(6));
        assert_eq!(is_member(&mut bed), Some(0), "{array}");
        bed.run_until(Instant::ZERO + Span::from_secs(10));
        assert_eq!(is_member(&mut bed), Some(1), "{array}");
    }
}

//! Streams: against the model, and what they save.

use super::*;

const STREAMS: [&str; 3] = [
    "streams = { kind = \"hot-cold\", counters = 64, decay_interval = 100, threshold = 2 }\n",
    "streams = { kind = \"tenant\" }\ntenants = [{ name = \"a\", size = \"40 KiB\" }, { name = \"b\", size = \"40 KiB\" }, \
     { name = \"c\", size = \"20 KiB\" }]\n",
    "streams = { kind = \"tenant\", max_open_blocks = 2 }\nreclaim_unit = \"die\"\ntenants = [{ name = \"a\", size = \"40 KiB\" }, \
     { name = \"b\", size = \"40 KiB\" }, { name = \"c\", size = \"20 KiB\" }]\n",
];

#[test]
fn streams_agree_with_the_model() {
    for streams in STREAMS {
        for way in [
            "",
            "gc = { kind = \"fifo\", mode = \"foreground\" }\nwear = { static_wl_threshold = 1, static_wl_interval = 1 }\n",
        ] {
            for seed in 0..20 {
                if let Err(what) = random_run(&tiny().blocks(16).with(streams).with(way), seed, None, 500) {
                    panic!("{streams}{way}: {what}");
                }
            }
        }
    }
}

/// Pages programmed for each 1000 of the host: nine writes of ten to one page of ten.
fn amplification(options: &str) -> u64 {
    let drive = ssd("slc-2015").blocks(128).pages(32).spare(0.15);
    let mut bench = Bench::new(&drive.with(options), None, Precondition::Filled);
    bench.forget_media();
    let pages = bench.limits().capacity.0 >> bench.page_bits();
    let mut rng = Rng::new(3);
    for _ in 0..20 * pages {
        bench.pass(Span(5_000_000));
        let page = if rng.below(10) < 9 { rng.below(pages / 10) } else { rng.between(pages / 10, pages - 1) };
        bench.issue(Op::Write, page * 4, 4, Payload::NONE, Flags::NONE);
    }
    bench.check().unwrap();
    let mut get = |name| bench.counter(name);
    get("nand_pages_programmed") * 1000 / get("host_pages_written")
}

#[test]
fn hot_pages_in_blocks_of_their_own_save_moves() {
    let (one, two) = (amplification(""), amplification("streams = { kind = \"hot-cold\" }\n"));
    println!("write amplification {one}/1000 with one stream, {two}/1000 with hot and cold apart");
    assert!(two < one, "{two} with hot and cold apart, {one} without");
}

#[test]
fn later_tenants_share_the_last_open_block() {
    let run = |most: u32| {
        let drive = ssd("slc-2015").blocks(40).spare(0.4).tenants(&[64 << 10; 3]);
        let options = format!("streams = {{ kind = \"tenant\", max_open_blocks = {most} }}\n");
        let mut bench = Bench::new(&drive.with(options), None, Precondition::Empty);
        for page in 0..96 {
            bench.pass(Span(5_000_000));
            bench.issue(Op::Write, page * 4, 4, Payload::NONE, Flags::NONE);
        }
        bench.check().unwrap();
        (bench.counter("pages_written_to_other_streams"), bench.counter("free_blocks"))
    };
    // 32 pages of each of three.
    let [one, two, three, eight] = [1, 2, 3, 8].map(run);
    assert_eq!([one.0, two.0, three.0], [0, 64, 64]);
    assert!(two.1 > three.1, "a block more is open: {two:?}, {three:?}");
    assert_eq!(three, eight, "there are no more tenants");
}

#[test]
fn streams_that_cannot_be_are_refused() {
    for (text, key) in [
        ("streams = { kind = \"hot-cold\", counters = 100 }", "streams.counters"),
        ("streams = { kind = \"hot-cold\", threshold = 16 }", "streams.threshold"),
        ("streams = { kind = \"tenant\" }", "streams"),
        (
            "streams = { kind = \"tenant\" }\ntenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"vssd\" }",
            "streams",
        ),
    ] {
        let error = refused(&ssd("slc-2015").blocks(40).spare(0.4).with(text));
        assert_eq!(error.key.as_deref(), Some(key), "{text}: {error}");
    }
}

//! Streams: against the model, and what they save.

use super::*;
use nandu_base::Ask;

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
                let drive = TINY.replace("blocks_per_plane = 12", "blocks_per_plane = 16");
                if let Err(what) = random_run(&format!("{drive}{streams}{way}"), seed, None, 500) {
                    panic!("{streams}{way}: {what}");
                }
            }
        }
    }
}

/// Pages programmed for each 1000 of the host: nine writes of ten to one page of ten.
fn amplification(options: &str) -> u64 {
    let drive = "profile = \"slc-2015\"\nblocks_per_plane = 128\npages_per_block = 32\nspare_factor = 0.15\n";
    let mut bench = Bench::new(&format!("{drive}{options}"), None, Precondition::Filled);
    bench.cells = None;
    let pages = bench.machine.limits().capacity.0 >> bench.page_bits();
    let mut rng = Rng::new(3);
    for _ in 0..20 * pages {
        bench.now += Span(5_000_000);
        let page = if rng.below(10) < 9 { rng.below(pages / 10) } else { rng.between(pages / 10, pages - 1) };
        let (id, _) = bench.issue(Op::Write, page * 4, 4, Payload::NONE, Flags::NONE);
        bench.end(id);
    }
    bench.machine.check().unwrap();
    let counters = Report::of(&mut *bench.machine, Ask::Counters).counters;
    let get = |name| counters.iter().find(|c| c.name == name).map_or(0, |c| c.value);
    get("nand_pages_programmed") * 1000 / get("host_pages_written")
}

#[test]
fn hot_pages_in_blocks_of_their_own_save_moves() {
    let (one, two) = (amplification(""), amplification("streams = { kind = \"hot-cold\" }\n"));
    println!("write amplification {one}/1000 with one stream, {two}/1000 with hot and cold apart");
    assert!(two < one, "{two} with hot and cold apart, {one} without");
}

#[test]
fn streams_that_cannot_be_are_refused() {
    for text in [
        "streams = { kind = \"hot-cold\", counters = 100 }",
        "streams = { kind = \"hot-cold\", threshold = 16 }",
        "streams = { kind = \"tenant\" }",
        "streams = { kind = \"tenant\" }\ntenants = [{ name = \"a\", size = \"1 MiB\" }]\nisolation = { kind = \"vssd\" }",
    ] {
        let text = format!("profile = \"slc-2015\"\nblocks_per_plane = 40\nspare_factor = 0.4\n{text}");
        let config: SsdConfig = toml::from_str(&text).unwrap();
        let plants = BTreeSet::new();
        let precondition = Precondition::Empty;
        let cx = BuildContext {
            name: "ssd",
            children: &[],
            seed: 1,
            tenants: 1,
            shares: &[],
            planted: &plants,
            precondition,
        };
        let Err(error) = config.machine(&cx) else { panic!("accepted: {text}") };
        assert_eq!(error.key, Some("streams"), "{text}: {error}");
    }
}

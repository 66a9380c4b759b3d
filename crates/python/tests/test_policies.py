"""Policies that are classes: they decide what those of Nandu decide, and what they raise ends what they were asked by."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import nandu
import own_policies as own
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nandu.policies import Arrival, Cull, Flash, Hit, Look, MapSize, Plane, Planes, Recall, Request, Room, Tenants, TranslationPage, Units, Until

EXAMPLES = Path(__file__).parents[3] / "examples"
OWN = EXAMPLES / "python" / "own_policies.py"


def cache(replacement: object, prefetch: object = "none", blocks: int = 256) -> dict[str, Any]:
    return {
        "export": {"data": {"device": "cache"}},
        "device": {
            "cache": {"kind": "cache", "below": "m", "size": f"{4 * blocks} KiB", "replacement": replacement, "prefetch": prefetch},
            "m": {"kind": "memory", "size": "64 MiB", "latency": "1 ms"},
        },
    }


def measured(stack: Any, requests: int = 4000, **options: Any) -> dict[str, Any]:
    """What a run measured, but for what tells the stacks apart and the memory that a policy takes."""
    result = nandu.run(stack, nandu.Trace.generator("mixed-zipf", requests=requests), fit="wrap", extend=0, **options)
    fields = dict(result)
    del fields["provenance"]
    for layer in fields["layers"]:
        layer["counters"] = {name: value for name, value in layer["counters"].items() if not name.startswith("metadata_bytes")}
    return fields


def test_lru_in_python_is_lru() -> None:
    for blocks in (16, 256, 5000):
        assert measured(cache("my-lru", blocks=blocks)) == measured(cache("lru", blocks=blocks))
    # With blocks ahead, which leave when they were never met.
    ahead = {"kind": "p-block", "lookahead": "64 KiB"}
    assert measured(cache("my-lru", ahead)) == measured(cache("lru", ahead)) != measured(cache("fifo-or-so", ahead))


@nandu.register("fifo-or-so")
class Fifo(own.Lru):
    def hit(self, line: int, hit: Hit) -> None:
        pass


def test_2q_in_python_misses_what_2q_in_rust_misses() -> None:
    # The package examples/own-policies holds its 2Q against the same figures.
    want = json.loads((EXAMPLES / "own-policies" / "misses.json").read_text())
    curves = nandu.mrc(nandu.Trace.generator(want["generator"], requests=want["requests"]), ["my-2q"], want["sizes"])
    assert [point["misses"] for point in curves["points"]] == want["2q"]


def test_a_prefetcher_in_python_brings_what_p_block_brings() -> None:
    one, other = cache("lru", "my-blocks-behind"), cache("lru", {"kind": "p-block", "lookahead": "32 KiB"})
    assert measured(one) == measured(other)
    assert measured(cache("lru", {"kind": "my-blocks-behind", "blocks": 2})) != measured(other)


def test_a_victim_in_python_is_that_of_greedy() -> None:
    stack = nandu.Stack("small-ssd")
    mine, greedy, fifo = (measured(stack.set("device.ssd.gc.kind", kind), 40_000, iodepth=4) for kind in ("my-greedy", "greedy", "fifo"))
    assert mine == greedy != fifo
    gc = {"kind": "my-greedy"}
    assert stack.set("device.ssd.gc", gc).to_toml() != stack.to_toml()


def shared(scheduler: object, writers: int = 1) -> dict[str, Any]:
    """Tenants behind a queue, each as fast as it may."""
    stack: dict[str, Any] = {"export": {}, "tenant": {}, "workload": {}, "device": {}}
    for n, weight in enumerate((300, *[100] * writers)):
        name = f"t{n}"
        stack["export"][name] = {"device": name, "tenant": name}
        stack["tenant"][name] = {"weight": weight}
        stack["workload"][name] = {"export": name, "generator": "uniform", "read_share": int(n == 0), "iodepth": 16, "number_ios": 3000}
        stack["device"][name] = {"kind": "slice", "below": "queue", "offset": f"{16 * n} MiB", "size": "16 MiB"}
    stack["device"]["queue"] = {"kind": "queue", "below": "m", "scheduler": scheduler, "depth": 4}
    stack["device"]["m"] = {"kind": "memory", "size": "64 MiB", "latency": "100 us"}
    return stack


def raced(stack: Any) -> dict[str, Any]:
    fields = dict(nandu.run(stack, extend=0))
    del fields["provenance"]
    return fields


@nandu.register("my-pages")
class WholePages(nandu.Map):
    """Whole translation pages in RAM; the one that was used longest ago goes. `tpc-ftl` of Nandu without delayed reads, in plain LRU."""

    whole_pages = True
    draws = ({"cmt_size": "2 KiB"}, {"cmt_size": "17 KiB"})

    def __init__(self, size: MapSize) -> None:
        self.room = max(1, min(size.ram // (4 * size.entries + 12), size.translation_pages))
        self.pages: dict[int, TranslationPage] = {}
        self.dirty: set[int] = set()

    def entry(self, lpn: int, flash: Flash) -> TranslationPage:
        tp = flash.translation_page(lpn)
        if tp not in self.pages:
            if len(self.pages) == self.room:
                oldest = next(iter(self.pages))
                if oldest in self.dirty:
                    flash.write(oldest)
                del self.pages[oldest]
            self.pages[tp] = flash.read(tp)
            if self.pages[tp].entered:
                self.dirty.add(tp)
        self.pages[tp] = self.pages.pop(tp)
        return self.pages[tp]

    def lookup(self, lpn: int, flash: Flash) -> int | None:
        return self.entry(lpn, flash)[lpn]

    def update(self, lpn: int, place: int | None, flash: Flash) -> int | None:
        page = self.entry(lpn, flash)
        old, page[lpn] = page[lpn], place
        self.dirty.add(flash.translation_page(lpn))
        return old

    def moved(self, lpn: int, place: int, flash: Flash) -> bool:
        tp = flash.translation_page(lpn)
        if tp in self.pages:
            self.pages[tp][lpn] = place
            self.dirty.add(tp)
        return tp in self.pages

    def changed(self, tp: int) -> TranslationPage | dict[int, int | None]:
        self.dirty.discard(tp)
        return self.pages.get(tp, {})

    def slots(self) -> int:
        return self.room


def mapped(kind: str, size: str, **options: Any) -> dict[str, Any]:
    """What a drive with this map measured, but for figures of searching and of the RAM that a map takes."""
    stack = nandu.Stack("small-ssd").set("device.ssd.mapping", {"kind": kind, "cmt_size": size, **options})
    fields = measured(stack, 20_000)
    del fields["energy"]
    for layer in fields["layers"]:
        layer.pop("energy")
        own = {name: value for name, value in layer["counters"].items() if not name.startswith("map_entries") and name != "map_ram_bytes"}
        layer["counters"] = own
    return fields


def test_a_map_in_python_is_dftl() -> None:
    for size in ("64 B", "4 KiB", "32 KiB"):
        assert mapped("my-dftl", size) == mapped("dftl", size)
    assert mapped("my-dftl", "4 KiB") != mapped("my-dftl", "32 KiB")
    batches = {"gc_batch": 3, "eviction_write": "async", "data_program": "at-once"}
    assert mapped("my-dftl", "4 KiB", **batches) == mapped("dftl", "4 KiB", **batches) != mapped("my-dftl", "4 KiB")


def test_a_map_of_whole_pages_is_tpc_ftl_in_lru() -> None:
    for size in ("17 KiB", "70 KiB"):
        assert mapped("my-pages", size) == mapped("tpc-ftl", size, delayed_read=False, clean_first_window=0)


def test_maps_of_python_are_drawn_and_hold() -> None:
    asked = {"my-pages": 0, "my-dftl": 0}

    class CountedPages(WholePages):
        def lookup(self, lpn: int, flash: Flash) -> int | None:
            asked["my-pages"] += 1
            return super().lookup(lpn, flash)

    class CountedDftl(own.Dftl):
        def lookup(self, lpn: int, flash: Flash) -> int | None:
            asked["my-dftl"] += 1
            return super().lookup(lpn, flash)

    nandu.register("my-pages")(CountedPages)
    nandu.register("my-dftl")(CountedDftl)
    try:
        for family in ("ssd-paged", "ssd-combined", "ssd-paged-tenants"):
            found = nandu.verify(family, seeds=40, crash=True)
            assert found.ok, found.json
            assert found["power_cuts"] > 0
    finally:
        nandu.register("my-pages")(WholePages)
        nandu.register("my-dftl")(own.Dftl)
    assert min(asked.values()) > 1000, asked


class Dftl(own.Dftl):
    """Held to its contract: each of these is wrong in one way."""

    draws = ()


class ForgetsChanges(Dftl):
    def changed(self, tp: int) -> dict[int, int | None]:
        super().changed(tp)
        return {}


class NamesOthers(Dftl):
    def changed(self, tp: int) -> dict[int, int | None]:
        return {**super().changed(tp), 10**6: 1}


class LooksWrong(Dftl):
    def lookup(self, lpn: int, flash: Flash) -> int | None:
        return (super().lookup(lpn, flash) or 0) + 1


class IgnoresMoves(Dftl):
    def moved(self, lpn: int, place: int, flash: Flash) -> bool:
        return lpn in self.places


class KeepsTheFlash(Dftl):
    def changed(self, tp: int) -> dict[int, int | None]:
        return super().changed(tp)

    def moved(self, lpn: int, place: int, flash: Flash) -> bool:
        self.kept = flash
        return super().moved(lpn, place, flash)

    def begins(self, end: int) -> None:
        if hasattr(self, "kept"):
            self.kept.read(0)


class NamesNoPlace(Dftl):
    def changed(self, tp: int) -> dict[int, int | None]:
        return dict.fromkeys(super().changed(tp), 2**32 - 1)


class Refuses(Dftl):
    def __init__(self, size: MapSize) -> None:
        raise ValueError(f"{size.ram} bytes are too few")


class WritesWhatMoved(Dftl):
    """Right, if unusual: each move is on the flash at once, and `changed` looks at the flash."""

    def moved(self, lpn: int, place: int, flash: Flash) -> bool:
        self.kept = flash
        is_here = super().moved(lpn, place, flash)
        if is_here:
            flash.write(flash.translation_page(lpn))
        return is_here

    def changed(self, tp: int) -> dict[int, int | None]:
        if hasattr(self, "kept"):
            self.kept.read(tp)
        return super().changed(tp)


class AsksTooFar(Dftl):
    def lookup(self, lpn: int, flash: Flash) -> int | None:
        flash.read(10**6)
        return None


class TakesAnOption(Dftl):
    def __init__(self, size: MapSize, *, cmt_size: int = 1) -> None:
        super().__init__(size)


@pytest.mark.parametrize(
    ("wrong", "error", "said"),
    [
        (ForgetsChanges, ValueError, "`changed` of the policy `wrong-map` leaves page [0-9]+ at .* in translation page [0-9]+, and it lies at"),
        (NamesOthers, ValueError, "`changed` of the policy `wrong-map` names page 1000000, which has no entry in translation page"),
        (LooksWrong, ValueError, "`(lookup|update)` of the policy `wrong-map` answers .* for page [0-9]+, which lies at"),
        (IgnoresMoves, ValueError, "of the policy `wrong-map` (answers|leaves) "),
        (KeepsTheFlash, RuntimeError, "while a method of the map runs, and no longer"),
        (NamesNoPlace, ValueError, "lies at .*4294967295.*, which is not a place"),
        (Refuses, nandu.StackError, "`mapping`: `wrong-map`: ValueError: 4096 bytes are too few"),
        (AsksTooFar, IndexError, "translation page 1000000 is none of the map's"),
    ],
)
def test_a_wrong_map_says_what_is_right(wrong: type[nandu.Map], error: type[Exception], said: str) -> None:
    nandu.register("wrong-map")(wrong)
    with pytest.raises(error, match=said):
        mapped("wrong-map", "4 KiB")


def test_a_map_may_write_what_has_moved_and_read_what_it_writes() -> None:
    nandu.register("wrong-map")(WritesWhatMoved)
    assert mapped("wrong-map", "4 KiB") != mapped("my-dftl", "4 KiB")


class OldNames(own.Dftl):
    """Its options are called as some of Nandu's were."""

    draws = ()

    def __init__(self, size: MapSize, *, ram: int = 1, protected: int = 1) -> None:
        super().__init__(size)
        self.called = (ram, protected)
        if self.called != (7, 8):
            raise ValueError(f"{self.called}")


def test_options_of_a_map_are_called_as_it_says() -> None:
    nandu.register("old-names")(OldNames)
    mapped("old-names", "4 KiB", ram=7, protected=8)
    stack = nandu.Stack("small-ssd").set("device.ssd.mapping", {"kind": "old-names", "protected": 8}).set("device.ssd.mapping.ram", 7)
    measured(stack, 100)
    # Those of Nandu's own maps have their present names, with a note.
    assert "cmt_size" in nandu.Stack("small-ssd").set("device.ssd.mapping", {"kind": "dftl", "ram": "8 KiB"}).to_toml()


def test_options_of_all_maps_are_not_for_one() -> None:
    with pytest.raises(nandu.InputError, match="all maps on the flash have an option `cmt_size`"):
        nandu.register("with-option")(TakesAnOption)
    with pytest.raises(nandu.StackError, match="mapping.gc_batch.*0 is out of bounds: 1 to 1048576"):
        mapped("my-dftl", "4 KiB", gc_batch=0)
    assert "my-dftl" in nandu.schema()


def test_a_scheduler_in_python_is_drr() -> None:
    for writers in (1, 3):
        mine, drr, noop = (raced(shared(scheduler, writers)) for scheduler in ("my-drr", "drr", "noop"))
        assert mine == drr != noop
    mine, drr = (raced(shared(scheduler)) for scheduler in ({"kind": "my-drr", "quantum_us": 500}, {"kind": "drr", "quantum": "500 us"}))
    assert mine == drr


def of_dies(kind: str) -> nandu.Stack:
    # Within a tenant in order, as the class does it.
    return nandu.Stack("small-ssd").set(
        "device.ssd.die_scheduler", {"kind": "out-of-order", "max_read_bypass": 0, "tenant_scheduler": {"kind": kind}}
    )


def test_a_scheduler_in_python_serves_the_dies_of_a_drive() -> None:
    mine, drr = (measured(of_dies(kind), 20_000, iodepth=8) for kind in ("my-drr", "drr"))
    assert mine == drr


class Waits(nandu.Scheduler):
    """Sends nothing for a while after each request, and says so wrongly when asked to."""

    anticipation = 10_000
    wrong: Any = None

    def __init__(self, tenants: Tenants) -> None:
        self.waiting: list[int] = []
        self.until = 0

    def arrived(self, request: Request, now: int) -> None:
        assert request.end > request.start and request.cost > 0 and request.tenant > 0
        self.waiting.append(request.number)

    def next(self, now: int) -> Any:
        if self.wrong is not None:
            return self.wrong
        if now < self.until:
            return Until(self.until, 1)
        return self.waiting.pop(0)

    def done(self, request: Request, now: int) -> None:
        self.until = now + 10_000

    def counters(self) -> dict[str, int]:
        return {"waiting_now": len(self.waiting)}


def test_a_scheduler_may_wait_and_is_held_to_what_it_says() -> None:
    nandu.register("waits")(Waits)
    result = raced(shared("waits"))
    assert result["duration_ns"] > raced(shared("noop"))["duration_ns"]
    queue = next(layer["counters"] for layer in result["layers"] if layer["name"] == "queue")
    assert queue["waiting_now"] == 0
    try:
        for wrong, said in (
            (Until(10**15, 9), "awaits tenant 9, and there are 0 to 2"),
            (Until(0), "waits until 0, which is not later than now"),
            (10**6, "names request 1000000, which does not wait"),
            ("x", "right is the number of a request, an Until, or None"),
        ):
            Waits.wrong = wrong
            with pytest.raises(ValueError, match=said):
                raced(shared("waits"))

        class Sleeps(Waits):
            def next(self, now: int) -> None:
                return None

        nandu.register("waits")(Sleeps)
        with pytest.raises(ValueError, match="nothing is on its way that could end"):
            raced(shared("waits"))
    finally:
        Waits.wrong = None
        nandu.register("waits")(own.Drr)


def test_schedulers_of_python_are_drawn_and_hold() -> None:
    found = nandu.verify("queue", seeds=25)
    assert found.ok and found["seeds"] == 25
    nandu.register("no-dies")(type("NoDies", (own.Drr,), {"dies": False}))
    with pytest.raises(nandu.StackError, match="not for dies"):
        measured(of_dies("no-dies"))


@pytest.fixture(scope="module")
def compiled() -> Any:
    pytest.importorskip("ctypes")
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler `cc`")
    return importlib.import_module("compiled_sieve")


def test_a_compiled_policy_is_sieve(compiled: Any) -> None:
    load = nandu.Trace.generator("mixed-zipf", requests=4000)
    points = nandu.mrc(load, ["my-sieve", "sieve"], [1, 50, 500, 5000])["points"]
    misses = {name: [p["misses"] for p in points if p["policy"] == name] for name in ("my-sieve", "sieve")}
    assert misses["my-sieve"] == misses["sieve"]
    for blocks in (16, 256, 5000):
        assert measured(cache("my-sieve", blocks=blocks)) == measured(cache("sieve", blocks=blocks))
    ahead = {"kind": "p-block", "lookahead": "64 KiB"}
    assert measured(cache("my-sieve", ahead)) == measured(cache("sieve", ahead))
    found = nandu.verify("cache", seeds=20, crash=True)
    assert found.ok


def test_compiled_functions_are_held_to_their_contract(compiled: Any) -> None:
    import ctypes

    nowhere = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(lambda state: 10**6)

    class Wrong(compiled.Sieve):  # type: ignore[misc, unused-ignore]
        def compiled(self) -> Any:
            return super().compiled()._replace(victim=ctypes.cast(nowhere, ctypes.c_void_p).value)

    class Lacks(compiled.Sieve):  # type: ignore[misc, unused-ignore]
        def compiled(self) -> Any:
            return super().compiled()._replace(insert=0)

    try:
        for cls, said in ((Wrong, "names place 1000000, where no line is"), (Lacks, "gives no function `insert`")):
            nandu.register("wrong-compiled")(cls)
            with pytest.raises(ValueError, match=said):
                measured(cache("wrong-compiled", blocks=16))
    finally:
        nandu.register("wrong-compiled")(own.Lru)


loads = st.lists(st.tuples(st.sampled_from(["read", "write"]), st.integers(0, 60), st.integers(1, 6)), min_size=1, max_size=200)


@settings(max_examples=25, deadline=None)
@given(loads, st.integers(8, 40))
def test_on_any_load_classes_decide_what_rust_decides(load: list[tuple[str, int, int]], blocks: int) -> None:
    rows = [(0, op, 4096 * first, 4096 * count) for op, first, count in load]
    trace = nandu.Trace.rows(rows)
    pairs = [(cache("my-lru", blocks=blocks), cache("lru", blocks=blocks))]
    ahead = {"kind": "p-block", "lookahead": "32 KiB"}
    pairs.append((cache("my-lru", "my-blocks-behind", blocks=blocks), cache("lru", ahead, blocks=blocks)))
    for mine, ours in pairs:
        one, two = (nandu.run(stack, trace, iodepth=2, extend=0) for stack in (mine, ours))
        assert one["total"] == two["total"] and one["histogram"] == two["histogram"]
    # The misses of a curve are those of a plain model of 2Q: a queue for new lines, and a list for those asked for again.
    (point,) = nandu.mrc(trace, ["my-2q"], [blocks])["points"]
    policy, misses = own.TwoQ(Room(blocks, 1)), 0
    here: set[int] = set()
    for op, first, count in load:
        for block in range(first, first + count):
            if block in here:
                policy.hit(block, Hit(write=op == "write"))
                continue
            misses += 1
            recall = policy.miss(block, "write" if op == "write" else "read")
            if len(here) == blocks:
                victim = policy.victim(recall)
                assert victim is not None
                here.remove(victim)
            policy.insert(block, Arrival("read", recall))
            here.add(block)
    assert point["misses"] == misses


def test_it_is_raced_swept_and_drawn_like_any_other() -> None:
    race = nandu.compare({"mine": cache("my-lru"), "ours": cache("lru")}, nandu.Trace.generator("mixed-zipf", requests=2000), fit="wrap", jobs=2)
    assert race["stacks"][0]["result"]["total"] == race["stacks"][1]["result"]["total"]
    axes = {"device.cache.replacement.kind": ["lru", "my-lru"]}
    swept = nandu.sweep("cache", nandu.Trace.generator("mixed-zipf", limit=1500), axes=axes, minimise="p99", fit="wrap", allow_unsteady=True)
    first, second = (row["figures"] for row in swept["rows"])
    assert first == second
    found = nandu.verify("cache", seeds=12, crash=True)
    assert found.ok and found["seeds"] == 12 and found["power_cuts"] > 0
    assert "my-2q" in nandu.schema() and "A1out, as a share of the lines" in nandu.schema()


def test_options_are_checked_before_a_run() -> None:
    assert measured(cache({"kind": "my-2q", "new": "1/2"})) != measured(cache("my-2q"))
    with pytest.raises(nandu.StackError, match="did you mean `remembered`"):
        nandu.Stack(cache({"kind": "my-2q", "rememberd": "1"}))
    with pytest.raises(nandu.StackError, match="blocks"):
        nandu.Stack(cache("lru", {"kind": "my-blocks-behind", "blocks": 5000}))
    with pytest.raises(nandu.StackError, match="did you mean `my-lru`"):
        nandu.Stack(cache("my-lruu"))
    with pytest.raises(ValueError, match="Fraction"):
        nandu.run(cache({"kind": "my-2q", "new": "much"}), nandu.Trace.generator("uniform", requests=100), fit="wrap")


def test_what_cannot_be_registered_is_refused() -> None:
    with pytest.raises(nandu.InputError, match="there is a replacement `lru` in Nandu"):
        nandu.register("lru")(own.Lru)
    with pytest.raises(nandu.InputError, match="derives from none"):
        nandu.register("strange")(int)  # type: ignore[type-var]
    with pytest.raises(nandu.InputError, match="is not a name"):
        nandu.register("two words")(own.Lru)
    odd = type("Odd", (own.Lru,), {"line": "page"})
    with pytest.raises(nandu.InputError, match="`line` of `odd` is `page`; known are block, segment"):
        nandu.register("odd")(odd)
    # The same name again takes the place of the first.
    nandu.register("again")(own.Lru)
    nandu.register("again")(Fifo)
    assert measured(cache("again")) == measured(cache("fifo-or-so"))


class Stumbles(own.Lru):
    def hit(self, line: int, hit: Hit) -> None:
        if len(self.order) > 2:
            raise LookupError("stumbled over a line")
        super().hit(line, hit)


def test_an_exception_ends_what_it_was_raised_in() -> None:
    nandu.register("stumbles")(Stumbles)
    few = nandu.Trace.generator("mixed-zipf", requests=3000)
    asked: list[Callable[[], object]] = [
        lambda: nandu.run(cache("stumbles"), few, fit="wrap"),
        lambda: nandu.compare([cache("lru"), cache("stumbles")], few, fit="wrap", jobs=2),
        lambda: nandu.mrc(few, ["stumbles"], [500]),
        lambda: nandu.sweep("cache", few, axes={"device.cache.replacement.kind": ["lru", "stumbles"]}, minimise="p99", fit="wrap"),
        lambda: nandu.verify("cache", seeds=50),
    ]
    try:
        for ask in asked:
            with pytest.raises(LookupError, match="stumbled") as raised:
                ask()
            frames = traceback.extract_tb(raised.value.__traceback__)
            assert frames[-1].name == "hit" and frames[-1].filename == __file__
    finally:
        nandu.register("stumbles")(own.Lru)


@pytest.mark.parametrize(
    ("answer", "said"),
    [(10**9, "`victim` of the policy `wrong` names line 1000000000, which is not in the cache"), ("x", "answers 'x'; right is"), (Cull(0), "")],
)
def test_a_wrong_answer_says_what_is_right(answer: Any, said: str) -> None:
    class Wrong(own.Lru):
        def victim(self, incoming: Recall | None) -> Any:
            return Cull(next(iter(self.order))) if isinstance(answer, Cull) else answer

    nandu.register("wrong")(Wrong)
    try:
        with pytest.raises(ValueError, match=said or "of which no block is prefetched"):
            measured(cache("wrong"))
    finally:
        nandu.register("wrong")(own.Lru)


def test_a_wrong_range_and_a_wrong_block_say_what_is_right() -> None:
    class Back(nandu.Prefetcher):
        def plan(self, look: Look) -> Any:
            return [(look.end, look.end + 2), (look.end, look.end + 1)]

    class Any0(nandu.Victim):
        def victim(self, plane: Plane) -> int | None:
            return min(range(len(plane.gain)), key=plane.gain.__getitem__)

    nandu.register("back")(Back)
    nandu.register("any-0")(Any0)
    try:
        with pytest.raises(ValueError, match="in order and without overlap"):
            measured(cache("lru", "back"))
        with pytest.raises(ValueError, match="the place of a block that gains"):
            measured(nandu.Stack("small-ssd").set("device.ssd.gc.kind", "any-0"), 40_000, iodepth=4)
    finally:
        nandu.register("back")(own.BlocksBehind)
        nandu.register("any-0")(own.Greedy)


def test_checks_find_a_line_that_a_policy_loses() -> None:
    class Loses(own.Lru):
        def lines(self) -> list[int]:
            return list(self.order)[1:]

    class Asserts(own.Lru):
        def check(self) -> None:
            assert len(self.order) < 3, "three are too many"

    try:
        for cls, what in ((Loses, "is in 0 lists of the policy"), (Asserts, "three are too many")):
            nandu.register("loses")(cls)
            found = nandu.verify("cache", seeds=160)
            assert not found.ok
            assert all(failure["invariant"] == "I-3" and what in failure["what"] for failure in found["failures"])
    finally:
        nandu.register("loses")(own.Lru)


class BySegment(nandu.Replacement):
    """Keeps what it is told of segments, and holds it against itself."""

    line = "segment"
    needs = "prefetch"
    told: list[str] = []

    def __init__(self, room: Room, *, most: Annotated[int | None, "Segments. Default: as many as fit."] = None) -> None:
        assert room.line == 8
        self.blocks: dict[int, list[int]] = {}

    def insert(self, line: int, arrival: Arrival) -> None:
        assert line not in self.blocks and arrival.cached & arrival.prefetched == 0
        self.blocks[line] = [arrival.cached, arrival.prefetched]

    def refill(self, line: int, arrival: Arrival) -> None:
        self.blocks[line] = [arrival.cached, arrival.prefetched]

    def hit(self, line: int, hit: Hit) -> None:
        self.blocks[line] = self.blocks.pop(line)
        self.told.append("first" if hit.prefetched else "again")

    def hole(self, line: int, block: int) -> None:
        cached, _ = self.blocks[line]
        assert not cached >> block & 1
        self.told.append("hole")

    def victim(self, incoming: Recall | None) -> int | Cull | None:
        line = next(iter(self.blocks), None)
        if line is None:
            return None
        self.told.append("whole")
        del self.blocks[line]
        return line

    def remove(self, line: int) -> None:
        del self.blocks[line]

    def shrunk(self, line: int, cached: int, prefetched: int) -> None:
        self.blocks[line] = [cached, prefetched]

    def lines(self) -> dict[int, list[int]]:
        return self.blocks

    def counters(self) -> dict[str, int]:
        return {"wholes": self.told.count("whole")}


def test_segments_are_told_with_their_blocks() -> None:
    nandu.register("by-segment")(BySegment)
    stack = cache("by-segment", "segment")
    fields = measured(stack)
    assert {"first", "hole", "whole"} <= set(BySegment.told)
    counters = next(layer["counters"] for layer in fields["layers"] if layer["name"] == "cache")
    assert counters["wholes"] == BySegment.told.count("whole") > 0


PROGRAM = """
import sys
import nandu
sys.path.insert(0, {examples!r})
import own_policies

@nandu.register("by-hash")
class ByHash(own_policies.Lru):
    def victim(self, incoming):
        line = min(self.order, key=lambda line: hash(str(line)), default=None)
        if line is not None:
            del self.order[line]
        return line

sys.exit(nandu.main())
"""


def said(seed: int, *words: str) -> str:
    program = PROGRAM.format(examples=str(OWN.parent))
    env = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_runs_repeat_themselves_whatever_the_hash_of_texts() -> None:
    curve = "trace mrc mixed-zipf --gen requests=3000 --sizes 200 --json --policy"
    # One that goes by the hash of texts is found out.
    assert said(1, *curve.split(), "by-hash") != said(2, *curve.split(), "by-hash")
    assert said(1, *curve.split(), "my-lru,my-2q") == said(2, *curve.split(), "my-lru,my-2q")
    program = [sys.executable, str(OWN), *"verify cache --crash --seeds 10 --json".split()]
    outs = [subprocess.run(program, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed}, check=True).stdout for seed in "123"]
    assert outs[0] == outs[1] == outs[2] and json.loads(outs[0])["failures"] == []


def test_a_file_of_classes_is_a_program() -> None:
    shown = subprocess.run([sys.executable, str(OWN), "list", "my-2q"], capture_output=True, text=True, check=True).stdout
    assert "A queue for new lines" in shown and "remembered" in shown and "Johnson and Shasha" in shown


def test_an_interrupt_ends_a_run_with_a_class() -> None:
    program = (
        f"import sys\nsys.path.insert(0, {str(OWN.parent)!r})\nimport nandu, own_policies\n"
        f"stack = nandu.Stack({cache('my-lru')!r})\nload = nandu.Trace.generator('uniform', requests=3_000_000, space='16 MiB')\n"
        "print('begun', flush=True)\nnandu.run(stack, load, iodepth=4, repeat=1000)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=20)
    assert "KeyboardInterrupt" in said and child.returncode != 0


def test_a_class_can_be_tried_by_itself() -> None:
    policy = own.TwoQ(Room(4, 1))
    for line in range(4):
        policy.insert(line, Arrival("read"))
    assert policy.victim(None) == 0 and policy.miss(0, "read") == "once" and policy.miss(7, "read") is None
    assert own.BlocksBehind(Units(4096, 16), blocks=2).plan(Look(3, 5, [(3, 4)], 0, 0)) == [(4, 6)]
    assert own.Greedy(Planes(3, 1)).victim(Plane([0, 3, 3], [1, 1, 1], [0, 0, 0], 9, 20)) == 1
    with pytest.raises(NotImplementedError, match="has no method `insert`"):
        nandu.Replacement(Room(1, 1)).insert(1, Arrival("read"))

"""Policies that are classes: they decide what those of Nandu decide, and what they raise ends what they were asked by."""

from __future__ import annotations

import json
import os
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
from nandu.policies import Arrival, Cull, Hit, Look, Plane, Planes, Recall, Room, Units

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
    mine, greedy, fifo = (measured(stack.set("device.ssd.gc.kind", kind), 40_000, closed=4) for kind in ("my-greedy", "greedy", "fifo"))
    assert mine == greedy != fifo
    gc = {"kind": "my-greedy"}
    assert stack.set("device.ssd.gc", gc).to_toml() != stack.to_toml()


def test_it_is_raced_swept_and_drawn_like_any_other() -> None:
    race = nandu.compare({"mine": cache("my-lru"), "ours": cache("lru")}, nandu.Trace.generator("mixed-zipf", requests=2000), fit="wrap", jobs=2)
    assert race["stacks"][0]["result"]["all"] == race["stacks"][1]["result"]["all"]
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
    with pytest.raises(nandu.InputError, match="is no name"):
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
            measured(nandu.Stack("small-ssd").set("device.ssd.gc.kind", "any-0"), 40_000, closed=4)
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
            found = nandu.verify("cache", seeds=40)
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
        "print('begun', flush=True)\nnandu.run(stack, load, closed=4, repeat=1000)\n"
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

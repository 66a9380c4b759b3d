"""The package against the command line, against plain models, and where it must refuse."""

from __future__ import annotations

import doctest
import importlib
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import nandu
import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nandu import devices
from nandu._options import Device

# The program that cargo built where there is one, else the command that came with this package.
PROGRAM = os.environ.get("NANDU_PROGRAM") or shutil.which("nandu", path=str(Path(sys.executable).parent))
MEMORY = {
    "export": {"data": {"device": "cache"}},
    "device": {
        "cache": {"kind": "cache", "below": "m", "size": "1 MiB", "prefetch": {"kind": "none"}, "replacement": {"kind": "lru"}},
        "m": {"kind": "memory", "size": "64 MiB", "latency": "1 ms"},
    },
}


def printed(*words: str) -> str:
    """What the command prints on stdout."""
    assert PROGRAM is not None
    done = subprocess.run([PROGRAM, "--quiet", *words], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def zipf(requests: int = 3000) -> nandu.Trace:
    return nandu.Trace.generator("mixed-zipf", requests=requests)


def test_a_run_is_that_of_the_command() -> None:
    words = "run small-ssd --trace mixed-zipf --gen requests=3000 --fit wrap --set device.ssd.gc.kind=greedy --warmup 10% --json"
    stack = nandu.Stack("small-ssd").set("device.ssd.gc.kind", "greedy")
    result = nandu.run(stack, zipf(), fit="wrap", warmup="10%")
    assert result.json == printed(*words.split())
    assert result["provenance"]["stack"] == "small-ssd"


def test_a_race_is_that_of_the_command() -> None:
    words = "compare a=small-ssd b=small-ssd-spare --trace mixed-zipf --gen requests=2000 --fit wrap --seed 7 --json"
    race = nandu.compare({"a": "small-ssd", "b": "small-ssd-spare"}, zipf(2000), fit="wrap", seed=7)
    assert race.json == printed(*words.split())
    assert race.table.to_dict()["stack"] == ["a", "b"]
    assert race.results["a"]["total"]["iops"] > 0


def test_a_sweep_is_that_of_the_command(tmp_path: Path) -> None:
    axis = "device.ssd.spare_factor"
    words = "sweep small-ssd --trace mixed-zipf --gen requests=2000 --fit wrap --minimise p99 --allow-unsteady --json"
    got = nandu.sweep("small-ssd", zipf(2000), fit="wrap", axes={axis: [0.1, 0.2]}, minimise="p99", allow_unsteady=True, out=tmp_path)
    assert got.json == printed(*words.split(), "--axis", f"{axis}=0.1,0.2")
    assert got.table.num_rows == 2
    # What the journal holds is not run again.
    again = nandu.sweep("small-ssd", zipf(2000), fit="wrap", axes={axis: [0.1, 0.2]}, minimise="p99", allow_unsteady=True, out=tmp_path)
    assert again.json == got.json and "2 of 2 points known already" in again.notes


def test_curves_are_those_of_the_command() -> None:
    words = "trace mrc mixed-zipf --gen requests=5000 --policy lru,arc --sizes 100,1MiB --json"
    assert nandu.mrc(zipf(5000), ["lru", "arc"], [100, "1MiB"]).json == printed(*words.split())


def test_a_verification_is_that_of_the_command() -> None:
    found = nandu.verify("small-ssd", seeds=3, crash=True)
    assert found.json == printed(*"verify small-ssd --crash --seeds 3 --json".split())
    assert found.ok and found.failures.num_rows == 0


def test_a_paper_is_that_of_the_command() -> None:
    words = "reproduce hybrid-disk --requests 1000 --json"
    got = nandu.reproduce("hybrid-disk", requests=1000)
    assert got.json == printed(*words.split())
    assert "hybrid-disk" in got and got.claims.num_rows == len(got["hybrid-disk"]["claims"])


def test_advice_is_that_of_the_command() -> None:
    words = "advise mixed-zipf --limit 3000 --p99 1s --stack small-ssd --axis device.ssd.spare_factor=0.1,0.2 --exhaustive --json"
    load = nandu.Trace.generator("mixed-zipf", limit=3000)
    advice = nandu.advise(load, p99="1s", stack="small-ssd", axes={"device.ssd.spare_factor": [0.1, 0.2]}, exhaustive=True)
    assert advice.json == printed(*words.split())
    assert advice.meets and advice.table.num_rows == 2 and repr(advice).startswith("<nandu.Advice best: ")
    # The winner is a stack.
    assert advice.stack is not None and advice.best_toml is not None and "the best of 2 variants" in advice.best_toml
    assert nandu.run(advice.stack, load, fit="compact", precondition="aged")["total"]["lat_ns"]["max"] < 10**9
    none = nandu.advise([load, nandu.Trace.generator("uniform", limit=1000)], p99="1 ns", stack="small-ssd", axes={"device.ssd.channels": "1,2"})
    assert not none.meets and len(none["traces"]) == 2
    with pytest.raises(nandu.InputError, match="`life`: write years"):
        nandu.advise(load, life="long")
    with pytest.raises(nandu.InputError, match="nothing is asked for"):
        nandu.advise(load)


def test_advice_for_tenants_is_that_of_the_command() -> None:
    words = "advise --tenant web=uniform --tenant log=mixed-zipf --limit 1500 --p99 10s --budget 2 --extend 0 --json"
    load = {"web": nandu.Trace.generator("uniform", limit=1500), "log": nandu.Trace.generator("mixed-zipf", limit=1500)}
    how: dict[str, Any] = {"p99": "10s", "budget": 2, "extend": 0}
    advice = nandu.advise(tenants=load, **how)
    assert advice.json == printed(*words.split())
    assert [tenant["name"] for tenant in advice["tenants"]] == ["web", "log"]
    # The winner has the requests of the tenants, and a run of it gives the figures of the advice.
    assert advice.stack is not None
    ran = nandu.run(advice.stack, precondition="aged", extend=0).tenants.to_dict()
    assert max(ran["p99_ns"]) == advice["best"]["p99_ns"]
    # A further trace is for another time.
    tenants = "--tenant web=uniform --tenant log=mixed-zipf --tenant web=uniform --tenant log=uniform"
    words = f"advise {tenants} --limit 500 --p99 10s --budget 2 --extend 0 --json"
    one, two = nandu.Trace.generator("uniform", limit=500), nandu.Trace.generator("mixed-zipf", limit=500)
    twice = nandu.advise(tenants={"web": [one, one], "log": [two, one]}, **how)
    assert twice.json == printed(*words.split()) and len(twice["traces"]) == 2
    # What is held has no file that the winner could name.
    held = nandu.advise(tenants={"web": nandu.Trace.table(one.to_table(), label="mine"), "log": two}, **how)
    assert held.best_toml is not None and "# The requests of mine: name a file of them." in held.best_toml
    with pytest.raises(nandu.InputError, match="there are traces and tenants"):
        nandu.advise(one, tenants=load, **how)
    with pytest.raises(nandu.InputError, match="tenant `web` is the only tenant"):
        nandu.advise(tenants={"web": one}, **how)
    with pytest.raises(nandu.InputError, match="`web` has 2 traces, `log` has 1 trace"):
        nandu.advise(tenants={"web": [one, one], "log": one}, **how)
    with pytest.raises(nandu.InputError, match="tenant `a b`: a name has letters"):
        nandu.advise(tenants={"a b": one, "log": one}, **how)
    with pytest.raises(nandu.InputError, match="advice needs a trace"):
        nandu.advise(**how)


def said(*words: str) -> tuple[list[str], list[str]]:
    """The notes and warnings that the command says on stderr."""
    assert PROGRAM is not None
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 3), done.stderr
    # Long lines go on below, two letters in.
    lines = re.sub(r"\n +", " ", done.stderr).splitlines()
    notes, warnings = ([line.removeprefix(head) for line in lines if line.startswith(head)] for head in ("note: ", "warning: "))
    return notes, warnings


def test_cautions_are_those_of_the_command(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    axis = "device.ssd.spare_factor"
    load = "--trace mixed-zipf --gen requests=20000 --fit wrap --extend 0 --precondition filled"
    words = f"sweep small-ssd --axis {axis}=0.07,0.2 {load} --minimise p99"
    how: dict[str, Any] = {"axes": {axis: [0.07, 0.2]}, "minimise": "p99", "fit": "wrap", "extend": 0, "precondition": "filled"}
    sweep = nandu.sweep("small-ssd", zipf(20_000), out=tmp_path, **how)
    assert (sweep.notes, sweep.warnings) == said(*words.split())
    assert sweep.warnings and sweep.warnings[0] in caplog.text
    # Damage of the journal is said too.
    journal = next(path for path in tmp_path.iterdir() if path.is_file())
    journal.write_text(journal.read_text() + "{}\n")
    again = nandu.sweep("small-ssd", zipf(20_000), out=tmp_path, **how)
    assert again.json == sweep.json and "1 line of the journal damaged" in again.warnings[0] and again.warnings[1:] == sweep.warnings
    words = f"advise mixed-zipf --limit 20000 --p99 10s --stack small-ssd --axis {axis}=0.07,0.2 --exhaustive --extend 0 --precondition filled"
    advice = nandu.advise(
        nandu.Trace.generator("mixed-zipf", limit=20_000),
        p99="10s",
        stack="small-ssd",
        axes=how["axes"],
        exhaustive=True,
        extend=0,
        precondition="filled",
    )
    assert (advice.notes, advice.warnings) == said(*words.split())
    assert advice.notes + advice.warnings


def test_a_sweep_of_a_stack_of_ones_own_is_that_of_its_file(tmp_path: Path) -> None:
    stack = nandu.Stack("small-ssd").set("device.ssd.gc.kind", "fifo")
    (tmp_path / "mine.toml").write_text(stack.to_toml())
    how = {"axes": {"device.ssd.spare_factor": "0.1,0.2"}, "minimise": "p99", "fit": "wrap", "allow_unsteady": True}
    mine, file = (nandu.sweep(what, zipf(2000), **how) for what in (stack, tmp_path / "mine.toml"))  # type: ignore[arg-type]
    assert mine["rows"] == file["rows"]
    plain = nandu.sweep(nandu.Stack.parse(stack.to_toml(), label="mine"), zipf(2000), **how)  # type: ignore[arg-type]
    assert plain["rows"] == file["rows"] and plain["stack"] == "mine"


def test_a_trace_goes_to_another_process_and_comes_back() -> None:
    for trace in (zipf(500), nandu.Trace.table(zipf(500).to_table(), stream="stream", label="held")):
        again = pickle.loads(pickle.dumps(trace))
        assert again.label == trace.label and again.to_table().to_dict() == trace.to_table().to_dict()
    rows = [(5, "read", 4096, 512), (0, "trim", 0, 4096)]
    assert nandu.Trace.rows(iter(rows), unit="us").to_table().to_dict()["time_ns"] == [0, 5000]
    with pytest.raises(nandu.TraceError, match="there are no requests in it"):
        nandu.Trace.rows([])


def test_tables_have_a_row_for_each_part() -> None:
    result = nandu.run("small-ssd", zipf(), fit="wrap", log=True, extend=0)
    assert result.requests is not None
    log = result.requests.to_dict()
    assert len(log["request"]) == 3000 == result["total"]["total_ios"]
    assert sum(log["latency_ns"]) // 3000 == result["total"]["lat_ns"]["mean"]
    assert set(log["op"]) == {"read", "write"}
    assert result.percentiles.to_dict()["direction"] == ["total", "read", "write", "trim", "flush"]
    assert sum(result.intervals.to_dict()["requests"]) == 3000
    with pytest.warns(DeprecationWarning, match="`intervals`"):
        assert result.windows.to_dict() == result.intervals.to_dict()
    with pytest.raises(KeyError, match="`all` is now called `total`"):
        result["all"]
    assert result.percentiles.to_dict()["p99.9_ns"][0] == result["total"]["lat_ns"]["percentile"]["99.900000"]
    layers = len(result["layers"])
    assert result.layers.num_rows == layers and result.counters.num_rows > layers
    assert result.wear.num_rows == 1 and result.tenants.num_rows == 1 and result.histogram.num_rows > 10
    # The log does not change what is measured.
    assert result.json == nandu.run("small-ssd", zipf(), fit="wrap", extend=0).json


def test_a_trace_survives_the_arrow_interface() -> None:
    generated = zipf(4000).to_table()
    taken = nandu.Trace.table(generated, stream="stream")
    assert taken.to_table().to_dict() == generated.to_dict()
    one, two = (nandu.run("small-ssd", trace, fit="wrap", extend=0) for trace in (zipf(4000), taken))
    assert one["total"] == two["total"] and one["provenance"]["workloads"][0]["trace_hash"] == two["provenance"]["workloads"][0]["trace_hash"]


def test_numpy_arrays_are_a_trace() -> None:
    rows = numpy.zeros(100, dtype=[("time_us", "<i8"), ("op", "u1"), ("offset", "<u8"), ("size", "<u4")])
    rows["time_us"] = numpy.arange(100) * 5
    rows["op"] = numpy.arange(100) % 2
    rows["offset"] = numpy.arange(100) * 4096
    rows["size"] = 4096
    table = nandu.Trace.table(rows, time="time_us").to_table().to_dict()
    assert table["time_ns"][:3] == [0, 5000, 10_000] and table["op"][:2] == ["read", "write"]
    columns = {"op": ["w"] * 2, "offset": numpy.array([0, 8192]), "size": [4096, 512]}
    order = nandu.Trace.table(columns, time=None).to_table().to_dict()
    assert order["size"] == [4096, 512] and order["op"] == ["write", "write"]


def times(*given: object, unit: str = "ns") -> list[int]:
    rows = [(time, "read", 4096 * n, 4096) for n, time in enumerate(given)]
    return nandu.Trace.rows(rows, unit=unit).to_table().to_dict()["time_ns"]


def test_a_time_keeps_its_fraction_or_is_refused() -> None:
    assert times(0.0, 0.5, 0.1 + 0.5, unit="s") == [0, 500_000_000, 600_000_000]
    assert times(0, 2.5, unit="us") == [0, 2500] and times(0.0, 7.0) == [0, 7]
    array = nandu.Trace.table(ROWS | {"time_ms": numpy.array([0.0, 0.25, 1])}, time="time_ms")
    assert array.to_table().to_dict()["time_ns"] == [0, 250_000, 1_000_000]
    for wrong, unit in ((0.5, "ns"), (1e-10, "s"), (float("nan"), "s"), (None, "ns"), ("soon", "ns")):
        with pytest.raises(nandu.TraceError, match=r"row 1: `time` = "):
            times(0, wrong, unit=unit)
    for name, wrong in (("offset", 0.5), ("size", 1.5), ("size", None), ("offset", 1 << 64)):
        with pytest.raises(nandu.TraceError, match=f"row 1: `{name}` = "):
            nandu.Trace.table(ROWS | {name: [0, wrong, 4096]}, time=None)


ROWS = {"op": ["read"] * 3, "offset": [0, 4096, 8192], "size": [4096] * 3}


def test_times_may_be_dates_and_numbers_of_either_order() -> None:
    import datetime

    begin = numpy.datetime64("2026-01-01T00:00:00", "us")
    stamps = begin + numpy.array([0, 3, 5], "timedelta64[us]")
    days = [datetime.datetime(2026, 1, 1) + datetime.timedelta(microseconds=n) for n in (0, 3, 5)]
    for column in (stamps, list(stamps), stamps - begin, days):
        assert nandu.Trace.table(ROWS | {"time": column}, time="time", unit="s").to_table().to_dict()["time_ns"] == [0, 3000, 5000]
    with pytest.raises(nandu.TraceError, match="row 1: `time` = 'NaT' is not a time"):
        nandu.Trace.table(ROWS | {"time": numpy.array([0, "NaT", 1], "datetime64[s]")}, time="time")
    other = numpy.array(ROWS["offset"], ">i8")
    assert nandu.Trace.table(ROWS | {"offset": other}, time=None).to_table().to_dict()["offset"] == ROWS["offset"]


def test_what_is_no_table_is_refused_with_what_would_be_one() -> None:
    class LazyFrame:
        def collect(self) -> None: ...

    with pytest.raises(nandu.TraceError, match=r"column `(offset|size)` has . rows and column `offset` has ."):
        nandu.Trace.table(ROWS | {"size": [4096] * 2}, time=None)
    for column in ({"op": ["read"] * 4}, {"offset": [0] * 4}, {"time_ns": numpy.arange(2)}):
        with pytest.raises(nandu.TraceError, match="all need the same number"):
            nandu.Trace.table({"time_ns": [0, 1, 2]} | ROWS | column)
    for data, right in (
        (LazyFrame(), r"a LazyFrame is not a table.*`collect\(\)`"),
        ([{"op": "read"}], r"a list is not a table.*`Trace.rows` takes rows"),
        (None, "None is not a table.*the Arrow C stream interface"),
        ({"op": "r", "offset": [0], "size": [512]}, "column `op`: a str is not a column"),
        ({"op": ["r"], "offset": numpy.array([0.5]), "size": [512]}, "column `offset`: .*cast them first"),
    ):
        with pytest.raises(nandu.TraceError, match=right):
            nandu.Trace.table(data, time=None)
    for rows, right in (
        ([(0, "read", 4096)], "row 0 has 3 values; a row is a time"),
        ([{"op": "read"}], "row 0: a dict is not a row; a row is a time"),
        (None, "None holds no rows; a row is a time"),
    ):
        with pytest.raises(nandu.TraceError, match=right):
            nandu.Trace.rows(rows)  # type: ignore[arg-type]
    with pytest.raises(nandu.InputError, match="unknown unit `h` of times; known are ns, us, ms, s"):
        times(0, 1, unit="h")


def test_what_a_table_changed_is_noted() -> None:
    rows = [(n, "write", 4096 * n + 100, 100) for n in range(100)]
    assert "rows: 100 requests widened to whole sectors of 512 B" in nandu.run("small-ssd", nandu.Trace.rows(rows), extend=0).notes
    assert any("100 requests widened" in note for note in nandu.compare("small-ssd", nandu.Trace.rows(rows), extend=0).notes)
    advice = nandu.advise(nandu.Trace.rows(rows), p99="10s", budget=2, extend=0)
    assert [note for note in advice.notes if "100 requests widened" in note] == ["rows: 100 requests widened to whole sectors of 512 B"]


def test_a_text_is_a_list_of_one(tmp_path: Path) -> None:
    axis: dict[str, Any] = {"axes": {"device.ssd.spare_factor": 0.1}, "allow_unsteady": True}
    one = nandu.sweep("small-ssd", zipf(500), fit="wrap", minimise="p99", bounds="waf<=100", metrics="p50", out=tmp_path, **axis)
    more = nandu.sweep("small-ssd", zipf(500), fit="wrap", minimise=["p99"], bounds=["waf<=100"], metrics=["p50"], from_=tmp_path, **axis)
    assert one.json == more.json
    assert nandu.mrc(zipf(500), "lru", 100).json == nandu.mrc(zipf(500), ["lru"], [100]).json
    assert nandu.mrc(zipf(500), "lru", "1MiB").json == nandu.mrc(zipf(500), ["lru"], ["1MiB"]).json
    assert list(nandu.compare("small-ssd", zipf(500), fit="wrap").results) == ["small-ssd"]
    with pytest.raises(nandu.InputError, match="`stacks` is empty"):
        nandu.compare([], zipf(500))
    load = nandu.Trace.generator("mixed-zipf", limit=500)
    assert nandu.advise(load, bounds="p99<=10 s", budget=2, extend=0).json == nandu.advise(load, bounds=["p99<=10 s"], budget=2, extend=0).json
    with pytest.raises(nandu.InputError, match="`p99`: .*2"):
        nandu.advise(load, p99=2)  # type: ignore[arg-type]


requests = st.lists(
    st.tuples(st.integers(0, 10**12), st.sampled_from(["read", "write", "trim"]), st.integers(0, 2**30), st.integers(1, 256)),
    min_size=1,
    max_size=50,
)


@settings(max_examples=60, deadline=None)
@given(requests)
def test_any_table_becomes_the_trace_that_it_says(rows: list[tuple[int, str, int, int]]) -> None:
    times, ops, sectors, sizes = zip(*rows, strict=True)
    table = nandu.Table({"t_ns": list(times), "what": list(ops), "at": [s * 512 for s in sectors], "len": [s * 512 for s in sizes]})
    trace = nandu.Trace.table(table, time="t_ns", op="what", offset="at", size="len").to_table().to_dict()
    want = sorted(rows, key=lambda row: row[0])
    assert trace["time_ns"] == [row[0] - want[0][0] for row in want]
    assert trace["op"] == [row[1] for row in want]
    assert trace["offset"] == [row[2] * 512 for row in want] and trace["size"] == [row[3] * 512 for row in want]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=300), st.integers(1, 50))
def test_lru_misses_what_a_plain_model_misses(blocks: list[int], size: int) -> None:
    columns = {"op": [0] * len(blocks), "offset": [4096 * block for block in blocks], "size": [4096] * len(blocks)}
    point = nandu.mrc(nandu.Trace.table(columns, time=None), ["lru"], [size])["points"][0]
    kept: OrderedDict[int, None] = OrderedDict()
    misses = 0
    for block in blocks:
        misses += block not in kept
        kept[block] = None
        kept.move_to_end(block)
        if len(kept) > size:
            kept.popitem(last=False)
    assert point["misses"] == misses


def test_a_stack_is_a_dict_a_text_or_a_file(tmp_path: Path) -> None:
    stack = nandu.Stack(MEMORY, {"device.cache.replacement": {"kind": "arc"}})
    assert stack.exports == {"data": 64 << 20}
    (tmp_path / "s.toml").write_text(stack.to_toml())
    again = nandu.Stack(tmp_path / "s.toml")
    assert again.label == "s" and again.to_toml() == stack.to_toml()
    one, two = (nandu.run(s, zipf(), fit="wrap", extend=0)["total"] for s in (stack, nandu.Stack.parse(stack.to_toml())))
    assert one == two
    assert nandu.run(stack.set("device.cache.replacement.kind", "lru"), zipf(), fit="wrap", extend=0)["total"] != one


def test_what_is_wrong_is_raised_with_its_place() -> None:
    with pytest.raises(nandu.StackError, match="did you mean") as raised:
        nandu.Stack("small-ssd").set("device.ssd.gc.kind", "greeedy")
    assert isinstance(raised.value, ValueError) and len(raised.value.problems) == 1
    with pytest.raises(nandu.InputError, match="`small-ssd`"):
        nandu.Stack("smal-ssd")
    with pytest.raises(nandu.TraceError, match="`1.5` is not a whole number"):
        nandu.run("small-ssd", nandu.Trace.generator("mixed-zipf", requests="1.5"))
    with pytest.raises(nandu.InputError, match="did you mean `iodepth`"):
        nandu.run("small-ssd", zipf(), io_depth=4)
    with pytest.raises(nandu.InputError, match="`rate_iops`: cannot be used with `iodepth`"):
        nandu.run("small-ssd", zipf(), iodepth=4, rate_iops=5)
    with pytest.raises(nandu.TraceError, match="unknown column `offset`"):
        nandu.Trace.table({"op": ["r"], "size": [512]}, time=None)
    with pytest.raises(nandu.TraceError, match="row 1: .*-512"):
        nandu.Trace.table({"op": [0, 1], "offset": [0, -512], "size": [512, 512]}, time=None)
    with pytest.raises(nandu.TraceError, match="unknown operation `x`"):
        nandu.Trace.table({"op": ["x"], "offset": [0], "size": [512]}, time=None)


def test_others_run_and_hear_of_progress_meanwhile() -> None:
    told: list[tuple[int, int, str]] = []
    counted, ended = [0], threading.Event()

    def count() -> None:
        while not ended.is_set():
            counted[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    load = nandu.Trace.generator("uniform", requests=400_000, space="16 MiB")
    try:
        nandu.run(MEMORY, load, iodepth=4, extend=0, progress=lambda *figures: told.append(figures))
    finally:
        ended.set()
        thread.join()
    assert counted[0] > 20 and len(told) > 1
    assert all(done <= total for done, total, what in told if what == "requests")


def test_an_interrupt_ends_a_run() -> None:
    program = (
        "import nandu\nload = nandu.Trace.generator('uniform', requests=3_000_000, space='16 MiB')\n"
        f"stack = nandu.Stack({MEMORY!r})\nprint('begun', flush=True)\n"
        "nandu.run(stack, load, iodepth=4, repeat=1000)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=20)
    assert "KeyboardInterrupt" in said and child.returncode != 0


def test_the_examples_of_the_help_hold() -> None:
    for name in ("nandu", "nandu._stack", "nandu._trace", "nandu._runs", "nandu.devices", "nandu.plots", "nandu.policies"):
        module = importlib.import_module(name)
        scope = {**vars(nandu), "nandu": nandu}
        assert doctest.testmod(module, extraglobs=scope).failed == 0, name


def test_the_command_is_the_program() -> None:
    def said(*words: str) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "-m", "nandu", *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    assert said("--version") == (0, f"nandu {nandu.__version__}\n")
    code, text = said("run", "no-such-stack")
    assert code == 2 and text.startswith("error: `no-such-stack` is neither a stack file")


def test_a_stack_is_built_of_classes() -> None:
    disk = devices.Memory(size="64 MiB", latency="1 ms", name="m")
    cache = devices.Cache(below=disk, size="1 MiB", prefetch=devices.CachePrefetch.None_(), replacement=devices.CacheReplacement.Lru())
    assert nandu.Stack(cache).to_toml() == nandu.Stack(MEMORY).to_toml()
    legs = [devices.Memory(size="16 MiB"), devices.Memory(size="16 MiB")]
    mirror = devices.Mirror(legs=legs, scrub=devices.MirrorScrub(rate="1 MiB"))
    text = nandu.Stack({"export": {"a": {"device": mirror}}, "device": {"left": legs[0]}}).to_toml()
    assert 'legs = ["left", "memory"]' in text and 'rate = "1 MiB"' in text
    changed = nandu.Stack("small-ssd").set("device.ssd.gc", devices.SsdGc(kind="greedy", copyback=True))
    assert "copyback = true" in changed.to_toml()
    with pytest.raises(nandu.StackError, match="did you mean `sieve`"):
        nandu.Stack(devices.Cache(below=disk, size="1 MiB", replacement="sive"))


def test_classes_of_devices_are_those_of_the_schema() -> None:
    writer = Path(__file__).parents[1] / "devices.py"
    written = subprocess.run([sys.executable, str(writer)], capture_output=True, text=True, check=True).stdout
    held = Path(nandu.__file__).with_name("devices.py").read_text()
    assert held == written, f"write it anew: python {writer} > crates/python/nandu/devices.py"


def test_each_class_of_a_device_is_one_that_stacks_know() -> None:
    known = {branch["properties"]["kind"]["const"] for branch in json.loads(nandu.schema())["properties"]["device"]["additionalProperties"]["oneOf"]}
    classes = {cls._kind: cls for cls in vars(devices).values() if isinstance(cls, type) and issubclass(cls, Device) and cls._kind}
    assert set(classes) == known

"""Figures for papers: what they show, how wide they are, and that their letters are in them."""

from __future__ import annotations

import re
import zlib
from pathlib import Path
from typing import Any

import nandu
import pytest
from nandu import plots


def along(line: Any) -> list[float]:
    """Where the points of a line stand, across."""
    return list(line.get_xdata())


def up(line: Any) -> list[float]:
    """And how high."""
    return list(line.get_ydata())


@pytest.fixture(scope="module")
def race() -> nandu.Race:
    load = nandu.Trace.generator("mixed-zipf", requests=3000)
    return nandu.compare({"7 % spare": "small-ssd", "28 % spare": "small-ssd-spare"}, load, fit="wrap", extend=0)


@pytest.fixture(scope="module")
def sweep() -> nandu.Sweep:
    axes: dict[str, Any] = {"device.ssd.spare_factor": [0.1, 0.2, 0.28], "device.ssd.gc.kind": ["greedy", "fifo"]}
    load = nandu.Trace.generator("mixed-zipf", requests=1500)
    return nandu.sweep("small-ssd", load, axes=axes, minimise="p99", maximise="iops", fit="wrap", extend=0, allow_unsteady=True)


@pytest.mark.parametrize("kind", plots.KINDS)
def test_runs_and_races_draw_themselves(race: nandu.Race, kind: str) -> None:
    figure = race.plot(kind)
    (axes,) = figure.axes
    assert axes.get_xlabel() + axes.get_ylabel()
    alone = race.results["7 % spare"].plot(kind, paper="acm", columns=2)
    assert alone.get_figwidth() == plots.width("acm", 2)
    if kind == "latency":
        labels = [line.get_label() for line in axes.get_lines()]
        assert labels == ["7 % spare", "28 % spare"]
        times, shares = plots.slower(race.results["7 % spare"])
        assert shares == sorted(shares, reverse=True) and shares[-1] == 0 and times == sorted(times)
    with pytest.raises(nandu.InputError, match="known are latency, percentiles, time, path"):
        race.plot("pie")


def test_a_share_above_a_time_is_that_of_the_requests() -> None:
    result = nandu.run("small-ssd", nandu.Trace.generator("mixed-zipf", requests=2000), fit="wrap", extend=0, log=True)
    assert result.requests is not None
    latencies = result.requests.to_dict()["latency_ns"]
    for bound, share in zip(*plots.slower(result), strict=True):
        assert share == pytest.approx(sum(latency > bound for latency in latencies) / 2000, abs=1e-9)


def test_sweeps_and_curves_draw_themselves(sweep: nandu.Sweep) -> None:
    (axes,) = sweep.plot().axes
    assert [line.get_label() for line in axes.get_lines()] == ["kind greedy", "kind fifo"]
    assert axes.get_ylabel() == "p99 (ms)" and along(axes.get_lines()[0]) == [0.1, 0.2, 0.28]
    first = [row["figures"][0] / 1e6 for row in sweep["rows"] if row["steps"][1] == "greedy"]
    assert up(axes.get_lines()[0]) == first
    (axes,) = sweep.plot(x="kind", y="iops").axes
    assert [text.get_text() for text in axes.get_xticklabels()] == ["greedy", "fifo"]
    with pytest.raises(nandu.InputError, match="unknown axis `gc`; known are spare_factor, kind"):
        sweep.plot(x="gc")
    curves = nandu.mrc(nandu.Trace.generator("mixed-zipf", requests=2000), ["lru", "arc"], [100, 400, 1600])
    (axes,) = curves.plot().axes
    assert [line.get_label() for line in axes.get_lines()] == ["lru", "arc"]
    assert up(axes.get_lines()[1]) == [p["miss_ratio"] for p in curves["points"] if p["policy"] == "arc"]


def test_figures_of_papers_are_drawn_as_they_were_measured() -> None:
    made = nandu.reproduce("hybrid-disk", requests=1000)
    titles = made.figures("hybrid-disk")
    assert "Mean read over the share of SLC" in titles
    for title, figure in titles.items():
        (axes,) = made.plot("hybrid-disk", title).axes
        drawn = [up(line) for line in axes.get_lines()]
        assert drawn == [[y for _, y in points] for _, points in figure["lines"]]


@pytest.mark.parametrize(
    ("text", "number"), [("0.1", 0.1), ("10%", 0.1), ("1 MiB", 1 << 20), ("1/4", 0.25), ("128KiB", 1 << 17), ("lru", None), ("", None)]
)
def test_steps_are_numbers_where_they_can_be(text: str, number: float | None) -> None:
    assert plots.number_of(text) == number


def test_letters_are_in_the_files_and_nothing_else_changes(race: nandu.Race, tmp_path: Path) -> None:
    for name in ("a.pdf", "a.svg", "b.pdf", "b.svg"):
        race.plot(file=tmp_path / name)
    for ending in ("pdf", "svg"):
        one, two = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
        assert one == two
    pdf = (tmp_path / "a.pdf").read_bytes()
    # TrueType, with the file of each font in it, and none of Type 3.
    assert pdf.count(b"/FontFile2") >= 1 and b"/Subtype /Type3" not in pdf and b"/CreationDate" not in pdf
    box = re.search(rb"/MediaBox \[ 0 0 ([0-9.]+) ", pdf)
    assert box is not None and float(box[1]) / 72 == pytest.approx(plots.width("usenix"), abs=0.01)
    assert any(b"BT" in zlib.decompress(stream) for stream in re.findall(rb"stream\n(.*?)\nendstream", pdf, re.S) if stream[:1] == b"x")
    svg = (tmp_path / "a.svg").read_text()
    # Letters are outlines.
    assert "<text" not in svg and "font-family" not in svg and "<path" in svg

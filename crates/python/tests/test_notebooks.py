"""Charts and notebooks, the gallery, numba, and bars of progress in notebooks: what needs the large libraries."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nandu
import numpy
import own_policies
import pytest
from nandu import _progress, charts
from nandu.policies import Compiled, Room

pytestmark = pytest.mark.large

EXAMPLES = Path(__file__).parents[3] / "examples"
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.py"))


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = made
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_its_first_cell_to_its_last(path: Path) -> None:
    outputs, defined = module(path).app.run()
    shown = [output for output in outputs if output is not None]
    assert len(shown) > 2
    wanted = {"cache_size": "enough", "first_race": "race", "full_drive": "results", "own_policy": "found", "slc_share": "claims"}
    made = defined[wanted[path.stem]]
    if path.stem == "cache_size":
        assert 0 < made["miss_ratio"] < 1
    if path.stem == "full_drive":
        new, full = (made[name]["waf"] for name in ("new", "full"))
        assert new == 1 < full
    if path.stem == "own_policy":
        assert made.ok
    if path.stem == "first_race":
        p99 = [row["result"]["total"]["lat_ns"]["percentile"]["99.000000"] for row in made["stacks"]]
        assert p99[0] > p99[2]


def test_what_the_page_shows_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (EXAMPLES.parent / "docs" / "how-to" / "python.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    assert len(blocks) == 5
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for block in blocks:
        # No cluster is there by that name; test_cluster.py has one.
        if "tcp://" not in block:
            exec(compile(block.replace("50_000", "5_000"), "python.md", "exec"), scope)
    assert (tmp_path / "path.pdf").is_file() and (tmp_path / "misses.svg").is_file() and scope["stack"].exports


def test_charts_are_what_altair_draws(tmp_path: Path) -> None:
    load = nandu.Trace.generator("mixed-zipf", requests=1500)
    race = nandu.compare({"a": "small-ssd", "b": "small-ssd-spare"}, load, fit="wrap", extend=0)
    drawn = [race.chart(kind) for kind in charts.KINDS] + [race.results["a"].chart(kind) for kind in charts.KINDS]
    axes: dict[str, Any] = {"device.ssd.spare_factor": [0.1, 0.2], "device.ssd.gc.kind": ["greedy", "fifo"]}
    sweep = nandu.sweep("small-ssd", load, axes=axes, minimise=["p99.9", "waf"], fit="wrap", extend=0, allow_unsteady=True)
    drawn += [sweep.chart(), sweep.chart(x="spare_factor", y="waf"), nandu.mrc(load, ["lru", "arc"], [10, 100]).chart()]
    made = nandu.reproduce("hybrid-disk", requests=1000)
    drawn += [made.chart("hybrid-disk", title) for title in made.figures("hybrid-disk")]
    for number, chart in enumerate(drawn):
        # The schema holds when it is written; a picture comes only where the data fit.
        chart.save(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 3000
        assert chart.to_dict()["data"]["values"]
    with pytest.raises(nandu.InputError, match="known are latency"):
        race.chart("pie")
    with pytest.raises(nandu.InputError, match="unknown axis or metric `gc`"):
        sweep.chart(x="gc")


def test_the_gallery_has_the_figures_of_a_paper(tmp_path: Path) -> None:
    pictures = module(EXAMPLES / "python" / "gallery.py").draw("hybrid-disk", tmp_path, 1000)
    assert len(pictures) > 3
    for picture in pictures:
        assert all(picture.with_suffix(ending).stat().st_size > 3000 for ending in (".png", ".pdf", ".svg"))


def test_bars_of_notebooks_are_shown_and_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, html: str) -> None:
            shown.append(html)

    bar = _progress._Jupyter(lambda html, display_id: Handle(), lambda text: text)
    for done in range(0, 1001, 5):
        bar.show(done, 1000, "requests")
    bar.ends()
    assert len(shown) == 102 and 'value="50"' in shown[50] and shown[-1] == ""

    import marimo

    told: list[int] = []

    class Bar:
        def __init__(self, **how: Any) -> None:
            assert how["total"] == 100 and how["remove_on_exit"]

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *why: object) -> None:
            told.append(-1)

        def update(self, increment: int) -> None:
            told.append(increment)

    monkeypatch.setattr(marimo, "running_in_notebook", lambda: True)
    monkeypatch.setattr(marimo.status, "progress_bar", Bar)
    nandu.run("small-ssd", nandu.Trace.generator("mixed-zipf", requests=100_000), fit="wrap", iodepth=4, extend=0, progress=True)
    # A bar for each kind of work, and each is gone at the end.
    bars = " ".join(map(str, told)).split("-1")
    assert bars.pop() == "" and 0 < len(bars) < 4
    assert all(sum(map(int, bar.split())) <= 100 for bar in bars)


def test_a_policy_of_numba_is_fifo() -> None:
    import numba

    nb: Any = numba
    carray, cfunc, types = nb.carray, nb.cfunc, nb.types
    void, state_t, place_t, line_t = types.void, types.CPointer(types.int64), types.uint32, types.uint64

    @cfunc(void(state_t, place_t, line_t, place_t))  # type: ignore[untyped-decorator, unused-ignore]
    def insert(state: Any, place: Any, line: Any, recall: Any) -> None:
        ring = carray(state, 3)
        queue = carray(state, ring[2] + 3)
        queue[3 + ring[1] % ring[2]] = place
        ring[1] += 1

    @cfunc(types.int64(state_t))  # type: ignore[untyped-decorator, unused-ignore]
    def victim(state: Any) -> Any:
        ring = carray(state, 3)
        queue = carray(state, ring[2] + 3)
        place = queue[3 + ring[0] % ring[2]]
        ring[0] += 1
        return place

    @cfunc(void(state_t, place_t))  # type: ignore[untyped-decorator, unused-ignore]
    def remove(state: Any, place: Any) -> None:
        pass

    @nandu.register("numba-fifo")
    class Fifo(nandu.Replacement):
        def __init__(self, room: Room) -> None:
            # First, end, and room of a ring of places behind them.
            self.ring = numpy.zeros(3 + room.blocks, "i8")
            self.ring[2] = room.blocks

        def compiled(self) -> Compiled:
            return Compiled(self.ring.ctypes.data, insert.address, victim.address, remove.address)

    @nandu.register("plain-fifo")
    class Plain(nandu.Replacement):
        def __init__(self, room: Room) -> None:
            self.lines_: dict[int, None] = {}

        def insert(self, line: int, arrival: Any) -> None:
            self.lines_[line] = None

        def victim(self, incoming: Any) -> int:
            line = next(iter(self.lines_))
            del self.lines_[line]
            return line

        def remove(self, line: int) -> None:
            del self.lines_[line]

    try:
        points = nandu.mrc(nandu.Trace.generator("mixed-zipf", requests=5000), ["numba-fifo", "plain-fifo"], [10, 100, 1000])["points"]
    finally:
        # They are enough for a curve, from which nothing is removed; other tests draw what is registered.
        for name in ("numba-fifo", "plain-fifo"):
            nandu.register(name)(own_policies.Lru)
    misses = {name: [p["misses"] for p in points if p["policy"] == name] for name in ("numba-fifo", "plain-fifo")}
    assert misses["numba-fifo"] == misses["plain-fifo"]

"""Figures for papers, by matplotlib: `pip install 'nandu[plot]'`.

Results draw themselves: `result.plot()` returns a figure of matplotlib, `result.plot(file="latency.pdf")` writes it too. A figure is as wide as
a column of the paper (`paper="usenix"` or `"acm"`, `columns=2` for both columns), its letters are those of the paper's size, and lines are told
apart by colour, dash and mark, so that print in grey is readable. PDF and SVG carry their letters with them, and the same figure is the same bytes.

>>> import nandu.plots
>>> nandu.plots.width("usenix"), nandu.plots.width("acm", columns=2)
(3.335, 7.006)
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from nandu._errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nandu._results import Curves, Result, Sweep

WIDTHS = {"usenix": (3.335, 7.0), "acm": (3.337, 7.006)}
"""Inches of one column and of two: the style of USENIX has 7 in with 0.33 in between, `acmart` in two columns has 241.147 pt and 506.295 pt."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d31")
"""Colours that people who see red and green alike tell apart (Okabe and Ito)."""
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.5, 1.2, 1.5)))
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oooo")

RC: dict[str, Any] = {
    "font.family": "serif",
    "font.serif": ["STIXGeneral", "DejaVu Serif"],
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "hatch.linewidth": 0.4,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.minor.width": 0.4,
    "ytick.minor.width": 0.4,
    "axes.grid": True,
    "grid.color": "#d8d8d8",
    "grid.linewidth": 0.4,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "figure.dpi": 150,
    "savefig.dpi": 300,
    # Letters as TrueType in PDF, and as outlines in SVG: whoever opens them needs no font.
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    # The same figure is the same bytes.
    "svg.hashsalt": "nandu",
}


def width(paper: str = "usenix", columns: int = 1) -> float:
    """Inches of one or two columns of a paper."""
    if paper not in WIDTHS:
        raise InputError(f"unknown paper `{paper}`; known are {', '.join(WIDTHS)}")
    if columns not in (1, 2):
        raise InputError(f"`columns` = {columns}; right is 1 or 2")
    return WIDTHS[paper][columns - 1]


@contextmanager
def style() -> Iterator[None]:
    """The look of these figures, for figures of your own: what is drawn and saved within."""
    matplotlib = _matplotlib()
    with matplotlib.rc_context({key: value for key, value in RC.items() if key in matplotlib.rcParams}):
        yield


def save(figure: Figure, file: str | os.PathLike[str]) -> None:
    """Writes a figure in the format that the name ends with, with its letters in it and without a date."""
    dates: dict[str, dict[str, None]] = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}}
    ending = os.path.splitext(os.fspath(file))[1].lower()
    with style():
        figure.savefig(file, metadata=dates.get(ending))


def _matplotlib() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise InputError("figures need matplotlib: pip install 'nandu[plot]'") from None
    return matplotlib


class Canvas:
    """A figure with one pair of axes, until it is drawn."""

    def __init__(self, paper: str, columns: int, height: float | None, file: str | os.PathLike[str] | None) -> None:
        _matplotlib()
        from matplotlib.figure import Figure as Made

        wide = width(paper, columns)
        self.file = file
        self.figure: Figure = Made(figsize=(wide, height or min(0.62 * wide, 2.6)), layout="constrained")
        self.axes: Axes = self.figure.add_subplot()

    def from_zero(self) -> None:
        """Heights begin at zero."""
        most = self.axes.dataLim.y1
        self.axes.set_ylim(0, 1.06 * most if most > 0 else 1)

    def done(self, legend: int = 0) -> Figure:
        """The figure, with a legend over the axes where there are several things to tell apart; each further row of it makes the figure taller."""
        if legend > 1:
            handles, labels = self.axes.get_legend_handles_labels()
            wide, tall = self.figure.get_size_inches()
            across = _across(labels, wide)
            rows = -(-len(labels) // across)
            self.figure.set_size_inches(wide, tall + 0.145 * (rows - 1))
            self.figure.legend(handles, labels, loc="outside upper left", ncols=across, columnspacing=1.2, borderaxespad=0.2)
        self.axes.set_ylabel(textwrap.fill(self.axes.get_ylabel(), 26))
        if self.file is not None:
            save(self.figure, self.file)
        return self.figure


def _across(labels: Sequence[str], wide: float) -> int:
    """How many labels go beside each other: a letter takes about 0.05 in, a line and its gaps 0.45."""
    longest = max(map(len, labels))
    return max(1, min(len(labels), int(wide / (0.05 * longest + 0.45))))


def _line(number: int) -> dict[str, Any]:
    # Where colours begin again, dashes and marks do not.
    turn = number // len(COLOURS)
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[(number + turn) % len(DASHES)]}


def _marked(number: int) -> dict[str, Any]:
    return {**_line(number), "marker": MARKS[(number + 3 * (number // len(COLOURS))) % len(MARKS)]}


TIMES = ((1, "ns"), (1_000, "us"), (1_000_000, "ms"), (1_000_000_000, "s"))
"""Units of time in ns."""


def unit_of(ns: Iterable[float]) -> tuple[int, str]:
    """The unit that suits these times."""
    most = max(ns, default=0)
    return next(((scale, unit) for scale, unit in reversed(TIMES) if most >= scale), TIMES[0])


def slower(result: Result) -> tuple[list[float], list[float]]:
    """Latencies in ns and the share of the requests that took longer."""
    bins = result["histogram"]
    total = sum(requests for _, requests in bins)
    left, times, shares = total, [], []
    for bound, requests in bins:
        left -= requests
        times.append(bound)
        shares.append(left / total if total else 0.0)
    return times, shares


def latency_of(result: Result, name: str) -> float:
    """A latency in ns: `mean`, `max` or the key of a percentile."""
    times = result["total"]["lat_ns"]
    return float(times["percentile"].get(name, times.get(name, 0)))


def latency(results: Mapping[str, Result], **of: Any) -> Figure:
    """The share of the requests that took longer, by time."""
    with style():
        canvas = Canvas(**of)
        axes = canvas.axes
        drawn = {label: slower(result) for label, result in results.items()}
        scale, unit = unit_of(latency_of(result, "99.000000") for result in results.values())
        least = min((1 / max(result["total"]["total_ios"], 1) for result in results.values()), default=1)
        for number, (label, (times, shares)) in enumerate(drawn.items()):
            seen = [(time / scale, share) for time, share in zip(times, shares, strict=True) if share > 0]
            axes.plot([x for x, _ in seen], [y for _, y in seen], label=label, drawstyle="steps-post", **_line(number))
        axes.set(xscale="log", yscale="log", xlabel=f"Latency ({unit})", ylabel="Share of requests above")
        axes.set_ylim(least / 1.5, 1.5)
        return canvas.done(len(drawn))


PERCENTILES = {"mean": "mean", "50.000000": "p50", "99.000000": "p99", "99.900000": "p99.9", "max": "max"}


def percentiles(results: Mapping[str, Result], **of: Any) -> Figure:
    """Mean, percentiles and the longest latency, side by side."""
    with style():
        canvas = Canvas(**of)
        axes = canvas.axes
        scale, unit = unit_of(latency_of(result, "99.000000") for result in results.values())
        across = 0.8 / max(len(results), 1)
        for number, (label, result) in enumerate(results.items()):
            places = [place - 0.4 + across * (number + 0.5) for place in range(len(PERCENTILES))]
            heights = [latency_of(result, name) / scale for name in PERCENTILES]
            look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "hatch": HATCHES[number % len(HATCHES)]}
            axes.bar(places, heights, across, label=label, edgecolor="white", linewidth=0.3, **look)
        axes.set_xticks(range(len(PERCENTILES)), list(PERCENTILES.values()))
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        axes.set(yscale="log", ylabel=f"Latency ({unit})")
        return canvas.done(len(results))


def time(results: Mapping[str, Result], **of: Any) -> Figure:
    """Mean latency over the time of the run."""
    with style():
        canvas = Canvas(**of)
        axes = canvas.axes
        parts = {label: [w for w in result["intervals"] if w["requests"]] for label, result in results.items()}
        scale, unit = unit_of(w["latency_mean_ns"] for all_ in parts.values() for w in all_)
        long, of_long = unit_of(w["start_ns"] for all_ in parts.values() for w in all_)
        for number, (label, all_) in enumerate(parts.items()):
            starts = [w["start_ns"] / long for w in all_]
            axes.plot(starts, [w["latency_mean_ns"] / scale for w in all_], label=label, **_line(number))
        axes.set(xlabel=f"Time ({of_long})", ylabel=f"Mean latency ({unit})")
        axes.set_xlim(left=0)
        canvas.from_zero()
        return canvas.done(len(parts))


def path(results: Mapping[str, Result], **of: Any) -> Figure:
    """Where the mean request spends its time."""
    with style():
        tall = 0.55 + 0.26 * len(results)
        canvas = Canvas(**{**of, "height": of["height"] or tall + 0.35})
        axes = canvas.axes
        paths = {label: result["total"]["latency_breakdown_ns"] for label, result in results.items()}
        phases: dict[str, int] = {}
        for parts in paths.values():
            for phase, ns in parts.items():
                phases[phase] = phases.get(phase, 0) + ns
        order = sorted((phase for phase, ns in phases.items() if ns), key=lambda phase: (-phases[phase], phase))
        scale, unit = unit_of(sum(parts.values()) for parts in paths.values())
        begun = [0.0] * len(paths)
        rows = range(len(paths))
        for number, phase in enumerate(order):
            widths = [parts.get(phase, 0) / scale for parts in paths.values()]
            look: dict[str, Any] = {"color": COLOURS[number % len(COLOURS)], "hatch": HATCHES[number % len(HATCHES)]}
            axes.barh(rows, widths, 0.66, begun, label=phase.replace("_", " "), edgecolor="white", linewidth=0.3, **look)
            begun = [a + b for a, b in zip(begun, widths, strict=True)]
        axes.set_yticks(rows, list(paths))
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False, axis="y")
        axes.set(xlabel=f"Mean time of a request ({unit})")
        return canvas.done(len(order))


KINDS = {"latency": latency, "percentiles": percentiles, "time": time, "path": path}
"""What can be drawn of a run or a race."""


def drawn(kind: str, results: Mapping[str, Result], **of: Any) -> Figure:
    """A figure of this kind."""
    if kind not in KINDS:
        raise InputError(f"unknown figure `{kind}`; known are {', '.join(KINDS)}")
    return KINDS[kind](results, **of)


def curves(of_policies: Curves, **of: Any) -> Figure:
    """Miss ratios by size of the cache."""
    with style():
        canvas = Canvas(**of)
        axes = canvas.axes
        lines: dict[str, list[tuple[float, float]]] = {}
        for point in of_policies["points"]:
            lines.setdefault(point["policy"], []).append((point["bytes"] / (1 << 20), point["miss_ratio"]))
        for number, (policy, points) in enumerate(lines.items()):
            axes.plot([x for x, _ in points], [y for _, y in points], label=policy, **_marked(number))
        axes.set(xlabel="Cache (MiB)", ylabel="Miss ratio")
        _log(axes, sorted({x for points in lines.values() for x, _ in points}))
        canvas.from_zero()
        return canvas.done(len(lines))


def number_of(step: str) -> float | None:
    """A step of an axis as a number, where it is one: a share as per cent, a size in bytes."""
    text = step.replace("_", "").strip()
    units = {
        "B": 1,
        "KiB": 1 << 10,
        "MiB": 1 << 20,
        "GiB": 1 << 30,
        "TiB": 1 << 40,
        "kB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "%": 0.01,
        "": 1,
    }
    digits = text.rstrip("BKMGTikb% ")
    factor = units.get(text[len(digits) :].strip())
    try:
        above, _, below = digits.partition("/")
        value = float(above) / float(below or 1)
    except ValueError:
        return None
    return None if factor is None else value * factor


def scaled(figure: float | None, unit: str) -> float | None:
    """A figure of a sweep as it is drawn: times in ms."""
    if figure is None:
        return None
    return figure / {"ns": 1e6}.get(unit, 1)


def shown(unit: str) -> str:
    """How the unit of such a figure is called."""
    return {"ns": "ms", "1": ""}.get(unit, unit)


def sweep(of_points: Sweep, x: str | None = None, y: str | None = None, **of: Any) -> Figure:
    """A figure over an axis, a line for each step of the others."""
    names = list(of_points["axes"])
    columns = {column["name"]: column["unit"] for column in of_points["columns"]}
    along, up = x or names[0], y or next(iter(columns))
    if along not in names:
        raise InputError(f"unknown axis `{along}`; known are {', '.join(names)}")
    if up not in columns:
        raise InputError(f"unknown metric `{up}` in the sweep; known are {', '.join(columns)}")
    place, column, unit = names.index(along), list(columns).index(up), columns[up]
    lines: dict[str, list[tuple[str, float]]] = {}
    for row in of_points["rows"]:
        others = ", ".join(f"{name} {step}" for name, step in zip(names, row["steps"], strict=True) if name != along)
        value = scaled(row["figures"][column], unit)
        if value is not None:
            lines.setdefault(others, []).append((row["steps"][place], value))
    steps = list(dict.fromkeys(step for points in lines.values() for step, _ in points))
    values = [value for value in map(number_of, steps) if value is not None]
    if numbers := len(values) == len(steps):
        places = dict(zip(steps, values, strict=True))
    else:
        places = {step: float(place) for place, step in enumerate(steps)}
    with style():
        canvas = Canvas(**of)
        axes = canvas.axes
        for number, (label, points) in enumerate(lines.items()):
            axes.plot([places[step] for step, _ in points], [value for _, value in points], label=label, **_marked(number))
        ticks = list(places.values())
        wide = numbers and min(ticks) > 0 and max(ticks) / min(ticks) > 30
        if wide:
            axes.set_xscale("log")
        if wide or not numbers or len(ticks) <= 8:
            axes.set_xticks(ticks, steps)
            axes.minorticks_off()
        axes.set(xlabel=along.replace("_", " "), ylabel=f"{up} ({shown(unit)})" if shown(unit) else up)
        canvas.from_zero()
        return canvas.done(len(lines))


def of_paper(figure: Mapping[str, Any], **of: Any) -> Figure:
    """A figure of a paper, as it was measured."""
    with style():
        canvas = Canvas(**of)
        axes = canvas.axes
        lines = [(label, points) for label, points in figure["lines"] if points]
        bars = figure["shape"] == "bars"
        for number, (label, points) in enumerate(lines):
            xs, ys = [p[0] for p in points], [p[1] for p in points]
            if bars:
                across = 0.8 / len(lines)
                axes.bar([x - 0.4 + across * (number + 0.5) for x in xs], ys, across, label=label, color=COLOURS[number % len(COLOURS)])
            elif len(points) > 40:
                axes.plot(xs, ys, label=label, **_line(number))
            else:
                axes.plot(xs, ys, label=label, **_marked(number))
        if figure["shape"] == "log":
            _log(axes, sorted({p[0] for _, points in lines for p in points}))
        up = figure["y"]
        axes.set(xlabel=figure["x"].replace(" (log scale)", ""), ylabel=up)
        heights = [p[1] for _, points in lines for p in points]
        # What differs by little is shown from near by.
        if not bars and heights and 0 <= min(heights) < 0.7 * max(heights):
            canvas.from_zero()
        return canvas.done(len(lines))


def _log(axes: Axes, places: list[float]) -> None:
    """Places on a scale of powers; a few of them are named, each as it is."""
    if places and places[0] > 0 and places[-1] / places[0] >= 8:
        axes.set_xscale("log")
        axes.minorticks_off()
    if len(places) <= 40:
        named = _apart(places, axes.get_xscale() == "log")
        axes.set_xticks(named, [f"{place:.3g}" if place < 1000 else f"{place:.0f}" for place in named])


def _apart(places: list[float], powers: bool) -> list[float]:
    """Those of the places, in order, that lie far enough apart for a number below each."""
    at = [math.log(place) if powers else place for place in places]
    least = (at[-1] - at[0]) / 8.5
    kept: list[int] = []
    for n, here in enumerate(at):
        if not kept or here - at[kept[-1]] >= least:
            kept.append(n)
    return [places[n] for n in kept]

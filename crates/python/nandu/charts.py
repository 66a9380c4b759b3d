"""Charts for notebooks, by Altair: `pip install 'nandu[notebook]'`.

Results draw themselves: `result.chart()` returns a chart of Altair that shows what is under the pointer, and can be changed as any other:
`race.chart().properties(width=700)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nandu import plots
from nandu._errors import InputError

if TYPE_CHECKING:
    from nandu._results import Curves, Result, Sweep

Chart = Any
"""`altair.Chart`."""
SIZE = {"width": 440, "height": 240}


def _altair() -> Any:
    try:
        import altair
    except ImportError:
        raise InputError("charts need Altair: pip install 'nandu[notebook]'") from None
    return altair


def _colour(name: str, title: str | None = None) -> Any:
    alt = _altair()
    return alt.Color(f"{name}:N", title=title, sort=None, scale=alt.Scale(range=list(plots.COLOURS)))


def _chart(rows: list[dict[str, Any]]) -> Any:
    alt = _altair()
    return alt.Chart(alt.Data(values=rows)).properties(**SIZE)


def latency(results: Mapping[str, Result]) -> Chart:
    """The share of the requests that took longer, by time."""
    alt = _altair()
    rows = []
    for label, result in results.items():
        rows += [{"stack": label, "ms": time / 1e6, "above": share} for time, share in zip(*plots.slower(result), strict=True) if share > 0]
    return (
        _chart(rows)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("ms:Q", title="latency, ms", scale=alt.Scale(type="log", nice=False)),
            y=alt.Y("above:Q", title="share of requests above", scale=alt.Scale(type="log"), axis=alt.Axis(format="~e")),
            color=_colour("stack"),
            tooltip=["stack:N", alt.Tooltip("ms:Q", format=".3~s"), alt.Tooltip("above:Q", format=".3~%")],
        )
    )


def percentiles(results: Mapping[str, Result]) -> Chart:
    """Mean, percentiles and the longest latency, side by side."""
    alt = _altair()
    rows = [
        {"stack": label, "figure": word, "ms": plots.latency_of(result, name) / 1e6}
        for label, result in results.items()
        for name, word in plots.PERCENTILES.items()
    ]
    return (
        _chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("figure:N", title=None, sort=None, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("stack:N", sort=None),
            y=alt.Y("ms:Q", title="latency, ms (root scale)", scale=alt.Scale(type="sqrt")),
            color=_colour("stack"),
            tooltip=["stack:N", "figure:N", alt.Tooltip("ms:Q", format=".3~s")],
        )
    )


def time(results: Mapping[str, Result]) -> Chart:
    """Mean latency over the time of the run."""
    alt = _altair()
    rows = [
        {"stack": label, "s": part["start_ns"] / 1e9, "ms": part["latency_mean_ns"] / 1e6, "longest": part["latency_max_ns"] / 1e6}
        for label, result in results.items()
        for part in result["intervals"]
        if part["requests"]
    ]
    return (
        _chart(rows)
        .mark_line()
        .encode(
            x=alt.X("s:Q", title="time, s"),
            y=alt.Y("ms:Q", title="mean latency, ms"),
            color=_colour("stack"),
            tooltip=["stack:N", "s:Q", alt.Tooltip("ms:Q", format=".3~s"), alt.Tooltip("longest:Q", format=".3~s")],
        )
    )


def path(results: Mapping[str, Result]) -> Chart:
    """Where the mean request spends its time."""
    alt = _altair()
    rows = [
        {"stack": label, "phase": phase.replace("_", " "), "ms": ns / 1e6}
        for label, result in results.items()
        for phase, ns in result["total"]["latency_breakdown_ns"].items()
        if ns
    ]
    return (
        _chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("ms:Q", title="mean time of a request, ms", stack="zero"),
            y=alt.Y("stack:N", title=None, sort=None),
            color=_colour("phase"),
            tooltip=["stack:N", "phase:N", alt.Tooltip("ms:Q", format=".3~s")],
        )
        .properties(height=40 * max(len(results), 2))
    )


KINDS = {"latency": latency, "percentiles": percentiles, "time": time, "path": path}
"""What can be drawn of a run or a race."""


def drawn(kind: str, results: Mapping[str, Result]) -> Chart:
    """A chart of this kind."""
    if kind not in KINDS:
        raise InputError(f"unknown chart `{kind}`; known are {', '.join(KINDS)}")
    return KINDS[kind](results)


def curves(of_policies: Curves) -> Chart:
    """Miss ratios by size of the cache."""
    alt = _altair()
    rows = [{"policy": p["policy"], "mib": p["bytes"] / (1 << 20), "ratio": p["miss_ratio"]} for p in of_policies["points"]]
    return (
        _chart(rows)
        .mark_line(point=True)
        .encode(
            x=alt.X("mib:Q", title="cache, MiB", scale=alt.Scale(type="log", nice=False)),
            y=alt.Y("ratio:Q", title="miss ratio", scale=alt.Scale(zero=True)),
            color=_colour("policy"),
            tooltip=["policy:N", alt.Tooltip("mib:Q", format=".3~s"), alt.Tooltip("ratio:Q", format=".4f")],
        )
    )


def sweep(of_points: Sweep, x: str | None = None, y: str | None = None) -> Chart:
    """Two figures of every point against each other where the sweep has two, else its figure over the first axis; the best is marked."""
    alt = _altair()
    columns = {column["name"]: column["unit"] for column in of_points["columns"]}
    names, figures = list(of_points["axes"]), list(columns)
    along = x or (figures[1] if len(figures) > 1 else names[0])
    up = y or figures[0]
    for name in (along, up):
        if name not in [*names, *figures]:
            raise InputError(f"unknown axis or metric `{name}`; known are {', '.join([*names, *figures])}")
    rows = []
    for row in of_points["rows"]:
        cells = dict(zip(names, row["steps"], strict=True))
        cells |= {name: plots.scaled(value, columns[name]) for name, value in zip(figures, row["figures"], strict=True)}
        standing = (
            "best" if row["point"] == of_points["best"] else "front" if row["front"] else "meets the bounds" if row["meets"] else "misses a bound"
        )
        rows.append({**cells, "point": row["point"], "standing": standing})

    def axis(name: str) -> dict[str, Any]:
        kind = "Q" if name in columns else "N"
        unit = plots.shown(columns.get(name, ""))
        # A dot in a name is no path.
        return {"shorthand": name.replace(".", "\\.") + f":{kind}", "title": f"{name}, {unit}" if unit else name}

    return (
        _chart(rows)
        .mark_point(filled=True, size=70)
        .encode(
            x=alt.X(**axis(along)) if along in columns else alt.X(**axis(along), sort=None),
            y=alt.Y(**axis(up)),
            color=_colour("standing"),
            shape=alt.Shape("standing:N", title=None, sort=None),
            tooltip=[
                alt.Tooltip(field=name.replace(".", "\\."), type="quantitative" if name in columns else "nominal", title=name)
                for name in ["point", *names, *figures, "standing"]
            ],
        )
    )


def of_paper(figure: Mapping[str, Any]) -> Chart:
    """A figure of a paper, as it was measured."""
    alt = _altair()
    rows = [{"line": label, "x": x, "y": y} for label, points in figure["lines"] for x, y in points]
    scale = alt.Scale(type="log") if figure["shape"] == "log" and rows and min(row["x"] for row in rows) > 0 else alt.Scale(zero=False)
    chart = _chart(rows).properties(title=figure["title"])
    chart = chart.mark_bar() if figure["shape"] == "bars" else chart.mark_line(point=len(rows) < 200)
    return chart.encode(
        x=alt.X("x:Q", title=figure["x"], scale=scale), y=alt.Y("y:Q", title=figure["y"]), color=_colour("line"), tooltip=["line:N", "x:Q", "y:Q"]
    )

"""What runs return: the record that the command prints as JSON, and tables of its parts."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from nandu import charts, plots
from nandu._nandu import Table, present_field
from nandu._stack import Stack

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def table_of(rows: Iterable[Mapping[str, Any]]) -> Table:
    """Rows as a table; what a row does not have, or what is no single value, is missing."""
    rows = list(rows)
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(key for key, value in row.items() if not isinstance(value, (list, dict))))
    return Table({name: [row.get(name) for row in rows] for name in names})


class Record(Mapping[str, Any]):
    """A record with the fields of the command's JSON, each in the unit that its name ends with."""

    def __init__(self, text: str, said: list[tuple[bool, str]]) -> None:
        self.json = text
        """What the command prints with `--json`."""
        self.notes = [text for serious, text in said if not serious]
        """What is worth knowing."""
        self.warnings = [text for serious, text in said if serious]
        """What changes what the figures mean."""

    @cached_property
    def _fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.json)
        return fields

    def __getitem__(self, key: str) -> Any:
        if key not in self._fields and (new := present_field(key)) is not None:
            raise KeyError(f"`{key}` is now called `{new}`")
        return self._fields[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


DIRECTIONS = ("total", "read", "write", "trim", "flush")
"""What a result tells of: all requests, and those of each direction."""


def latencies(direction: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a direction as one row: `p99_ns` for the percentile `99.000000` of `lat_ns`."""
    row = {name: value for name, value in direction.items() if not isinstance(value, dict)}
    times = direction["lat_ns"]
    row |= {f"{name}_ns": times[name] for name in ("min", "mean", "stddev")}
    row |= {f"p{float(key):g}_ns": value for key, value in times["percentile"].items()}
    return row | {"max_ns": times["max"]}


class Result(Record):
    """What a run measured; `result["total"]["lat_ns"]["percentile"]["99.000000"]`."""

    def __init__(self, text: str, said: list[tuple[bool, str]], label: str = "", requests: Table | None = None) -> None:
        super().__init__(text, said)
        self.label = label
        """The name of the stack."""
        self.requests = requests
        """A row for each request with its critical path, where the run was asked for its log."""

    @property
    def percentiles(self) -> Table:
        """A row for all requests and for each direction: counts, mean, percentiles."""
        return table_of({"direction": name, **latencies(self[name])} for name in DIRECTIONS)

    @property
    def intervals(self) -> Table:
        """The run over time."""
        return table_of(self["intervals"])

    @property
    def windows(self) -> Table:
        """The name of `intervals` in the version before."""
        warnings.warn("`windows` is now called `intervals`; the old name goes with the next version", DeprecationWarning, stacklevel=2)
        return self.intervals

    @property
    def histogram(self) -> Table:
        """Latencies of reads and writes: the upper bound of each bin, and requests in it."""
        bins = self["histogram"]
        return Table({"latency_ns": [b[0] for b in bins], "requests": [b[1] for b in bins]})

    @property
    def layers(self) -> Table:
        """A row for each device, children first."""
        return table_of({**layer, "requests": sum(layer["requests"].values()), "bytes": sum(layer["bytes"].values())} for layer in self["layers"])

    @property
    def counters(self) -> Table:
        """What each device counts."""
        return table_of(
            {"layer": layer["name"], "counter": name, "value": value} for layer in self["layers"] for name, value in layer["counters"].items()
        )

    @property
    def tenants(self) -> Table:
        """A row for each tenant: its requests, and what it used of the devices."""
        return table_of({"tenant": t["name"], **latencies(t["total"]), **t["device"]} for t in self["tenants"])

    @property
    def wear(self) -> Table:
        """A row for each region of flash: erases and how long it lasts."""
        lifetime = self["lifetime"] or {"regions": []}
        return table_of(lifetime["regions"])

    def plot(
        self,
        kind: str = "latency",
        *,
        paper: str = "usenix",
        columns: int = 1,
        height: float | None = None,
        file: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """A figure for a paper: `latency` (the share of the requests that took longer), `percentiles`, `time` or `path` (where the mean request
        spends its time). It is as wide as so many columns of the `paper`, and written to `file` where one is named: see `nandu.plots`."""
        return plots.drawn(kind, {self.label or "requests": self}, paper=paper, columns=columns, height=height, file=file)

    def chart(self, kind: str = "latency") -> Any:
        """The same kinds as a chart for notebooks: see `nandu.charts`."""
        return charts.drawn(kind, {self.label or "requests": self})

    def __repr__(self) -> str:
        figures = latencies(self["total"])
        return (
            f"<nandu.Result {self.label}: {figures['total_ios']:,} requests, mean {figures['mean_ns']:,} ns, "
            f"p99 {figures['p99_ns']:,} ns, {figures['iops']:,} IOPS, {self['state']}>"
        )


class Race(Record):
    """Several stacks on the same requests."""

    @property
    def results(self) -> dict[str, Result]:
        """The result of each stack by its name."""
        return {row["label"]: Result(json.dumps(row["result"], indent=2) + "\n", [], row["label"]) for row in self["stacks"]}

    @property
    def table(self) -> Table:
        """A row for each stack: its latencies, and how it compares to the first."""
        return table_of(
            {
                "stack": row["label"],
                **latencies(row["result"]["total"]),
                "waf": row["result"]["waf"],
                "state": row["state"],
                "best": row["best"],
                "verdict": row["verdict"],
            }
            for row in self["stacks"]
        )

    def plot(
        self,
        kind: str = "latency",
        *,
        paper: str = "usenix",
        columns: int = 1,
        height: float | None = None,
        file: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """A figure for a paper: `latency` (the share of the requests that took longer), `percentiles`, `time` or `path` (where the mean request
        spends its time). It is as wide as so many columns of the `paper`, and written to `file` where one is named: see `nandu.plots`."""
        return plots.drawn(kind, self.results, paper=paper, columns=columns, height=height, file=file)

    def chart(self, kind: str = "latency") -> Any:
        """The same kinds as a chart for notebooks: see `nandu.charts`."""
        return charts.drawn(kind, self.results)

    def __repr__(self) -> str:
        return "\n".join(f"{row['label']}: {row['verdict']}" for row in self["stacks"])


class Sweep(Record):
    """The points of a sweep."""

    @property
    def table(self) -> Table:
        """A row for each point: its steps, its figures, and whether it meets the bounds."""
        axes, columns = self["axes"], [column["name"] for column in self["columns"]]

        def cells(row: Mapping[str, Any]) -> dict[str, Any]:
            figures = zip([*axes, *columns], [*row["steps"], *row["figures"]], strict=True)
            return {**dict(figures), **row}

        return table_of(cells(row) for row in self["rows"])

    @property
    def best(self) -> dict[str, str] | None:
        """The steps of the best point; `None` where no point meets the bounds."""
        rows = [row for row in self["rows"] if row["point"] == self["best"]]
        return dict(zip(self["axes"], rows[0]["steps"], strict=True)) if rows else None

    def plot(
        self,
        x: str | None = None,
        y: str | None = None,
        *,
        paper: str = "usenix",
        columns: int = 1,
        height: float | None = None,
        file: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """A figure for a paper: the figure `y` over the axis `x`, by default the first of each, with a line for each step of the other axes."""
        return plots.sweep(self, x, y, paper=paper, columns=columns, height=height, file=file)

    def chart(self, x: str | None = None, y: str | None = None) -> Any:
        """A chart for notebooks: all points, by two figures or axes; the best is marked."""
        return charts.sweep(self, x, y)


class Advice(Record):
    """What was advised."""

    def __init__(self, text: str, said: list[tuple[bool, str]], best: str | None) -> None:
        super().__init__(text, said)
        self.best_toml = best
        """The winning stack file, as `--best` writes it; `None` where no variant can be built."""

    @property
    def meets(self) -> bool:
        """Whether the best meets the bounds on all traces."""
        return bool(self["meets"])

    @property
    def stack(self) -> Stack | None:
        """The best, or the nearest where none meets the bounds."""
        return None if self.best_toml is None else Stack.parse(self.best_toml, label="advised")

    @property
    def table(self) -> Table:
        """A row for each variant that ran all requests, the best first."""
        return table_of(self["rows"])

    def __repr__(self) -> str:
        best = self["best"]
        if best is None:
            return "<nandu.Advice: no variant can be built>"
        what = "best" if self.meets else "nothing meets the bounds; nearest"
        return f"<nandu.Advice {what}: {best['settings']}; {self['confidence']}>"


class Curves(Record):
    """Miss ratios by size of the cache."""

    @property
    def table(self) -> Table:
        """A row for each size and policy."""
        return table_of(self["points"])

    def plot(
        self,
        *,
        paper: str = "usenix",
        columns: int = 1,
        height: float | None = None,
        file: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """A figure for a paper: miss ratios by size of the cache, a line for each policy."""
        return plots.curves(self, paper=paper, columns=columns, height=height, file=file)

    def chart(self) -> Any:
        """The same as a chart for notebooks."""
        return charts.curves(self)


class Verification(Record):
    """What the verified simulation found."""

    @property
    def ok(self) -> bool:
        """Whether no seed failed."""
        return not self["failures"]

    @property
    def failures(self) -> Table:
        """A row for each seed that failed: what is broken, and the command that repeats it."""
        return table_of(self["failures"])


class Reproduction(Record):
    """The claims of papers, measured."""

    @cached_property
    def _fields(self) -> dict[str, Any]:
        return {paper["paper"]: paper for paper in json.loads(self.json)}

    @property
    def claims(self) -> Table:
        """A row for each claim."""
        return table_of({"paper": name, **claim} for name, paper in self.items() for claim in paper["claims"])

    def figures(self, paper: str) -> dict[str, dict[str, Any]]:
        """The figures of a paper by title, as they were measured: lines of points."""
        return {figure["title"]: figure for figure in self[paper]["figures"] if any(points for _, points in figure["lines"])}

    def plot(
        self,
        of: str,
        title: str,
        *,
        paper: str = "usenix",
        columns: int = 1,
        height: float | None = None,
        file: str | os.PathLike[str] | None = None,
    ) -> Figure:
        """A figure `of` a paper, by its title."""
        return plots.of_paper(self.figures(of)[title], paper=paper, columns=columns, height=height, file=file)

    def chart(self, of: str, title: str) -> Any:
        """The same as a chart for notebooks."""
        return charts.of_paper(self.figures(of)[title])

"""Traces: the requests that are replayed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nandu import _nandu
from nandu._errors import TraceError
from nandu._stack import text_of

UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


class Made(NamedTuple):
    """A file or a generator, its parameters, and the options of reading it."""

    name: str
    settings: list[tuple[str, str]]
    options: list[tuple[str, str]]


class Held(NamedTuple):
    """The columns of a table, and what it is called."""

    columns: list[tuple[str, str, bytes, list[str]]]
    label: str


class Trace:
    """The requests of a load: `Trace.file`, `Trace.generator`, `Trace.table` for what another library holds, or `Trace.rows`."""

    _trace: _nandu.Trace
    _made: Made | None
    """How it was named; `None` where the requests themselves are held."""

    def __init__(self, source: str | os.PathLike[str]) -> None:
        """A trace file, or a generator with its defaults."""
        self.__setstate__(Made(os.fspath(source), [], []))

    @staticmethod
    def _of(trace: _nandu.Trace | Made) -> Trace:
        made = Trace.__new__(Trace)
        if isinstance(trace, Made):
            made.__setstate__(trace)
        else:
            made._trace, made._made = trace, None
        return made

    def __getstate__(self) -> Made | Held:
        """What another process makes it of again: its name, or all requests."""
        return self._made or Held(self.to_table().buffers(), self.label)

    def __setstate__(self, state: Made | Held) -> None:
        if isinstance(state, Made):
            self._trace, self._made = _nandu.Trace.named(*state), state
        else:
            columns = [(name, (format, data, words)) for name, format, data, words in state.columns]
            roles: dict[str, Any] = {"time": "time_ns", "op": "op", "offset": "offset", "size": "size", "stream": "stream"}
            self._trace, self._made = _nandu.Trace.of_buffers(columns, **roles, unit_ns=1, label=state.label), None

    @property
    def _path(self) -> str | None:
        """The file that it is read from, where it is one."""
        return self._made.name if self._made and os.path.isfile(self._made.name) else None

    def _renamed(self, path: str) -> Trace:
        """The same from a file of another name."""
        assert self._made is not None
        return Trace._of(self._made._replace(name=path))

    @staticmethod
    def generator(name: str, *, limit: int | None = None, **parameters: object) -> Trace:
        """The requests of a generator (`nandu list generators`); sizes are bytes or texts with a unit.

        Its seed is that of the run."""
        settings = [(key, text_of(value)) for key, value in parameters.items()]
        options = [] if limit is None else [("limit", str(limit))]
        return Trace._of(Made(name, settings, options))

    @staticmethod
    def file(
        path: str | os.PathLike[str],
        *,
        format: str | None = None,
        columns: str | None = None,
        limit: int | None = None,
        bad_lines: str = "stop",
    ) -> Trace:
        """The requests of a file: its format is recognised by content unless it is named (`nandu list formats`), or `columns` says
        what its columns are."""
        name = os.fspath(path)
        if os.sep not in name:
            # A bare name may be that of a generator.
            name = os.path.join(".", name)
        given = {"trace_format": format, "columns": columns, "limit": limit, "bad_lines": bad_lines}
        options = [(key, str(value)) for key, value in given.items() if value is not None]
        return Trace._of(Made(name, [], options))

    @staticmethod
    def table(
        data: Any,
        *,
        time: str | None = "time_ns",
        op: str = "op",
        offset: str = "offset",
        size: str = "size",
        stream: str | None = None,
        unit: str | None = None,
        label: str = "table",
    ) -> Trace:
        """The requests of a table: anything with the Arrow C stream interface (pyarrow, polars, pandas, DuckDB, `Table`), a dict of arrays,
        or a structured NumPy array.

        `time`, `op`, `offset`, `size` and `stream` name its columns. Times are in `unit` (ns, us, ms, s), by default that of the column's Arrow type
        or of the end of its name; without a time column only the order counts. Offsets and sizes are bytes. Operations are words (`read`, `write`,
        `trim`, `flush`, or their first letters) or numbers, 0 for a read and 1 for a write."""
        ending = (time or "").rpartition("_")[2]
        unit_ns = UNITS[unit] if unit else UNITS.get(ending, 1)
        roles: dict[str, Any] = {"time": time, "op": op, "offset": offset, "size": size, "stream": stream}
        roles |= {"unit_ns": unit_ns, "label": label}
        stream_of = getattr(data, "__arrow_c_stream__", None)
        if stream_of is not None:
            return Trace._of(_nandu.Trace.of_stream(stream_of(), **roles))
        names = [name for name in (time, op, offset, size, stream) if name is not None]
        known = data if isinstance(data, Mapping) else data.dtype.names
        columns = [(name, _column(data[name])) for name in names if name in known]
        return Trace._of(_nandu.Trace.of_buffers(columns, **roles))

    @staticmethod
    def rows(rows: Iterable[tuple[int, str, int, int]], *, unit: str = "ns", label: str = "rows") -> Trace:
        """The requests that a generator of yours yields, or any iterable: a time, an operation, an offset and a size in bytes.

        >>> len(Trace.rows((100 * n, "read", 4096 * n, 4096) for n in range(20)).to_table())
        20
        """
        held = list(rows)
        if not held:
            raise TraceError(f"{label}: there are no requests in it")
        columns = dict(zip(("time", "op", "offset", "size"), map(list, zip(*held, strict=True)), strict=True))
        return Trace.table(columns, time="time", unit=unit, label=label)

    @property
    def label(self) -> str:
        """Where it comes from."""
        return self._trace.label

    def to_table(self, *, seed: int = 1) -> _nandu.Table:
        """Its requests: `time_ns`, `op`, `offset` and `size` in bytes, `stream`."""
        return self._trace.to_table(seed)

    def __repr__(self) -> str:
        return f"<nandu.Trace {self.label}>"


def _column(values: Any) -> list[str] | tuple[str, bytes]:
    """A column as a list of words, or as the format and the bytes of a buffer."""
    if isinstance(values, (list, tuple)):
        if all(isinstance(value, str) for value in values):
            return list(values)
        return ("q", b"".join(int(value).to_bytes(8, sys.byteorder, signed=True) for value in values))
    if getattr(getattr(values, "dtype", None), "kind", "") in "UO":
        return [str(value) for value in values.tolist()]
    buffer = memoryview(values)
    return (buffer.format.lstrip("<=@"), buffer.tobytes())


def trace_of(source: Trace | str | os.PathLike[str] | None) -> _nandu.Trace | None:
    """What runs take for a trace."""
    if source is None:
        return None
    return (source if isinstance(source, Trace) else Trace(source))._trace

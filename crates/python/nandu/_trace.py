"""Traces: the requests that are replayed."""

from __future__ import annotations

import datetime
import math
import operator
import os
from array import array
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from nandu import _nandu
from nandu._errors import InputError, TraceError
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

        `time`, `op`, `offset`, `size` and `stream` name its columns. Times are in `unit` (ns, us, ms, s), by default that of the column's Arrow or
        NumPy type or of the end of its name; without a time column only the order counts. A time of a list or an array may have a fraction where
        it is a whole number of nanoseconds. Offsets and sizes are bytes. Operations are words (`read`, `write`, `trim`, `flush`, or their first
        letters) or numbers, 0 for a read and 1 for a write."""
        ending = (time or "").rpartition("_")[2]
        unit_ns = _unit(unit) if unit is not None else UNITS.get(ending, 1)
        roles: dict[str, Any] = {"time": time, "op": op, "offset": offset, "size": size, "stream": stream, "label": label}
        stream_of = getattr(data, "__arrow_c_stream__", None)
        if stream_of is not None:
            return Trace._of(_nandu.Trace.of_stream(stream_of(), unit_ns=unit_ns, **roles))
        known = data if isinstance(data, Mapping) else getattr(getattr(data, "dtype", None), "names", None)
        if known is None:
            raise TraceError(f"{label}: {_kind(data)} is not a table of columns; {_instead(data)}")
        names = [name for name in (time, op, offset, size, stream) if name is not None and name in known]
        columns = []
        for name in names:
            try:
                if name == time:
                    column, unit_ns = _times(data[name], unit_ns)
                else:
                    column = _column(data[name])
            except _Wrong as wrong:
                raise TraceError(f"{label}: {wrong.at(name)}") from None
            columns.append((name, column))
        return Trace._of(_nandu.Trace.of_buffers(columns, unit_ns=unit_ns, **roles))

    @staticmethod
    def rows(rows: Iterable[tuple[Any, str, int, int]], *, unit: str = "ns", label: str = "rows") -> Trace:
        """The requests that a generator of yours yields, or any iterable: a time, an operation, an offset and a size in bytes.

        >>> len(Trace.rows((100 * n, "read", 4096 * n, 4096) for n in range(20)).to_table())
        20
        """
        if isinstance(rows, (str, bytes, Mapping)) or not isinstance(rows, Iterable):
            raise TraceError(f"{label}: {_kind(rows)} holds no rows; {ROW}")
        held = list(rows)
        if not held:
            raise TraceError(f"{label}: there are no requests in it")
        for place, row in enumerate(held):
            if isinstance(row, (str, bytes, Mapping)) or not hasattr(row, "__len__"):
                raise TraceError(f"{label}: row {place}: {_kind(row)} is not a row; {ROW}")
            if len(row) != len(PARTS):
                values = "1 value" if len(row) == 1 else f"{len(row)} values"
                raise TraceError(f"{label}: row {place} has {values}; {ROW}")
        columns = dict(zip(PARTS, map(list, zip(*held, strict=True)), strict=True))
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


PARTS = ("time", "op", "offset", "size")
ROW = "a row is a time, an operation, an offset and a size, such as (0, 'read', 4096, 512)"


def _unit(unit: str) -> int:
    """Nanoseconds of a unit of time."""
    if unit not in UNITS:
        raise InputError(f"`unit`: unknown unit `{unit}` of times; known are {', '.join(UNITS)}")
    return UNITS[unit]


def _kind(value: object) -> str:
    """What messages call it."""
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _instead(data: object) -> str:
    """What to hand over in its place."""
    if hasattr(data, "collect"):
        return "hand over what its `collect()` returns"
    if isinstance(data, (list, tuple)):
        return "`Trace.rows` takes rows, each a time, an operation, an offset and a size; a table is a dict with a list for each column"
    return "hand over what has the Arrow C stream interface (pyarrow, polars, pandas), a dict of columns, or a structured NumPy array"


class _Wrong(Exception):
    """Why a column cannot be read."""

    def __init__(self, why: str, row: int | None = None, value: object = None) -> None:
        self.why, self.row, self.value = why, row, value

    def at(self, name: str) -> str:
        """The same with its place."""
        if self.row is None:
            return f"column `{name}`: {self.why}"
        return f"row {self.row}: `{name}` = {self.value!r} {self.why}"


Column = list[str] | tuple[str, bytes]


def _listed(values: Any) -> Any:
    """What is no array as a list."""
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    if kind in "UO" and kind:
        return values.tolist()
    if isinstance(values, (list, tuple, range)):
        return list(values)
    if isinstance(values, (str, bytes)) or not (hasattr(values, "dtype") or isinstance(values, (array, memoryview))):
        raise _Wrong(f"{_kind(values)} is not a column; a list or an array is")
    return values


def _column(values: Any) -> Column:
    """A column as a list of words, or as the format and the bytes of a buffer."""
    values = _listed(values)
    if not isinstance(values, list):
        return _buffer(values)
    if all(isinstance(value, str) for value in values):
        return values
    return _packed(values, [_whole(value, row) for row, value in enumerate(values)])


def _times(values: Any, unit_ns: int) -> tuple[Column, int]:
    """The same of a column of times, and the nanoseconds of its unit."""
    values = _listed(values)
    kind = values.dtype.kind if hasattr(values, "dtype") else ""
    if kind and kind in "Mm":
        nanoseconds = values.astype(f"{values.dtype.str[:3]}[ns]").astype("int64")
        # What is no time has the least number.
        missing = (nanoseconds == -(1 << 63)).nonzero()[0]
        if len(missing):
            raise _Wrong("is not a time", int(missing[0]), "NaT")
        return _buffer(nanoseconds), 1
    if kind == "f":
        values = values.tolist()
    if not isinstance(values, list):
        return _buffer(values), unit_ns
    if all(isinstance(value, str) for value in values):
        return values, unit_ns
    return _packed(values, [_nanoseconds(value, row, unit_ns) for row, value in enumerate(values)]), 1


def _buffer(values: Any) -> tuple[str, bytes]:
    """An array as its format and its bytes, in the order of this machine."""
    if hasattr(values, "dtype") and not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))
    try:
        buffer = memoryview(values)
    except (TypeError, ValueError):
        raise _Wrong(f"values of the type `{getattr(values, 'dtype', type(values).__name__)}` are no whole numbers; cast them first") from None
    return (buffer.format.lstrip("<=@"), buffer.tobytes())


def _packed(given: list[Any], numbers: list[int]) -> tuple[str, bytes]:
    """Numbers with 64 bits each."""
    for format in "qQ":
        try:
            return (format, array(format, numbers).tobytes())
        except OverflowError:
            continue
    row = next(row for row, number in enumerate(numbers) if not 0 <= number < 1 << 64)
    raise _Wrong("is not from 0 to 2^64-1", row, given[row])


def _whole(value: Any, row: int) -> int:
    """A value that must be a whole number."""
    try:
        return operator.index(value)
    except TypeError:
        if isinstance(value, float) and value.is_integer():
            return int(value)
        raise _Wrong("is not a whole number", row, value) from None


def _nanoseconds(value: Any, row: int, unit_ns: int) -> int:
    """A time as nanoseconds; a fraction must give a whole number of them, as far as a float can tell."""
    if hasattr(value, "dtype") and value.dtype.kind in "Mm":
        number = int(value.astype(f"{value.dtype.str[:3]}[ns]").astype("int64"))
        if number == -(1 << 63):
            raise _Wrong("is not a time", row, "NaT")
        return number
    if isinstance(value, datetime.datetime):
        value = value - datetime.datetime(1970, 1, 1, tzinfo=None if value.tzinfo is None else datetime.timezone.utc)
    if isinstance(value, datetime.timedelta):
        # Those of pandas know nanoseconds.
        below = value.microseconds * 1000 + getattr(value, "nanoseconds", 0)
        return (value.days * 86_400 + value.seconds) * 1_000_000_000 + below
    if not isinstance(value, float):
        return _whole(value, row) * unit_ns
    if not math.isfinite(value):
        raise _Wrong("is not a time", row, value)
    exact = Fraction(value) * unit_ns
    nearest = round(exact)
    if abs(exact - nearest) > Fraction(math.ulp(value)) * unit_ns or (unit_ns == 1 and exact != nearest):
        raise _Wrong("is not a whole number of nanoseconds; round it, or say `unit`", row, value)
    return nearest


def trace_of(source: Trace | str | os.PathLike[str] | None) -> _nandu.Trace | None:
    """What runs take for a trace."""
    if source is None:
        return None
    return (source if isinstance(source, Trace) else Trace(source))._trace

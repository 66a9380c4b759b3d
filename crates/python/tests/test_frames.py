"""Tables of other libraries, both ways, without a copy where both can do without."""

from __future__ import annotations

import resource
import time

import nandu
import numpy
import pytest

pytestmark = pytest.mark.large

FRAME = {"time_us": [0, 5, 9], "op": ["read", "write", "read"], "offset": [0, 4096, 8192], "size": [4096, 512, 4096]}
WANTED = {"time_ns": [0, 5000, 9000], "op": FRAME["op"], "offset": FRAME["offset"], "size": FRAME["size"]}


def held(trace: nandu.Trace) -> dict[str, object]:
    columns = trace.to_table().to_dict()
    del columns["stream"]
    return dict(columns)


def test_frames_are_traces() -> None:
    import pandas
    import polars
    import pyarrow

    for frame in (pandas.DataFrame(FRAME), polars.DataFrame(FRAME), pyarrow.table(FRAME)):
        assert held(nandu.Trace.table(frame, time="time_us")) == WANTED
    times = polars.DataFrame(FRAME).with_columns(polars.col("time_us").cast(polars.Duration("us")))
    assert held(nandu.Trace.table(times, time="time_us", unit="s")) == WANTED
    categories = pandas.DataFrame(FRAME).astype({"op": "category"})
    assert held(nandu.Trace.table(categories, time="time_us")) == WANTED
    chunks = pyarrow.chunked_array([[0, 5], [9]])
    assert held(nandu.Trace.table(pyarrow.table({**FRAME, "time_us": chunks}), time="time_us")) == WANTED


def test_tables_of_results_are_frames() -> None:
    import pandas
    import polars
    import pyarrow

    result = nandu.run("small-ssd", nandu.Trace.generator("mixed-zipf", requests=2000), fit="wrap", extend=0, log=True)
    assert result.requests is not None
    tables = (result.percentiles, result.intervals, result.histogram, result.layers, result.counters, result.tenants, result.wear, result.requests)
    for table in tables:
        arrow, frame, other = pyarrow.table(table), polars.DataFrame(table), pandas.DataFrame.from_arrow(table)
        arrow.validate(full=True)
        assert arrow.num_rows == len(frame) == len(other) == len(table) > 0
        assert arrow.column_names == frame.columns == list(other.columns) == table.column_names
        assert arrow.to_pylist() == frame.to_dicts()
    requests = polars.DataFrame(result.requests)
    assert requests["latency_ns"].mean() == pytest.approx(result["total"]["lat_ns"]["mean"], abs=1)
    phases = [name for name in requests.columns if name.endswith("_ns") and name not in ("arrival_ns", "latency_ns")]
    assert (requests.select(polars.sum_horizontal(phases)).to_series() == requests["latency_ns"]).all()


def test_five_million_requests_reach_polars_without_a_copy() -> None:
    import polars

    count = 5_000_000
    columns = {"op": numpy.zeros(count, "u1"), "offset": numpy.arange(count, dtype="u8") % 16_384 * 4096, "size": numpy.full(count, 4096, "u4")}
    table = nandu.Trace.table(columns, time=None).to_table()
    begun, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    frame = polars.DataFrame(table)
    took, more = time.process_time() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(frame) == count and frame["offset"][4] == 4 * 4096
    print(f"{count} requests: {1000 * took:.1f} ms of processor time, {more / 1024:.0f} MiB more at most")
    # Their bytes are 33 each, 157 MiB: a copy could not hide.
    assert more < 48 * 1024

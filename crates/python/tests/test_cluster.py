"""Sweeps on a cluster of Dask: what comes out is that of one process, whoever measured what, and whoever was lost meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nandu
import own_policies as own
import pytest
from distributed import Client, LocalCluster

AXES: dict[str, Any] = {"device.ssd.spare_factor": [0.1, 0.15, 0.2, 0.28], "device.ssd.gc.kind": ["greedy", "fifo"]}
HOW: dict[str, Any] = {"fit": "wrap", "extend": 0, "minimise": "p99", "maximise": "iops", "allow_unsteady": True}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        yield client


def zipf(requests: int = 2000) -> nandu.Trace:
    return nandu.Trace.generator("mixed-zipf", requests=requests)


def test_the_result_is_that_of_one_process(client: Client, tmp_path: Path) -> None:
    alone = nandu.sweep("small-ssd", zipf(), axes=AXES, **HOW)
    told: list[tuple[int, int, str]] = []
    there = nandu.sweep("small-ssd", zipf(), axes=AXES, client=client, out=tmp_path, progress=lambda *how: told.append(how), **HOW)
    assert there.json == alone.json
    assert there.warnings + there.notes == alone.warnings + alone.notes != []
    assert told[-1] == (8, 8, "points")
    # What came back lies in the journal, in which one process goes on.
    again = nandu.sweep("small-ssd", zipf(), axes=AXES, out=tmp_path, **HOW)
    assert again.json == alone.json and "8 of 8 points known already" in again.notes
    # And the other way round.
    once_more = nandu.sweep("small-ssd", zipf(), axes=AXES, client=client, out=tmp_path, **HOW)
    assert once_more.json == alone.json and again.notes == once_more.notes


def test_files_tables_and_stacks_of_ones_own_go_along(client: Client, tmp_path: Path) -> None:
    memory = {"kind": "memory", "size": "64 MiB", "latency": "1 ms"}
    stack = nandu.Stack({"export": {"data": {"device": "cache"}}, "device": {"cache": {"kind": "cache", "below": "m", "size": "1 MiB"}, "m": memory}})
    axes: dict[str, Any] = {"device.cache.size": ["1 MiB", "2 MiB"], "device.cache.replacement.kind": ["lru", "my-lru"]}
    assert own.Lru.__module__ == "own_policies"
    # A file that the workers cannot see by its name.
    lines = "".join(f"{n * 1000},{'RW'[n % 3 == 0]},{(n * 7919) % 16384 * 4096},4096\n" for n in range(2000))
    (tmp_path / "trace.csv").write_text(lines)
    file = nandu.Trace.file(tmp_path / "trace.csv", columns="time:us,op,offset:bytes,size:bytes")
    table = nandu.Trace.table(file.to_table(), label="mine")
    for trace in (file, table):
        alone, there = (nandu.sweep(stack, trace, axes=axes, client=where, **HOW) for where in (None, client))
        assert alone.json == there.json
        lru, mine = (row["figures"] for row in there["rows"][:2])
        assert lru == mine
    assert '"mine (' in there.json or "mine (" in there["load"]


def test_a_killed_worker_costs_its_points_only(client: Client) -> None:
    alone = nandu.sweep("small-ssd", zipf(20_000), axes=AXES, **HOW)
    begun = set(client.scheduler_info()["workers"])
    pids = client.run(os.getpid)

    def kill() -> None:
        # One that is at work on a point.
        while not (at_work := [worker for worker, tasks in client.processing().items() if tasks]):
            time.sleep(0.01)
        time.sleep(0.3)
        os.kill(pids[at_work[0]], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    there = nandu.sweep("small-ssd", zipf(20_000), axes=AXES, client=client, **HOW)
    killer.join()
    assert there.json == alone.json
    client.wait_for_workers(2, timeout=60)
    assert set(client.scheduler_info()["workers"]) != begun


def test_what_a_worker_raises_is_raised_here(client: Client) -> None:
    class Stumbles(own.Lru):
        def insert(self, line: int, arrival: Any) -> None:
            raise LookupError("stumbled over a line")

    nandu.register("stumbles")(Stumbles)
    try:
        with pytest.raises(LookupError, match="stumbled over a line"):
            nandu.sweep("cache", zipf(), axes={"device.cache.replacement.kind": ["lru", "stumbles"]}, client=client, minimise="p99", fit="wrap")
    finally:
        nandu.register("stumbles")(own.Lru)


def test_shards_are_joined_as_an_array_of_jobs_does_it(tmp_path: Path) -> None:
    # The script of docs/how-to/python.md, with the variables that SLURM sets.
    whole = nandu.sweep("small-ssd", zipf(), axes=AXES, **HOW)
    for task in range(3):
        nandu.sweep("small-ssd", zipf(), axes=AXES, shard=f"{task}/3", out=tmp_path / str(task), **HOW)
    joined = nandu.sweep("small-ssd", zipf(), axes=AXES, from_=[tmp_path / str(task) for task in range(3)], **HOW)
    assert joined.json == whole.json
    assert "8 of 8 points known already" in joined.notes


def test_what_a_cluster_costs_is_measured_by_the_example() -> None:
    example = Path(__file__).parents[3] / "examples" / "python" / "cluster_cost.py"
    words = "--points 4 --requests 500 --small 6".split()
    done = subprocess.run([sys.executable, str(example), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for part in ("4 points of 500 requests in one process", "on 2 workers", "times as fast", "ms here for each task", "100,000 points of 10 s"):
        assert part in done.stdout


def test_a_job_array_is_one_sweep(tmp_path: Path) -> None:
    """The recipe for SLURM in the docs, with the variables of an array set by hand."""
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "python.md").read_text()
    recipe = next(block for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "#SBATCH" in block)
    tasks, shorter = 6, (("/64", "/6"), ("--trace mixed-zipf", "--trace mixed-zipf --limit 500"), ("0.05..0.30+0.01", "0.10..0.20+0.025"))
    for long, short in shorter:
        assert long in recipe
        recipe = recipe.replace(long, short)
    (tmp_path / "sweep.sh").write_text(recipe)
    (tmp_path / "nandu").write_text(f'#!/bin/sh\nexec {sys.executable} -m nandu --quiet "$@"\n')
    (tmp_path / "nandu").chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    for task in range(tasks):
        # The last task has no point: there are five.
        env = {**os.environ, "PATH": path, "SLURM_ARRAY_TASK_ID": str(task)}
        done = subprocess.run(["sh", "sweep.sh"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    axes: dict[str, Any] = {"device.ssd.spare_factor": "0.10..0.20+0.025"}
    load = nandu.Trace.generator("mixed-zipf", limit=500)
    how: dict[str, Any] = {"axes": axes, "fit": "wrap", "minimise": "p99"}
    joined = nandu.sweep("small-ssd", load, from_=[tmp_path / "points" / str(task) for task in range(tasks)], **how)
    assert joined.json == nandu.sweep("small-ssd", load, **how).json and len(joined["rows"]) == 5

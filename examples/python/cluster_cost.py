"""What a sweep costs on a cluster of Dask: the same points in one process and on workers of this machine, and what a task costs whoever asks.

    python cluster_cost.py
    python cluster_cost.py --workers 4 --points 100 --requests 400000

Times are processor time where nothing else is said: that of this process, in which the scheduler runs too, and of each worker."""

from __future__ import annotations

import argparse
import logging
import tempfile
import time
from typing import Any

import nandu
from distributed import Client, LocalCluster


def sweep(points: int, requests: int, **how: Any) -> nandu.Sweep:
    """So many drives that differ in their spare flash, each with so many requests."""
    axes = {"device.ssd.spare_factor": [round(0.1 + 0.2 * point / points, 6) for point in range(points)]}
    load = nandu.Trace.generator("mixed-zipf", requests=requests)
    return nandu.sweep("small-ssd", load, axes=axes, minimise="p99", fit="wrap", extend=0, allow_unsteady=True, **how)


def spent(points: int, requests: int, **how: Any) -> tuple[nandu.Sweep, float, float]:
    """What came out, the time that passed, and the processor time of this process."""
    passed, worked = time.perf_counter(), time.process_time()
    made = sweep(points, requests, **how)
    return made, time.perf_counter() - passed, time.process_time() - worked


def main() -> None:
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--workers", type=int, default=2, help="processes beside this one")
    words.add_argument("--points", type=int, default=34, help="points that are worth a task")
    words.add_argument("--requests", type=int, default=300_000, help="requests of each of them")
    words.add_argument("--small", type=int, default=1_200, help="points without much in them")
    asked = words.parse_args()
    # What the figures of the drives mean is of no interest here.
    logging.getLogger("nandu").setLevel(logging.ERROR)

    alone, _, one = spent(asked.points, asked.requests, jobs=1)
    print(f"{asked.points} points of {asked.requests:,} requests in one process: {one:.1f} s")
    with LocalCluster(n_workers=asked.workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, Client(cluster) as client:
        # The package is imported and the workers are warm.
        sweep(asked.workers, 10, client=client)
        before = client.run(time.process_time)
        there, passed, asking = spent(asked.points, asked.requests, client=client)
        after = client.run(time.process_time)
        assert there.json == alone.json, "a cluster gives the bytes of one process"
        each = sorted(after[worker] - before[worker] for worker in before)
        print(f"on {asked.workers} workers: {each[0]:.1f} to {each[-1]:.1f} s each, {asking:.1f} s here, {passed:.1f} s passed")
        print(f"by the busiest: {one / max(each[-1], asking):.2f} times as fast as one process")
        with tempfile.TemporaryDirectory() as folder:
            _, _, all_of_it = spent(asked.small, 10, client=client, out=folder)
            # All points are known: what is left is building each of them once, and telling.
            _, _, building = spent(asked.small, 10, out=folder)
    task, build = (all_of_it - building) / asked.small, building / asked.small
    print(f"{asked.small:,} points without much in them: {task * 1e3:.2f} ms here for each task, {build * 1e3:.2f} ms before to build the point")
    workers, points, long = 1_000, 100_000, 10.0
    whole = points * build + max(points * long / workers, points * task)
    print(f"computed: {workers:,} workers have enough to do where a point takes more than {task * workers:.1f} s;")
    print(f"{points:,} points of {long:.0f} s take them {whole / 60:.0f} minutes, {points * long / whole:.0f} times less than one process")


if __name__ == "__main__":
    main()

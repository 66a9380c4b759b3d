"""Runs, races, sweeps, curves and papers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from nandu import _nandu
from nandu._cluster import on_cluster
from nandu._errors import InputError
from nandu._options import Device
from nandu._progress import Progress, meter
from nandu._results import Advice, Curves, Race, Reproduction, Result, Sweep, Verification
from nandu._stack import Stack, stack_of, text_of
from nandu._trace import Trace, trace_of

Source = Stack | str | os.PathLike[str] | Mapping[str, Any] | Device
Requests = Trace | str | os.PathLike[str]
Load = Requests | None
log = logging.getLogger("nandu")


def _options(options: Mapping[str, object]) -> list[tuple[str, str]]:
    """The options of a load, in the words of `nandu run` with underscores."""
    return [(key, text_of(value)) for key, value in options.items() if value is not None]


def listed(given: Any) -> list[Any]:
    """What options take one or several of: a text, a path or a number stands for a list of one."""
    return [given] if isinstance(given, (str, os.PathLike)) or not isinstance(given, Iterable) else list(given)


def values_of(given: Iterable[object] | object) -> str:
    """The values of an axis, as the command has them."""
    return given if isinstance(given, str) else ",".join(text_of(value) for value in listed(given))


def _tell(said: list[tuple[bool, str]]) -> list[tuple[bool, str]]:
    for serious, text in said:
        log.log(logging.WARNING if serious else logging.INFO, "%s", text)
    return said


def _work(work: Callable[..., Any], *args: Any, progress: Progress, **named: Any) -> tuple[Any, ...]:
    """Does it, and says what was said meanwhile."""
    with meter(progress) as told:
        made: tuple[Any, ...] = work(*args, progress=told, **named)
    _tell(made[-1])
    return made


def run(stack: Source, trace: Load = None, *, log: bool = False, progress: Progress = False, **options: object) -> Result:
    """Replays a trace on one stack; without a trace the stack's own workloads run.

    `options` are those of `nandu run` with underscores: `fit="wrap"`, `iodepth=16`, `rate_iops="20000/s"`, `time_scale=0.5`, `warmup="10%"`,
    `repeat=3`, `extend=0`, `limit=1000`, `seed=1`, `precondition="aged"`, `export="data"`. With `log` the result has a row for each
    request. `progress` is `True` for a bar (a line on stderr, or a bar in a notebook), or is called with what is done, the total and a word for
    it. Ctrl-C ends the run; the interpreter's lock is free meanwhile."""
    own = stack_of(stack)
    text, table, said = _work(_nandu.run, own, trace_of(trace), _options(options), log=log, progress=progress)
    return Result(text, said, own.label, table)


def compare(
    stacks: Source | Iterable[Source] | Mapping[str, Source],
    trace: Load = None,
    *,
    jobs: int | None = None,
    progress: Progress = False,
    **options: object,
) -> Race:
    """Replays the same requests on several stacks; the first is the baseline. A mapping gives each a name. Options are those of `run`."""
    if isinstance(stacks, Mapping):
        own = [stack_of(stack).labelled(label) for label, stack in stacks.items()]
    elif isinstance(stacks, (Stack, Device)):
        own = [stack_of(stacks)]
    else:
        own = [stack_of(stack) for stack in listed(stacks)]
    if not own:
        raise InputError("there is no stack to compare: `stacks` is empty; give a stack or several")
    return Race(*_work(_nandu.compare, own, trace_of(trace), _options(options), jobs=jobs, progress=progress))


def sweep(
    what: Source,
    trace: Load = None,
    *,
    axes: Mapping[str, Iterable[object] | str] | None = None,
    bounds: Iterable[str] | str = (),
    minimise: Iterable[str] | str = (),
    maximise: Iterable[str] | str = (),
    metrics: Iterable[str] | str = (),
    search: str | None = None,
    skip_invalid: bool = False,
    allow_saturated: bool = False,
    allow_unsteady: bool = False,
    set: Mapping[str, object] | None = None,
    shard: str | None = None,
    out: str | os.PathLike[str] | None = None,
    from_: Iterable[str | os.PathLike[str]] | str | os.PathLike[str] = (),
    jobs: int | None = None,
    client: Any = None,
    progress: Progress = False,
    **options: object,
) -> Sweep:
    """Varies a stack and measures all variants on all cores: `what` is a sweep file, or a stack whose `axes` vary, each a dotted path and
    its values.

    >>> sweep("small-ssd", Trace.generator("mixed-zipf", limit=3000), axes={"device.ssd.spare_factor": [0.1, 0.2]},
    ...       minimise="p99", fit="wrap").best
    {'spare_factor': '0.1'}

    With a folder `out` points are kept in its journal, and what it has is not run again; `shard="0/4"` measures a part, and `from_` names the
    folders that are joined. With a `client` of Dask the points are tasks of its cluster, and the result is the same, byte for byte. Other options are
    those of `run`."""
    by_name = isinstance(what, (str, os.PathLike))
    if (old := options.pop("skip_impossible", None)) is not None:
        log.info("`skip_impossible` is now called `skip_invalid`; the old name goes with the next version")
        skip_invalid = bool(old)
    asked = {
        "what": os.fspath(what) if isinstance(what, (str, os.PathLike)) else "",
        "stack": None if by_name else stack_of(what),
        "axis": [f"{path}={values_of(given)}" for path, given in (axes or {}).items()],
        "bound": listed(bounds),
        "minimise": listed(minimise),
        "maximise": listed(maximise),
        "metric": listed(metrics),
        "search": search,
        "skip_invalid": skip_invalid,
        "allow_saturated": allow_saturated,
        "allow_unsteady": allow_unsteady,
        "set": _options(set or {}),
        "shard": shard,
        "jobs": jobs,
        "out": out,
        "from": [os.fspath(folder) for folder in listed(from_)],
    }
    if client is not None:
        own = trace if isinstance(trace, Trace) or trace is None else Trace(trace)
        text, said = on_cluster(asked, own, _options(options), client, meter(progress))
        return Sweep(text, _tell(said))
    return Sweep(*_work(_nandu.sweep, asked, trace_of(trace), _options(options), progress=progress))


def _traces(given: Requests | Iterable[Requests]) -> list[_nandu.Trace]:
    """One trace or several."""
    all = [given] if isinstance(given, (Trace, str, os.PathLike)) else list(given)
    return [trace for trace in map(trace_of, all) if trace is not None]


def advise(
    traces: Requests | Iterable[Requests] = (),
    *,
    tenants: Mapping[str, Requests | Iterable[Requests]] | None = None,
    p99: str | None = None,
    life: str | None = None,
    bounds: Iterable[str] | str = (),
    cost: str | os.PathLike[str] | None = None,
    capacity: str | int | Iterable[str | int] = (),
    stack: str | os.PathLike[str] | None = None,
    axes: Mapping[str, Iterable[object] | str] | None = None,
    budget: int | None = None,
    exhaustive: bool = False,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: Progress = False,
    **options: object,
) -> Advice:
    """Which drive, spare flash, map, cache and so on serves all traces within the bounds for the least money: `p99="2ms"`, `life="5y"`, and `bounds`
    such as `"read_p99<=1 ms"`.

    In place of traces, each of which has the drive to itself, `tenants` has names with the trace of each, which run at the same time on one
    drive; bounds on latency hold for each of them. A list of traces for a tenant has one for each time: the first ones of all tenants run
    together, then the second ones.

    >>> load = {"web": Trace.generator("uniform", limit=1000), "log": Trace.generator("mixed-zipf", limit=1000)}
    >>> advise(tenants=load, p99="1s", budget=6).meets
    True

    `cost` is a file of prices, `capacity` a size of drives or several among which it chooses, `stack` with `axes` varies a stack of yours
    instead of the built-in choice, `budget` is the work of the search in runs of all requests. Other options are those of `run`."""
    parts = [(name, trace) for name, given in (tenants or {}).items() for trace in _traces(given)]
    wanted = {
        "p99": None if p99 is None else str(p99),
        "life": None if life is None else str(life),
        "bound": listed(bounds),
        "cost": cost,
        "capacity": [text_of(size) for size in listed(capacity)],
        "stack": None if stack is None else os.fspath(stack),
        "axis": [f"{path}={values_of(given)}" for path, given in (axes or {}).items()],
        "budget": budget,
        "exhaustive": exhaustive,
        "jobs": jobs,
        "out": out,
    }
    text, best, said = _work(_nandu.advise, wanted, _traces(traces), parts, _options(options), progress=progress)
    return Advice(text, said, best)


def mrc(
    trace: Trace | str | os.PathLike[str],
    policies: Iterable[str] | str = ("lru", "arc", "s3-fifo", "sieve"),
    sizes: Iterable[int | str] | int | str = (),
    *,
    segment: str | None = None,
    sample: str | None = None,
    repeat: int = 1,
    jobs: int | None = None,
    seed: int = 1,
    progress: Progress = False,
) -> Curves:
    """Miss ratios of replacement policies by size of the cache: blocks of 4 KiB, or texts with a unit; 20 sizes up to the footprint
    without any. `sample="1%"` estimates the curve of LRU from a share of the blocks."""
    own = trace_of(trace)
    if own is None:
        raise InputError("curves need a trace")
    sized = [str(size) for size in listed(sizes)]
    named: dict[str, Any] = {"segment": segment, "sample": sample, "repeat": repeat, "jobs": jobs, "seed": seed}
    return Curves(*_work(_nandu.mrc, own, listed(policies), sized, progress=progress, **named))


def verify(
    what: str | os.PathLike[str] | None = None,
    *,
    seeds: int = 100,
    first_seed: int = 1,
    crash: bool = False,
    full_size: bool = False,
    jobs: int | None = None,
    progress: Progress = False,
) -> Verification:
    """Runs seeds of the verified simulation: every read is checked, with `crash` through power cuts. `what` is a stack file, a built-in stack or a
    family of random stacks (`cache`, `ssd`); by default stacks are drawn from all families. Registered policies are drawn wherever one of their
    family stands."""
    name = None if what is None else os.fspath(what)
    named: dict[str, Any] = {"seeds": seeds, "first_seed": first_seed, "crash": crash, "full_size": full_size, "jobs": jobs}
    return Verification(*_work(_nandu.verify, name, progress=progress, **named))


def reproduce(
    paper: str | None = None,
    *,
    quick: bool = False,
    requests: int | None = None,
    seed: int = 1,
    recorded: Mapping[str, str | os.PathLike[str]] | None = None,
    jobs: int | None = None,
    progress: Progress = False,
) -> Reproduction:
    """Measures the claims of a paper, or of all: `quick` takes fewer requests; `recorded` names recorded traces that stand for generated loads."""
    files = [(name, os.fspath(path)) for name, path in (recorded or {}).items()]
    named: dict[str, Any] = {"quick": quick, "requests": requests, "seed": seed, "recorded": files, "jobs": jobs}
    return Reproduction(*_work(_nandu.reproduce, paper, progress=progress, **named))

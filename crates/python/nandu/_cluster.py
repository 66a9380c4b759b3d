"""Sweeps on a cluster of Dask: each point is a task.

Who asks builds every point once and names those that are to be measured. A worker gets the question once, with the requests and with what was seen of
the points; from then on a task is a number, and what comes back is the record that a journal would hold. Who asks makes the result of them as
of a journal. So a lost worker costs its points, and the result does not depend on who measured what.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from nandu import _nandu
from nandu._errors import InputError, RunError
from nandu._trace import Trace

TRIES = 3
"""How often the question is handed out anew where all workers that held it are gone."""


class Question(NamedTuple):
    """All that a worker needs."""

    name: str
    """Tells it from others."""
    program: str
    asked: dict[str, Any]
    stack: str | None
    trace: Trace | None
    file: bytes | None
    """The bytes of the trace file."""
    options: list[tuple[str, str]]
    seen: str
    policies: list[tuple[str, str, type]]
    """The classes that stacks may name."""


def on_cluster(
    asked: dict[str, Any],
    trace: Trace | None,
    options: list[tuple[str, str]],
    client: Any,
    told: AbstractContextManager[Callable[[int, int, str], object] | None],
) -> tuple[str, list[tuple[bool, str]]]:
    """The sweep as the command prints it, and what was said."""
    try:
        from distributed import as_completed
        from distributed.client import FutureCancelledError
        from distributed.scheduler import KilledWorker
    except ImportError:
        raise InputError("`client` is one of Dask, which is not installed: pip install 'nandu[cluster]'") from None
    from nandu.policies import REGISTERED

    points = _nandu.Points(asked, None if trace is None else trace._trace, options)
    path = None if trace is None else trace._path
    question = Question(
        os.urandom(16).hex(),
        _nandu.program(),
        {**asked, "out": None, "from": [], "shard": None, "stack": None},
        None if asked["stack"] is None else asked["stack"].to_toml(),
        trace,
        None if path is None else Path(path).read_bytes(),
        options,
        points.seen(),
        [(family, name, cls) for (family, name), cls in REGISTERED.items()],
    )
    tries, done = 0, 0
    with told as tell:
        while wanted := points.wanted():
            total = done + len(wanted)
            held = client.scatter(question, broadcast=True, hash=False)
            futures = client.map(measured, wanted, question=held, pure=False)
            try:
                for future in as_completed(futures):
                    points.take(future.result())
                    done += 1
                    if tell is not None:
                        tell(done, total, "points")
            except FutureCancelledError as lost:
                # The question was on workers that are gone, all of them.
                tries += 1
                if tries == TRIES:
                    raise RunError(f"all workers were lost {TRIES} times") from lost
            except KilledWorker as killed:
                raise RunError(f"a point ended every worker that took it: {killed}") from killed
            finally:
                client.cancel([*futures, held])
    return points.told()


def measured(point: int, question: Question) -> str:
    """The record of a point, made by a worker."""
    return _prepared(question).measure(point)


_once = threading.Lock()
_known: dict[str, _nandu.Points] = {}
"""What this worker has prepared, by the names of the questions."""


def _prepared(question: Question) -> _nandu.Points:
    # Threads of a worker begin together; one of them prepares.
    with _once:
        if question.name not in _known:
            made = _prepare(question)
            # A sweep is over when the next begins; a worker that serves two at a time keeps both.
            while len(_known) > 1:
                del _known[next(iter(_known))]
            _known[question.name] = made
        return _known[question.name]


def _prepare(question: Question) -> _nandu.Points:
    from nandu import policies

    if question.program != _nandu.program():
        raise InputError(f"a worker has another build of nandu ({_nandu.program()}) than who asks ({question.program})")
    for family, name, cls in question.policies:
        if policies.REGISTERED.get((family, name)) is not cls:
            policies.register(name)(cls)
    asked = dict(question.asked)
    if question.stack is not None:
        asked["stack"] = _nandu.Stack.parse(question.stack, "stack")
    trace = question.trace
    if question.file is None or trace is None:
        return _nandu.Points(asked, None if trace is None else trace._trace, question.options, question.seen)
    with tempfile.TemporaryDirectory(prefix="nandu-") as folder:
        file = Path(folder) / "trace"
        file.write_bytes(question.file)
        return _nandu.Points(asked, trace._renamed(str(file))._trace, question.options, question.seen)

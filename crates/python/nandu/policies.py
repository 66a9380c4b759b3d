"""Policies of your own: a class, registered by a name that stacks then use as they use those of Nandu.

>>> @register("newest-first")
... class NewestFirst(Replacement):
...     \"\"\"The line that came last goes.\"\"\"
...     def __init__(self, room):
...         self.order = {}
...     def insert(self, line, arrival):
...         self.order[line] = None
...     def victim(self, incoming):
...         return self.order.popitem()[0] if self.order else None
...     def remove(self, line):
...         del self.order[line]
>>> curves = mrc(Trace.generator("mixed-zipf", requests=2000), ["newest-first", "lru"], [500])
>>> [point["misses"] for point in curves["points"]]
[5221, 5106]

Its options are the keyword-only parameters of `__init__`: their annotations are checked before a run begins, `Annotated[int, range(1, 65),
"Reads that are brought."]` gives bounds and help. The first line of the docstring is its line in lists, `source` is where it was published, and
`draws` are options with which the verified simulation draws it.

A policy must decide by what it is told alone, so that runs repeat themselves: no clock, no random numbers without a seed, and no order that comes
from the hash of texts. An exception ends the run, and is raised by what began it. The interpreter's lock is taken for each call, so
several stacks of a race with classes wait for each other.
"""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from nandu import _nandu
from nandu._errors import InputError
from nandu._nandu import Flash, TranslationPage
from nandu._stack import toml_of

__all__ = [
    "Arrival",
    "Compiled",
    "Cull",
    "Flash",
    "Hit",
    "Look",
    "Map",
    "MapSize",
    "Plane",
    "Planes",
    "Prefetcher",
    "Replacement",
    "Request",
    "Room",
    "Scheduler",
    "Tenants",
    "TranslationPage",
    "Units",
    "Until",
    "Victim",
    "register",
]

Cause = Literal["read"] | Literal["write"] | Literal["prefetch"]
"""Why a line comes: a read or a write asked for one of its blocks, or nobody did yet."""
Recall = Literal["once"] | Literal["often"]
"""What a policy remembers of a line that was here before: it was met once, or several times."""


class Room(NamedTuple):
    """What a replacement policy is made for."""

    blocks: int
    """Blocks that fit, which is also the most lines."""
    line: int
    """Blocks of a line."""


class Arrival(NamedTuple):
    """How a line comes, and which of its blocks are here then: a bit for each."""

    cause: Cause
    recall: Recall | None = None
    """What `miss` said of it."""
    sequential: bool = False
    """The request follows the one before it."""
    cached: int = 1
    """Blocks that a request brought or met."""
    prefetched: int = 0
    """Blocks that were brought ahead and not met."""


class Hit(NamedTuple):
    """How a block of a line is met."""

    prefetched: bool = False
    """It was prefetched and is met for the first time."""
    write: bool = False
    """By a write."""


class Cull(NamedTuple):
    """The prefetched blocks of `line` go. With no other block it goes as a whole, and the policy has forgotten it."""

    line: int


class Compiled(NamedTuple):
    """Addresses of compiled functions that a cache calls in place of the methods of these names. Each is given `state` first. They know a line by its
    place, from 0 to one below `Room.blocks`; at the end of its stay a place is given to another line. An address that is none ends the process.

    numba has them as `cfunc(...).address`, cffi as `int(ffi.cast("intptr_t", lib.insert))`, ctypes as `cast(lib.insert, c_void_p).value`."""

    state: int
    """Address of what the functions work on; it must stay where it is."""
    insert: int
    """`void insert(void *state, uint32_t place, uint64_t line, uint32_t recall)`: a new line is here; `recall` is what `miss` said of it."""
    victim: int
    """`int64_t victim(void *state)`: the place of the line that goes, which is forgotten."""
    remove: int
    """`void remove(void *state, uint32_t place)`: the line goes for a reason of others."""
    hit: int = 0
    """`void hit(void *state, uint32_t place, uint32_t how)`: a block of the line is met; 1 in `how` says that it was prefetched and is met for the
    first time, 2 that a write meets it."""
    miss: int = 0
    """`uint32_t miss(void *state, uint64_t line)`: what is remembered of a line that is about to come: 0 nothing, 1 once, 2 often."""


class Units(NamedTuple):
    """What a prefetcher is made for."""

    block: int
    """Bytes of a block."""
    segment: int
    """Blocks of a segment."""


class Look(NamedTuple):
    """What a read found; ranges are the first block and the one past the last."""

    first: int
    """The first block that it asked for."""
    end: int
    """The block past the last."""
    missing: list[tuple[int, int]]
    """Ranges of these that are neither here nor on their way, in order."""
    used: int
    """Prefetched blocks that were met so far."""
    retired: int
    """Prefetched blocks that were met or have gone so far."""


class Planes(NamedTuple):
    """What a victim policy is made for."""

    blocks: int
    """Blocks of a plane."""
    seed: int
    """For what it draws at random."""


class Plane(NamedTuple):
    """The blocks of a plane; `numpy.asarray` takes each list without a copy."""

    gain: Sequence[int]
    """Pages that clearing each block gains; 0 where it must not be taken."""
    opened: Sequence[int]
    """Number of the program that each was opened with; without meaning where nothing is to gain."""
    erases: Sequence[int]
    """How often each was erased."""
    now: int
    """Number of the drive's last program."""
    pages: int
    """Pages of a block."""


class MapSize(NamedTuple):
    """What a map is made for."""

    pages: int
    """Logical pages."""
    entries: int
    """Entries of a translation page, 4 bytes each."""
    translation_pages: int
    """Translation pages."""
    ram: int
    """Bytes for what is in RAM: the option `cmt_size`."""
    block_pages: int
    """Pages of a block."""
    seed: int
    """For what it draws at random."""


class Tenants(NamedTuple):
    """What a scheduler is made for."""

    weights: Sequence[int]
    """By tenant; the first is SYSTEM, whose requests are those of no export."""


class Request(NamedTuple):
    """A request of a queue, or an operation of a die."""

    number: int
    """By which it is known; lower ones came earlier."""
    tenant: int
    """Whose it is: a place in `Tenants.weights`."""
    read: bool
    """Whether it reads; all else counts as writing."""
    start: int
    """First byte; 0 for an operation of a die."""
    end: int
    """One past the last."""
    cost: int
    """What it is taken to cost the device, in ns."""
    lane: int
    """Where it will be served, as far as that is known: a channel."""


class Until(NamedTuple):
    """Nothing is sent until then, unless a request comes or ends before; in ns, later than now."""

    at: int
    tenant: int = 0
    """Whose request is awaited: what the device stands idle meanwhile is counted for it. 0: nobody's in particular."""


class _Policy:
    source: ClassVar[str] = ""
    """Where it was published."""
    draws: ClassVar[Sequence[Mapping[str, Any]]] = ({},)
    """Options with which the verified simulation draws it, each as often as any other."""

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no method `{method}`, and its family needs one")


class Replacement(_Policy):
    """Which line of a cache goes when memory is short. Lines are known by their numbers.

    `insert`, `victim` and `remove` are needed; who needs the speed of Rust gives them as compiled functions, see `compiled`."""

    line: ClassVar[Literal["block", "segment"]] = "block"
    """What goes at a time."""
    needs: ClassVar[Literal["nothing", "prefetch", "segments"]] = "nothing"
    """What must come ahead of requests for it to make sense."""

    def __init__(self, room: Room) -> None:
        """For a cache of this size."""

    def miss(self, line: int, cause: Cause) -> Recall | None:
        """A line of which nothing is here is about to come; says what is remembered of it."""
        return None

    def insert(self, line: int, arrival: Arrival) -> None:
        """A new line is here."""
        raise self._missing("insert")

    def refill(self, line: int, arrival: Arrival) -> None:
        """More blocks of a line are here."""

    def hit(self, line: int, hit: Hit) -> None:
        """A block of the line is met."""

    def hole(self, line: int, block: int) -> None:
        """A read asked for this block of the line, which is not here. Of a write it is not told: that brings its block along."""

    def victim(self, incoming: Recall | None) -> int | Cull | None:
        """Names what goes, for a line of which `miss` said this, and forgets it; `None` when there is no line."""
        raise self._missing("victim")

    def surplus(self) -> int | Cull | None:
        """Names what goes although memory is not short. It is asked after each event, until it answers `None`."""
        return None

    def remove(self, line: int) -> None:
        """The line goes for a reason of others."""
        raise self._missing("remove")

    def shrunk(self, line: int, cached: int, prefetched: int) -> None:
        """Some blocks of the line went for a reason of others; these are left, a bit for each."""

    def lines(self) -> Iterable[int]:
        """All lines that it keeps; where a class says so, checks hold it against those of the cache."""
        return ()

    def compiled(self) -> Compiled | None:
        """Functions that are called in place of the methods: a batch of requests then runs without the interpreter."""
        return None

    def check(self) -> None:
        """Its invariants: what it asserts is reported by the verified simulation with its seed."""

    def bytes(self) -> int:
        """Bytes of memory that it would take in a drive."""
        return 0

    def counters(self) -> Mapping[str, int]:
        """Its figures by name, which ends with the unit."""
        return {}

    def reset_counters(self) -> None:
        """Counting starts anew; state stays."""


class Prefetcher(_Policy):
    """What a cache reads ahead of requests. `plan` is needed."""

    brings: ClassVar[Literal["ranges", "segments", "segments-around-blocks"]] = "ranges"
    """What comes ahead: ranges of blocks; whole segments, so that a read of missing blocks spans its segments; or segments of which no block is
    here, while a single missing block comes alone."""

    def __init__(self, units: Units) -> None:
        """For a cache of these units."""

    def plan(self, look: Look) -> Iterable[tuple[int, int]] | None:
        """Ranges to bring, each a first block and the one past the last, in order and without overlap."""
        raise self._missing("plan")

    def foresight(self) -> int:
        """How many requests ahead it wants to be told what comes."""
        return 0

    def foresee(self, first: int, end: int) -> None:
        """A read will ask for these blocks."""

    def bytes(self) -> int:
        """Bytes of memory that it would take in a drive."""
        return 0


class Scheduler(_Policy):
    """Whose request goes next. Times are in ns of the simulation. `arrived` and `next` are needed.

    It is asked where the device has room for one more and at least one request waits."""

    one_at_a_time: ClassVar[bool] = False
    """One request at a time is on its way, unless the option `depth` of a queue says otherwise."""
    by_lane: ClassVar[bool] = False
    """It wants to know where requests will be served."""
    dies: ClassVar[bool] = True
    """It goes for the dies of a drive too, which do one operation at a time."""
    anticipation: ClassVar[int] = 0
    """How long it leaves a device idle at most, for a request that it awaits."""

    def __init__(self, tenants: Tenants) -> None:
        """For these tenants."""

    def arrived(self, request: Request, now: int) -> None:
        """A request has come and waits."""
        raise self._missing("arrived")

    def next(self, now: int) -> int | Until | None:
        """The number of the request that goes now; or when to ask again; or `None` for when a request comes or ends, where one is on its way."""
        raise self._missing("next")

    def done(self, request: Request, now: int) -> None:
        """A request that was sent has ended."""

    def set_weight(self, tenant: int, weight: int) -> None:
        """The weight of a tenant is another from here on."""

    def counters(self) -> Mapping[str, int]:
        """Its figures by name, which ends with the unit."""
        return {}

    def reset_counters(self) -> None:
        """Counting starts anew; state stays."""


class Victim(_Policy):
    """Which block of a drive is cleared next. `victim` is needed.

    Its options stand in the table `gc` beside those of collection itself, so they must be called otherwise."""

    def __init__(self, planes: Planes) -> None:
        """For planes of this size."""

    def victim(self, plane: Plane) -> int | None:
        """The place of a block with at least one page to gain; `None` when there is none."""
        raise self._missing("victim")


class Map(_Policy):
    """Which entries of a drive's map are in its RAM. `lookup`, `update`, `moved` and `changed` are needed.

    The map is in translation pages on the flash, and an entry says where a page lies. The drive keeps what lies on the flash, and a table of
    pages that collection has moved; a class decides what is read, kept and written. What it answers is held against where pages really lie.
    A loss of power begins with a new instance. Stacks give `cmt_size`, `gc_batch`, `eviction_write` and `data_program` as for any map on the
    flash; `draws` needs a `cmt_size` that is far too small for a drive of some hundred pages."""

    whole_pages: ClassVar[bool] = False
    """A translation page is in RAM with all its entries or with none. One that is there is written without being read before."""

    def __init__(self, size: MapSize) -> None:
        """For a drive of this size."""

    def begins(self, end: int) -> None:
        """A request begins whose pages end before `end`."""

    def lookup(self, lpn: int, flash: Flash) -> int | None:
        """Where a page lies, `None` where it is unmapped. Where its entry is not in RAM, `flash` reads its translation page."""
        raise self._missing("lookup")

    def update(self, lpn: int, place: int | None, flash: Flash) -> int | None:
        """The page lies at `place` from here on. Returns where it lay before. What must be written to make room is written first."""
        raise self._missing("update")

    def moved(self, lpn: int, place: int, flash: Flash) -> bool:
        """Collection has moved the page, which is no use of its entry. True where that is in RAM, and says so now; else the drive enters it
        later."""
        raise self._missing("moved")

    def changed(self, tp: int) -> Mapping[int, int | None] | TranslationPage:
        """The translation page is being written: its entries in RAM that were changed, by logical page. They count as unchanged from here on."""
        raise self._missing("changed")

    def slots(self) -> int:
        """Entries, or whatever it keeps, that its RAM has room for; 0 where that depends on what they are."""
        return 0

    def check(self) -> None:
        """Its invariants: what it asserts is reported by the verified simulation with its seed."""


FAMILIES: dict[str, type[_Policy]] = {"mapping": Map, "replacement": Replacement, "prefetcher": Prefetcher, "scheduler": Scheduler, "victim": Victim}
REGISTERED: dict[tuple[str, str], type[_Policy]] = {}
"""The classes of this process, by family and name."""
TYPES = {int: "integer", float: "number", str: "string", bool: "boolean", list: "array", dict: "object"}

C = TypeVar("C", bound=type[_Policy])


def register(name: str) -> Callable[[C], C]:
    """Registers a class as the policy `name` of its family, for all stacks of this process. A class may be registered anew, as in a notebook."""

    def registered(cls: C) -> C:
        family = next((family for family, base in FAMILIES.items() if issubclass(cls, base)), None)
        if family is None:
            raise InputError(f"`{name}`: {cls.__name__} derives from none of {', '.join(base.__name__ for base in FAMILIES.values())}")
        if not name or not all(c.isascii() and (c.isalnum() or c == "-") for c in name):
            raise InputError(f"`{name}` is not a name: right are letters, digits and `-`")
        summary = (inspect.getdoc(cls) or cls.__name__).partition("\n")[0] if "__doc__" in vars(cls) else cls.__name__
        draws = [", ".join(f"{key} = {toml_of(value)}" for key, value in draw.items()) for draw in cls.draws]
        schema = json.dumps(_schema(cls))
        _nandu.register(family, name, cls, (summary, cls.source, draws, schema))
        REGISTERED[family, name] = cls
        return cls

    return registered


def _schema(cls: type[_Policy]) -> dict[str, Any]:
    """The JSON schema of the keyword-only parameters of a class."""
    method = cls.__init__
    hints = typing.get_type_hints(method, include_extras=True)
    properties: dict[str, dict[str, Any]] = {}
    required = []
    for key, parameter in inspect.signature(method).parameters.items():
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            continue
        properties[key] = _type(hints.get(key, Any))
        if parameter.default is inspect.Parameter.empty:
            required.append(key)
        elif parameter.default is not None:
            properties[key]["default"] = parameter.default
    return {"type": "object", "properties": properties, "additionalProperties": False, "required": required}


def _type(hint: Any) -> dict[str, Any]:
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        schema = _type(parts[0])
        for more in parts[1:]:
            if isinstance(more, str):
                schema["description"] = more
            elif isinstance(more, range):
                schema |= {"minimum": more.start, "maximum": more[-1]}
        return schema
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (typing.Union, types.UnionType):
        kinds = [_type(part) for part in parts if part is not type(None)]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    kind = TYPES.get(origin or hint)
    return {"type": kind} if kind else {}

"""Policies of your own in Python: two for caches, a prefetcher, a scheduler, a map, and one for collection. Each does what one in Rust does, so that
the two can be compared.

    python own_policies.py trace mrc mixed-zipf --gen requests=20000 --policy lru,my-lru,my-2q
    python own_policies.py verify cache --crash --seeds 20

With these words it is the whole program of Nandu, and knows six policies more.
"""

from __future__ import annotations

import sys
from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any, ClassVar

import nandu
from nandu.policies import Arrival, Cause, Flash, Hit, Look, MapSize, Plane, Recall, Request, Room, Tenants, Units


@nandu.register("my-lru")
class Lru(nandu.Replacement):
    """The line that was used longest ago goes."""

    def __init__(self, room: Room) -> None:
        self.order: OrderedDict[int, None] = OrderedDict()

    def insert(self, line: int, arrival: Arrival) -> None:
        self.order[line] = None

    def hit(self, line: int, hit: Hit) -> None:
        self.order.move_to_end(line)

    def victim(self, incoming: Recall | None) -> int | None:
        return self.order.popitem(last=False)[0] if self.order else None

    def remove(self, line: int) -> None:
        del self.order[line]

    def lines(self) -> Iterable[int]:
        return self.order


@nandu.register("my-2q")
class TwoQ(nandu.Replacement):
    """A queue for new lines, a list for those asked for again (2Q)."""

    source = "Johnson and Shasha, VLDB 1994"
    draws = ({}, {"new": "1/2", "remembered": "2"})

    def __init__(
        self,
        room: Room,
        *,
        new: Annotated[str, "A1in, as a share of the lines. Default 1/4."] = "1/4",
        remembered: Annotated[str, "A1out, as a share of the lines. Default 1/2."] = "1/2",
    ) -> None:
        self.a1in: OrderedDict[int, None] = OrderedDict()
        self.am: OrderedDict[int, None] = OrderedDict()
        self.a1out: OrderedDict[int, None] = OrderedDict()
        self.share = max(1, int(Fraction(new) * room.blocks))
        self.ghosts = max(1, int(Fraction(remembered) * room.blocks))

    def miss(self, line: int, cause: Cause) -> Recall | None:
        if line not in self.a1out:
            return None
        del self.a1out[line]
        return "once"

    def insert(self, line: int, arrival: Arrival) -> None:
        (self.am if arrival.recall == "once" else self.a1in)[line] = None

    def hit(self, line: int, hit: Hit) -> None:
        if line in self.am:
            self.am.move_to_end(line)

    def victim(self, incoming: Recall | None) -> int | None:
        if len(self.a1in) > self.share or not self.am:
            if not self.a1in:
                return None
            line, _ = self.a1in.popitem(last=False)
            self.a1out[line] = None
            if len(self.a1out) > self.ghosts:
                self.a1out.popitem(last=False)
            return line
        return self.am.popitem(last=False)[0]

    def remove(self, line: int) -> None:
        del (self.am if line in self.am else self.a1in)[line]

    def lines(self) -> Iterable[int]:
        return [*self.a1in, *self.am]


@nandu.register("my-blocks-behind")
class BlocksBehind(nandu.Prefetcher):
    """So many blocks behind the last one that is missing; `p-block` of Nandu."""

    draws = ({}, {"blocks": 3})

    def __init__(self, units: Units, *, blocks: Annotated[int, range(1, 4097), "How many. Default 8."] = 8) -> None:
        self.blocks = blocks

    def plan(self, look: Look) -> list[tuple[int, int]]:
        return [(look.missing[-1][1], look.missing[-1][1] + self.blocks)] if look.missing else []


@nandu.register("my-drr")
class Drr(nandu.Scheduler):
    """Deficit round robin by cost; `drr` of Nandu."""

    source = "Shreedhar and Varghese, SIGCOMM 1995"
    draws = ({}, {"quantum_us": 500})

    def __init__(
        self, tenants: Tenants, *, quantum_us: Annotated[int, range(10, 1_000_001), "What a turn adds at weight 100. Default 100."] = 100
    ) -> None:
        self.weights = list(tenants.weights)
        self.quantum = quantum_us * 1000
        self.waiting: list[list[Request]] = [[] for _ in tenants.weights]
        self.deficit = [0] * len(tenants.weights)
        self.turn = 0

    def arrived(self, request: Request, now: int) -> None:
        # By their numbers: at a die one may come late.
        insort(self.waiting[request.tenant], request)

    def next(self, now: int) -> int:
        while True:
            waiting = self.waiting[self.turn]
            if not waiting:
                self.deficit[self.turn] = 0
            elif self.deficit[self.turn] >= waiting[0].cost:
                self.deficit[self.turn] -= waiting[0].cost
                return waiting.pop(0).number
            self.turn = (self.turn + 1) % len(self.waiting)
            self.deficit[self.turn] += max(self.quantum * self.weights[self.turn] // 100, 1)

    def set_weight(self, tenant: int, weight: int) -> None:
        self.weights[tenant] = max(weight, 1)


@nandu.register("my-greedy")
class Greedy(nandu.Victim):
    """The block with the most invalid pages, the first of several."""

    def victim(self, plane: Plane) -> int | None:
        best = max(range(len(plane.gain)), key=plane.gain.__getitem__)
        return best if plane.gain[best] else None


@nandu.register("my-dftl")
class Dftl(nandu.Map):
    """Single entries are in RAM, 8 bytes each; the one that was used longest ago goes. `dftl` of Nandu."""

    source = "Gupta, Kim, Urgaonkar, ASPLOS 2009"
    draws: ClassVar[Sequence[Mapping[str, Any]]] = ({"cmt_size": 24}, {"cmt_size": 160})

    def __init__(self, size: MapSize) -> None:
        self.room = max(2, min(size.ram // 8, size.pages))
        self.places: OrderedDict[int, int | None] = OrderedDict()
        self.dirty: dict[int, set[int]] = {}

    def lookup(self, lpn: int, flash: Flash) -> int | None:
        if lpn in self.places:
            self.places.move_to_end(lpn)
            return self.places[lpn]
        if len(self.places) >= self.room:
            oldest = next(iter(self.places))
            if oldest in self.dirty.get(flash.translation_page(oldest), ()):
                flash.write(flash.translation_page(oldest))
            del self.places[oldest]
        place = flash.take_move(lpn)
        if place is not None:
            self.change(lpn, place, flash)
        else:
            place = self.places[lpn] = flash.read(flash.translation_page(lpn))[lpn]
        return place

    def change(self, lpn: int, place: int | None, flash: Flash) -> None:
        self.places[lpn] = place
        self.dirty.setdefault(flash.translation_page(lpn), set()).add(lpn)

    def update(self, lpn: int, place: int | None, flash: Flash) -> int | None:
        old = self.lookup(lpn, flash)
        self.change(lpn, place, flash)
        return old

    def moved(self, lpn: int, place: int, flash: Flash) -> bool:
        if lpn not in self.places:
            return False
        self.change(lpn, place, flash)
        return True

    def changed(self, tp: int) -> dict[int, int | None]:
        return {lpn: self.places[lpn] for lpn in sorted(self.dirty.pop(tp, ()))}

    def slots(self) -> int:
        return self.room

    def check(self) -> None:
        assert len(self.places) <= self.room, f"{len(self.places)} entries in RAM for {self.room}"


if __name__ == "__main__":
    sys.exit(nandu.main())

"""What the classes of `nandu.devices` have in common: they are tables of a stack file."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Options:
    """Options of a machine, or of a part of one; `None` leaves an option out."""

    _kind: ClassVar[str] = ""
    """The word that tells it apart, where there is a choice."""


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Device(Options):
    """A machine of a stack. Where an option names a device, the device itself may stand."""

    name: str | None = None
    """Its name in the stack. By default the word for its kind, with a number where several have none."""


class Table:
    """The devices of a stack, as they are found."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.devices: dict[str, Any] = {}
        self._names: dict[int, str] = {id(value): name for name, value in given.items() if isinstance(value, Device)}
        self._taken = set(given)
        for name, value in given.items():
            self.devices[name] = self.of(value, whole=True)

    def of(self, value: Any, *, whole: bool = False) -> Any:
        """A value as stack files have it; a device is put into the table, and its name stands for it, unless it is wanted as a `whole`."""
        if isinstance(value, Device) and not whole:
            return self._name(value)
        if isinstance(value, Options):
            fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
            own = {key.rstrip("_"): self.of(part) for key, part in fields if part is not None and not (key == "name" and isinstance(value, Device))}
            return own if not value._kind else {"kind": value._kind, **own}
        if isinstance(value, Mapping):
            return {key: self.of(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.of(part) for part in value]
        return value

    def _name(self, device: Device) -> str:
        known = self._names.get(id(device))
        if known is not None:
            return known
        base = device.name or device._kind
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}-{number}"
        self._taken.add(name)
        self._names[id(device)] = name
        self.devices[name] = self.of(device, whole=True)
        return name


def tables(source: Mapping[str, Any] | Device) -> dict[str, Any]:
    """A stack as the tables of its file. A device alone is what the export `data` stands on."""
    if isinstance(source, Device):
        table = Table({})
        return {"export": {"data": {"device": table.of(source)}}, "device": table.devices}
    table = Table(source.get("device", {}))
    rest = {key: table.of(value) for key, value in source.items() if key != "device"}
    return {**rest, "device": table.devices}


def plain(options: Options) -> Any:
    """Options as a table."""
    return Table({}).of(options, whole=True)

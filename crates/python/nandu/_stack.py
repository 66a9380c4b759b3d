"""Stacks: what storage is made of."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from nandu import _nandu
from nandu._options import Device, Options, plain, tables


def text_of(value: object) -> str:
    """A value as stack files and the command line write it; a table and a list as JSON, whose form TOML has too for lists."""
    if isinstance(value, Options):
        value = plain(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {toml_of(part)}" for key, part in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return toml_of(value)
    return str(value)


def toml_of(value: object) -> str:
    """A value inside a table or a list."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml_of(part) for part in value) + "]"
    return json.dumps(value) if isinstance(value, str) else text_of(value)


class Stack:
    """A stack that was read and checked.

    `source` is a stack file, the name of a built-in stack (`nandu list stacks`), a machine of `nandu.devices` with what it stands on, or a dict with
    the keys of a stack file, in which such machines may stand:

    >>> memory = {"kind": "memory", "size": "16 MiB", "latency": "1 ms"}
    >>> Stack({"export": {"data": {"device": "m"}}, "device": {"m": memory}}).exports
    {'data': 16777216}

    `options` are put over it, each a dotted path and its value; `None` leaves an option out.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Mapping[str, Any] | Device,
        options: Mapping[str, object] | None = None,
        *,
        label: str | None = None,
    ) -> None:
        if isinstance(source, (Mapping, Device)):
            stack = _nandu.Stack.of_json(json.dumps(tables(source)), label or "stack")
        else:
            stack = _nandu.Stack.named(os.fspath(source), label)
        self._stack = stack.with_options(_options(options)) if options else stack

    @staticmethod
    def parse(text: str, *, label: str = "stack") -> Stack:
        """The stack that a text in TOML describes."""
        return Stack._of(_nandu.Stack.parse(text, label))

    @staticmethod
    def _of(stack: _nandu.Stack) -> Stack:
        made = Stack.__new__(Stack)
        made._stack = stack
        return made

    def set(self, path: str, value: object) -> Stack:
        """The same stack with `value` at the dotted `path`, such as `device.ssd.gc.kind`; `None` leaves the option out."""
        return Stack._of(self._stack.with_options(_options({path: value})))

    def named(self, label: str) -> Stack:
        """The same stack under another name."""
        return Stack._of(self._stack.labelled(label))

    @property
    def label(self) -> str:
        """What tables call it."""
        return self._stack.label

    @property
    def exports(self) -> dict[str, int]:
        """Capacity in bytes of each export."""
        return dict(self._stack.exports())

    def to_toml(self) -> str:
        """The text of its file."""
        return self._stack.to_toml()

    def __repr__(self) -> str:
        return f"<nandu.Stack {self.label}>"


def _options(options: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(path, "" if value is None else text_of(value)) for path, value in options.items()]


def stack_of(source: Stack | str | os.PathLike[str] | Mapping[str, Any] | Device) -> _nandu.Stack:
    """What runs take for a stack."""
    return (source if isinstance(source, Stack) else Stack(source))._stack

"""The extension module; `nandu` is the package to use."""

from collections.abc import Callable
from typing import Any, final

__all__ = [
    "__version__",
    "Stack",
    "Trace",
    "Table",
    "Points",
    "Flash",
    "TranslationPage",
    "cli_main",
    "schema",
    "present_field",
    "register",
    "run",
    "compare",
    "sweep",
    "program",
    "advise",
    "mrc",
    "verify",
    "reproduce",
]

__version__: str

_Options = list[tuple[str, str]]
_Said = list[tuple[bool, str]]
_Progress = Callable[[int, int, str], object]

@final
class Stack:
    @staticmethod
    def named(name: str, label: str | None = None) -> Stack: ...
    @staticmethod
    def parse(text: str, label: str) -> Stack: ...
    @staticmethod
    def of_json(json: str, label: str) -> Stack: ...
    @property
    def label(self) -> str: ...
    def labelled(self, label: str) -> Stack: ...
    def with_options(self, options: _Options) -> Stack: ...
    def to_toml(self) -> str: ...
    def exports(self) -> list[tuple[str, int]]: ...

@final
class Flash:
    def translation_page(self, lpn: int) -> int: ...
    def read(self, tp: int) -> TranslationPage: ...
    def write(self, tp: int) -> None: ...
    def take_move(self, lpn: int) -> int | None: ...

@final
class TranslationPage:
    def __getitem__(self, lpn: int, /) -> int | None: ...
    def __setitem__(self, lpn: int, place: int | None, /) -> None: ...
    def __len__(self) -> int: ...
    @property
    def first(self) -> int: ...
    @property
    def entered(self) -> int: ...

@final
class Trace:
    @staticmethod
    def named(name: str, settings: _Options, options: _Options) -> Trace: ...
    @staticmethod
    def of_stream(
        capsule: Any,
        *,
        time: str | None,
        op: str,
        offset: str,
        size: str,
        stream: str | None,
        unit_ns: int,
        label: str,
    ) -> Trace: ...
    @staticmethod
    def of_buffers(
        columns: list[tuple[str, Any]],
        *,
        time: str | None,
        op: str,
        offset: str,
        size: str,
        stream: str | None,
        unit_ns: int,
        label: str,
    ) -> Trace: ...
    @property
    def label(self) -> str: ...
    def to_table(self, seed: int = 1) -> Table: ...

@final
class Table:
    def __new__(cls, columns: dict[str, list[Any]]) -> Table: ...
    def __len__(self) -> int: ...
    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def buffers(self) -> list[tuple[str, str, bytes, list[str]]]: ...
    def to_dict(self) -> dict[str, list[Any]]: ...

@final
class Points:
    def __new__(cls, asked: dict[str, Any], trace: Trace | None, options: _Options, seen: str | None = None) -> Points: ...
    def seen(self) -> str: ...
    def wanted(self) -> list[int]: ...
    def measure(self, point: int) -> str: ...
    def take(self, record: str) -> None: ...
    def told(self) -> tuple[str, _Said]: ...

def cli_main(args: list[str]) -> int: ...
def present_field(old: str) -> str | None: ...
def schema() -> str: ...
def register(family: str, name: str, class_: type, told: tuple[str, str, list[str], str]) -> None: ...
def run(
    stack: Stack,
    trace: Trace | None,
    options: _Options,
    *,
    log: bool = False,
    progress: _Progress | None = None,
) -> tuple[str, Table | None, _Said]: ...
def compare(
    stacks: list[Stack],
    trace: Trace | None,
    options: _Options,
    *,
    jobs: int | None = None,
    progress: _Progress | None = None,
) -> tuple[str, _Said]: ...
def sweep(
    asked: dict[str, Any],
    trace: Trace | None,
    options: _Options,
    *,
    progress: _Progress | None = None,
) -> tuple[str, _Said]: ...
def program() -> str: ...
def advise(
    wanted: dict[str, Any],
    traces: list[Trace],
    tenants: list[tuple[str, Trace]],
    options: _Options,
    *,
    progress: _Progress | None = None,
) -> tuple[str, str | None, _Said]: ...
def mrc(
    trace: Trace,
    policies: list[str],
    sizes: list[str],
    *,
    segment: str | None = None,
    sample: str | None = None,
    repeat: int = 1,
    jobs: int | None = None,
    seed: int = 1,
    progress: _Progress | None = None,
) -> tuple[str, _Said]: ...
def verify(
    what: str | None = None,
    *,
    seeds: int = 100,
    first_seed: int = 1,
    crash: bool = False,
    full_size: bool = False,
    jobs: int | None = None,
    progress: _Progress | None = None,
) -> tuple[str, _Said]: ...
def reproduce(
    paper: str | None = None,
    *,
    quick: bool = False,
    requests: int | None = None,
    seed: int = 1,
    recorded: list[tuple[str, str]] = ...,
    jobs: int | None = None,
    progress: _Progress | None = None,
) -> tuple[str, _Said]: ...

"""How far long work is: a line on stderr, or a bar in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

Told = Callable[[int, int, str], object]
Progress = bool | Told


@contextmanager
def meter(progress: Progress) -> Iterator[Told | None]:
    """What is told how far work is; what it shows is gone when the work ends."""
    if progress is not True:
        yield progress or None
        return
    bar = _marimo_bar() or _jupyter_bar() or _Line(sys.stderr)
    try:
        yield bar.show
    finally:
        bar.ends()


class _Line:
    """A line that is written over and over; nothing where nobody reads along."""

    def __init__(self, out: TextIO) -> None:
        self.out = out if out.isatty() else None

    def show(self, done: int, total: int, what: str) -> None:
        if total and self.out:
            print(f"\r{_share(done, total):3} % of {total:,} {what} ", end="", file=self.out, flush=True)

    def ends(self) -> None:
        if self.out:
            print("\r" + " " * 60 + "\r", end="", file=self.out, flush=True)


class _Jupyter:
    """A bar of a Jupyter notebook, made of the rich display that every front end has."""

    def __init__(self, display: Callable[..., Any], html: Callable[[str], Any]) -> None:
        self.html, self.shown = html, -1
        self.handle = display(html(""), display_id=True)

    def show(self, done: int, total: int, what: str) -> None:
        share = _share(done, total)
        if total and share != self.shown and self.handle is not None:
            self.shown = share
            self.handle.update(self.html(f'<progress value="{share}" max="100"></progress> {share} % of {total:,} {what}'))

    def ends(self) -> None:
        if self.handle is not None:
            self.handle.update(self.html(""))


class _Marimo:
    """A bar of a marimo notebook."""

    def __init__(self, bar_of: Callable[..., Any]) -> None:
        self.bar_of, self.what, self.shown = bar_of, "", 0
        self.bar: Any = None

    def show(self, done: int, total: int, what: str) -> None:
        if not total:
            return
        if self.what != what:
            self.ends()
            self.what, self.shown = what, 0
            self.bar = self.bar_of(total=100, title=f"{total:,} {what}", remove_on_exit=True)
            self.inside = self.bar.__enter__()
        share = _share(done, total)
        if share > self.shown:
            self.inside.update(increment=share - self.shown)
            self.shown = share

    def ends(self) -> None:
        if self.bar is not None:
            self.bar.__exit__(None, None, None)
            self.bar = None


def _share(done: int, total: int) -> int:
    return min(100 * done // total, 100) if total else 0


def _marimo_bar() -> _Marimo | None:
    marimo = sys.modules.get("marimo")
    return _Marimo(marimo.status.progress_bar) if marimo is not None and marimo.running_in_notebook() else None


def _jupyter_bar() -> _Jupyter | None:
    # Nobody can work in a notebook of Jupyter who has not loaded this.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if ipython is None or shell is None or type(shell).__name__ == "TerminalInteractiveShell":
        return None
    from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

    return _Jupyter(display, HTML)

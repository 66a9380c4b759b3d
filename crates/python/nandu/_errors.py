"""What is raised where something is not done: each message says what, where, why and what would be right."""

from __future__ import annotations


class Error(Exception):
    """Something was not done."""

    @property
    def problems(self) -> list[str]:
        """Each problem by itself; help stands on lines of its own that begin with a blank."""
        problems: list[str] = []
        for line in str(self).split("\n"):
            if line.startswith(" ") and problems:
                problems[-1] += "\n" + line
            else:
                problems.append(line)
        return problems


class InputError(Error, ValueError):
    """What was asked for is wrong; the caller can mend it."""


class StackError(InputError):
    """A stack file is wrong: each problem has its file, line and key."""


class TraceError(InputError):
    """A trace or the parameters of a generator are wrong."""


class RunError(Error, RuntimeError):
    """What was asked for is right, but it went wrong."""

"""The command `nandu`: the same function as that of the program which cargo builds."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from nandu._nandu import cli_main


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line of this process, or these words of one, and returns its exit code.

    It knows the policies that were registered, so a file of classes that ends with `sys.exit(nandu.main())` is a program like `nandu`. It is run
    once in a process, and takes over Ctrl-C."""
    # The program ends on Ctrl-C, and when nobody reads what it prints, as programs do.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return cli_main(["nandu", *(sys.argv[1:] if arguments is None else arguments)])

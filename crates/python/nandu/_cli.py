"""The command `nandu`: the same function as that of the program which cargo builds."""

from __future__ import annotations

import signal
import sys

from nandu._nandu import cli_main


def main() -> int:
    """Runs the command line of this process."""
    # The program ends on Ctrl-C, and when nobody reads what it prints, as programs do.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return cli_main(["nandu", *sys.argv[1:]])

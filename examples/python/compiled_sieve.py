"""A policy in a class whose functions are compiled C: the speed of Rust, and still a class with options, raced and verified as any other.

    python compiled_sieve.py trace mrc mixed-zipf --gen requests=1000000 --policy sieve,my-sieve

The compiler is `cc`. The same works with cffi and with numba: what counts are the addresses.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path

import nandu
from nandu.policies import Compiled, Room

SOURCE = Path(__file__).with_name("sieve.c")


def built() -> ctypes.CDLL:
    """The functions of `sieve.c`."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "sieve.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE], check=True)
        return ctypes.CDLL(str(library))


SIEVE = built()
SIEVE.sieve_new.argtypes, SIEVE.sieve_new.restype = [ctypes.c_uint64], ctypes.c_void_p
SIEVE.sieve_free.argtypes = [ctypes.c_void_p]


def address(name: str) -> int:
    """Where a function of the library is."""
    return ctypes.cast(SIEVE[name], ctypes.c_void_p).value or 0


@nandu.register("my-sieve")
class Sieve(nandu.Replacement):
    """A hand passes lines that were met, and takes the first other one."""

    source = "Zhang and others, NSDI 2024"

    def __init__(self, room: Room) -> None:
        self.state = SIEVE.sieve_new(room.blocks)

    def __del__(self) -> None:
        SIEVE.sieve_free(self.state)

    def compiled(self) -> Compiled:
        functions = (address(f"sieve_{name}") for name in ("insert", "victim", "remove", "hit"))
        return Compiled(self.state, *functions)


if __name__ == "__main__":
    sys.exit(nandu.main())

"""Flash storage you can simulate, compare and mount.

A `Stack` is a file, the name of a built-in one, or a dict; a `Trace` is a file, a generator, or a table of any library. `run`, `compare`,
`sweep`, `advise`, `mrc`, `verify` and `reproduce` do what the commands of these names do, and `json` of what they return is what the command
prints with `--json`, byte for byte. Tables are handed to pandas, polars or pyarrow without a copy: `polars.DataFrame(result.intervals)`. Results
draw themselves: `result.plot()` for a paper, `result.chart()` in a notebook. Policies of your own are classes: see `nandu.policies`.

>>> import nandu
>>> load = nandu.Trace.generator("mixed-zipf", requests=5000)
>>> result = nandu.run("small-ssd", load, fit="wrap")
>>> result["total"]["lat_ns"]["percentile"]["99.000000"] > 0
True
"""

from nandu._cli import main
from nandu._errors import Error, InputError, RunError, StackError, TraceError
from nandu._nandu import Table, __version__, schema
from nandu._results import Advice, Curves, Race, Reproduction, Result, Sweep, Verification
from nandu._runs import advise, compare, mrc, reproduce, run, sweep, verify
from nandu._stack import Stack
from nandu._trace import Trace
from nandu.policies import Map, Prefetcher, Replacement, Scheduler, Victim, register

__all__ = [
    "Advice",
    "Curves",
    "Error",
    "InputError",
    "Map",
    "Prefetcher",
    "Race",
    "Replacement",
    "Reproduction",
    "Result",
    "RunError",
    "Scheduler",
    "Stack",
    "StackError",
    "Sweep",
    "Table",
    "Trace",
    "TraceError",
    "Verification",
    "Victim",
    "__version__",
    "advise",
    "compare",
    "main",
    "mrc",
    "register",
    "reproduce",
    "run",
    "schema",
    "sweep",
    "verify",
]

"""Runs a command and prints its CPU seconds (user and system), its peak memory in MiB, and the pages it was handed."""

import resource
import subprocess
import sys

done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=False)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{usage.ru_utime + usage.ru_stime:.3f} {usage.ru_maxrss / 1024:.0f} {usage.ru_minflt}")
sys.exit(done.returncode)

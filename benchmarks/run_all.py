"""All measurements against torchrun, and the table for docs/benchmarks.md.

    python benchmarks/run_all.py                      # a quarter of an hour
    python benchmarks/run_all.py --quick              # about two
    python benchmarks/run_all.py --only torchrun
    python benchmarks/run_all.py --json values.json > table.md

The table goes to standard output, each single value to standard error as it is taken. Needs a C
compiler and, for the comparison, torch. Leave the machine alone meanwhile.
"""

from __future__ import annotations

import sys

import idle
import launch
import memory
import restart
import signalled
import tee
from harness import compare

MODULES = (launch, signalled, restart, memory, idle, tee)

if __name__ == "__main__":
    sys.exit(compare([module.MEASUREMENT for module in MODULES], __doc__))

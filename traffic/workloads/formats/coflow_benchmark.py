"""Facebook's trace (coflow-benchmark) as a job; as it is, without a job, `trace:` in an experiment runs it faster.

Who sends what to whom, and when; nobody computes. Ports become ranks. On a rank that sends, computations of kind
"wait" last from one arrival to the next and release its flows; every Coflow is an EchelonFlow without stagger. An
iteration lasts until the last arrival, and the next one begins then. `coflows` takes only the first to arrive (the
Facebook trace has 706,397 flows), `megabyte` is what the file means by MB, 1 MiB by default. Flows within a port
cross no link: they are dropped and reported. Sizes are rounded to whole bytes, a Coflow's sum kept. Scaled down, such
a job runs on real packets as well; a flow is a TCP connection there, so take few Coflows.

Experiments also run a trace as it is (`trace:`, [traces.md](traces.md)), in the simulator alone: columns in place of
steps, so all of it in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from traffic.workloads.formats._coflows import read_coflows
from traffic.workloads.formats._report import Imported
from traffic.workloads.traces._columns import MEGABYTE_BYTES

SUMMARY = "coflow-benchmark, Facebook's trace: one file; ports become ranks, arrivals timers"
LOOKS_LIKE = re.compile(rb"\d+ \d+\s*\n\d+ \d+ \d+ [\d ]*\d+:\d")
EXAMPLE_FILES = {
    "w.txt": """\
4 3
7 0 2 0 1 2 2:3 3:1
8 1000 1 0 2 0:5 1:0.5
9 1000 2 2 3 1 0:1
"""
}


def read(paths: Sequence[Path], *, megabyte_bytes: int = MEGABYTE_BYTES, coflows: int | None = None) -> Imported:
    """The Coflows of the one file of `paths`, or the first `coflows` to arrive; see `read_coflows`."""
    return read_coflows(paths, "coflow-benchmark", megabyte_bytes=megabyte_bytes, coflows=coflows)

"""Sincronia's traces as a job; as they are, without a job, `trace:` in an experiment runs them faster.

It becomes a job as a trace of `coflow-benchmark` does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from traffic.workloads.formats._coflows import read_coflows
from traffic.workloads.formats._report import Imported
from traffic.workloads.traces._columns import MEGABYTE_BYTES

SUMMARY = "Sincronia's traces: one file; ports become ranks, arrivals timers"
LOOKS_LIKE = re.compile(rb"\d+ \d+\s*\n\d+ \d+ \d+ \d+ \d+( [\d.e+-]+)+\s*(\n|$)")
EXAMPLE_FILES = {
    "w.txt": """\
3 2
1 0 3 2 2 0 1 1.5 0 2 0.1 1 2 2
2 250 1 1 1 2 0 1
"""
}
EXAMPLE = {"megabyte": "1 MB"}


def read(paths: Sequence[Path], *, megabyte_bytes: int = MEGABYTE_BYTES, coflows: int | None = None) -> Imported:
    """The Coflows of the one file of `paths`, or the first `coflows` to arrive; see `read_coflows`."""
    return read_coflows(paths, "sincronia", megabyte_bytes=megabyte_bytes, coflows=coflows)

"""Facebook's trace (coflow-benchmark) as a job; as it is, without a job, `trace:` in an experiment runs it faster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from traffic.workloads.formats._coflows import read_coflows
from traffic.workloads.formats._report import Imported
from traffic.workloads.traces._columns import MEGABYTE_BYTES

SUMMARY = "coflow-benchmark, Facebook's trace: one file; ports become ranks, arrivals timers"


def read(paths: Sequence[Path], *, megabyte_bytes: int = MEGABYTE_BYTES, coflows: int | None = None) -> Imported:
    """The Coflows of the one file of `paths`, or the first `coflows` to arrive; see `read_coflows`."""
    return read_coflows(paths, "coflow-benchmark", megabyte_bytes=megabyte_bytes, coflows=coflows)

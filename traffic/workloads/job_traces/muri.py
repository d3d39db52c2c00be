"""The job traces of Muri, a scheduler that interleaves jobs by the resources that they use (Zhao et al., SIGCOMM 2022).

    job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,...
    2,8,724670000,20901556,vgg16,16,4472933000,197456000,214,82,75,66,0

Submissions are those of Microsoft's Philly trace; models are drawn, and their times were measured on Muri's testbed of V100s.
All times are in milliseconds. `iteration_time` is an iteration of the job alone. `resource_time_0` to `_2` are what it uses of storage
and processors, of its GPUs, and of the network; the last is 0 with one GPU. Stages overlap in part: their sum may be more than
the iteration, or less. Which ones do, the file does not say.

So an iteration is made of its network time, and of computation for the rest of `iteration_time`. That keeps both as measured,
and all communication is exposed: nothing is computed beside it. `duration` is iterations times iteration time, and is not read.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

from echelonflow.bounds import MOST_RANKS, MOST_S
from echelonflow.errors import InputError
from echelonflow.files import is_file
from echelonflow.spelling import shown
from traffic.workloads.job_traces import JobTrace, TracedJob

SUMMARY = "Jobs of a GPU cluster, with measured times of an iteration (Rivendile/Muri, `simulator/trace-data`)"
SOURCE = "get the traces from the public repository Rivendile/Muri, folder simulator/trace-data, and say where they are"
COLUMNS = ("job_id", "num_gpu", "submit_time", "iterations", "model_name", "iteration_time", "resource_time_2")
"""Those that are read."""
MOST_ITERATIONS = 1 << 53
MOST_JOBS = 1_000_000
_MS = 1e-3


def read(path: Path) -> JobTrace:
    """The jobs in the file `path`, in order of their submission.

    Raises InputError, naming the line, for a column that is missing, and for a number that is none or out of range. Also for a
    job that is there twice, and for network time beyond the iteration's.
    """
    try:
        if not is_file(path):
            raise InputError(f"{path}: is not a regular file; name the file of a trace")
        with path.open(encoding="utf-8", newline="") as file:
            jobs = list(_jobs(path, csv.DictReader(file)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: is no table (CSV): {error}") from None
    if not jobs:
        raise InputError(f"{path}: has no jobs; a line for each was expected behind the first, which names columns")
    assumed = (
        "an iteration computes for its time less that on the network, and then communicates: nothing overlaps",
        "storage, processors and GPU are one computation",
    )
    return JobTrace(path.name, sorted(jobs, key=lambda job: job.arrival_s), assumed)


def _jobs(path: Path, rows: csv.DictReader[str]) -> Iterator[TracedJob]:
    missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
    if missing:
        raise InputError(f"{path}: line 1: has no column {missing[0]!r}; a job trace of Muri has {', '.join(COLUMNS)}")
    known: set[str] = set()
    for row in rows:
        line = _Row(f"{path}: line {rows.line_num}", row)
        if len(known) >= MOST_JOBS:
            raise InputError(f"{path}: has more than {MOST_JOBS:,} jobs, which is the bound")
        name = str(line.whole("job_id", 0, MOST_ITERATIONS))
        if name in known:
            raise line.fault(f"job {name} is there twice")
        known.add(name)
        iteration_s = line.number("iteration_time") * _MS
        network_s = line.number("resource_time_2") * _MS
        if not iteration_s > 0:
            raise line.fault("iteration_time is 0; an iteration takes time")
        if network_s > iteration_s:
            raise line.fault(f"an iteration of {iteration_s:g} s is {network_s:g} s on the network, which is more")
        yield TracedJob(
            name,
            line.whole("num_gpu", 1, MOST_RANKS),
            line.number("submit_time") * _MS,
            line.whole("iterations", 1, MOST_ITERATIONS),
            iteration_s,
            network_s,
            (row["model_name"] or "")[:40],
        )


class _Row:
    """One line; where it is not as it should be, InputError says so."""

    def __init__(self, where: str, cells: dict[str, str]) -> None:
        self._where = where
        self._cells = cells

    def fault(self, words: str) -> InputError:
        """The error that says `words` of this line."""
        return InputError(f"{self._where}: {words}")

    def whole(self, column: str, least: int, most: int) -> int:
        """A column as a whole number."""
        text = self._cells[column] or ""
        if not (text.isascii() and text.isdigit() and len(text) < 20 and least <= int(text) <= most):
            raise self.fault(f"{column} is {shown(text)}; a whole number from {least} to {most:,} was expected")
        return int(text)

    def number(self, column: str) -> float:
        """A column as a number that is not negative, of milliseconds."""
        text = self._cells[column] or ""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= MOST_S / _MS:
            raise self.fault(f"{column} is {shown(text)}; a number of milliseconds, not negative, was expected")
        return value

"""The format of the Facebook trace: shuffles, each from some mappers' ports to some reducers' ports.

    <ports> <Coflows>
    <id> <arrival ms> <M> <mapper's port>... <R> <reducer's port>:<MB>...

Ports count from 0. A reducer's bytes come from all mappers in equal shares, so a line stands for M times R flows.
Source: the coflow-benchmark repository; units as in CoflowSim (CoflowBenchmarkTraceProducer, ReduceTask).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from echelonflow.model.coflow_trace import CoflowTrace
from traffic.workloads.traces._columns import MEGABYTE_BYTES, Columns
from traffic.workloads.traces._lines import Line, Lines


@dataclass(frozen=True, slots=True)
class Shuffle:
    """One line: every reducer takes its megabytes in equal shares from all mappers."""

    id: int
    arrival_ms: int
    mappers: tuple[int, ...]
    """Ports."""
    reducers: tuple[tuple[int, float], ...]
    """Ports and megabytes."""


def read(lines: Lines, *, megabyte_bytes: int = MEGABYTE_BYTES) -> CoflowTrace:
    """The trace in `lines`, sizes in bytes (`megabyte_bytes` to the MB), arrivals in seconds.

    Raises InputError naming the line at fault: a number that is none, a port out of range, an arrival before 0. Also a
    size that is not positive, a Coflow without flows, and a count that does not match.
    """
    columns = Columns(lines)
    for line in lines:
        columns.begin(line)
        mappers = _mappers(columns, line)
        port, size_MB = _reducers(columns, line, len(mappers))
        columns.flows(
            src=np.tile(np.array(mappers, np.int64), len(port)),
            dst=np.repeat(np.array(port, np.int64), len(mappers)),
            size_bytes=np.repeat(np.array(size_MB) * megabyte_bytes / len(mappers), len(mappers)),
        )
    return columns.trace()


def _mappers(columns: Columns, line: Line) -> list[int]:
    count = line.whole("the number of mappers", least=1)
    found = []
    for i in range(count):
        what = f"the port of mapper {i + 1} of {count}"
        found.append(columns.port(line, line.text(what), what))
    return found


def _reducers(columns: Columns, line: Line, mappers: int) -> tuple[list[int], list[float]]:
    count = line.whole("the number of reducers", least=1)
    columns.expect_flows(line, count * mappers)
    ports, sizes_MB = [], []
    for i in range(count):
        what = f"reducer {i + 1} of {count}"
        port, colon, size = line.text(f"{what}, such as 3:12.5").partition(":")
        if not colon:
            raise line.fault(f"{port[:40]!r} stands where {what} was expected: <port>:<MB>, such as 3:12.5")
        ports.append(columns.port(line, port, f"the port of {what}"))
        sizes_MB.append(columns.size_MB(line, size, f"the size of {what}"))
    line.end(f"{count} reducers")
    return ports, sizes_MB


def write(ports: int, shuffles: Iterable[Shuffle]) -> str:
    """The text of a trace of `shuffles` between `ports` ports, which `read` reads."""
    lines = [
        " ".join(
            [
                *(str(n) for n in (shuffle.id, shuffle.arrival_ms, len(shuffle.mappers), *shuffle.mappers)),
                str(len(shuffle.reducers)),
                *(f"{port}:{size_MB!r}" for port, size_MB in shuffle.reducers),
            ]
        )
        for shuffle in shuffles
    ]
    return "\n".join([f"{ports} {len(lines)}", *lines]) + "\n"

"""Makes a job of a trace of Coflows, which has no computations: ranks are ports, and timers release what arrives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from echelonflow.coflow_trace import CoflowTrace
from echelonflow.dag import Compute, Group, JobDag, Step, Transfer
from echelonflow.errors import InputError, RunError
from echelonflow.snapshot import Ints
from echelonflow.units import format_duration, format_size
from traffic import traces
from traffic.formats._builder import MAX_STEPS
from traffic.formats._layers import only
from traffic.formats._report import Imported, Report

MOST_RANKS = 10_000
MOST_BYTES = 1 << 53
"""Of all flows together: beyond it, sums of sizes are no longer exact."""

_DIGITS = 9
"""Times are kept to the nanosecond: differences of arrivals are not exact."""


def read_coflows(paths: Sequence[Path], name: str, *, megabyte_bytes: int, coflows: int | None) -> Imported:
    """The trace of format `name` in the one file of `paths`, or its first `coflows` Coflows to arrive, as a job.

    A rank is a port. On every rank that sends, computations of kind "wait" last from one arrival to the next; a Coflow's
    flows wait for that of its arrival. Every Coflow is an EchelonFlow whose offsets are 0, with the trace's weight. An
    iteration lasts until the last arrival; the next one begins then. Flows within a port cross no link and are dropped;
    sizes are rounded to whole bytes so that a Coflow's total is kept. Raises InputError naming file and line, or the
    limit that a trace exceeds.
    """
    path = only(paths, f"a {name} trace")
    whole = traces.read(name, path, {"megabyte_bytes": megabyte_bytes})
    keep = _first_to_arrive(path, whole, coflows)
    flows = np.flatnonzero(np.isin(whole.coflow, keep) & (whole.src != whole.dst))
    _check_limits(path, whole, flows)
    size_bytes, padding_bytes = _whole_bytes(whole, flows)
    dag = JobDag(
        ranks=int(max(whole.src[flows].max(), whole.dst[flows].max())) + 1,
        steps=tuple(_steps(whole, flows, size_bytes)),
        groups=tuple(_groups(whole, flows)),
        next_iteration=tuple(_next_iteration(whole, flows)),
        parameters={"imported": name, "file": path.name},
    )
    sent, bytes_in = int(size_bytes.sum()), round(float(whole.size_bytes[flows].sum()))
    if sent != bytes_in + padding_bytes:
        raise RunError(f"{path}: {bytes_in} bytes were read and {sent} would be sent; this is a fault of the importer")
    report = Report(
        (
            f"{path}: {whole.coflows} Coflows with {whole.flows:,} flows",
            f"{len(keep)} Coflows, arriving until {format_duration(float(whole.arrival_s[keep].max()))}, are imported",
        ),
        tuple(_dropped(whole, keep, flows)),
        (
            f"a megabyte is {megabyte_bytes:,} bytes (megabyte_bytes)",
            "ports are ranks and compute nothing: what releases a Coflow is the time since the iteration's start",
            "a Coflow is an EchelonFlow without stagger (offsets 0)",
            *([f"{padding_bytes} bytes added: a flow has at least 1 byte"] if padding_bytes else []),
        ),
        bytes_in,
        bytes_in,
    )
    return Imported(dag, report)


def _first_to_arrive(path: Path, trace: CoflowTrace, coflows: int | None) -> Ints:
    """Rows of the Coflows to import."""
    if coflows is not None and not 1 <= coflows <= trace.coflows:
        raise InputError(f"{path}: coflows is {coflows}; the trace has 1 to {trace.coflows}")
    return np.argsort(trace.arrival_s, kind="stable")[:coflows]


def _check_limits(path: Path, trace: CoflowTrace, flows: Ints) -> None:
    if not len(flows):
        raise InputError(f"{path}: every flow stays within one port, so there is nothing to send")
    ranks = int(max(trace.src[flows].max(), trace.dst[flows].max())) + 1
    if ranks > MOST_RANKS:
        raise InputError(f"{path}: ports go up to {ranks - 1:,}; a job has at most {MOST_RANKS:,} ranks")
    if trace.size_bytes[flows].sum() > MOST_BYTES:
        raise InputError(f"{path}: the flows have more than {format_size(MOST_BYTES)} together; a job has less")
    if len(flows) + len(_senders(trace, flows)) + ranks > MAX_STEPS:
        raise InputError(
            f"{path}: {len(flows):,} flows make more than {MAX_STEPS:,} steps, which is the limit; set coflows to a few"
        )


def _whole_bytes(trace: CoflowTrace, flows: Ints) -> tuple[Ints, int]:
    """Whole sizes of `flows` whose sum over each Coflow is rounded, not each flow; and what it took to make all positive."""
    order = np.argsort(trace.coflow[flows], kind="stable")
    end = np.rint(np.cumsum(trace.size_bytes[flows][order])).astype(np.int64)
    end[-1] = round(float(trace.size_bytes[flows].sum()))  # whatever the order of adding rounds to
    size = np.empty(len(flows), np.int64)
    size[order] = np.diff(end, prepend=0)
    padded = np.maximum(size, 1)
    return padded, int((padded - size).sum())


def _senders(trace: CoflowTrace, flows: Ints) -> Ints:
    """(port, Coflow) of all that send, each once: rows of two, by port and then by arrival."""
    pairs = np.unique(np.stack([trace.src[flows], trace.coflow[flows]], axis=1), axis=0)
    return pairs[np.lexsort((pairs[:, 1], trace.arrival_s[pairs[:, 1]], pairs[:, 0]))]


def _steps(trace: CoflowTrace, flows: Ints, size_bytes: Ints) -> Iterator[Step]:
    last_s = float(trace.arrival_s[trace.coflow[flows]].max())
    now_s = dict.fromkeys(_ports(trace, flows), 0.0)
    before: dict[int, tuple[str, ...]] = dict.fromkeys(now_s, ())
    for port, row in _senders(trace, flows).tolist():
        arrival_s = float(trace.arrival_s[row])
        wait = Compute(_arrival(trace, row, port), port, round(arrival_s - now_s[port], _DIGITS), before[port], "wait")
        now_s[port], before[port] = arrival_s, (wait.name,)
        yield wait
    for port, since_s in now_s.items():
        yield Compute(_end(port), port, round(last_s - since_s, _DIGITS), before[port], "wait")
    names = _names(trace, flows)
    for flow, name, size in zip(flows.tolist(), names, size_bytes.tolist(), strict=True):
        row, src = int(trace.coflow[flow]), int(trace.src[flow])
        coflow = _coflow(trace, row)
        yield Transfer(name, src, int(trace.dst[flow]), size, coflow, coflow, (_arrival(trace, row, src),))


def _groups(trace: CoflowTrace, flows: Ints) -> Iterator[Group]:
    members: dict[int, list[str]] = {}
    for row, name in zip(trace.coflow[flows].tolist(), _names(trace, flows), strict=True):
        members.setdefault(row, []).append(name)
    for row, names in members.items():
        yield Group(_coflow(trace, row), "coflow", tuple(names), (0.0,) * len(names), float(trace.weight[row]))


def _next_iteration(trace: CoflowTrace, flows: Ints) -> Iterator[tuple[str, str]]:
    """Every port's first step waits for its last."""
    first = {port: _end(port) for port in _ports(trace, flows)}
    for port, row in reversed(_senders(trace, flows).tolist()):
        first[port] = _arrival(trace, row, port)
    for port, step in first.items():
        yield _end(port), step


def _dropped(trace: CoflowTrace, keep: Ints, flows: Ints) -> Iterator[str]:
    if len(keep) < trace.coflows:
        yield f"{trace.coflows - len(keep)} Coflows that arrive later (coflows)"
    within = np.isin(trace.coflow, keep) & (trace.src == trace.dst)
    if within.any():
        size = format_size(float(trace.size_bytes[within].sum()))
        lost = len(keep) - len(np.unique(trace.coflow[flows]))
        whole = f", {lost} Coflows with all of theirs" if lost else ""
        yield f"{int(within.sum()):,} flows of {size} within one port, which cross no link{whole}"


def _ports(trace: CoflowTrace, flows: Ints) -> list[int]:
    ports: list[int] = np.union1d(trace.src[flows], trace.dst[flows]).tolist()
    return ports


def _names(trace: CoflowTrace, flows: Ints) -> list[str]:
    """Unique: a Coflow may have several flows between two ports."""
    seen: dict[int, int] = {}
    names = []
    columns = (trace.coflow[flows].tolist(), trace.src[flows].tolist(), trace.dst[flows].tolist())
    for row, src, dst in zip(*columns, strict=True):
        number = seen[row] = seen.get(row, -1) + 1
        names.append(f"{_coflow(trace, row)} flow {number} {src}->{dst}")
    return names


def _coflow(trace: CoflowTrace, row: int) -> str:
    return f"coflow {trace.coflow_id[row]}"


def _arrival(trace: CoflowTrace, row: int, port: int) -> str:
    return f"{_coflow(trace, row)} arrives @{port}"


def _end(port: int) -> str:
    return f"last arrival @{port}"

"""Makes a job of a trace of Coflows, which has no computations: ranks are ports, and timers release what arrives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Bools, Ints
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.model.units import format_duration, format_size
from traffic.workloads import traces
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.formats._account import Account
from traffic.workloads.formats._iteration import MAX_STEPS
from traffic.workloads.formats._layers import only
from traffic.workloads.formats._report import Imported, Report

MOST_RANKS = 10_000
"""Chakra has a file for each."""
MOST_BYTES = 1 << 53
"""Of all flows together: beyond it, sums of sizes are no longer exact."""

_DIGITS = 9
"""Times are kept to the nanosecond: differences of arrivals are not exact."""


def read_coflows(paths: Sequence[Path], name: str, *, megabyte_bytes: int, coflows: int | None) -> Imported:
    """The trace of format `name` in the one file of `paths`, or its first `coflows` Coflows to arrive, as a job.

    A rank is a port. On every rank that sends, computations of kind "wait" last from one arrival to the next; a Coflow's
    flows wait for that of its arrival. Every Coflow is an EchelonFlow whose offsets are 0. An iteration lasts until the
    last arrival; the next one begins then. Flows within a port cross no link and are dropped; sizes are rounded to
    whole bytes so that a Coflow's total is kept. Raises InputError naming file and line, or the limit that a trace exceeds.
    """
    path = only(paths, f"a {name} trace")
    trace = traces.read(name, path, {"megabyte_bytes": megabyte_bytes})
    keep = _first_to_arrive(path, trace, coflows)
    flows = np.flatnonzero(np.isin(trace.coflow, keep) & (trace.src != trace.dst))
    _check_limits(path, trace, flows)
    size_bytes, padding_bytes = _whole_bytes(trace, flows)
    account = _account(trace, keep, flows, padding_bytes)
    builder = DagBuilder(int(max(trace.src[flows].max(), trace.dst[flows].max())) + 1)
    waits = _add_waits(builder, trace, flows)
    if len(flows) + waits > MAX_STEPS:
        raise _too_many(path, flows)
    _add_transfers(builder, trace, flows, size_bytes)
    dag = builder.dag({"imported": name, "file": path.name})
    imported = np.unique(trace.coflow[flows])
    read = (
        f"{path}: {trace.coflows} Coflows with {trace.flows:,} flows",
        f"{len(imported)} of them, arriving until {format_duration(float(trace.arrival_s[imported].max()))}",
    )
    assumed = (
        f"a megabyte is {megabyte_bytes:,} bytes (megabyte)",
        "ports are ranks and compute nothing: what releases a Coflow is the time since the iteration's start",
        "a Coflow is an EchelonFlow without stagger (offsets 0)",
    )
    return Imported(dag, Report.of(account, dag, source=str(path), read=read, assumed=assumed))


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
        raise InputError(f"{path}: ports go up to {ranks - 1:,}; traces of up to {MOST_RANKS:,} ports can be imported")
    if len(flows) > MAX_STEPS:
        raise _too_many(path, flows)
    total_bytes = float(trace.size_bytes[flows].sum())
    if total_bytes > MOST_BYTES:
        raise InputError(
            f"{path}: the flows have {format_size(total_bytes)} together; up to {format_size(MOST_BYTES)} can be imported"
        )


def _too_many(path: Path, flows: Ints) -> InputError:
    return InputError(
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


def _add_waits(builder: DagBuilder, trace: CoflowTrace, flows: Ints) -> int:
    """What the ports that send wait for, and to the end of the iteration every port; how many waits that are."""
    ports: list[int] = np.union1d(trace.src[flows], trace.dst[flows]).tolist()
    end_s = round(float(trace.arrival_s[trace.coflow[flows]].max()), _DIGITS)
    now_s = dict.fromkeys(ports, 0.0)
    senders = _senders(trace, flows).tolist()
    for port, row in senders:
        arrival_s = round(float(trace.arrival_s[row]), _DIGITS)
        duration_s = round(arrival_s - now_s[port], _DIGITS)
        builder.compute(port, _arrival(trace, row, port), duration_s, (), "wait")
        now_s[port] = arrival_s
    for port in ports:
        builder.compute(port, f"last arrival @{port}", round(end_s - now_s[port], _DIGITS), (), "wait")
    return len(senders) + len(ports)


def _add_transfers(builder: DagBuilder, trace: CoflowTrace, flows: Ints, size_bytes: Ints) -> None:
    """One for each flow; numbered, because a Coflow may have several flows between two ports."""
    columns = (trace.coflow[flows], trace.src[flows], trace.dst[flows], size_bytes)
    count: dict[int, int] = {}
    for row, src, dst, size in zip(*(column.tolist() for column in columns), strict=True):
        coflow = _coflow(trace, row)
        if row not in count:
            builder.group(coflow, "coflow", weight=float(trace.weight[row]))
        number = count[row] = count.get(row, -1) + 1
        name = f"{coflow} flow {number} {src}->{dst}"
        builder.transfer(name, src, dst, size, coflow, coflow, (_arrival(trace, row, src),))


def _account(trace: CoflowTrace, keep: Ints, flows: Ints, padding_bytes: int) -> Account:
    """What the trace has, and what the job of `flows`, of the Coflows `keep`, has less or more of."""
    account = Account()
    kept = np.isin(trace.coflow, keep)
    within = kept & (trace.src == trace.dst)
    account.found(size_bytes=_sum_bytes(trace, np.ones(trace.flows, bool)), communications=trace.coflows)
    if later := trace.coflows - len(keep):
        size_bytes = _sum_bytes(trace, ~kept)
        account.dropped(
            "Coflows that arrive later (coflows)", things=later, size_bytes=size_bytes, communications=later
        )
    if within.any():
        lost = len(keep) - len(np.unique(trace.coflow[flows]))
        size_bytes = _sum_bytes(trace, within)
        whole = f", {lost} Coflows with all of theirs" if lost else ""
        account.dropped(
            f"flows of {format_size(size_bytes)} within one port, which cross no link{whole}",
            things=int(within.sum()),
            size_bytes=size_bytes,
            communications=lost,
        )
    sent = np.zeros(trace.flows, bool)
    sent[flows] = True
    parts = sum(_sum_bytes(trace, part) for part in (~kept, within, sent))
    account.counted("sizes rounded to whole bytes", size_bytes=parts - account.read.size_bytes)
    if padding_bytes:
        account.added("bytes: a flow has at least 1", things=padding_bytes, size_bytes=padding_bytes)
    ports = len(np.union1d(trace.src[flows], trace.dst[flows]))
    account.added(
        "waits of every port for what arrives: timers, no computations",
        things=0,
        compute_s=ports * round(float(trace.arrival_s[trace.coflow[flows]].max()), _DIGITS),
    )
    return account


def _sum_bytes(trace: CoflowTrace, which: Bools) -> int:
    return round(float(trace.size_bytes[which].sum()))


def _coflow(trace: CoflowTrace, row: int) -> str:
    return f"coflow {trace.coflow_id[row]}"


def _arrival(trace: CoflowTrace, row: int, port: int) -> str:
    return f"{_coflow(trace, row)} arrives @{port}"

"""From a job's `trace` entry in an experiment file to the Coflows it names, ready to be simulated."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from echelon.experiment.files import find_file
from echelon.experiment.specs import TraceSpec
from echelonflow.errors import InputError, about
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.model.network import Network
from echelonflow.model.units import format_size, parse_duration_s
from echelonflow.options import bind
from echelonflow.records.manifest import JobNotes
from traffic.workloads import traces

BESIDE = ("coflows", "speed_up", "epoch")


def build_trace(job: str, spec: TraceSpec, folder: Path, network: Network) -> tuple[CoflowTrace, JobNotes]:
    """The Coflows that `spec` asks for and notes on them, a file's name being relative to `folder`.

    Raises InputError, one line per fault: an option that is wrong, a file that is not there, a bad line in it,
    a port that `network` lacks.
    """
    module = about("format", lambda: traces.load(spec.format))
    options = bind(module.read, dict(spec.model_extra or {}), given=("lines",), beside=BESIDE)
    epoch_s = _epoch_s(spec.epoch)
    trace = traces.read(spec.format, find_file(spec.file, folder), options)
    chosen = _chosen(trace, spec, epoch_s)
    _check_ports(chosen, network)
    return chosen, _notes(job, chosen, network)


def _epoch_s(text: str | None) -> float | None:
    if text is None:
        return None
    epoch_s = about("epoch", lambda: parse_duration_s(text))
    if not epoch_s > 0:
        raise InputError(f"epoch: {text!r} must be greater than 0")
    return epoch_s


def _chosen(trace: CoflowTrace, spec: TraceSpec, epoch_s: float | None) -> CoflowTrace:
    """The first Coflows to arrive, at the times that `spec` makes of theirs."""
    arrival_s = trace.arrival_s / spec.speed_up
    if epoch_s is not None:
        # An arrival on a multiple is admitted with the interval that ends there, whatever rounding makes of it.
        arrival_s = np.maximum(np.ceil(arrival_s / epoch_s * (1 - 1e-12)) - 1, 0) * epoch_s
    if spec.coflows is not None and spec.coflows > trace.coflows:
        raise InputError(f"coflows: {spec.coflows} are asked for; {trace.name} has {trace.coflows}")
    keep = np.sort(np.argsort(trace.arrival_s, kind="stable")[: spec.coflows])
    row: Any = np.full(trace.coflows, -1)
    row[keep] = np.arange(len(keep))
    flows = row[trace.coflow] >= 0
    return dataclasses.replace(
        trace,
        coflow_id=trace.coflow_id[keep],
        arrival_s=arrival_s[keep],
        weight=trace.weight[keep],
        coflow=row[trace.coflow[flows]],
        src=trace.src[flows],
        dst=trace.dst[flows],
        size_bytes=trace.size_bytes[flows],
    )


def _check_ports(trace: CoflowTrace, network: Network) -> None:
    port = np.maximum(trace.src, trace.dst)
    worst = int(np.argmax(port))
    if port[worst] >= len(network.hosts):
        raise InputError(
            f"Coflow {trace.coflow_id[trace.coflow[worst]]} has a flow at port {port[worst]}; "
            f"network {network.name} has ports 0 to {len(network.hosts) - 1}"
        )


def _notes(job: str, trace: CoflowTrace, network: Network) -> JobNotes:
    first_s, last_s = float(trace.arrival_s.min()), float(trace.arrival_s.max())
    width = np.bincount(trace.coflow)
    facts = (
        f"{trace.coflows} Coflows with {trace.flows} flows, {format_size(float(trace.size_bytes.sum()))} in all",
        f"arrivals from {first_s:.6g} to {last_s:.6g} s",
        f"the widest has {width.max()} flows, the median {np.median(width):.6g}",
    )
    busiest_s, span_s = _busiest_s(trace, network), last_s - first_s
    warning = (
        f"the busiest port needs {busiest_s:.6g} s for its bytes, more than the {span_s:.6g} s over which they "
        "arrive: completion times grow with the length of the trace"
    )
    return JobNotes(job, facts, (warning,) if busiest_s > span_s > 0 else ())


def _busiest_s(trace: CoflowTrace, network: Network) -> float:
    """The longest time that any host's link needs for all bytes of the trace."""
    hosts = len(network.hosts)
    volume = np.maximum(
        np.bincount(trace.src, weights=trace.size_bytes, minlength=hosts),
        np.bincount(trace.dst, weights=trace.size_bytes, minlength=hosts),
    )
    rate_Bps = dict.fromkeys(network.hosts, np.inf)
    for link, capacity_Bps in zip(network.links, network.capacity_Bps, strict=True):
        for host in (link.src, link.dst):
            if host in rate_Bps:
                rate_Bps[host] = min(rate_Bps[host], capacity_Bps)
    return float(np.max(volume / np.array([rate_Bps[host] for host in network.hosts])))

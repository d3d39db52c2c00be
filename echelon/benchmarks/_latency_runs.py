"""What the runs of a folder say of latency: read once, run by run, valid or not, so that captures of one are in memory at most."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.model.network import Network
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.records.network_file import read_network
from echelonflow.records.outcome import RunOutcome, read_outcome
from echelonflow.records.plan import read_plan
from results.analysis import pcap
from results.analysis.hand_overs import HandOver, hand_overs
from results.analysis.latency import Beginning, beginnings, sending_times_s
from results.analysis.mark_changes import MarkChange, mark_changes
from results.analysis.packets import RunClock, packets_of_run
from results.analysis.read_run import read_run


@dataclass(frozen=True, slots=True)
class LatencyOfRun:
    """One completed run."""

    policy: str
    beginnings: list[Beginning]
    hand_overs: list[HandOver]
    mark_changes: list[MarkChange]


def latencies(folder: Path) -> Iterator[LatencyOfRun]:
    """Every run in `folder` that completed; those that did not are left out (InputError for records that cannot be read)."""
    files = RunFolder(folder)
    network = read_network(files.network)
    for run in files.runs():
        outcome = read_outcome(run.outcome)
        if outcome.completed:
            yield _of_run(files, run, outcome, network)


def _of_run(folder: RunFolder, files: RunFiles, outcome: RunOutcome, network: Network) -> LatencyOfRun:
    zero_s = outcome.zero_monotonic_s
    if zero_s is None:
        raise InputError(f"{files.outcome}: a run that completed has no zero")
    plan, clock = read_plan(files.plan), RunClock.of(outcome)
    record = read_run(files, outcome, plan).record
    captures = {host: pcap.read(folder.capture(outcome.label, host)) for host in outcome.captures}
    packets = packets_of_run(record, plan, captures, clock)
    return LatencyOfRun(
        outcome.policy,
        beginnings(
            files, zero_s, read_decisions(files.decisions), packets, sending_times_s(captures, plan.addresses, clock)
        ),
        hand_overs(record.flows, packets, captures, plan.addresses, clock, _rates_to_hosts_Bps(network)),
        mark_changes(record.decisions, record.flows, captures, plan.addresses, clock),
    )


def _rates_to_hosts_Bps(network: Network) -> dict[str, float]:
    """What the link to each host carries, in payload bytes/s."""
    links = zip(network.links, network.capacity_Bps, strict=True)
    return {link.dst: capacity_Bps for link, capacity_Bps in links if link.dst in network.edge_switch}

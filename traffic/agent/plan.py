"""Makes the plan of a run (`echelonflow.records.plan`), and says which agent knows of what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from echelonflow.errors import InputError
from echelonflow.model.addressing import ip_of
from echelonflow.model.dag import Compute, Job
from echelonflow.model.faults import Fault
from echelonflow.model.network import Network
from echelonflow.model.tcp import send_buffer_bytes
from echelonflow.records.placed_job import PlacedJob
from echelonflow.records.plan import Plan
from echelonflow.wire.declare import declarations
from echelonflow.wire.egress import Egress
from echelonflow.wire.messages import Declare, Queues

PROGRESS_INTERVAL_S = 0.05


def make_plan(
    jobs: Sequence[Job],
    network: Network,
    run_index: int,
    progress_interval_s: float = PROGRESS_INTERVAL_S,
    *,
    addresses: Mapping[str, str] | None = None,
    faults: Sequence[Fault] = (),
    repeat: int = 0,
    queues: Queues | None = None,
) -> Plan:
    """The plan of run `run_index` of `jobs` on `network`, which is the `repeat`th of its policy.

    `addresses` (host to IPv4) replaces those that the network gives its hosts. Agents refuse jobs of which they cannot
    notice every step (`check_observable`). With `queues` every host's egress is known to have the testbed's.
    """
    groups = tuple(declarations(jobs, run_index, network=network))
    return Plan(
        run_index=run_index,
        repeat=repeat,
        progress_interval_s=progress_interval_s,
        send_buffer_bytes=send_buffer_bytes(_fastest_Bps(network, groups)),
        addresses=dict(addresses) if addresses is not None else {host: ip_of(network, host) for host in network.hosts},
        placed=tuple(map(PlacedJob.of, jobs)),
        groups=groups,
        faults=tuple(faults),
        egress={} if queues is None else _egress(network, queues),
    )


def _fastest_Bps(network: Network, groups: Sequence[Declare]) -> float:
    """What the fastest of the paths that flows take carries. Where all of them cross a slow link, more would only wait before it."""
    ends = {(flow.src_host, flow.dst_host) for group in groups for flow in group.flows}
    return max((min(network.capacity_Bps[link] for link in network.path(*each)) for each in ends), default=0.0)


def _egress(network: Network, queues: Queues) -> dict[str, Egress]:
    return {link.src: Egress.of(network, link, queues) for link in network.links if link.src in network.edge_switch}


def hosts_that_know(job: Job, name: str) -> tuple[str, ...]:
    """The hosts whose agents notice that a step has finished.

    A computation is known where it runs, a transfer at its destination (last byte read) and at its source
    (last byte acknowledged).
    """
    step = job.dag.by_name[name]
    return (job.placement[step.rank],) if isinstance(step, Compute) else job.hosts_of(step)


def host_of(job: Job, name: str) -> str:
    """The host whose agent starts a step: where a computation runs, where a transfer leaves from."""
    return hosts_that_know(job, name)[0]


def check_observable(job: Job) -> None:
    """Raise InputError unless every step's agent can itself notice that the steps before it have finished.

    Agents do not tell each other of events: data that arrives is the only message between hosts, as it is
    between workers of a real job.
    """
    for step in job.dag.steps:
        host = host_of(job, step.name)
        for before in (*step.after, *job.dag.previous[step.name]):
            if host not in hosts_that_know(job, before):
                raise InputError(
                    f"job {job.name}: step {step.name!r} on {host} waits for {before!r}, which only "
                    f"{' and '.join(hosts_that_know(job, before))} can notice; put a transfer to {host} between them"
                )

"""The plan of one run: everything that the agents of all hosts need to know, in one JSON file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.model.addressing import ip_of
from echelonflow.model.dag import Compute, Job, job_from_dict, job_to_dict
from echelonflow.model.network import Network

PROGRESS_INTERVAL_S = 0.05
SEND_BUFFER_S = 0.0054
LEAST_SEND_BUFFER_BYTES = 32768
"""Size of a flow's send buffer: what the fastest link carries in SEND_BUFFER_S, and at least so much."""


@dataclass(frozen=True)
class Plan:
    """Jobs placed on hosts, the IPv4 address of every host, and what tells this run from the others."""

    run_index: int
    progress_interval_s: float
    addresses: Mapping[str, str]
    jobs: tuple[Job, ...]
    send_buffer_bytes: int = LEAST_SEND_BUFFER_BYTES

    def __post_init__(self) -> None:
        if self.run_index < 0:
            raise InputError(f"run_index is {self.run_index}; runs count from 0")
        if not self.progress_interval_s > 0:
            raise InputError(f"progress_interval_s is {self.progress_interval_s}; an interval must be positive")
        names = [job.name for job in self.jobs]
        if len(set(names)) != len(names):
            raise InputError("two jobs of the plan have the same name")
        for job in self.jobs:
            unknown = sorted(set(job.placement) - set(self.addresses))
            if unknown:
                raise InputError(f"job {job.name} is placed on host {unknown[0]!r}, for which there is no address")
            check_observable(job)


def write_plan(
    path: Path,
    jobs: Sequence[Job],
    network: Network,
    run_index: int,
    progress_interval_s: float = PROGRESS_INTERVAL_S,
    *,
    addresses: Mapping[str, str] | None = None,
) -> None:
    """Write the plan of run `run_index` of `jobs` on `network` to `path`.

    `addresses` (host to IPv4) replaces those that the network gives its hosts. Raises InputError for a
    plan that agents could not carry out.
    """
    found = addresses if addresses is not None else {host: ip_of(network, host) for host in network.hosts}
    plan = Plan(run_index, progress_interval_s, found, tuple(jobs), send_buffer_bytes(network))
    body = {
        "run_index": plan.run_index,
        "progress_interval_s": plan.progress_interval_s,
        "send_buffer_bytes": plan.send_buffer_bytes,
        "addresses": dict(plan.addresses),
        "jobs": [job_to_dict(job) for job in plan.jobs],
    }
    path.write_text(json.dumps(body), encoding="utf-8")


def send_buffer_bytes(network: Network) -> int:
    """The SO_SNDBUF of every flow on `network`: enough to fill its fastest link, too little to build queues.

    Equal small windows are also what makes TCP share fairly here. Without losses, as at a host's own interface
    (TCP small queues), congestion windows stay as unequal as they happened to start.
    """
    return max(LEAST_SEND_BUFFER_BYTES, round(max(network.capacity_Bps) * SEND_BUFFER_S))


def read_plan(path: Path) -> Plan:
    """The plan in the file at `path`; InputError naming the file if it is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Plan(
            run_index=data["run_index"],
            progress_interval_s=data["progress_interval_s"],
            addresses=data["addresses"],
            jobs=tuple(job_from_dict(job) for job in data["jobs"]),
            send_buffer_bytes=data["send_buffer_bytes"],
        )
    except OSError as error:
        raise InputError(f"plan {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"plan {path} is malformed: {error!r}; write it with traffic.agent.plan.write_plan") from None
    except InputError as error:
        raise InputError(f"plan {path}: {error}") from None


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

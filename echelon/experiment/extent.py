"""How large an experiment is: bounds on all of its jobs together, and the tighter ones of an emulation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from echelonflow.bounds import (
    MOST_EMULATED_HOSTS,
    MOST_EMULATED_STEPS,
    MOST_RUN_STEPS,
    MOST_STEPS,
    BeyondBoundsError,
    check_most,
)
from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.wire.declare import DATA_PORT, FIRST_SOURCE_PORT, MAX_FLOWS

MOST_EMULATED_RUNS = FIRST_SOURCE_PORT - DATA_PORT
"""Receivers listen on another port in every run, and those of senders begin behind theirs."""


MOST_INTERFACE_NAME = 15
"""Letters: Linux's IFNAMSIZ is 16, with the zero at the end."""


class Extent:
    """The steps of the jobs that were made so far."""

    def __init__(self) -> None:
        self.steps = 0
        self.run_steps = 0
        self.exceeded = False
        """Whether a job was refused for its size: then no further one is made."""

    def add(self, job: Job) -> None:
        """Count `job`; BeyondBoundsError where it and those before it are too much."""
        self.steps += len(job.dag.steps)
        self.run_steps += len(job.dag.steps) * job.iterations
        try:
            check_most("steps in one iteration of all jobs so far", self.steps, MOST_STEPS, {})
            asked = {"iterations": job.iterations, "steps": len(job.dag.steps)}
            check_most("steps in all iterations of all jobs so far", self.run_steps, MOST_RUN_STEPS, asked)
        except BeyondBoundsError:
            self.exceeded = True
            raise


def check_emulation(network: Network, jobs: Sequence[Job], repeats: int, policies: int) -> None:
    """BeyondBoundsError, naming the option, for what can be simulated and is too much for an emulation.

    InputError where jobs wait for GPUs.
    """
    waiting = [job.name for job in jobs if not job.is_placed]
    if waiting:
        raise InputError(
            f"queue: {len(waiting):,} jobs wait for GPUs, and are placed as these become free: that is simulated, not "
            "emulated; add --backend fluid, or take the queue away and give each job a placement and a start"
        )
    check_most("emulated hosts", len(network.hosts), MOST_EMULATED_HOSTS, {"hosts": len(network.hosts)})
    ports = Counter(link.src for link in network.links if link.src not in network.edge_switch)
    longest = max((f"{switch}-eth{count}" for switch, count in ports.items()), key=len)
    if len(longest) > MOST_INTERFACE_NAME:
        raise InputError(
            f"network: an emulated interface is called {longest}, which has {len(longest)} letters; Linux takes "
            f"{MOST_INTERFACE_NAME}, so give its switch a shorter name"
        )
    asked = {"repeats": repeats, "policies": policies}
    check_most("emulated runs (each has a port)", repeats * policies, MOST_EMULATED_RUNS, asked)
    check_most("emulated steps in an iteration", sum(len(job.dag.steps) for job in jobs), MOST_EMULATED_STEPS, {})
    sent: Counter[str] = Counter()
    for job in jobs:
        sent.update(job.hosts_of(each)[0] for each in job.dag.transfers if not job.is_local(each))
    for host, flows in sent.most_common(1):
        check_most(f"flows from {host} in an iteration (each has a port)", flows, MAX_FLOWS, {})

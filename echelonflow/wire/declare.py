"""From a placed job to the declarations of its groups, with the ports that name its connections."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from echelonflow.errors import InputError
from echelonflow.model.clock import Clock, clock_of
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.wire.before import before_of
from echelonflow.wire.classes import FLOW_QUEUES
from echelonflow.wire.messages import Declare, FlowClock, FlowDeclaration, JobClock

DATA_PORT = 5001
"""First port that receivers listen on. Run k of an emulation uses DATA_PORT + k, so that no connection is reused."""
FIRST_SOURCE_PORT = 10_000
MAX_FLOWS = 50_000
"""Of one host, per iteration: as many as there are ports."""


def declarations(
    jobs: Sequence[Job], run_index: int = 0, *, ahead: bool = True, network: Network | None = None
) -> list[Declare]:
    """The groups of all jobs in order, each flow with a TCP source port that no other flow of its host has.

    They say what comes before each flow, unless nothing is to be decided `ahead`: finding it out takes time. So does
    what the clocks of the jobs say on a `network`; without one they say nothing.

    Ports are dealt so that flows that meet at an egress are in queues of their own there (`_Ports`). Flows between
    ranks on one host are left out: they do not touch the network. Raises InputError where a host has more
    flows than ports.
    """
    declarer = Declarer(len(jobs), run_index, ahead=ahead, network=network)
    return [group for job in jobs for group in declarer.of(job)]


class Declarer:
    """Declares jobs one after the other, as `declarations` does all of them; so many `jobs` are expected."""

    def __init__(self, jobs: int, run_index: int = 0, *, ahead: bool = True, network: Network | None = None) -> None:
        self._ports = _Ports(jobs)
        self._jobs = jobs
        self._declared = 0
        self._run_index = run_index
        self._ahead = ahead
        self._network = network

    def of_newcomer(self, job: Job) -> list[Declare]:
        """The groups of a job that comes when others may have gone: their ports are dealt again where none is left."""
        try:
            return self.of(job)
        except InputError:
            self._ports = _Ports(self._jobs)
            return self.of(job)

    def of(self, job: Job) -> list[Declare]:
        """The groups of one more job, in order (InputError where a host has more flows than ports)."""
        found = []
        place, self._declared = self._declared, self._declared + 1
        compute_s = math.fsum(step.duration_s for step in job.dag.computes)
        flows: dict[str, list[FlowDeclaration]] = {group.name: [] for group in job.dag.groups}
        before = before_of(job) if self._ahead else {}
        network, ports = self._network, _dealt(self._ports, place, job)
        clock = None if network is None else clock_of(job, network, _pinned(job, network, ports))
        job_clock = None if clock is None else JobClock(clock.iteration_s, job.iterations)
        for index, transfer in enumerate(job.dag.transfers):
            if job.is_local(transfer):
                continue
            src, dst = job.hosts_of(transfer)
            flows[job.dag.group_of[transfer.name].name].append(
                FlowDeclaration(
                    flow=transfer.name,
                    index=index,
                    coflow=transfer.coflow,
                    src_host=src,
                    dst_host=dst,
                    size_bytes=transfer.size_bytes,
                    offset_s=job.dag.offset_s[transfer.name],
                    src_port=ports[job.name, transfer.name],
                    dst_port=DATA_PORT + self._run_index,
                    before=before.get(transfer.name),
                    clock=None if clock is None else _flow_clock(clock, transfer.name),
                )
            )
        for group in job.dag.groups:
            if flows[group.name]:
                weight = group.weight * job.weight
                declared = tuple(flows[group.name])
                found.append(Declare(job.name, group.name, group.kind, weight, declared, compute_s, job_clock))
        return found


def source_ports(jobs: Sequence[Job]) -> dict[tuple[str, str], int]:
    """The TCP source port of each transfer that crosses the network, by names of job and transfer (InputError as above)."""
    ports = _Ports(len(jobs))
    return {key: port for place, job in enumerate(jobs) for key, port in _dealt(ports, place, job).items()}


def _dealt(ports: _Ports, place: int, job: Job) -> dict[tuple[str, str], int]:
    """The same of the job in one place."""
    return {
        (job.name, transfer.name): ports.deal(place, *job.hosts_of(transfer))
        for transfer in job.dag.transfers
        if not job.is_local(transfer)
    }


def paths_of(jobs: Sequence[Job], network: Network) -> dict[tuple[str, str], tuple[int, ...]]:
    """The links that each transfer takes which crosses `network`, by names of job and transfer."""
    ports = source_ports(jobs) if network.spreads_connections else {}
    return {
        (job.name, transfer.name): network.path(*job.hosts_of(transfer), ports.get((job.name, transfer.name)))
        for job in jobs
        for transfer in job.dag.transfers
        if not job.is_local(transfer)
    }


def _pinned(job: Job, network: Network, ports: Mapping[tuple[str, str], int]) -> dict[str, tuple[int, ...]] | None:
    """The paths of a job's connections; None where they follow from their ends."""
    if not network.spreads_connections:
        return None
    return {
        transfer.name: network.path(*job.hosts_of(transfer), ports[job.name, transfer.name])
        for transfer in job.dag.transfers
        if not job.is_local(transfer)
    }


def _flow_clock(clock: Clock, transfer: str) -> FlowClock:
    return FlowClock(
        clock.lead_s[transfer],
        clock.rest_s[transfer],
        clock.tail_s[transfer],
        clock.to_end_s[transfer],
        clock.layer[transfer],
        clock.lasts_s[transfer],
    )


class _Ports:
    """Deals source ports, whose low bits tell the queues of a class apart (`FLOW_QUEUES`).

    Flows that share a queue get one share between them. Those of different jobs never share one, as long as there are
    no more jobs than queues: which of them meet, nobody knows. Those of one job, dealt in the order of its
    DAG, are in the queue that was dealt longest ago where they leave and where they arrive.
    """

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._dealt: dict[str, int] = {}
        """By end of a cable: how many flows have been dealt there."""
        self._last: dict[str, list[int]] = {}
        """By end of a cable and queue: the number of the flow dealt last."""
        self._used: dict[str, list[int]] = {}
        """By host and queue: how many ports are taken."""

    def deal(self, job: int, src: str, dst: str) -> int:
        """A port of `src` for a flow to `dst` of the job in place `job` (InputError where none is left)."""
        out, into = f"{src}>", f">{dst}"
        used = self._used.setdefault(src, [0] * FLOW_QUEUES)
        last_out, last_into = (self._last.setdefault(end, [-FLOW_QUEUES] * FLOW_QUEUES) for end in (out, into))
        dealt_out, dealt_into = self._dealt.get(out, 0), self._dealt.get(into, 0)
        most = MAX_FLOWS // FLOW_QUEUES
        own = range(job % FLOW_QUEUES, FLOW_QUEUES, self._jobs)
        queue, longest_ago = -1, -1
        for queues in (own, range(FLOW_QUEUES)):
            for each in queues:
                ago = min(dealt_out - last_out[each], dealt_into - last_into[each])
                if ago > longest_ago and used[each] < most:
                    queue, longest_ago = each, ago
            if queue >= 0:
                break
        else:
            raise InputError(f"host {src} sends more than {MAX_FLOWS} flows per iteration, which need as many ports")
        last_out[queue], last_into[queue] = dealt_out, dealt_into
        self._dealt[out], self._dealt[into] = dealt_out + 1, dealt_into + 1
        used[queue] += 1
        return FIRST_SOURCE_PORT + FLOW_QUEUES * (used[queue] - 1) + queue

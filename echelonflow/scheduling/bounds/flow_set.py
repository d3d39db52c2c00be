"""Flows whose releases are known beforehand: the scheduling problem without the computation around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.dag import Job, Transfer, run_without_network
from echelonflow.model.network import Network
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.wire.declare import paths_of


@dataclass(frozen=True, eq=False)
class FlowSet:
    """n flows of g groups on L links; paths in compressed rows, as in a snapshot.

    The tardiness of a group is the largest, over its flows, of finish less `due_s`, and at least `at_least_s`.
    """

    size_bytes: Floats
    """n, positive."""
    release_s: Floats
    due_s: Floats
    """n ideal finish times; may lie before the release, or be negative."""
    group: Ints
    """n values in 0 .. g - 1."""
    path_start: Ints
    path_link: Ints
    capacity_Bps: Floats
    weight: Floats
    """g, positive."""
    at_least_s: Floats
    """g; what is known beforehand, minus infinity where nothing is."""
    names: tuple[str, ...] = ()
    """g, or empty."""

    @property
    def flows(self) -> int:
        return len(self.size_bytes)

    @property
    def groups(self) -> int:
        return len(self.weight)

    def paths(self) -> list[Ints]:
        """The links of each flow."""
        return [self.path_link[a:b] for a, b in zip(self.path_start[:-1], self.path_start[1:], strict=True)]

    def only(self, group: int) -> FlowSet:
        """The flows of one group."""
        rows = np.flatnonzero(self.group == group)
        paths = self.paths()
        return FlowSet(
            self.size_bytes[rows],
            self.release_s[rows],
            self.due_s[rows],
            np.zeros(len(rows), np.int64),
            *compressed([paths[row] for row in rows]),
            self.capacity_Bps,
            self.weight[[group]],
            self.at_least_s[[group]],
            self.names[group : group + 1],
        )


def compressed(paths: Sequence[Sequence[int] | Ints]) -> tuple[Ints, Ints]:
    """Paths in compressed rows: where each starts, and all links one after the other."""
    start = np.cumsum([0, *map(len, paths)]).astype(np.int64)
    return start, np.array([link for path in paths for link in path], np.int64)


def of_snapshot(snapshot: Snapshot) -> FlowSet:
    """What is left of the released flows of a snapshot; bytes not yet released are left out."""
    groups = snapshot.groups
    released_s = np.full(snapshot.flows, snapshot.now_s)
    return FlowSet(
        snapshot.remaining_bytes, released_s, snapshot.ideal_finish_s, snapshot.group, snapshot.path_start,
        snapshot.path_link, snapshot.capacity_Bps, groups.weight, groups.incurred_tardiness_s,
    )  # fmt: skip


def of_jobs(jobs: Sequence[Job], network: Network) -> FlowSet:
    """All flows of all iterations of `jobs`, one group per (job, iteration, EchelonFlow).

    Raises InputError, naming the flow, where a release depends on another flow. Then it is not known beforehand, nor is
    the group's reference time, so no bound on tardiness follows from the flows alone.
    """
    size, release, due, member, paths = [], [], [], list[int](), list[tuple[int, ...]]()
    weights: list[float] = []
    names: list[str] = []
    path_of = paths_of(jobs, network)
    for job in jobs:
        _refuse_chains(job)
        runs = run_without_network(job.dag, job.iterations)
        for iteration, run in enumerate(runs):
            for group in job.dag.groups:
                flows = [job.dag.by_name[name] for name in group.transfers]
                offsets = dict(zip(group.transfers, group.offsets_s, strict=True))
                there = [f for f in flows if isinstance(f, Transfer) and not job.is_local(f)]
                if not there:
                    continue
                head_s = min(offsets[f.name] for f in there)
                released = {f.name: job.start_s + run[f.name][0] for f in there}
                reference_s = min(released[f.name] for f in there if offsets[f.name] == head_s) - head_s
                for f in there:
                    size.append(float(f.size_bytes))
                    release.append(released[f.name])
                    due.append(reference_s + offsets[f.name])
                    member.append(len(weights))
                    paths.append(path_of[job.name, f.name])
                weights.append(job.weight * group.weight)
                names.append(f"{job.name}/{iteration}/{group.name}")
    if not names:
        raise InputError("no job has a flow that crosses the network; there is nothing to bound")
    return FlowSet(
        np.array(size), np.array(release), np.array(due), np.array(member, np.int64), *compressed(paths),
        np.array(network.capacity_Bps), np.array(weights), np.full(len(weights), -np.inf), tuple(names),
    )  # fmt: skip


def _refuse_chains(job: Job) -> None:
    """InputError if any flow of `job` waits, however indirectly, for a flow that crosses the network."""
    dag = job.dag
    later = {t.name for t in dag.transfers if not job.is_local(t)}
    waiting: set[str] = set()
    for _ in range(1 if job.iterations == 1 else 2):  # the second pass follows what one iteration hands to the next
        for name in dag.order:
            before = list(dag.by_name[name].after)
            if job.iterations > 1:
                before += dag.previous[name]
            if any(other in later or other in waiting for other in before):
                waiting.add(name)
    chained = [name for name in dag.order if name in waiting and name in later]
    if chained:
        raise InputError(
            f"job {job.name}: flow {chained[0]!r} is released by another flow's end; tardiness is only bounded for "
            "releases known beforehand"
        )

"""A job's DAG in the making: steps chained on their GPU, flows in groups, offsets derived in the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from echelonflow.model.dag import Compute, Group, JobDag, Step, Transfer, derived_offsets
from traffic.workloads.collectives import Algorithm, Collective, expand

Rule = Literal["equal", "derived"] | Callable[[Sequence[str]], Sequence[float]]
"""Offsets of a group: all 0; from the DAG; or what a function makes of its flows in the order of consumption."""


class Draft:
    """Collects the steps of one iteration; `dag` makes the JobDag of them.

    A rank's GPU runs its computations in the order in which they are added, in every iteration anew: its first
    one waits for its last one of the iteration before.
    """

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._steps: list[Step] = []
        self._pairs: list[tuple[str, str]] = []
        self._first: dict[int, str] = {}
        self._last: dict[int, str] = {}
        self._awaited: dict[int, list[str]] = {}
        self._groups: dict[str, tuple[str, Rule]] = {}

    def compute(self, rank: int, name: str, duration_s: float, after: Iterable[str] = (), kind: str = "compute") -> str:
        """Add a computation to the GPU of `rank`, behind those it has, after steps that its host can notice."""
        before = [self._last[rank]] if rank in self._last else []
        self._first.setdefault(rank, name)
        inputs = dict.fromkeys([*before, *self._awaited.pop(rank, ()), *after])
        self._steps.append(Compute(name, rank, duration_s, tuple(inputs), kind))
        self._last[rank] = name
        return name

    def beside(self, rank: int, name: str, duration_s: float, after: Iterable[str], kind: str) -> str:
        """Add a computation of `rank` that takes nothing from its GPU."""
        self._steps.append(Compute(name, rank, duration_s, tuple(dict.fromkeys(after)), kind))
        return name

    def hold(self, rank: int, after: Iterable[str]) -> None:
        """Let the next computation of the GPU of `rank` wait for these steps too."""
        self._awaited.setdefault(rank, []).extend(after)

    def group(self, name: str, kind: str, rule: Rule = "equal") -> str:
        """Declare a group; without flows it is left out."""
        self._groups[name] = (kind, rule)
        return name

    def transfer(
        self, name: str, src: int, dst: int, size_bytes: int, group: str, coflow: str = "", after: Iterable[str] = ()
    ) -> str:
        """Add a flow of a declared group; a Coflow of its own unless `coflow` is given."""
        self._steps.append(Transfer(name, src, dst, size_bytes, group, coflow or name, tuple(dict.fromkeys(after))))
        return name

    def collective(
        self,
        name: str,
        collective: Collective,
        algorithm: Algorithm,
        ranks: Sequence[int],
        size_bytes: int,
        after: Sequence[Iterable[str]],
        group: str = "",
        kind: str = "",
    ) -> dict[int, tuple[str, ...]]:
        """Add a collective, one Coflow; for each rank, the steps after which it is over there.

        It belongs to `group`, or without one is a group of its own, of kind `kind`.
        """
        member_of = group or self.group(name, kind)
        inputs = [tuple(dict.fromkeys(steps)) for steps in after]
        found = expand(name, collective, algorithm, ranks=ranks, size_bytes=size_bytes, after=inputs, group=member_of)
        self._steps.extend(found.transfers)
        return dict(zip(ranks, found.done, strict=True))

    def next_iteration(self, earlier: str, later: str) -> None:
        """Step `later` waits for step `earlier` of the iteration before."""
        self._pairs.append((earlier, later))

    def dag(self, parameters: Mapping[str, Any]) -> JobDag:
        """The DAG of what was added; groups in the order in which they were declared."""
        members: dict[str, list[str]] = {name: [] for name in self._groups}
        for step in self._steps:
            if isinstance(step, Transfer):
                members[step.group].append(step.name)
        equal = tuple(
            Group(name, kind, tuple(members[name]), (0.0,) * len(members[name]))
            for name, (kind, _) in self._groups.items()
            if members[name]
        )
        pairs = [(self._last[rank], self._first[rank]) for rank in sorted(self._first)]
        job_dag = JobDag(self._ranks, tuple(self._steps), equal, (*pairs, *self._pairs), dict(parameters))
        if all(rule == "equal" for _, rule in self._groups.values()):
            return job_dag
        offsets = derived_offsets(job_dag)
        return job_dag.with_groups(_arranged(group, self._groups[group.name][1], offsets) for group in equal)


def _arranged(group: Group, rule: Rule, offsets: Mapping[str, float]) -> Group:
    if rule == "equal":
        return group
    flows = tuple(sorted(group.transfers, key=offsets.__getitem__))
    found = [offsets[name] for name in flows] if rule == "derived" else rule(flows)
    return dataclasses.replace(group, transfers=flows, offsets_s=tuple(found))

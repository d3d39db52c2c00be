"""A job's clock: when each of its transfers has to end for iterations to come as fast as they can.

What waits for a transfer is measured to the end of the *next* iteration. So it counts if the next iteration is let begin
before this one has ended, and a transfer that nobody waits for soon has slack. Computations count as they are profiled.
A transfer counts as long as its Coflow needs at the slowest link on the way, alone: its flows are served together.

**Terms.** The *lead* of a transfer is the longest path from the start of its iteration to its release. Its *rest* is the
longest path from its end through computations of its own iteration. So an iteration has ended when each of its transfers
has, and its rest is over. The *tail* of a transfer is the longest path from its end to the end of the next iteration. If that
is to end at e, the transfer has to end by e - tail. To the end of its own iteration it is the *way to the end*. The *layer* of
a transfer is its place in the order in which computations of an iteration wait for them, of this or of the next one.

The *least iteration time* is what neither order nor speed of others can undercut. It is the mean weight of the heaviest
cycle of the DAG, or the time that one iteration takes of its busiest rank or link.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from echelonflow.model.dag import Compute, Job, Transfer
from echelonflow.model.network import Network

CYCLES = 16
"""So many iterations are followed to find how long one takes. They repeat after as many as there are ranks at most, and in
jobs of every paradigm after one or two."""


@dataclass(frozen=True)
class Clock:
    """Seconds; by name of the transfers that cross the network."""

    lead_s: Mapping[str, float]
    rest_s: Mapping[str, float]
    tail_s: Mapping[str, float]
    to_end_s: Mapping[str, float]
    layer: Mapping[str, int]
    """From 0; those that are waited for at once have the same."""
    lasts_s: Mapping[str, float]
    """How long it takes."""
    iteration_s: float
    """The least iteration time."""


Paths = Mapping[str, tuple[int, ...]]
"""By name of a transfer, the links that it takes."""


def clock_of(job: Job, network: Network, paths: Paths | None = None) -> Clock:
    """The clock of a job on a network that it has to itself; its transfers take `paths`, or those of their destinations."""
    dag = job.dag
    load_s = _loads_s(job, network, paths)
    lasts_s = _durations_s(job, network, paths)
    nothing = [0.0] * len(dag.steps)
    leads_s, _ = _forward(job, lasts_s, nothing)
    to_end_s = _backward(job, lasts_s, nothing)
    next_s = [lasts_s[place] + to_end_s[place] for place in range(len(dag.steps))]
    tails_s = _backward(job, lasts_s, _waited_for(job, next_s))
    crossing = [place for place, step in enumerate(dag.steps) if isinstance(step, Transfer) and not job.is_local(step)]
    rests_s = _backward(job, lasts_s, nothing, but=frozenset(crossing))
    layers = _layers(job, leads_s, crossing)
    return Clock(
        lead_s={dag.steps[place].name: leads_s[place] for place in crossing},
        rest_s={dag.steps[place].name: rests_s[place] for place in crossing},
        tail_s={dag.steps[place].name: tails_s[place] for place in crossing},
        to_end_s={dag.steps[place].name: to_end_s[place] for place in crossing},
        layer={dag.steps[place].name: layer for place, layer in zip(crossing, layers, strict=True)},
        lasts_s={dag.steps[place].name: lasts_s[place] for place in crossing},
        iteration_s=max(_cycle_s(job, lasts_s), load_s),
    )


def _durations_s(job: Job, network: Network, known: Paths | None) -> list[float]:
    """How long each step takes: a transfer as long as its Coflow on the way that it takes itself."""
    coflow_s: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    paths = _paths(job, network, known)
    for transfer, path in paths:
        for link in path:
            coflow_s[transfer.coflow][link] += transfer.size_bytes / network.capacity_Bps[link]
    taken_s = {transfer.name: max(coflow_s[transfer.coflow][link] for link in path) for transfer, path in paths}
    return [step.duration_s if isinstance(step, Compute) else taken_s.get(step.name, 0.0) for step in job.dag.steps]


def least_iteration_s(job: Job, network: Network, paths: Paths | None = None) -> float:
    """What iterations of a job take at least in the long run, whatever the scheduler: each transfer has its way to itself."""
    own_s = {
        transfer.name: max(transfer.size_bytes / network.capacity_Bps[link] for link in path)
        for transfer, path in _paths(job, network, paths)
    }
    lasts_s = [step.duration_s if isinstance(step, Compute) else own_s.get(step.name, 0.0) for step in job.dag.steps]
    return max(_cycle_s(job, lasts_s), _loads_s(job, network, paths))


def _loads_s(job: Job, network: Network, known: Paths | None) -> float:
    """How long one iteration keeps its busiest rank or link."""
    rank_s: dict[int, float] = defaultdict(float)
    for step in job.dag.computes:
        rank_s[step.rank] += step.duration_s
    return max([*rank_s.values(), *link_loads_s(job, network, known).values(), 0.0])


def link_loads_s(job: Job, network: Network, paths: Paths | None = None) -> dict[int, float]:
    """How long one iteration keeps each link that it uses; `paths` as of `clock_of`."""
    found: dict[int, float] = defaultdict(float)
    for transfer, path in _paths(job, network, paths):
        for link in path:
            found[link] += transfer.size_bytes / network.capacity_Bps[link]
    return dict(found)


def _paths(job: Job, network: Network, known: Paths | None) -> list[tuple[Transfer, tuple[int, ...]]]:
    return [
        (transfer, network.path(*job.hosts_of(transfer)) if known is None else known[transfer.name])
        for transfer in job.dag.transfers
        if not job.is_local(transfer)
    ]


def _forward(job: Job, lasts_s: Sequence[float], earliest_s: Sequence[float]) -> tuple[list[float], list[float]]:
    """When each step begins and ends in an iteration whose steps may not begin before `earliest_s`."""
    begins_s, ends_s = list(earliest_s), [0.0] * len(lasts_s)
    before = job.dag.places_before
    for place in job.dag.places_in_order:
        begins_s[place] = max([begins_s[place], *(ends_s[each] for each in before[place])])
        ends_s[place] = begins_s[place] + lasts_s[place]
    return begins_s, ends_s


def _backward(job: Job, lasts_s: Sequence[float], later_s: Sequence[float], but: Collection[int] = ()) -> list[float]:
    """The longest path from the end of each step on, which leads through no step of `but`; the next iteration adds `later_s`."""
    tails_s = list(later_s)
    before = job.dag.places_before
    for place in reversed(job.dag.places_in_order):
        if place in but:
            continue
        for each in before[place]:
            tails_s[each] = max(tails_s[each], lasts_s[place] + tails_s[place])
    return tails_s


def _waited_for(job: Job, next_s: Sequence[float]) -> list[float]:
    """For each step, the longest path from its end on that leads through the next iteration at once."""
    found = [0.0] * len(next_s)
    place = job.dag.place
    for earlier, later in job.dag.next_iteration:
        found[place[earlier]] = max(found[place[earlier]], next_s[place[later]])
    return found


def _layers(job: Job, begins_s: Sequence[float], transfers: Sequence[int]) -> list[int]:
    """The layers of `transfers`. What leads to other transfers alone is waited for when they are; what nothing waits for is last."""
    dag = job.dag
    needed_s = [begins_s[place] if isinstance(step, Compute) else math.inf for place, step in enumerate(dag.steps)]
    later: dict[int, list[int]] = defaultdict(list)
    for place, before in enumerate(dag.places_before):
        for each in before:
            later[each].append(place)
    for earlier, after in dag.next_iteration:
        later[dag.place[earlier]].append(dag.place[after])
    for _ in range(2):  # the second time for what leads to transfers of the next iteration
        for place in reversed(dag.places_in_order):
            if isinstance(dag.steps[place], Transfer):
                needed_s[place] = min((needed_s[each] for each in later[place]), default=math.inf)
    at = [round(needed_s[place] * 1e9) if needed_s[place] < math.inf else -1 for place in transfers]
    known = {each: number for number, each in enumerate(sorted(set(at) - {-1}))}
    return [known.get(each, len(known)) for each in at]


def _cycle_s(job: Job, lasts_s: Sequence[float]) -> float:
    """How long an iteration takes in the long run if every transfer has the network to itself."""
    place = job.dag.place
    pairs = [(place[earlier], place[later]) for earlier, later in job.dag.next_iteration]
    earliest_s, last_s = [0.0] * len(lasts_s), [0.0]
    for _ in range(CYCLES):
        _, ends_s = _forward(job, lasts_s, earliest_s)
        last_s.append(max(last_s[-1], *ends_s) if ends_s else last_s[-1])
        earliest_s = [0.0] * len(lasts_s)
        for earlier, later in pairs:
            earliest_s[later] = max(earliest_s[later], ends_s[earlier])
    half = CYCLES // 2
    return (last_s[-1] - last_s[half]) / (CYCLES - half)

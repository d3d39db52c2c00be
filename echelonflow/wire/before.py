"""What comes before the release of each flow of a job: from its DAG, through computations and transfers within a host.

Declarations carry it (`Before`), so that the coordinator can decide for a flow before it is released. What is known
once a step has finished is a set of *facts*: a flow has ended, or is released, in this iteration or the one before.
Where a computation releases a flow, that release says all that the computation's end says. So a hundred gradients of
one backward pass name one another in turn, and not each of them every flow of the iteration before.

A job may hold a flow back that is ready, and so release a later one before it. Here such a flow counts as released: what
its computation's end says is true from then on, and `Candidates` infers it from whatever is released.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from echelonflow.model.dag import Job
from echelonflow.wire.messages import MOST_BEFORE, Before


class _Fact(NamedTuple):
    """A flow of this iteration, or of the one before, has ended or else is released."""

    flow: int
    ended: bool
    previous: bool = False


_Facts = frozenset[_Fact] | None
"""None: more than can be said."""
_NOTHING: frozenset[_Fact] = frozenset()


def before_of(job: Job) -> dict[str, Before | None]:
    """For every transfer over the network, by name, what comes before it; None where that is more than can be said."""
    flows = {transfer.name: i for i, transfer in enumerate(job.dag.transfers) if not job.is_local(transfer)}
    of_this_iteration = _known_after(job, flows, {})
    known = _known_after(job, flows, of_this_iteration)
    return {name: _before(known[name].at_start) for name in flows}


class _Known(NamedTuple):
    """What is known when a step may start, and once it has finished."""

    at_start: _Facts
    at_end: _Facts


def _known_after(job: Job, flows: dict[str, int], earlier: Mapping[str, _Known]) -> dict[str, _Known]:
    """What is known of every step; `earlier` is the same of the iteration before, as far as it is to count."""
    dag = job.dag
    announces = {}
    for name in reversed(flows):  # of several flows that a computation releases, the first speaks for it
        after = dag.by_name[name].after
        if len(after) == 1 and not dag.previous[name]:
            announces[after[0]] = flows[name]
    known: dict[str, _Known] = {}
    for name in dag.order:
        after = dag.by_name[name].after
        # A flow that is released together with the one that speaks for its computation knows what that one does.
        together = name in flows and len(after) == 1 and after[0] in announces and after[0] not in flows
        found = [known[step].at_start if together else known[step].at_end for step in after]
        found += [_of_previous(earlier[step].at_end) for step in dag.previous[name] if earlier]
        at_start = _union(found)
        if name in flows:
            at_end: _Facts = frozenset((_Fact(flows[name], ended=True),))
        elif name in announces:
            at_end = frozenset((_Fact(announces[name], ended=False),))
        else:
            at_end = at_start
        known[name] = _Known(at_start, at_end)
    return known


def _of_previous(facts: _Facts) -> _Facts:
    """Facts of an iteration as the next one sees them; what was before that one goes without saying."""
    return None if facts is None else frozenset(fact._replace(previous=True) for fact in facts if not fact.previous)


def _union(found: list[_Facts]) -> _Facts:
    distinct = [facts for facts in found if facts is None or facts]
    if len(distinct) < 2:  # most chains of computations share one set
        return distinct[0] if distinct else _NOTHING
    if None in distinct:
        return None
    together = frozenset[_Fact]().union(*(facts for facts in distinct if facts is not None))
    return together if len(together) <= MOST_BEFORE else None


def _before(facts: _Facts) -> Before | None:
    if facts is None:
        return None

    def those(*, ended: bool, previous: bool) -> tuple[int, ...]:
        return tuple(sorted(fact.flow for fact in facts if fact.ended == ended and fact.previous == previous))

    return Before(
        ended=those(ended=True, previous=False),
        released=those(ended=False, previous=False),
        ended_previous=those(ended=True, previous=True),
        released_previous=those(ended=False, previous=True),
    )

"""What was decided in a run that is repeated: found again for flows that a simulation of it has in flight."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from echelonflow.model.flow_key import FlowKey
from echelonflow.model.measured import Decided


class DecisionsTaken:
    """The decisions of one run, by the flows that were in flight."""

    def __init__(self, decided: Mapping[frozenset[FlowKey], Sequence[Decided]]) -> None:
        self._decided = decided
        self._of: dict[FlowKey, list[Decided]] = defaultdict(list)
        for several in decided.values():
            for one in several:
                for key in one.flows:
                    self._of[key].append(one)

    def for_flows(self, keys: Sequence[FlowKey], now_s: float) -> Decided | None:
        """The decision that held for these flows, of several the nearest in time; None where none did.

        One for just these flows is taken before one for them and others, and that with few others before one with many.
        A simulation is a few milliseconds off: a flow that is about to end in the run has ended in it. The order of those
        that are left is the same. Their rates need not be, and who had to wait may have waited for one of the others.
        Decisions that said so much are taken for just these flows.
        """
        if not keys:
            return None
        several = self._decided.get(frozenset(keys))
        if several is None:
            of_rarest = min((self._of.get(key, []) for key in keys), key=len)
            several = [one for one in of_rarest if all(_orders_alone(one, key) for key in keys)]
        return min(several, key=lambda one: (len(one.flows), abs(one.time_s - now_s)), default=None)


def _orders_alone(decision: Decided, key: FlowKey) -> bool:
    """Whether a decision gave a flow a class and nothing else."""
    return key in decision.flows and decision.flows[key][1] == math.inf

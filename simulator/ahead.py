"""Decisions ahead of time in a simulation: after each decision, for flows that can be released next.

The coordinator does the same in its spare time, by the same candidates, the same what-if and the same memory
(`echelonflow.scheduling.ahead`). Here it takes no time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from echelonflow.model.arrays import Ints
from echelonflow.model.flow_key import FlowKey
from echelonflow.scheduling.ahead import AnswerMemory, CandidateSet, template
from echelonflow.scheduling.folding import UNDECIDED
from echelonflow.scheduling.policies import Policy
from simulator.flows import Flows
from simulator.realism import Realism
from simulator.training import TrainingJobs


class _Treatment(NamedTuple):
    """How a flow starts; in class UNDECIDED it waits."""

    traffic_class: int
    rate_Bps: float


class DecidedAhead:
    """What was decided for flows of `source` before they are released."""

    def __init__(self, source: TrainingJobs, policy: Policy, realism: Realism) -> None:
        self._source = source
        self._policy = policy
        self._classes = realism.classes_for(policy.enforcer)
        """None where rates are enforced."""
        self._fold = realism.fold_for(policy.enforcer)
        self._decided: dict[FlowKey, _Treatment] = {}
        self._memory: AnswerMemory[tuple[_Treatment, ...]] = AnswerMemory()

    def decide(self, flows: Flows, now_s: float) -> None:
        """Decide for what can be released next, as `flows` are in flight; their bytes are known to the state."""
        in_force = dict(zip(self._source.keys(flows.handle), flows.decided_class.tolist(), strict=True))
        for candidates in self._source.candidates.sets():
            beside = {key: force for key, force in in_force.items() if key not in candidates.ended}
            asked = template(candidates.flows, beside)
            answer = self._memory.get(asked)
            if answer is None:
                answer = self._ask(candidates, beside, now_s)
                self._memory.keep(asked, answer)
            self._decided.update(zip(candidates.flows, answer, strict=True))

    def _ask(self, candidates: CandidateSet, in_force: dict[FlowKey, int], now_s: float) -> tuple[_Treatment, ...]:
        state = self._source.state
        with state.supposing(candidates.flows, now_s):
            snapshot, keys = state.snapshot(now_s, connections=self._policy.promises.reads_connections)
        kept = [key not in candidates.ended for key in keys]
        snapshot, keys = snapshot.only(np.array(kept, bool)), [key for key in keys if key not in candidates.ended]
        allocation = self._policy(snapshot)
        traffic_class: Ints = np.zeros(snapshot.flows, np.int64)
        if self._classes is not None:
            force = np.array([in_force.get(key, UNDECIDED) for key in keys], np.int64)
            chosen, held_back = self._fold(snapshot, allocation, force, range(self._classes))
            traffic_class = np.where(held_back, UNDECIDED, chosen)
        treatments = map(_Treatment, traffic_class.tolist(), allocation.rates_Bps.tolist())
        of = dict(zip(keys, treatments, strict=True))
        return tuple(of[key] for key in candidates.flows)

    def start(self, flows: Flows, handle: Ints) -> None:
        """Let flows that are released now start by what was decided."""
        rows, _ = flows.rows_of(handle)
        for row, key in zip(rows.tolist(), self._source.keys(handle), strict=True):
            treatment = self._decided.pop(key, None)
            if treatment is None or treatment.traffic_class == UNDECIDED:
                continue
            flows.allow(np.array([row]), np.array([treatment.rate_Bps]), np.array([treatment.traffic_class]))
            flows.decided_class[row] = treatment.traffic_class

    def forget(self) -> None:
        """The controller is gone, and what it decided ahead with it."""
        self._decided.clear()

"""What keeps a real system from doing exactly what a policy says, as parameters of a simulation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.tcp import PIECE_BYTES, PIECE_S
from echelonflow.scheduling import folding, weighting
from echelonflow.scheduling.fill import RowSets, max_min, max_min_in_order, stages_of
from echelonflow.scheduling.folding import UNDECIDED, Fold
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.wire.classes import DATA_CLASSES
from simulator.disturbance import Disturbance

MAX_CLASSES = 8

Undecided = Literal["wait", "ahead", "last-class"]
UNDECIDED_FLOWS: tuple[Undecided, ...] = get_args(Undecided)
"""What becomes of a flow that is released before a decision on it has taken effect."""
Enforcer = Literal["auto", "priority", "rate", "weighted"]


@dataclass(frozen=True)
class Realism:
    """How far a simulation departs from the ideal, in which every decided rate is in force at once.

    `classes` is the number of classes that carry data (1 to 8; the testbed has 7, and an eighth for acknowledgements).
    None stands for as many as there are places in the order, with rates as allocated. With classes, a policy that is
    enforced by `priority` is folded into them as the controller does it, or as `folding` says. Then there is strict priority between them and
    fair sharing within one, whatever rates the policy wants. One that is enforced by `rate` gets its rates.
    One that is enforced by `weighted` has classes, too, 7 unless so many are named. They share links by weights that follow what is
    allocated (`echelonflow.scheduling.weighting`). `enforcer="auto"` is the policy's own. A decision takes effect `decision_latency_s` after the snapshot it was made
    of. A flow that no decision has reached yet waits, or with `undecided="last-class"` takes what all others leave. With
    "ahead" it starts by what was decided before its release (`simulator.ahead`), as in the testbed. Computations of
    training jobs end later than they would by an exponential time of mean `late_s`, drawn anew in every repeat. After an
    idle spell a link passes up to `burst_s` of its capacity at once (`simulator.bursts`), as the testbed's links do by
    2 to 20 ms. A flow ends by so much sooner, at most, for each spell in which its whole path was idle. Where senders pace
    (enforcer `rate`) it gains no more than they write at a time. A `disturbance` changes each step by next to nothing, where it is asked how much hangs
    on that. Raises InputError for values out of range.
    """

    classes: int | None = None
    decision_latency_s: float = 0.0
    enforcer: Enforcer = "auto"
    undecided: Undecided = "wait"
    late_s: float = 0.0
    burst_s: float = 0.0
    folding: str = folding.DEFAULT
    disturbance: Disturbance | None = None

    def __post_init__(self) -> None:
        if self.classes is not None and not 1 <= self.classes <= MAX_CLASSES:
            raise InputError(f"classes is {self.classes}; it must lie in 1 to {MAX_CLASSES}")
        if not (self.decision_latency_s >= 0 and math.isfinite(self.decision_latency_s)):
            raise InputError(f"decision latency is {self.decision_latency_s} s; it is finite and not negative")
        if not (self.late_s >= 0 and math.isfinite(self.late_s)):
            raise InputError(f"late is {self.late_s} s; it is finite and not negative")
        if not (self.burst_s >= 0 and math.isfinite(self.burst_s)):
            raise InputError(f"burst is {self.burst_s} s; it is finite and not negative")
        folding.load(self.folding)
        if self.enforcer not in get_args(Enforcer):
            raise InputError(f"enforcer is {self.enforcer!r}; it must be one of {', '.join(get_args(Enforcer))}")
        if self.undecided not in UNDECIDED_FLOWS:
            raise InputError(f"undecided is {self.undecided!r}; it must be one of {', '.join(UNDECIDED_FLOWS)}")

    def folds(self, policy_enforcer: str) -> bool:
        """Whether a policy with this enforcer has its flows put into classes."""
        return self.is_weighted(policy_enforcer) or (
            self.classes is not None and self._enforcer(policy_enforcer) == "priority"
        )

    def is_weighted(self, policy_enforcer: str) -> bool:
        """Whether the classes of a policy with this enforcer share links by weights, and none goes before another."""
        return self._enforcer(policy_enforcer) == "weighted"

    def fold_for(self, policy_enforcer: str) -> Fold:
        """How a policy with this enforcer has its flows put into classes, where it has."""
        return weighting.fold if self.is_weighted(policy_enforcer) else folding.load(self.folding)

    def burst_bytes(self, policy_enforcer: str, capacity_Bps: Floats) -> Floats:
        """What idle links of these n capacities pass at once: no more of a paced flow than its sender writes at a time."""
        burst_bytes: Floats = self.burst_s * capacity_Bps
        if self._enforcer(policy_enforcer) != "rate":
            return burst_bytes
        piece_bytes = PIECE_S * capacity_Bps
        return np.where(piece_bytes <= PIECE_BYTES, np.minimum(burst_bytes, piece_bytes), 0.0)

    def _enforcer(self, policy_enforcer: str) -> str:
        return policy_enforcer if self.enforcer == "auto" else self.enforcer

    def classes_for(self, policy_enforcer: str) -> int | None:
        """The number of classes into which a policy with this enforcer has its flows put; None where it has not."""
        if self.is_weighted(policy_enforcer):
            return self.classes or len(DATA_CLASSES)
        return self.classes if self.folds(policy_enforcer) else None


EXACT = Realism()


def shared_by_class(snapshot: Snapshot, traffic_class: Ints, capacity_Bps: Floats | None = None) -> Floats:
    """Rates where lower classes are served first and the flows of one class share fairly; UNDECIDED ones wait.

    `capacity_Bps` is what links carry where that is not what the snapshot says.
    """
    rates = np.zeros(snapshot.flows)
    decided = np.flatnonzero(traffic_class != UNDECIDED)
    stages = stages_of(traffic_class[decided])
    stages = RowSets(stages.start, decided[stages.rows])
    residual_Bps = (snapshot.capacity_Bps if capacity_Bps is None else capacity_Bps).copy()
    max_min_in_order(snapshot, stages, np.ones(snapshot.flows), rates, residual_Bps)
    return rates


def within(snapshot: Snapshot, paced_Bps: Floats, capacity_Bps: Floats) -> Floats:
    """What flows get that are paced to `paced_Bps` where links carry only `capacity_Bps`: a fair share, if that is less."""
    rates, residual_Bps = np.zeros(snapshot.flows), capacity_Bps.copy()
    rows = np.flatnonzero(paced_Bps > 0)
    while rows.size:
        fair_Bps = max_min(snapshot, rows, np.ones(len(rows)), residual_Bps.copy())
        content = fair_Bps >= paced_Bps[rows]
        if not content.any():
            rates[rows] = fair_Bps
            break
        served = np.zeros(snapshot.flows)
        served[rows[content]] = paced_Bps[rows[content]]
        rates += served
        load = np.bincount(snapshot.path_link, weights=served[snapshot.hop_flow()], minlength=snapshot.links)
        residual_Bps = np.maximum(residual_Bps - load, 0.0)
        rows = rows[~content]
    return rates


def leftovers(snapshot: Snapshot, rates_Bps: Floats, rows: Ints) -> Floats:
    """Fair rates of `rows` out of what `rates_Bps` leaves unused."""
    load = np.bincount(snapshot.path_link, weights=rates_Bps[snapshot.hop_flow()], minlength=snapshot.links)
    residual = np.maximum(snapshot.capacity_Bps - load, 0.0)
    return max_min(snapshot, rows, np.ones(len(rows)), residual)

"""Turns a policy's answer into what packets can be made to obey: a DSCP and a rate for every flow.

`priority` uses the order: it is folded into classes (`echelonflow.scheduling.folding`), and no flow is paced. By default
flows that are in each other's way get classes in their order. Where classes run out, the last of those for which the allocation
has nothing wait at their senders. `rate` uses the rates alone: all flows share the first data class and are paced by
their senders. `weighted` uses the rates, too, but paces nobody. Flows of like rates share a class
(`echelonflow.scheduling.weighting`), and on each link classes have weights that follow what is allocated (`controller.weight_book`).
Options stand in brackets: `priority(classes=3, folding=top)`. Adding an enforcer is adding a function and its name in `ENFORCERS`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from echelonflow import plugins
from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats
from echelonflow.options import bind_text
from echelonflow.scheduling import folding as foldings
from echelonflow.scheduling import weighting
from echelonflow.scheduling.allocation import FEASIBILITY_TOLERANCE, Allocation
from echelonflow.scheduling.folding import UNDECIDED
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.spelling import shown, unknown
from echelonflow.wire.classes import CLASSES, DATA_CLASSES, class_of_dscp, dscp_of_class

WEIGHTED = "weighted"
EXAMPLE = "priority(classes=3,folding=top)"
_GIVEN = ("snapshot", "allocation", "in_force")
SAME_RATE = 0.005
"""Relative change of a rate that is not worth a message: pacing itself is no more accurate than 1 %."""
CRUMB_SHARE = 0.02
"""A rate below this share of its path's capacity counts as none where others use the path.

Paced that slowly, a sender's timer outlives the next decisions: at 1e-3 of 30 Mbit/s, two segments take a second. Such
rates are what others leave over, for moments.
"""
MOST_CRUMBS_SHARE = 0.05
"""Crumbs count as none only where all of them together are at most this share of a link."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """How a flow's packets are sent: DSCP, and rate in payload bytes/s (None: not paced, 0: paused)."""

    dscp: int
    rate_Bps: float | None = None


_BY_CLASS = MappingProxyType(
    {
        (at, waits): Treatment(dscp_of_class(at), 0.0 if waits else None)
        for at in range(CLASSES)
        for waits in (False, True)
    }
)
"""All treatments of flows that are not paced, by class and whether they wait: the same ones are told apart at once."""

InForce = Sequence[Treatment | None]
"""What each flow of the snapshot has now; None for a flow that was never decided."""
Enforcer = Callable[[Snapshot, Allocation, InForce], Sequence[Treatment | None]]
"""None: no treatment yet, its sender waits."""


def priority(
    snapshot: Snapshot,
    allocation: Allocation,
    in_force: InForce,
    *,
    classes: int = len(DATA_CLASSES),
    folding: str = foldings.DEFAULT,
) -> list[Treatment | None]:
    """The order in the first `classes` data classes, by the `folding` of this name."""
    now = np.array([UNDECIDED if old is None else class_of_dscp(old.dscp) for old in in_force], np.int64)
    chosen, held_back = foldings.load(folding)(snapshot, allocation, now, DATA_CLASSES[:classes])
    rows = zip(chosen.tolist(), held_back.tolist(), strict=True)
    return [None if at == UNDECIDED else _BY_CLASS[at, waits] for at, waits in rows]


def rate(snapshot: Snapshot, allocation: Allocation, in_force: InForce) -> list[Treatment]:
    """Rates as allocated, except that a change too small to matter is left out where links can bear it."""
    dscp = dscp_of_class(DATA_CLASSES[0])
    wanted = _without_crumbs(snapshot, allocation.rates_Bps)
    now = np.array([np.nan if old is None or old.rate_Bps is None else old.rate_Bps for old in in_force])
    return [Treatment(dscp, value) for value in _settled(snapshot, wanted, now).tolist()]


def weighted(
    snapshot: Snapshot, allocation: Allocation, in_force: InForce, *, classes: int = len(DATA_CLASSES)
) -> list[Treatment | None]:
    """Flows of like rates in one of the first `classes` data classes; none is paced, and none waits."""
    now = np.array([UNDECIDED if old is None else class_of_dscp(old.dscp) for old in in_force], np.int64)
    chosen, _ = weighting.fold(snapshot, allocation, now, DATA_CLASSES[:classes])
    return [_BY_CLASS[at, False] for at in chosen.tolist()]


def _without_crumbs(snapshot: Snapshot, rates: Floats) -> Floats:
    """Pause flows that were left a crumb, unless no flow on their links has more (somebody must move)."""
    if not snapshot.flows:
        return rates
    slowest = np.minimum.reduceat(snapshot.capacity_Bps[snapshot.path_link], snapshot.path_start[:-1])
    crumb = rates < CRUMB_SHARE * slowest
    hop_flow = snapshot.hop_flow()
    crumbs = np.bincount(snapshot.path_link, weights=np.where(crumb, rates, 0.0)[hop_flow], minlength=snapshot.links)
    many = crumbs > MOST_CRUMBS_SHARE * snapshot.capacity_Bps
    crumb &= np.bincount(hop_flow, weights=many[snapshot.path_link], minlength=snapshot.flows) == 0
    return np.where(crumb & snapshot.beside(~crumb), 0.0, rates)


def _settled(snapshot: Snapshot, wanted: Floats, now: Floats) -> Floats:
    """`now` where it is close to `wanted`, but no link more loaded than it can carry.

    On a link that the rates kept would overload, every flow that keeps more than it should is set right. What remains
    there is at most the allocation, so one pass is enough.
    """
    keep = (np.abs(wanted - now) <= SAME_RATE * wanted) & (now > 0)
    rates = np.where(keep, now, wanted)
    hop_flow = snapshot.hop_flow()
    load = np.bincount(snapshot.path_link, weights=rates[hop_flow], minlength=snapshot.links)
    over = load > snapshot.capacity_Bps * (1 + FEASIBILITY_TOLERANCE)
    on_over = np.bincount(hop_flow, weights=over[snapshot.path_link], minlength=snapshot.flows) > 0
    return np.where(on_over & (rates > wanted), wanted, rates)


ENFORCERS: MappingProxyType[str, Callable[..., Sequence[Treatment | None]]] = MappingProxyType(
    {"priority": priority, "rate": rate, WEIGHTED: weighted}
)


@functools.lru_cache(maxsize=64)
def load(text: str) -> Enforcer:
    """The enforcer named by `text`, such as "priority(classes=3,folding=top)" (InputError for one that there is not)."""
    name, options = plugins.parse_call(text, EXAMPLE)
    if name not in ENFORCERS:
        raise InputError(f"unknown enforcer {shown(name)}{unknown(name, ENFORCERS)}")
    chosen = ENFORCERS[name]
    try:
        values = bind_text(chosen, options, given=_GIVEN)
        _check(**values)
    except InputError as error:
        raise InputError("\n".join(f"enforcer {text}: {line}" for line in str(error).split("\n"))) from None
    return functools.partial(chosen, **values)


def _check(*, classes: int = 1, folding: str = foldings.DEFAULT) -> None:
    """InputError for options of `priority` that make no sense."""
    if not 1 <= classes <= len(DATA_CLASSES):
        raise InputError(f"classes is {classes}; it must lie in 1 to {len(DATA_CLASSES)}")
    foldings.load(folding)


def name_of(text: str) -> str:
    """The name of an enforcer, without its options."""
    return plugins.parse_call(text, EXAMPLE)[0]


def folded_by(text: str) -> tuple[int, str]:
    """Into how many classes an enforcer folds an order, and how; all there are by default for one that does not fold."""
    name, options = plugins.parse_call(text, EXAMPLE)
    given = bind_text(ENFORCERS[name], options, given=_GIVEN) if name in ENFORCERS else {}
    return given.get("classes", len(DATA_CLASSES)), given.get("folding", foldings.DEFAULT)

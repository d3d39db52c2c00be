"""An order of flows folded into few traffic classes: what all ways of doing that share, and how one is named.

The controller folds, and simulations with classes do. Ways are one file each in `echelonflow/scheduling/foldings/`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from echelonflow import plugins
from echelonflow.errors import InputError
from echelonflow.model.arrays import Bools, Ints
from echelonflow.options import bind_text
from echelonflow.scheduling import foldings
from echelonflow.scheduling.allocation import FEASIBILITY_TOLERANCE, Allocation
from echelonflow.scheduling.snapshot import Snapshot

UNDECIDED = -1
"""Class of a flow that no decision has reached yet."""
DEFAULT = "links"
EXAMPLE = "max-k-cut(orders=10)"
GIVEN = ("snapshot", "allocation", "in_force", "classes")
"""What every folding is given; its other parameters are options."""


class Folding(NamedTuple):
    """What a folding says of n flows."""

    traffic_class: Ints
    """n; UNDECIDED for a flow that has none yet and is held back."""
    held_back: Bools
    """n: whether the sender is to send nothing for now."""


Fold = Callable[[Snapshot, Allocation, Ints, Sequence[int]], Folding]
"""Of flows and the order that a policy wants, the n classes that they have now, and the classes there are, first one first."""


def names() -> list[str]:
    """Every folding that can be named."""
    return plugins.names(foldings)


@functools.lru_cache(maxsize=64)
def load(text: str) -> Fold:
    """The folding named by `text`, such as "top" or "max-k-cut(orders=10)" (InputError for one that there is not)."""
    name, options = plugins.parse_call(text, EXAMPLE)
    module = plugins.load(foldings, name, "folding")
    try:
        values = bind_text(module.fold, options, given=GIVEN)
    except InputError as error:
        raise InputError("\n".join(f"folding {text}: {line}" for line in str(error).split("\n"))) from None
    return functools.partial(module.fold, **values)


def contended(snapshot: Snapshot) -> Bools:
    """For each link, whether flows can be in each other's way there.

    They cannot where the first links of all flows on it together let no more through than it carries: no queue forms.
    """
    capacity = snapshot.capacity_Bps
    first = snapshot.path_link[snapshot.path_start[:-1]]
    # One number for each pair of links: pairs themselves would take ten times as long.
    link, comes_from = np.divmod(
        np.unique(snapshot.path_link * snapshot.links + first[snapshot.hop_flow()]), snapshot.links
    )
    inflow = np.bincount(link, weights=capacity[comes_from], minlength=snapshot.links)
    found: Bools = inflow > capacity * (1 + FEASIBILITY_TOLERANCE)
    found[first] = True
    return found


def positions(allocation: Allocation) -> tuple[Ints, int]:
    """The place of each of n flows in the order, from 0 without gaps, and how many places there are."""
    ranks, place = np.unique(allocation.rank, return_inverse=True)
    return place.astype(np.int64), len(ranks)


def by_level(level: Ints, classes: Sequence[int]) -> Folding:
    """Flows in the classes of their levels, n numbers from 0 to one less than there are classes; nobody is held back."""
    return Folding(np.asarray(classes, np.int64)[level], np.zeros(len(level), bool))

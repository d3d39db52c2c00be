"""What waits for what in a DAG, as arrays: the same as the properties of `JobDag`, by places of steps."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from echelonflow.model.arrays import Ints

if TYPE_CHECKING:
    from echelonflow.model.dag import JobDag


@dataclass(frozen=True, eq=False)
class Edges:
    """Steps that wait for a step, in compressed rows; and how many steps each waits for."""

    after_start: Ints
    after: Ints
    """Of the same iteration, in the order of `JobDag.followers`."""
    next_start: Ints
    next: Ints
    """Of the next iteration, in the order of `JobDag.next_followers`."""
    needs: Ints
    """Of the same iteration."""
    needs_previous: Ints
    """Of the iteration before."""


def edges_of(dag: JobDag) -> Edges:
    """The edges of `dag`."""
    earlier, later = (_places(dag, [pair[end] for pair in dag.next_iteration]) for end in (0, 1))
    return edges_between(dag.places_before, earlier, later)


def edges_between(before: Sequence[Sequence[int]], earlier: Ints, later: Ints) -> Edges:
    """The edges of steps that each wait for those `before` it; each of `later`, in the next iteration, for one of `earlier`."""
    steps = len(before)
    needs = np.fromiter(map(len, before), np.int64, steps)
    first = np.fromiter(itertools.chain.from_iterable(before), np.int64, int(needs.sum()))
    after_start, after = _rows(first, np.repeat(np.arange(steps), needs), steps)
    next_start, following = _rows(earlier, later, steps)
    return Edges(after_start, after, next_start, following, needs, np.bincount(later, minlength=steps))


def _places(dag: JobDag, names: Sequence[str]) -> Ints:
    return np.fromiter(map(dag.place.__getitem__, names), np.int64, len(names))


def _rows(row: Ints, value: Ints, rows: int) -> tuple[Ints, Ints]:
    """Compressed rows of the values of each row, in the order in which they come."""
    start = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=rows), out=start[1:])
    return start, value[np.argsort(row, kind="stable")]

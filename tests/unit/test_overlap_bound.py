"""The ideal overlap bound: reached by the best of all orders, beaten by none."""

from __future__ import annotations

import functools
import random

import pytest

from echelonflow.errors import InputError
from echelonflow.scheduling.bounds.overlap import overlap_bound


def _best_of_all(forward: tuple[int, ...], backward: tuple[int, ...], units: tuple[int, ...]) -> int:
    """Least iteration time over all ways to give each moment of one link to a layer, or to none; times are whole."""
    layers = len(forward)
    head = [sum(backward[i:-1]) for i in range(layers)]
    end_of_backward = sum(backward[:-1])
    horizon = end_of_backward + sum(units)

    def turned(done: tuple[int, ...]) -> int:
        """When the last layer goes forward, if its gradients came so."""
        now = end_of_backward
        for layer in range(layers - 1):
            now = max(now, done[layer]) + forward[layer]
        return max(now, done[-1])

    @functools.cache
    def best(now: int, left: tuple[int, ...], done: tuple[int, ...]) -> int:
        if not any(left):
            return turned(done)
        found = [best(now + 1, left, done)] if now < horizon else []
        for layer in range(layers):
            if left[layer] and head[layer] <= now:
                less = tuple(n - (i == layer) for i, n in enumerate(left))
                ended = tuple(now + 1 if i == layer and not less[i] else d for i, d in enumerate(done))
                found.append(best(now + 1, less, ended))
        return min(found, default=10**9)

    return best(0, units, (0,) * layers) + forward[-1] + backward[-1]


@pytest.mark.parametrize("seed", range(40))
def test_best_of_all_orders_reaches_the_bound(seed):
    rng = random.Random(seed)
    layers = rng.randint(1, 4)
    forward, backward, units = (tuple(rng.randint(0, 3) for _ in range(layers)) for _ in range(3))
    bound = overlap_bound(forward, backward, [units])
    assert _best_of_all(forward, backward, units) == pytest.approx(bound.least_s)


@pytest.mark.parametrize("seed", range(20))
def test_bound_is_never_less_than_computation_or_the_busiest_link(seed):
    rng = random.Random(seed)
    layers = rng.randint(1, 12)
    times = [[rng.random() for _ in range(layers)] for _ in range(4)]
    bound = overlap_bound(times[0], times[1], times[2:])
    assert bound.compute_s == pytest.approx(sum(times[0]) + sum(times[1]))
    assert bound.communication_s == pytest.approx(max(sum(times[2]), sum(times[3])))
    assert max(bound.compute_s, bound.communication_s) <= bound.least_s * (1 + 1e-12)
    assert bound.least_s <= bound.serial_s * (1 + 1e-12)


def test_first_layers_bytes_cannot_hide_behind_anything():
    """They are there last and needed first: only the other layers' bytes overlap with computation."""
    bound = overlap_bound([1, 1, 1], [1, 1, 1], [[2, 0, 0]])
    assert bound.least_s == 6 + 2
    assert overlap_bound([1, 1, 1], [1, 1, 1], [[0, 0, 2]]).least_s == 6


def test_without_communication_it_is_the_computation():
    bound = overlap_bound([1, 2], [3, 4], [])
    assert (bound.least_s, bound.communication_s, bound.intensity) == (10, 0, 0)


@pytest.mark.parametrize(
    ("lists", "says"),
    [
        (([], [], []), "at least one"),
        (([1], [1, 2], []), "every other list"),
        (([1], [1], [[1, 2]]), "every other list"),
        (([1], [-1], [[1]]), "negative"),
    ],
)
def test_lists_that_do_not_fit_are_refused(lists, says):
    with pytest.raises(InputError, match=says):
        overlap_bound(*lists)

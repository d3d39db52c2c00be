"""With tiny partitions and free preemption, the first layer first is best for one job alone, as the literature says.

Source: Peng et al. (ByteScheduler, SOSP 2019), section 4.1: push_i before push_j, pull_i before pull_j, all-reduce_i before
all-reduce_j, for layers i < j. Here against an exhaustive search: over all that a scheduler can do slot by slot, idling
included, and over all orders that the core can be given, in simulation.

Time is in slots. A partition takes one, and computations take whole ones, so that preemption costs nothing.
"""

from __future__ import annotations

import functools
import itertools
import math
import random

import pytest

from echelonflow.model import topologies
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from tests.unit.gated_jobs import ONE_AT_A_TIME, Layer, layered

NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e6})
SLOT_BYTES = math.ceil(NETWORK.capacity_Bps[0])
"""What a link carries in a slot of a second; a little more, so that what ends with a slot is known when the next begins."""


def small_models(count, layers=3, most=5):
    draw = random.Random(15)
    return [
        [Layer(draw.randint(1, 3), draw.randint(1, 2), draw.randint(1, most)) for _ in range(layers)]
        for _ in range(count)
    ]


def ready_at(layers):
    """When each layer has gone backward, the last one first."""
    return [sum(layer.backward_s for layer in layers[at:]) for at in range(len(layers))]


def latest_of(layers):
    """A slot by which all has been sent, in both directions, if none was left idle since the last layer was ready."""
    return ready_at(layers)[0] + 2 * sum(layer.size_bytes for layer in layers)


def gone_on(layers, clock, complete, missing, now):
    """Forward passes as far as what has arrived by `now` lets them: when the last of these ends, and how many these are."""
    while complete < len(layers) and missing[complete] == 0:
        clock = max(clock, now) + layers[complete].forward_s
        complete += 1
    return clock, complete


def less(counts, at, by=1):
    return tuple(count - (by if place == at else 0) for place, count in enumerate(counts))


def best_of_all_reduces(layers, choose):
    """The least end of the next forward pass; `choose` says which of the layers that could be sent may be, in a slot."""
    ready, latest = ready_at(layers), latest_of(layers)

    @functools.cache
    def best(now, missing, clock, complete):
        if complete == len(layers):
            return clock
        if now > latest:
            return math.inf  # nobody idles for so long
        could = [at for at, count in enumerate(missing) if count and ready[at] <= now]
        found = []
        for at in choose(could):
            then = less(missing, at)
            found.append(best(now + 1, then, *gone_on(layers, clock, complete, then, now + 1)))
        return min(found)

    return best(0, tuple(layer.size_bytes for layer in layers), 0, 0)


def best_of_pushes_and_pulls(layers, choose):
    """The same with a server: what is pushed in a slot can be pulled from the next on; both directions are free at once."""
    ready, latest = ready_at(layers), latest_of(layers)

    @functools.cache
    def best(now, to_push, to_pull, clock, complete):
        if complete == len(layers):
            return clock
        if now > latest:
            return math.inf  # nobody idles for so long
        could_push = [at for at, count in enumerate(to_push) if count and ready[at] <= now]
        could_pull = [at for at, count in enumerate(to_pull) if count > to_push[at]]
        found = []
        for push, pull in itertools.product(choose(could_push), choose(could_pull)):
            pushed, pulled = less(to_push, push), less(to_pull, pull)
            found.append(best(now + 1, pushed, pulled, *gone_on(layers, clock, complete, pulled, now + 1)))
        return min(found)

    sizes = tuple(layer.size_bytes for layer in layers)
    return best(0, sizes, sizes, 0, 0)


def anything(could):
    """All that a scheduler can do in a slot, idling included (no layer is called -1)."""
    return [*could, -1]


def anything_but_idling(could):
    return could or [-1]


def first_layer_first(could):
    return [min(could, default=-1)]


def last_layer_first(could):
    return [max(could, default=-1)]


MODELS_OF_ALL_ORDERS = [
    [Layer(2, 1, 3), Layer(1, 1, 4), Layer(3, 1, 5)],
    [Layer(3, 1, 1), Layer(1, 2, 3), Layer(1, 1, 6)],
    [Layer(1, 1, 2), Layer(2, 1, 2), Layer(1, 1, 3), Layer(1, 1, 4)],
]
SEARCHES = {"ring": best_of_all_reduces, "parameter-server": best_of_pushes_and_pulls}


def simulated_slots(layers, algorithm, priority=lambda layer: layer, slots_per_partition=1):
    """End of the second forward pass in simulation, in slots since the first one ended."""
    job = layered(
        [Layer(layer.forward_s, layer.backward_s, layer.size_bytes * SLOT_BYTES) for layer in layers],
        algorithm=algorithm,
        workers=2 if algorithm == "ring" else 1,
        partition_bytes=SLOT_BYTES * slots_per_partition,
        window=ONE_AT_A_TIME,
        priority=priority,
        iterations=2,
    )
    record = simulate([job], NETWORK, policies.load("fair"))
    last = f"f0 {len(layers) - 1}"
    end_s = {c.iteration: c.finish_s for c in record.computes if c.step == last}
    return end_s[1] - end_s[0]


def about(slots):
    return pytest.approx(slots, abs=1e-3)


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_nothing_that_a_scheduler_can_do_beats_the_first_layer_first(algorithm):
    search, gains = SEARCHES[algorithm], 0
    for layers in small_models(40):
        by_layer = search(layers, first_layer_first)
        assert by_layer == search(layers, anything_but_idling)
        gains += search(layers, last_layer_first) > by_layer
    assert gains > 20  # so that there is something to be lost


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_nor_does_idling(algorithm):
    for layers in small_models(12, most=2):
        assert SEARCHES[algorithm](layers, first_layer_first) == SEARCHES[algorithm](layers, anything)


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_core_and_simulator_reach_the_least_that_the_search_finds(algorithm):
    for layers in small_models(12):
        assert simulated_slots(layers, algorithm) == about(SEARCHES[algorithm](layers, anything_but_idling))


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_of_all_orders_of_layers_none_is_better_in_simulation(algorithm):
    for layers in MODELS_OF_ALL_ORDERS:
        orders = list(itertools.permutations(range(len(layers))))
        ends = [simulated_slots(layers, algorithm, order.__getitem__) for order in orders]
        assert orders[0] == tuple(range(len(layers)))
        assert ends[0] <= min(ends) + 1e-3
        assert max(ends) > ends[0] + 0.5


def test_what_cannot_be_preempted_takes_the_gain_away():
    layers = [Layer(1, 1, 1), Layer(1, 1, 10), Layer(1, 1, 1)]
    tiny, whole = simulated_slots(layers, "ring"), simulated_slots(layers, "ring", slots_per_partition=10)
    assert tiny == about(best_of_all_reduces(layers, anything_but_idling))
    assert whole > tiny + 0.5

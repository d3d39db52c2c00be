"""TicTac's orders against exhaustive search, what TIC cannot see, and why TAC's comparison had to be fixed."""

from __future__ import annotations

import doctest
import itertools
import math
from random import Random

import pytest

from echelonflow.bounds import BeyondBoundsError
from echelonflow.errors import InputError
from tests.unit.tensor_cases import model_of, setting_of
from traffic.workloads import job_schedulers
from traffic.workloads.job_schedulers import _tictac
from traffic.workloads.job_schedulers._tictac import (
    Computation,
    Properties,
    before,
    chain,
    fixed_key,
    properties,
    tac_order,
    tic_ranks,
)


def makespan_s(computations, m_s, order):
    """When all is computed if receives come one after the other in `order`.

    The processor takes any computation that can run. It idles only when none can, so the end does not depend on which.
    """
    at_s, arrived_s = 0.0, {}
    for receive in order:
        at_s += m_s[receive]
        arrived_s[receive] = at_s
    ready = sorted((max((arrived_s[r] for r in each.needs), default=0.0), each.duration_s) for each in computations)
    free_s = 0.0
    for ready_s, duration_s in ready:
        free_s = max(free_s, ready_s) + duration_s
    return free_s


def best_s(computations, m_s):
    return min(makespan_s(computations, m_s, order) for order in itertools.permutations(range(len(m_s))))


def independent(p_s):
    """Computations that need one receive each."""
    return [Computation(time_s, frozenset([i])) for i, time_s in enumerate(p_s)]


def random_graph(random, receives):
    """Branches that join: computations of one, two or more receives."""
    found = [Computation(random.randint(0, 9), frozenset([i])) for i in range(receives)]
    for _ in range(random.randint(1, 4)):
        needs = random.sample(range(receives), random.randint(2, receives))
        found.append(Computation(random.randint(0, 9), frozenset(needs)))
    return found


@pytest.mark.parametrize("seed", range(200))
def test_tac_is_optimal_where_each_computation_needs_one_receive(seed):
    random = Random(seed)
    count = random.randint(2, 6)
    m_s = [float(random.randint(0, 6)) for _ in range(count)]
    computations = independent([float(random.randint(0, 6)) for _ in range(count)])
    assert makespan_s(computations, m_s, tac_order(computations, m_s)) == pytest.approx(best_s(computations, m_s))


@pytest.mark.parametrize("seed", range(50))
def test_tac_is_optimal_on_a_chain_of_layers(seed):
    random = Random(seed)
    count = random.randint(1, 6)
    m_s = [float(random.randint(1, 9)) for _ in range(count)]
    computations = chain([float(random.randint(0, 9)) for _ in range(count)])
    for form in ("faithful", "fixed"):
        order = tac_order(computations, m_s, form)
        assert order == list(range(count))
        assert makespan_s(computations, m_s, order) == pytest.approx(best_s(computations, m_s))


def test_on_graphs_that_join_tac_is_near_the_best_and_not_always_there():
    random = Random(1)
    ratios = []
    for _ in range(200):
        computations = random_graph(random, 4)
        m_s = [float(random.randint(1, 9)) for _ in range(4)]
        least_s = best_s(computations, m_s)
        ratios.append(makespan_s(computations, m_s, tac_order(computations, m_s)) / least_s)
    assert min(ratios) >= 1 - 1e-9
    assert 0.5 < sum(ratio < 1 + 1e-9 for ratio in ratios) / len(ratios) < 1
    assert max(ratios) < 1.5


def test_tic_does_not_see_that_a_receive_is_long():
    """Two branches join: TIC has a tie where the order costs a third more."""
    m_s = [9.0, 1.0]
    computations = [*independent([1.0, 9.0]), Computation(1.0, frozenset([0, 1]))]
    assert tic_ranks(computations, 2) == [0, 0]
    assert makespan_s(computations, m_s, [0, 1]) == 20.0
    assert makespan_s(computations, m_s, tac_order(computations, m_s)) == best_s(computations, m_s) == 12.0


def test_tic_puts_a_receive_last_that_unlocks_most():
    """A counterexample without ties: TIC counts receives, so it sends the pair first and the long computation waits."""
    m_s = [1.0, 1.0, 1.0]
    computations = [
        Computation(0.0, frozenset([0, 1])),
        Computation(10.0, frozenset([2])),
        Computation(0.0, frozenset([0, 1, 2])),
    ]
    ranks = tic_ranks(computations, 3)
    assert ranks == [0, 0, 2]
    by_tic = sorted(range(3), key=lambda i: (ranks[i], i))
    assert makespan_s(computations, m_s, by_tic) == 13.0
    assert makespan_s(computations, m_s, tac_order(computations, m_s)) == best_s(computations, m_s) == 11.0


def test_in_a_chain_the_first_two_layers_share_tics_first_rank():
    assert tic_ranks(chain([1.0] * 4), 4) == [0, 0, 2, 3]


def test_properties_are_those_of_the_papers_example():
    """A alone unlocks its computation; B and C with A; D with all (the lecture's figure)."""
    computations = [
        Computation(2.0, frozenset([0])),
        Computation(1.0, frozenset([0, 1])),
        Computation(1.0, frozenset([0, 2])),
        Computation(1.0, frozenset([0, 1, 2, 3])),
    ]
    found = properties(computations, [1.0] * 4, range(4))
    assert [each.p_s for each in found] == [2.0, 0.0, 0.0, 0.0]
    assert [each.m_plus_s for each in found] == [2.0, 2.0, 2.0, 4.0]
    assert tac_order(computations, [1.0] * 4) == [0, 1, 2, 3]


def test_a_receive_that_all_need_alone_has_no_m_plus():
    assert properties(independent([1.0]), [1.0], [0]) == [Properties(0, 1.0, 1.0, math.inf)]


def test_the_comparison_goes_in_a_circle():
    a, b, c = Properties(0, 3, 9, 1), Properties(1, 1, 1, 2), Properties(2, 9, 3, 3)
    assert (before(a, b), before(b, c), before(c, a)) == (-1, -1, -1)
    assert [each.place for each in sorted([a, b, c], key=fixed_key)] == [1, 2, 0]


def test_in_a_circle_the_faithful_form_follows_the_list_and_loses():
    """Independent receives, so nothing but ties tells them from one another; M+ is infinite for all."""
    worse = 0
    for seed in range(300):
        random = Random(seed)
        m_s = [float(random.randint(1, 4)) for _ in range(5)]
        computations = independent([float(random.randint(1, 4)) for _ in range(5)])
        faithful = makespan_s(computations, m_s, tac_order(computations, m_s, "faithful"))
        fixed = makespan_s(computations, m_s, tac_order(computations, m_s, "fixed"))
        assert fixed <= faithful
        worse += fixed < faithful
    assert worse > 0


@pytest.mark.parametrize("seed", range(100))
def test_the_fixed_order_never_contradicts_a_comparison_by_time(seed):
    random = Random(seed)
    known = [Properties(i, random.randint(0, 4), random.randint(0, 4), random.randint(1, 9)) for i in range(6)]
    in_order = sorted(known, key=fixed_key)
    for a, b in itertools.combinations(in_order, 2):
        assert min(b.p_s, a.m_s) <= min(a.p_s, b.m_s)


def test_the_order_is_the_same_whatever_the_list_begins_with():
    known = [Properties(i, p, m, 1.0) for i, (p, m) in enumerate(itertools.product(range(3), repeat=2))]
    in_order = sorted(known, key=fixed_key)
    for seed in range(20):
        Random(seed).shuffle(known)
        assert sorted(known, key=fixed_key) == in_order


def test_more_than_can_be_ordered_is_refused():
    with pytest.raises(BeyondBoundsError, match="501 tensors to put in order by what needs them are asked for"):
        chain([1.0] * 501)
    for name in ("tic", "tac"):
        with pytest.raises(InputError, match=f"{name}: 600 tensors to put in order .* the bound is 500"):
            job_schedulers.load(name).plan(model_of(*[100] * 600), setting_of("ring"))


def test_worked_examples():
    assert doctest.testmod(_tictac).failed == 0

"""The methods behind one interface: seeded, the same again for a seed, and Bayesian ones better than chance."""

from __future__ import annotations

import itertools
import math
import random
import statistics
import sys

import pytest

from echelon.tuning import methods
from echelon.tuning.space import Point, Space
from echelonflow.errors import InputError

SPACE = Space((256_000, 32_000_000), (1_000_000, 64_000_000))
HEAVY = {"gp", "tpe"}
"""Their libraries take seconds to load."""
ALL = [pytest.param(name, marks=pytest.mark.slow) if name in HEAVY else name for name in methods.names()]
LEAST = Point(2_000_000, 8_000_000)


def bowl_s(point: Point) -> float:
    """A time with one minimum: what is too small costs for each partition, what is too large lets others wait."""
    across, up = SPACE.coordinates(point)
    least_across, least_up = SPACE.coordinates(LEAST)
    return 1 + (across - least_across) ** 2 + 0.5 * (up - least_up) ** 2


def searched(method: str, samples: int, seed: int, value_s=bowl_s) -> list[Point]:
    search = methods.begin(method, SPACE, samples=samples, seed=seed)
    found = []
    for _ in range(samples):
        found.append(search.ask())
        search.tell(found[-1], value_s(found[-1]))
    return found


def test_all_methods_are_found_and_described():
    assert {"gp", "grid", "random", "tpe"} <= set(methods.names())
    assert all(methods.summary(name) for name in methods.names())


@pytest.mark.parametrize("method", ALL)
def test_a_search_is_the_same_again_for_a_seed_and_another_for_another(method):
    first = searched(method, 8, 1)
    assert searched(method, 8, 1) == first
    assert searched(method, 8, 2) != first
    assert all(point.partition_bytes <= point.credit_bytes for point in first)


@pytest.mark.parametrize("method", ALL)
def test_a_search_that_was_interrupted_goes_on_as_if_it_had_not_been(method):
    whole = searched(method, 9, 3)
    second = methods.begin(method, SPACE, samples=9, seed=3)
    for point in whole[:7]:  # what a history tells
        second.tell(point, bowl_s(point))
    assert second.ask() == whole[7]


@pytest.mark.parametrize("method", ALL)
def test_a_point_without_a_value_is_told_and_another_is_asked(method):
    search = methods.begin(method, SPACE, samples=15, seed=4)
    asked = []
    for number in range(8):
        asked.append(search.ask())
        search.tell(asked[-1], None if number % 2 else bowl_s(asked[-1]))
    assert len(set(asked)) == 8


@pytest.mark.slow
@pytest.mark.parametrize("method", [pytest.param(name, marks=pytest.mark.slow) for name in sorted(HEAVY)])
def test_where_nothing_could_be_found_out_a_search_does_not_stay(method):
    search = methods.begin(method, SPACE, samples=12, seed=1)
    for _ in range(8):
        point = search.ask()
        search.tell(point, bowl_s(point))
    failed = []
    for _ in range(4):
        failed.append(search.ask())
        search.tell(failed[-1], None)
    assert len(set(failed)) == 4
    places = [SPACE.coordinates(point) for point in failed]
    assert max(math.dist(a, b) for a, b in itertools.combinations(places, 2)) > 0.2, (
        "it leaves the place that promised most"
    )


def test_all_but_the_grid_begin_with_the_same_random_points():
    expected = searched("random", 5, 7)
    for method in ("gp", "tpe"):
        assert searched(method, 5, 7) == expected


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gp", "gp(first=10)", "tpe"])
def test_a_bayesian_search_regrets_less_than_chance(method):
    def regret(name: str) -> float:
        return statistics.fmean(min(map(bowl_s, searched(name, 15, seed))) - 1 for seed in range(8))

    assert regret(method) < regret("random")


@pytest.mark.slow
def test_the_process_is_not_led_astray_by_noise_or_a_flat_surface():
    def noisy_s(point: Point) -> float:
        return bowl_s(point) * random.Random(str(point)).gauss(1, 0.02)

    assert bowl_s(min(searched("gp", 20, 1, noisy_s), key=noisy_s)) < 1.05
    assert len(set(searched("gp", 10, 1, lambda _: 1.0))) == 10


def test_a_grid_is_evenly_spaced_and_no_point_comes_twice():
    found = searched("grid", 16, 1)
    assert len(set(found)) == 16
    assert len({point.partition_bytes for point in found}) == 4
    assert {Point(256_000, 1_000_000), Point(32_000_000, 64_000_000)} <= set(found)


def test_a_grid_that_is_used_up_gets_finer():
    search = methods.begin("grid", SPACE, samples=4, seed=1)
    asked = []
    for _ in range(20):
        asked.append(search.ask())
        search.tell(asked[-1], 1.0)
    assert len(set(asked)) == 20


def test_a_grid_of_one_size_spends_all_points_on_the_other():
    search = methods.begin("grid", Space((1_000_000, 1_000_000), (1_000_000, 64_000_000)), samples=9, seed=1)
    asked = []
    for _ in range(9):
        asked.append(search.ask())
        search.tell(asked[-1], 1.0)
    assert len(set(asked)) == 9
    assert {point.partition_bytes for point in asked} == {1_000_000}


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("bayes", "unknown method 'bayes'; there is: gp, grid, random, tpe"),
        ("gpp", "unknown method 'gpp'; did you mean 'gp'"),
        ("gp(frist=3)", "method gp: frist: unknown key; did you mean 'first'"),
        ("gp(first=0)", "method gp: first: 0 is not a whole number of at least 1"),
        ("random(first=3)", "method random: first: unknown key"),
        ("gp(", "is not a name with options"),
    ],
)
def test_an_unknown_method_or_option_is_refused_and_named(method, words):
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        methods.begin(method, SPACE, samples=15, seed=0)


def test_a_negative_xi_is_refused():
    with pytest.raises(InputError, match=r"xi: -1 is not a number from 0 on; the original has 0\.1"):
        methods.begin("gp(xi=-1)", SPACE, samples=15, seed=0)


@pytest.mark.parametrize(("method", "library"), [("gp", "sklearn"), ("tpe", "optuna")])
def test_a_library_that_is_missing_is_named_with_its_remedy(method, library, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=rf"needs {library}.*scripts/setup\.sh --tune.*--method random or grid"):
        methods.begin(method, SPACE, samples=15, seed=0)


def test_expected_improvement_is_that_of_the_normal_distribution():
    """Against the mean of max(best - xi - y, 0) over many draws."""
    from echelon.tuning.methods.gp import expected_improvement

    draw = random.Random(5)
    gains = [max(1.0 - 0.1 - draw.gauss(1.2, 0.5), 0.0) for _ in range(200_000)]
    assert float(expected_improvement(1.2, 0.5, 1.0, 0.1)) == pytest.approx(statistics.fmean(gains), rel=0.02)
    assert math.isclose(float(expected_improvement(0.5, 0.0, 1.0, 0.1)), 0.4, rel_tol=1e-9)
    assert float(expected_improvement(2.0, 0.0, 1.0, 0.1)) == 0.0

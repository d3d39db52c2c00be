"""What the tuner's benchmark computes: surfaces between measured places, and regrets over seeds."""

from __future__ import annotations

import itertools

import pytest

from echelon.benchmarks import _tuner_emulated, _tuner_searches
from echelon.benchmarks import _tuner_regret as regret
from echelon.benchmarks._tuner_regret import Regrets, Surface
from echelon.benchmarks.tuner import against
from echelon.tuning import methods
from echelon.tuning.history import History, Sample
from echelon.tuning.space import Space
from tests.unit.test_tuning import asked

SPACE = Space((1_000_000, 16_000_000), (16_000_000, 64_000_000))
SURFACE = Surface("s", SPACE, ((3.0, 2.0, 4.0), (2.0, 1.0, 3.0), (5.0, 4.0, 6.0)))


def test_a_surface_is_what_was_measured_at_its_places_and_between_them_in_between():
    for i, k, across, up in regret.places(3, 3):
        assert SURFACE.at(SPACE.point(across, up)) == pytest.approx(SURFACE.values_s[i][k])
    assert SURFACE.at(SPACE.point(0.25, 0.5)) == pytest.approx(1.5, abs=0.01)
    assert SURFACE.at(SPACE.point(0.5, 0.25)) == pytest.approx(1.5, abs=0.01)
    assert SURFACE.least_s == 1.0
    assert SURFACE.reach == 5.0


def test_regret_never_grows_and_is_none_at_the_best_place():
    curve = regret.regrets(SURFACE, "random", 30, 1)
    assert len(curve) == 30
    assert all(later <= earlier for earlier, later in itertools.pairwise(curve))
    assert regret.regrets(SURFACE, "grid", 9, 1)[-1] == pytest.approx(0.0)


def test_regrets_are_means_over_surfaces_then_over_seeds_with_an_interval():
    found = Regrets("gp", {"a": [(0.4, 0.2), (0.6, 0.0)], "b": [(0.2, 0.0), (0.0, 0.0)]})
    assert [tuple(map(pytest.approx, curve)) for curve in found.by_seed] == [(0.3, 0.1), (0.3, 0.0)]
    (first, _), (last, low) = ((each[0], each[1]) for each in found.means())
    assert first == pytest.approx(0.3)
    assert last == pytest.approx(0.05)
    assert low < 0.05
    worse = Regrets("random", {"a": [(0.4, 0.4), (0.6, 0.2)], "b": [(0.2, 0.2), (0.0, 0.2)]})
    less = found.less_than(worse)
    assert less.median == pytest.approx(-0.2)
    assert less.n == 2


def test_a_grid_search_that_has_tried_every_place_is_a_surface(tmp_path):
    def value_s(point):
        return 1 + SPACE.coordinates(point)[0]

    history = History(tmp_path)
    search = methods.begin("grid", SPACE, samples=16, seed=0)
    for number in range(16):
        assert _tuner_emulated.of_history(asked(space=SPACE, method="grid"), history) is None
        point = search.ask()
        search.tell(point, value_s(point))
        history.add(Sample(0, "sample", number, point, {}, value_s(point), {}))
    found = _tuner_emulated.of_history(asked(space=SPACE, method="grid"), history)
    assert found.name == "emulated e"
    assert found.values_s[0] == (1.0, 1.0, 1.0, 1.0)
    assert found.values_s[3] == (2.0, 2.0, 2.0, 2.0)


def test_a_method_is_below_chance_only_with_all_of_the_interval():
    chance = Regrets("random", {"a": [(0.5,), (0.4,), (0.6,)]})
    surely = against(Regrets("gp", {"a": [(0.1,), (0.0,), (0.2,)]}), chance, must=True)
    hardly = against(Regrets("gp", {"a": [(0.5,), (0.0,), (0.65,)]}), chance, must=True)
    assert (surely.ok, hardly.ok) == (True, False)
    assert "10.00%" in surely.measured
    assert against(Regrets("grid", {"a": [(0.1,), (0.0,), (0.2,)]}), chance, must=False).ok is None


def test_searches_are_kept_and_only_what_is_missing_is_searched(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(_tuner_searches, "regrets", lambda *given: done.append(given[1:]) or regret.regrets(*given))
    path = tmp_path / "searches.json"
    first = _tuner_searches.Searches(path).regrets("random", [SURFACE], 2)
    assert done == [("random", 15, 0), ("random", 15, 1)]
    more = _tuner_searches.Searches(path).regrets("random", [SURFACE], 3)
    assert len(done) == 3
    assert list(more.curves["s"][:2]) == list(first.curves["s"])
    _tuner_searches.Searches(path).regrets("random", [Surface("s", SPACE, ((1.0, 2.0), (3.0, 4.0)))], 1)
    assert len(done) == 4

"""Every kind of chart in a real browser: of simulations, of a run on real packets that was kept, of explained runs, of traces."""

from __future__ import annotations

import tarfile

import pytest

from echelon.experiment import schema
from echelon.running import runner
from results.folder import analyse
from tests.unit.test_old_runs import OLDEST
from tests.unit.test_results_budget import LATE, folder
from tests.unit.test_trace_experiments import TEXT, described


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run of two policies on real packets."""
    root = tmp_path_factory.mktemp("recorded")
    with tarfile.open(OLDEST) as archive:
        archive.extractall(root)
    analyse(root)
    return root


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """Runs as an emulation leaves them, of which it is known where their time went."""
    root = folder(tmp_path_factory.mktemp("explained") / "run", LATE, iterations=2)
    analyse(root)
    return root


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A simulated trace of Coflows."""
    place = tmp_path_factory.mktemp("traced")
    (place / "trace.txt").write_text(TEXT)
    experiment = schema.check(described(place / "trace.txt"), place / "e.yaml")
    code, _ = runner.run(experiment, place / "run", "fluid", lambda _: None)
    assert code == 0
    return place / "run"


JOBS = {"gantt", "times", "iterations", "tardiness", "links"}
"""Sections of every report of jobs."""
SHAPES = """(id) => {
  const chart = echelonReport.drawn.get(id), model = chart.getModel(), found = [];
  model.eachSeries((series) => {
    let shapes = 0;
    chart.getViewOfSeriesModel(series).group.traverse((one) => { shapes += one.type === "group" || one.type === "text" ? 0 : 1; });
    const data = series.getRawData(), whole = (place) => data.getValues(place).every((value) => Number.isFinite(value));
    found.push({name: series.name, values: [...Array(data.count()).keys()].filter(whole).length, shapes});
  });
  return found;
}"""
"""Of each series of a chart, how many values it has that are numbers, and how many shapes the chart library drew of them."""


@pytest.mark.parametrize(
    ("which", "sections"),
    [
        ("simulated", JOBS | {"blame"}),
        ("recorded", JOBS | {"classes", "decisions"}),
        ("explained", JOBS | {"classes", "decisions", "budget"}),
        ("traced", {"completion"}),
    ],
)
def test_every_chart_is_drawn_and_named(which, sections, opened, request):
    page = opened(request.getfixturevalue(which) / "report.html")
    charts = page.evaluate(
        "() => [...document.querySelectorAll('.chart')].map((one) => ({id: one.id, label: one.getAttribute('aria-label')}))"
    )
    assert {chart["id"].rpartition("-")[0] for chart in charts} >= sections
    for chart in charts:
        assert chart["label"]
        series = page.evaluate(SHAPES, chart["id"])
        assert any(one["shapes"] for one in series), chart
        assert all(one["shapes"] for one in series if one["values"]), (chart, series)
    links = page.evaluate("[...document.querySelectorAll('nav a')].map((one) => one.getAttribute('href').slice(1))")
    assert links
    assert all(page.evaluate("(id) => document.getElementById(id) !== null", link) for link in links)


def test_classes_add_up_to_what_arrived(recorded, opened):
    """The last of the curves that lie on each other is the sum of all classes."""
    page = opened(recorded / "report.html")
    for place in (0, 1):
        chart = page.evaluate("(id) => echelonReport.charts[id]", f"classes-{place}")
        drawn = page.evaluate(
            "(id) => echelonReport.drawn.get(id).getOption().series.map((one) => one.data.map((point) => point[1]))",
            f"classes-{place}",
        )
        assert len(drawn) == len(chart["classes"]) >= 1
        for mine, one in zip(drawn, chart["classes"], strict=True):
            assert mine == [*one["mbps"], one["mbps"][-1]]
        assert max(map(sum, zip(*drawn, strict=True))) > 1


def test_every_decision_has_a_mark_in_the_colour_of_its_reason(recorded, opened):
    page = opened(recorded / "report.html")
    for place in (0, 1):
        chart = page.evaluate("(id) => echelonReport.charts[id]", f"decisions-{place}")
        series = page.evaluate(SHAPES, f"decisions-{place}")
        assert sum(one["shapes"] for one in series) == chart["count"] > 5
        option = page.evaluate(
            "(id) => echelonReport.drawn.get(id).getOption().series.map((one) => [one.name, one.itemStyle.color])",
            f"decisions-{place}",
        )
        kinds = zip(chart["kinds"], chart["counts"], chart["colours"], strict=True)
        assert option == [[f"{kind} ({count})", colour] for kind, count, colour in kinds]


def test_the_parts_of_a_budget_have_their_colours_and_lengths(explained, opened):
    page = opened(explained / "report.html")
    chart = page.evaluate("() => echelonReport.charts['budget-0']")
    drawn = page.evaluate(
        """() => echelonReport.drawn.get("budget-0").getOption().series.map((one) => [one.name, one.itemStyle.color, one.data])"""
    )
    assert len(drawn) == len(chart["parts"]) - 1 >= 4
    for (name, colour, data), part in zip(drawn, chart["parts"][1:], strict=True):
        assert (name, colour) == (part["name"], part["colour"])
        assert data == pytest.approx([seconds * 1e3 for seconds in part["seconds"]])

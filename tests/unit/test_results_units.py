"""In what unit times are printed: the shortest iteration has three digits."""

from __future__ import annotations

import pytest

from results.analysis.figures import JobFigures
from results.analysis.statistics import Estimate
from results.analysis.summary import RunResult, Summary, policy_results
from results.report.printed_column import format_estimate, format_seconds, unit_for
from results.report.table import summary_table
from tests.unit.synthetic_run import paper_job, paper_network


@pytest.mark.parametrize(
    ("times_s", "name"),
    [
        ([8.5, 10.0], "s"),
        ([0.1], "s"),
        ([8.5, 0.0999], "ms"),
        ([3e-4, 0.0, None], "ms"),
        ([9.9e-5], "us"),
        ([1e-9], "us"),
        ([], "s"),
        ([0.0], "s"),
    ],
)
def test_the_shortest_time_has_three_digits_where_any_unit_gives_them(times_s, name):
    assert unit_for(times_s).name == name


def test_times_are_printed_in_their_unit():
    unit = unit_for([3e-4])
    assert format_seconds(3.1234e-4, unit) == "0.312"
    assert format_seconds(3.1234e-4, unit, signed=True) == "+0.312"
    assert format_seconds(None, unit) == "-"
    assert format_estimate(Estimate(3e-4, 2e-4, 4e-4, 3), unit) == "0.300 [0.200, 0.400]"
    assert format_estimate(Estimate(3e-4, None, None, 1), unit, signed=True) == "+0.300"


def test_a_table_of_short_iterations_is_in_milliseconds_and_says_so():
    job = paper_job(paper_network())
    runs = [RunResult("fair 0", "fair", 0, (), {job.name: JobFigures(4.2e-4, 2e-4, 1e-4)}, None)]
    results = tuple(policy_results(runs, ["fair"], [job], {}))
    table = summary_table(Summary("e", "fluid", None, (), results, tuple(runs))).splitlines()
    assert table[3].split()[2:5] == ["0.420", "0.200", "0.100"]
    assert table[4].startswith("milliseconds, simulated")

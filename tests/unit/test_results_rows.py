"""Metrics against the paper's example, whose numbers are known, and against hand-made records."""

from __future__ import annotations

import csv
import math
from dataclasses import replace

import pytest
from scipy import stats

from echelonflow.scheduling import policies
from results.analysis.columns import write_csv
from results.analysis.rows import FlowRow, GroupRow, IterationRow, flow_rows, group_rows, iteration_rows
from results.analysis.shown import ShownRun
from results.analysis.statistics import estimate, quantile
from simulator.fluid import simulate
from tests.unit.synthetic_run import paper_job, paper_network

COLUMNS = {
    IterationRow: "policy, repeat, job, iteration, start_s, finish_s, duration_s, exposed_s, predicted_s, in_force, counted",
    GroupRow: "policy, repeat, job, iteration, group, kind, reference_s, finish_s, tardiness_s",
    FlowRow: (
        "policy, repeat, job, iteration, group, flow, src, dst, size_bytes, release_s, start_s, finish_s, "
        "ideal_finish_s, tardiness_s, dscp, pcap_start_s, pcap_finish_s, pcap_bytes, pcap_dscp, retransmissions, "
        "ahead, held, corrected_s, ready_s, path"
    ),
}


def fluid(policy, iterations=1):
    network = paper_network()
    job = paper_job(network, iterations)
    return job, simulate([job], network, policies.load(policy))


@pytest.mark.parametrize("kind", COLUMNS)
def test_tables_have_exactly_the_columns_promised(tmp_path, kind):
    write_csv(tmp_path / "t.csv", kind, [])
    assert (tmp_path / "t.csv").read_text() == COLUMNS[kind].replace(" ", "") + "\n"


@pytest.mark.parametrize(
    ("policy", "end_s", "late_s"), [("fair", 8.5, 4.5), ("coflow(grouping=group)", 10, 6), ("echelonflow", 8, 4)]
)
def test_the_papers_example(policy, end_s, late_s):
    job, record = fluid(policy)
    (iteration,) = iteration_rows(record, [job])
    assert (iteration.start_s, iteration.duration_s) == (0, pytest.approx(end_s, abs=1e-5))
    assert iteration.exposed_s == pytest.approx(end_s - 4, abs=1e-5)
    (group,) = group_rows(record, [job])
    assert group.reference_s == pytest.approx(1)
    assert group.tardiness_s == pytest.approx(late_s, abs=1e-5)
    rows = {row.flow: row for row in flow_rows(record)}
    assert [rows[f"x{m}"].ideal_finish_s for m in range(3)] == pytest.approx([1, 2, 3])
    assert max(row.tardiness_s for row in rows.values()) == group.tardiness_s


def test_iterations_follow_each_other_without_gap():
    job, record = fluid("fair", 3)
    rows = iteration_rows(record, [job], predicted=iteration_rows(record, [job]))
    assert [row.start_s for row in rows] == [0, *(row.finish_s for row in rows[:-1])]
    assert [row.predicted_s for row in rows] == [row.duration_s for row in rows]
    assert sum(row.duration_s for row in rows) == max(c.finish_s for c in record.computes)


def test_a_job_that_starts_later_is_not_charged_for_the_wait():
    network = paper_network()
    job = replace(paper_job(network), start_s=2.5)
    record = simulate([job], network, policies.load("fair"))
    (row,) = iteration_rows(record, [job])
    assert (row.start_s, row.duration_s) == (2.5, pytest.approx(8.5, abs=1e-5))


def test_an_incomplete_iteration_gives_no_row_and_an_incomplete_group_no_tardiness():
    job, record = fluid("fair", 2)
    record.computes = [c for c in record.computes if (c.iteration, c.step) != (1, "c2")]
    record.flows = [replace(f, finish_s=math.nan) if (f.iteration, f.flow) == (1, "x2") else f for f in record.flows]
    assert [row.iteration for row in iteration_rows(record, [job])] == [0]
    whole, part = group_rows(record, [job])
    assert whole.tardiness_s is not None
    assert (part.finish_s, part.tardiness_s) == (None, None)
    (unfinished,) = [row for row in flow_rows(record) if row.finish_s is None]
    assert (unfinished.flow, unfinished.tardiness_s) == ("x2", None)


def test_the_reference_is_the_heads_release_less_its_offset_whoever_starts_first():
    job, record = fluid("fair")
    # The head (least offset) is released last: its release still is the reference. Its offset need not be 0.
    release = {"x0": 5.0, "x1": 2.0, "x2": 3.0}
    record.flows = [replace(f, release_s=release[f.flow], offset_s=f.offset_s + 0.25) for f in record.flows]
    (group,) = group_rows(record, [job])
    assert group.reference_s == 4.75


def test_tables_read_back(tmp_path):
    _, record = fluid("fair")
    write_csv(tmp_path / "f.csv", FlowRow, flow_rows(record))
    with (tmp_path / "f.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["pcap_bytes"] == ""
    assert float(rows[0]["release_s"]) == pytest.approx(1, abs=1e-6)


def test_estimates_are_over_runs():
    values = [8.4, 8.5, 8.7, 8.6, 9.9]
    found = estimate(values)
    low, high = stats.t.interval(0.95, 4, loc=sum(values) / 5, scale=stats.sem(values))
    assert (found.median, found.low, found.high, found.n) == (8.6, pytest.approx(low), pytest.approx(high), 5)
    assert estimate([]) is None
    single = estimate([3.0])
    assert (single.median, single.low, single.high, single.n) == (3.0, None, None, 1)
    assert quantile([1.0, 2.0, 3.0], 0.5) == 2.0
    assert quantile([], 0.5) is None


def test_the_second_iteration_is_shown_where_there_is_one():
    job, record = fluid("fair", 3)
    shown = ShownRun.of("fair", record, [job])
    rows = iteration_rows(record, [job])
    assert (shown.window.iteration, shown.window.start_s, shown.window.finish_s) == (
        1,
        rows[1].start_s,
        rows[1].finish_s,
    )
    assert shown.rows.iterations == rows
    once, only = fluid("fair")
    assert ShownRun.of("fair", only, [once]).window.iteration == 0


def test_a_run_that_did_not_come_to_the_shown_iteration_cannot_be_shown():
    job, record = fluid("fair", 2)
    record.computes = [c for c in record.computes if (c.iteration, c.step) != (1, "c2")]
    with pytest.raises(ValueError, match="iteration 1 is not complete"):
        ShownRun.of("fair", record, [job])

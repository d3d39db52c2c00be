"""Which iterations count: all, those in steady state, or those between two moments; and how a file asks for it."""

from __future__ import annotations

import csv

import pytest

from echelon.experiment import schema
from echelon.experiment.window import counting_of
from echelon.running import runner
from echelonflow.errors import InputError
from echelonflow.model.counting import ALL, STEADY, Counting
from echelonflow.model.dag import Compute, Job, JobDag
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from results.folder import analyse
from results.report.table import summary_table

STARTS_S = {"a": 0.0, "b": 1.0}
ENDS_S = {"a": [1.0, 2.0, 3.0, 4.0, 5.0], "b": [1.5, 2.5, 4.5]}
EXPERIMENT = """
name: two
network: {topology: single-switch, hosts: 3, rate: 100 Mbit/s}
jobs:
  - {name: a, paradigm: pipeline, stages: 2, micro_batches: 2, forward: 10 ms, activation: 10 ms of link, iterations: 8, placement: [h1, h3]}
  - {name: b, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 10 ms, activation: 10 ms of link, iterations: 8, placement: [h2, h3]}
policies: [fair, fifo]
"""


def job(name="a", iterations=10, start_s=0.0):
    return Job(name, JobDag(1, (Compute("c", 0, 1.0),)), ("h1",), iterations, start_s=start_s)


def test_all_iterations_count_unless_somebody_says_otherwise():
    assert ALL.counted(STARTS_S, ENDS_S) == {"a": range(5), "b": range(3)}
    assert ALL.is_all


def test_in_steady_state_all_jobs_have_warmed_up_and_none_has_ended():
    # b has ended its second at 2.5 s, and its last at 4.5 s.
    assert Counting(warm_up=2).counted(STARTS_S, ENDS_S) == {"a": range(3, 4), "b": range(2, 3)}
    # a has ended its first at 1 s, and b at 1.5 s.
    assert Counting(warm_up=1).counted(STARTS_S, ENDS_S) == {"a": range(2, 4), "b": range(1, 3)}
    assert Counting(warm_up=0).counted(STARTS_S, ENDS_S) == {"a": range(4), "b": range(3)}


def test_only_what_lies_wholly_between_two_moments_counts():
    assert Counting(from_s=1.2, until_s=4.5).counted(STARTS_S, ENDS_S) == {"a": range(2, 4), "b": range(1, 3)}
    assert Counting(from_s=3.5).counted(STARTS_S, ENDS_S) == {"a": range(4, 5)}


def test_where_jobs_never_run_together_none_counts():
    assert STEADY.counted({"a": 0.0, "b": 10.0}, {"a": [1, 2, 3], "b": [11, 12, 13]}) == {}
    assert STEADY.counted({"a": 0.0}, {"a": [1.0]}) == {}


def test_a_job_of_which_no_iteration_ended_does_not_matter():
    assert STEADY.counted(STARTS_S, {"a": ENDS_S["a"], "b": []}) == {"a": range(2, 5)}


@pytest.mark.parametrize(
    ("window", "warm_up", "found"),
    [
        ("all", None, ALL),
        ("steady", None, STEADY),
        ("steady", 4, Counting(warm_up=4)),
        ("500 ms to 2 s", None, Counting(from_s=0.5, until_s=2.0)),
    ],
)
def test_a_file_asks_for_it(window, warm_up, found):
    assert counting_of(window, warm_up, [job()]) == found


def test_moments_are_stretched_with_everything_else():
    assert counting_of("1 s to 2 s", None, [job()], stretch=3.0) == Counting(from_s=3.0, until_s=6.0)


@pytest.mark.parametrize(
    ("window", "warm_up", "words"),
    [
        ("steadi", None, "did you mean 'steady'"),
        ("all", 2, "warm_up: goes with `window: steady`"),
        ("2 s to 1 s", None, "ends before it begins"),
        ("1 to 2 s", None, "window: '1' is not a duration"),
        ("steady", 10, "job a has 10; give it more"),
        ("1 s to 2 s", None, "job late starts no earlier"),
    ],
)
def test_what_is_no_window_is_refused(window, warm_up, words):
    jobs = [job(), job("late", start_s=5.0)] if "late" in words else [job()]
    with pytest.raises(InputError, match=words.replace("?", r"\?")):
        counting_of(window, warm_up, jobs)


def write(path, extra):
    path.write_text(EXPERIMENT + extra)
    return schema.load(path)


def test_a_result_says_which_iterations_count_and_its_means_are_over_those(tmp_path):
    experiment = write(tmp_path / "two.yaml", "window: steady\nwarm_up: 3\n")
    root = tmp_path / "run"
    _, summary = runner.run(experiment, root, "fluid", lambda _: None, pictures="none")
    assert read_manifest(RunFolder(root).manifest).counting == Counting(warm_up=3)
    words = "iterations after the first 3 of every job, until the first job ends"
    assert summary.window == words
    assert f"counted: {words}" in summary_table(summary)
    assert words in (root / "report.html").read_text()
    with (root / "iterations.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["policy"], row["job"]) == ("fair", "a")]
    counted = [float(row["duration_s"]) for row in rows if row["counted"] == "true"]
    assert 0 < len(counted) < len(rows) == 8
    (result,) = [each for each in summary.results if (each.policy, each.job) == ("fair", "a")]
    assert result.iteration_s.median == pytest.approx(sum(counted) / len(counted), abs=1e-6)
    assert sum(each.blamed_s for each in result.blame) == pytest.approx(result.iteration_s.median)
    assert analyse(root, pictures="none") == summary


def test_a_window_in_which_nothing_ends_is_told_and_no_result(tmp_path):
    experiment = write(tmp_path / "two.yaml", "window: 100 s to 200 s\n")
    code, summary = runner.run(experiment, tmp_path / "run", "fluid", lambda _: None, pictures="none")
    assert code == 3
    assert "no iteration counts, of which only iterations from 100 s on until 200 s do" in summary_table(summary)


def test_a_fault_in_the_window_has_its_line(tmp_path):
    with pytest.raises(InputError, match=r"two\.yaml:8: window: 'soon' is not steady"):
        write(tmp_path / "two.yaml", "window: soon\n")

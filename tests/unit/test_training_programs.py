"""What is read of training programs after their runs: losses as they print them, and what their processes found."""

from __future__ import annotations

import json
import re

import pytest

from echelonflow.records.certainty import Certainty, write_certainty
from echelonflow.records.folder import RunFolder
from echelonflow.records.live_part import Departure, write_live_outcome
from results.analysis.training import losses_in, trained, training_lines
from results.folder import analyse
from tests.unit.synthetic_training import outcome, trained_run


@pytest.mark.parametrize(
    "line",
    [
        "step 7 loss 2.5",
        "Step: 7, lr 1e-3, Loss = 2.5",
        "rank 3 | step=7 | loss: 2.5 | 12 tokens/s",
        "step 7 loss 2.5e+00",
    ],
)
def test_losses_are_found_in_the_ways_in_which_programs_print_them(tmp_path, line):
    path = tmp_path / "rank0.txt"
    path.write_text(f"epoch 1 loss 9\n{line}\nlossless step 8\n")
    assert {step: float(loss) for step, loss in losses_in([path]).items()} == {7: 2.5}


def test_what_a_program_prints_without_end_is_read_in_parts(tmp_path):
    path = tmp_path / "rank0.txt"
    path.write_text("step 1 " * 300_000 + "\nstep 4 loss 0.5\nstep " + "9" * 5000 + " loss 1\n")
    assert losses_in([path]) == {4: "0.5"}  # all of it at once would take hours


def test_of_several_ranks_the_first_that_prints_a_step_counts_and_what_is_no_text_harms_nothing(tmp_path):
    paths = [tmp_path / f"rank{rank}.txt" for rank in range(3)]
    paths[0].write_bytes(b"\xff\xfe nothing\n")
    paths[1].write_text("step 1 loss 2.0\nstep 0 loss 3.0\nstep 2 loss 1.0.0\n")
    paths[2].write_text("step 1 loss 7.0\n")
    assert list(losses_in(paths).items()) == [(0, "3.0"), (1, "2.0")]


@pytest.fixture
def live(tmp_path):
    return trained_run(tmp_path)


def test_what_programs_found_is_added_up_and_losses_are_compared_with_the_lessons(live):
    (one,) = trained(RunFolder(live))
    assert (one.computed, one.overran, one.overran_share) == (400, 20, 0.05)
    assert (one.whole, one.equal) == (1, 4)
    assert one.farthest == pytest.approx(0.0000001 / 2.25)
    assert one.runs["fair", 0] == one.lesson
    first, losses = training_lines([one])
    assert first == "pipeline: 20 of 400 computations took longer than their profile by over 1 %"
    assert losses.startswith(
        "pipeline: 1 of 2 runs made all 3 steps; 4 of 6 losses are those of the lesson in all digits"
    )


def test_of_a_program_whose_computation_is_measured_nothing_took_longer_than_it_should(tmp_path):
    live = trained_run(tmp_path, overran=None)
    (one,) = trained(RunFolder(live))
    assert (one.computed, one.overran, one.overran_share) == (400, None, None)
    first = next(iter(training_lines([one])))
    assert first == "pipeline: 400 computations were measured: each run is explained by what they took in it"
    analyse(live)
    assert first in (live / "report.html").read_text()


def test_a_run_of_a_program_that_departed_does_not_count_and_says_where(live):
    run = RunFolder(live).runs()[0]
    ours = outcome(0, other_bytes=400, departure=Departure(2, "barrier was not in the lesson there"))
    write_live_outcome(run.live("h1"), ours)
    write_live_outcome(run.live("h2"), outcome(1, departure=Departure(1, "all-reduce was not called")))
    (one,) = trained(RunFolder(live))
    assert one.other_share == pytest.approx(400 / 4000)
    said = "\n".join(training_lines([one]))
    assert "otherwise than in its lesson (rank 1, iteration 1: all-reduce was not called); 10.0% of all bytes" in said
    reason = "job pipeline did otherwise than in its lesson (rank 1, iteration 1: all-reduce was not called): 18.2% of its bytes"
    counted = {result.label: result.reasons for result in analyse(live).runs}
    assert any(each.startswith(reason) for each in counted.pop(run.root.name))
    assert not any("lesson" in each for reasons in counted.values() for each in reasons)
    assert reason in (live / "report.html").read_text()


def test_what_came_from_whoever_sent_first_is_no_departure(live):
    run = RunFolder(live).runs()[0]
    write_live_outcome(run.live("h1"), outcome(0, other_bytes=400))
    said = "\n".join(training_lines(trained(RunFolder(live))))
    assert "10.0% of all bytes were not scheduled: they are received from whoever sends first" in said
    assert not any("lesson (" in each for result in analyse(live).runs for each in result.reasons)


def test_how_certain_the_lesson_was_is_said_with_the_runs(live):
    found = Certainty(iterations=9, alike=7, spread=0.025)
    write_certainty(RunFolder(live).lesson().certainty("pipeline"), found)
    (one,) = trained(RunFolder(live))
    assert one.certainty == found
    said = "pipeline: learned from a lesson in which the last 7 of 9 iterations are alike"
    assert any(line.startswith(said) for line in training_lines([one]))
    analyse(live)
    assert said in (live / "report.html").read_text()


def test_programs_whose_names_begin_alike_keep_their_own_losses(live):
    run = RunFolder(live).runs()[0]
    run.output("pipeline-rank1", 0).write_text("step 9 loss 9\n")
    assert run.outputs("pipeline") == [run.output("pipeline", 1)]
    assert 9 not in trained(RunFolder(live))[0].runs["echelonflow", 0]


def test_a_damaged_outcome_is_left_out_and_a_run_of_replays_trains_nothing(live, tmp_path):
    for run in RunFolder(live).runs():
        run.live("h2").write_text("{")
    (one,) = trained(RunFolder(live))
    assert one.computed == 200
    assert trained(RunFolder(tmp_path / "lesson")) == []


def test_the_report_draws_losses_and_its_verdict_tells_what_computation_took(live):
    analyse(live)
    text = (live / "report.html").read_text()
    verdict = text.partition('class="verdict')[2].partition("</div>")[0]
    assert "20 of 400 computations took longer than their profile" in verdict
    charts = json.loads(re.findall(r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL)[0])
    chart = charts["training-0"]
    assert (chart["kind"], chart["of"]) == ("curve", "pipeline")
    drawn = {series["name"]: (series["x"], series["y"]) for series in chart["series"]}
    assert drawn["lesson"] == ([0, 1, 2], [2.5, 2.25, 2.0]) == drawn["fair"]
    assert drawn["echelonflow"] == ([0, 1], [2.5, 2.25])
    assert 'id="training-0"' in text
    assert "4 of 6" in text

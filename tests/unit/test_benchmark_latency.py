"""The benchmark of latency: its experiments are ones, and its figures say what was measured."""

from __future__ import annotations

import fnmatch
from pathlib import Path

import pytest

from echelon.benchmarks import latency
from echelon.benchmarks._latency_runs import LatencyOfRun
from echelon.experiment import schema
from echelonflow.errors import InputError
from results.analysis.hand_overs import HandOver
from results.analysis.latency import Beginning
from results.analysis.mark_changes import MarkChange
from traffic.agent.plan import check_observable


def begun(iteration, *, ahead, first_s=0.0008):
    return Beginning(
        ("job", iteration, "f"),
        0.0,
        0.001,
        0.002,
        None,
        None,
        0.003,
        first_s,
        ahead,
        held=False,
        corrected=False,
        free=True,
    )


def measured(part, *, beginnings=(), hand_overs=(), changes=()):
    run = LatencyOfRun("coflow", list(beginnings), list(hand_overs), list(changes))
    return {figure.what: figure for figure in latency.figures_of(part, [run])}


@pytest.mark.parametrize("part", [part for part in latency.parts() if "os-ken" not in part])
def test_every_part_is_an_experiment_with_confirmed_rules(part, tmp_path):
    experiment = schema.check(latency.experiment_of(part, 2, tmp_path), Path(f"{part}.yaml"))
    assert experiment.emulation.confirm_rules
    assert experiment.repeats == 2
    for job in experiment.jobs:
        check_observable(job)
    assert part in latency.parts()


def test_a_part_that_there_is_not_is_refused_by_name():
    with pytest.raises(InputError, match=r"--only fits no part; there is: ring-2-ryu, .*marks-50"):
        latency.run(1, print, ["nothing"])
    assert fnmatch.filter(latency.parts(), "*-16-os-ken") == ["ring-16-os-ken", "pipeline-16-os-ken"]


def test_the_policy_of_marks_turns_as_many_marks_as_it_says(tmp_path):
    data = latency.experiment_of("marks-10", 1, tmp_path)
    experiment = schema.check(data, Path("marks.yaml"))
    (job,) = experiment.jobs
    assert len(job.dag.transfers) == 12
    assert [name for name in ("h1", "h2", "h3") if name in job.placement] == ["h1", "h2", "h3"]
    assert len(experiment.network.path("h1", "h3")) > len(experiment.network.path("h1", "h2"))


def test_flows_decided_ahead_are_judged_with_eight_hosts_alone():
    good, slow = begun(1, ahead=True), begun(1, ahead=True, first_s=0.005)
    what = "{}, flows that started ahead: release to first packet"
    assert measured("ring-8-ryu", beginnings=[good])[what.format("ring-8-ryu")].ok
    assert measured("ring-8-ryu", beginnings=[good, slow])[what.format("ring-8-ryu")].ok is False
    assert measured("ring-2-ryu", beginnings=[slow])[what.format("ring-2-ryu")].ok is None


def test_the_share_decided_ahead_leaves_the_first_iteration_out():
    found = measured("ring-8-ryu", beginnings=[begun(0, ahead=False), begun(1, ahead=True), begun(2, ahead=True)])
    share = found["ring-8-ryu: flows decided ahead, from the second iteration on"]
    assert (share.measured, share.ok) == ("100% of 2", True)
    assert "ring-8-ryu, flows that waited: release to heard" in found


def test_hand_overs_are_judged_by_their_median():
    over = [HandOver("h2", ("job", 0, "f"), 1.0, 1.0, True, 1.0 + took_s) for took_s in (0.001, 0.004, 0.9)]
    (figure,) = (f for what, f in measured("ring-2-ryu", hand_overs=over).items() if "waited for its turn" in what)
    assert figure.measured.startswith("4.00 / ")
    assert figure.ok


def test_changes_of_marks_are_those_of_the_number_asked_for():
    changes = [MarkChange(1.0, 10, (0.002, 0.004), 0.003, 0.001), MarkChange(2.0, 1, (0.5,), 0.5, 0.5)]
    found = measured("marks-10", changes=changes)
    assert found["marks-10: decided to first packet with a new mark, of any flow"].measured.startswith("2.00 / ")
    assert found["marks-10: decided to first packet with its new mark, of every flow"].measured.startswith("3.00 / ")
    assert found["marks-10: longest time without a packet, after the decision"].measured.startswith("3.00 / ")
    assert measured("marks-50", changes=changes)["marks-50: changes of as many marks at once"].ok is False

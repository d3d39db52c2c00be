"""What accuracy is predicted of a machine, against values worked out by hand; and how long a quieter spell is waited for."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from echelon.experiment.schema import check
from echelon.running import runner
from echelon.running.accuracy import Course, course, courses, predicted_error, remedies, said, stretch_for
from echelon.running.patience import Patience
from echelonflow.records.progress import Looking, Waiting, Warned
from results.analysis.limits import Limits
from testbed import moment
from testbed.moment import SPUN_S, Moment
from testbed.timers import Lateness

PATH = Course(computes=4, flows=1, flow_s=4.0, length_s=8.0, asked=0.01)
QUIET = Moment(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
TROUBLED = Moment(0.01, 0.0004, 0.1, 0.2, 0.1, None)


def pipeline(**changes):
    job = {
        "name": "j",
        "paradigm": "pipeline",
        "stages": 2,
        "micro_batches": 3,
        "forward": "1 s",
        "activation": "2 s of link",
    }
    network = {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"}
    return check(
        {"name": "e", "network": network, "jobs": [{**job, **changes}], "policies": ["echelonflow"]}, Path("e.yaml")
    )


def test_what_ends_at_a_moment_of_its_own_falls_into_long_pauses_rather_than_short_ones():
    # One pause of 100 ms in a second: what ends by chance meets it with 10 %, and is then 50 ms late on average.
    found = Moment.of(Lateness((0.1 + SPUN_S, *[SPUN_S] * 900), 1.0), 0.1, 0.0, None)
    assert found.late_mean_s == pytest.approx(0.1 * 0.05)
    assert found.late_square_s2 == pytest.approx(0.1 * 0.1**2 / 3)
    assert found.late_max_s == pytest.approx(0.1)


def test_what_agents_spin_away_costs_nothing():
    assert Moment.of(Lateness((SPUN_S,) * 1000, 1.0), 0.0, 0.0, 0.0).late_mean_s == 0


def test_the_critical_path_is_followed_back_through_computations_and_flows():
    # The paper's example: the first stage's computation, its flow (2 s, twice more, in turn), and the last stage's.
    experiment = pipeline()
    record = runner.predict(experiment, "echelonflow")
    found = course(record, experiment.jobs[0], Limits())
    assert found.length_s == pytest.approx(8.0)
    assert found.computes + found.flows >= 3
    assert found.wakes == found.computes + 4 * found.flows
    assert 0 < found.flow_s < found.length_s
    # 4 s of 8 s are exposed: 3 % of them are less than 2 % of all.
    assert found.asked == pytest.approx(0.015)


def test_the_path_goes_through_all_iterations():
    def path(iterations):
        experiment = pipeline(iterations=iterations)
        return courses({"p": runner.predict(experiment, "echelonflow")}, experiment.jobs, Limits())[0]

    assert path(3).length_s > 2.4 * path(1).length_s
    assert path(3).computes > path(1).computes


def test_a_quiet_machine_adds_nothing():
    assert predicted_error(QUIET, PATH) == 0


def test_wakes_add_their_mean_and_twice_their_spread():
    # 8 wakes: 80 ms, and 2 sqrt(8 * 0.0004) = 113 ms more, of 8 s.
    assert predicted_error(TROUBLED, PATH) == pytest.approx((0.08 + 2 * math.sqrt(0.0032)) / 8)


def test_a_link_that_carries_less_lengthens_flows_alone():
    assert predicted_error(Moment(0, 0, 0, 0, 0, -0.04), PATH) == pytest.approx(0.02)


def test_pauses_that_no_burst_makes_up_for_are_lost_to_links():
    # Of each pause of 50 ms, 30 are lost: of a second with two of them 60 ms, half the path being a flow.
    found = Moment.of(Lateness((0.05, 0.05, *[0.0] * 900), 1.0), 0.1, 0.0, -0.01)
    assert found.lost_share == pytest.approx(0.06)
    alone = Moment(found.late_mean_s, found.late_square_s2, 0.05, 0.1, 0.0, 0.0)
    assert predicted_error(found, PATH) - predicted_error(alone, PATH) == pytest.approx(0.03)


def test_stretching_makes_pauses_weigh_less_but_no_link_better():
    factor = stretch_for(TROUBLED, [PATH])
    assert factor == 2.5
    assert predicted_error(TROUBLED, PATH, factor) <= 0.01 < predicted_error(TROUBLED, PATH, factor - 0.5)
    assert stretch_for(Moment(0, 0, 0, 0, 0, -0.04), [PATH]) is None


def test_what_is_said_has_figures_and_options_to_copy():
    assert said(TROUBLED, [PATH]) == (
        "this machine can tell iteration times to 2.4% now, and 1.0% is asked for (20% of the processors stolen, 10% used "
        "by others, pauses of up to 100.0 ms)"
    )
    assert "--patience 10m, or stretch time by --stretch 2.5" in remedies(TROUBLED, [PATH])


class Spells:
    """A machine whose moments are given, with a clock that goes on while somebody sleeps."""

    def __init__(self, *moments, patience_s=0.0):
        self.moments, self.now_s, self.heard = list(moments), 0.0, []
        self.patience = Patience(
            patience_s, self.heard.append, look=self.look, clock=lambda: self.now_s, sleep=self.sleep
        )

    def look(self):
        self.now_s += 2.0
        return self.moments.pop(0) if len(self.moments) > 1 else self.moments[0]

    def sleep(self, seconds):
        self.now_s += seconds

    def warned(self):
        return [report.reason for report in self.heard if isinstance(report, Warned)]


def test_on_a_quiet_machine_nothing_is_said():
    spells = Spells(QUIET, patience_s=600.0)
    assert spells.patience.before_runs([PATH]) is QUIET
    assert [type(report) for report in spells.heard] == [Looking]


def test_without_patience_it_is_said_once_and_gone_on():
    spells = Spells(TROUBLED)
    assert spells.patience.before_runs([PATH]) is TROUBLED
    assert spells.patience.before_runs([PATH]) is None
    (words,) = spells.warned()
    assert "2.4% now, and 1.0% is asked for" in words
    assert "--patience 10m" in words


def test_a_quieter_spell_is_waited_for():
    spells = Spells(TROUBLED, TROUBLED, TROUBLED, QUIET, patience_s=600.0)
    assert spells.patience.before_runs([PATH]) is QUIET
    assert sum(isinstance(report, Waiting) for report in spells.heard) == 3
    assert "waiting for a quieter spell" in spells.warned()[0]
    assert "it is quieter now" in spells.warned()[-1]


def test_patience_ends_and_runs_are_made_all_the_same():
    spells = Spells(TROUBLED, patience_s=60.0)
    assert spells.patience.before_runs([PATH]) is TROUBLED
    assert 60 <= spells.now_s < 75
    assert "going on all the same" in spells.warned()[-1]


def test_patience_is_for_all_rounds_together():
    spells = Spells(TROUBLED, TROUBLED, QUIET, TROUBLED, patience_s=60.0)
    spells.patience.before_runs([PATH])
    begin_s = spells.now_s
    spells.patience.before_runs([PATH])
    assert 30 < spells.now_s - begin_s < 60


@pytest.mark.slow
def test_the_probe_sees_this_machine():
    found = moment.probe(0.3)
    assert 0 <= found.late_mean_s <= found.late_max_s < 10
    assert 0 <= found.stolen_share <= 1
    assert 0 <= found.others_share <= 1

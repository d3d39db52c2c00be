"""The fluid simulator under planned faults, against times worked out by hand.

One flow of 10 s alone on its link, or two stages with a micro-batch or two; units are seconds of link.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.experiment.schema import check
from echelon.running.runner import predict
from echelonflow.records.run_record import RunRecord


def simulated(faults: list[dict], policy: str = "fair", *, jobs: int = 1, iterations: int = 1, **job) -> RunRecord:
    options = {"paradigm": "pipeline", "stages": 2, "micro_batches": 1, "forward": "1 s", "activation": "10 s of link"}
    placed = [
        {**options, "name": f"p{i}", "iterations": iterations, "placement": ["h1", "h2"], **job} for i in range(jobs)
    ]
    experiment = check(
        {
            "name": "x",
            "network": {"topology": "single-switch", "hosts": 4, "rate": "10 Mbit/s"},
            "jobs": placed,
            "policies": [policy],
            "faults": faults,
        },
        Path("x.yaml"),
    )
    return predict(experiment, policy)


def end_s(record: RunRecord, job: str = "p0") -> float:
    return max(c.finish_s for c in record.computes if c.job == job)


class TestLinks:
    @pytest.mark.parametrize("policy", ["fair", "echelonflow", "coflow"])
    def test_a_link_that_is_down_for_a_while_delays_by_that(self, policy):
        # 1 s of computing, 10 s of sending, 1 s of computing
        assert end_s(simulated([], policy)) == pytest.approx(12)
        down = [{"fault": "link-down", "link": ["s1", "h2"], "at": "4 s", "for": "2.5 s"}]
        assert end_s(simulated(down, policy)) == pytest.approx(14.5)

    @pytest.mark.parametrize("policy", ["fair", "echelonflow"])
    def test_a_slow_link_carries_what_it_then_can(self, policy):
        slow = [{"fault": "link-rate", "link": ["h1", "s1"], "rate": "40 %", "at": "3 s", "for": "5 s"}]
        # 8 s of link are left at 3 s; in the next 5 s 2 s of them are sent
        assert end_s(simulated(slow, policy)) == pytest.approx(8 + 6 + 1)

    def test_a_link_that_nobody_uses_then_changes_nothing(self):
        slow = [{"fault": "link-rate", "link": ["h3", "s1"], "rate": "1 %", "at": "0 s"}]
        assert end_s(simulated(slow)) == pytest.approx(12)

    def test_the_order_counts_on_a_slow_link_too(self):
        # Three micro-batches of 1 s, released a second apart, 2 s of link each: under EchelonFlow one after the other.
        options = {"micro_batches": 3, "activation": "2 s of link"}
        half = [{"fault": "link-rate", "link": ["h1", "s1"], "rate": "50 %", "at": "0 s"}]
        record = simulated(half, "echelonflow", **options)
        assert sorted(f.finish_s for f in record.flows) == pytest.approx([5, 9, 13])
        fair = simulated(half, "fair", **options)
        assert max(f.finish_s for f in fair.flows) == pytest.approx(13)
        assert min(f.finish_s for f in fair.flows) > 6


class TestStragglers:
    def test_computations_take_longer_while_it_lasts(self):
        slow = [{"fault": "slowdown", "host": "h2", "factor": 3, "at": "11.5 s", "for": "30 s"}]
        assert end_s(simulated(slow)) == pytest.approx(11.5 + 0.5 * 3)
        assert end_s(simulated([{**slow[0], "host": "h1"}])) == pytest.approx(12)


class TestCrashes:
    def test_a_crash_ends_its_job_and_leaves_the_link_to_the_others(self):
        two = {"jobs": 2, "iterations": 2}
        record = simulated([{"fault": "crash", "host": "h1", "at": "5 s"}], **two)
        assert not record.flows  # both jobs use h1
        assert {c.step for c in record.computes} <= {c.step for c in simulated([]).computes}

    def test_what_was_done_before_counts(self):
        record = simulated([{"fault": "crash", "host": "h2", "at": "20 s"}], "echelonflow", iterations=3)
        assert {c.iteration for c in record.computes if c.host == "h2"} == {0}
        assert [f.iteration for f in record.flows] == [0]

    def test_a_job_beside_it_gets_the_link_and_ends_sooner(self):
        jobs = [
            {"name": "dies", "placement": ["h1", "h3"]},
            {"name": "lives", "placement": ["h2", "h3"]},
        ]
        options = {
            "paradigm": "pipeline", "stages": 2, "micro_batches": 1, "forward": "1 s", "activation": "10 s of link",
        }  # fmt: skip
        data = {
            "name": "x",
            "network": {"topology": "single-switch", "hosts": 4, "rate": "10 Mbit/s"},
            "jobs": [{**options, **job} for job in jobs],
            "policies": ["fair"],
        }
        faults = [{"fault": "crash", "host": "h1", "at": "5 s"}]
        both = predict(check(data, Path("x.yaml")), "fair")
        one = predict(check({**data, "faults": faults}, Path("x.yaml")), "fair")
        assert end_s(both, "lives") == pytest.approx(22)
        assert end_s(one, "lives") == pytest.approx(1 + 4 + 8 + 1)  # half the link for 4 s, then all of it
        assert [f.job for f in one.flows] == ["lives"]


class TestController:
    def test_without_one_flows_go_on_in_their_last_class(self):
        stop = [{"fault": "controller-stop", "at": "4 s", "for": "2 s"}]
        assert end_s(simulated(stop)) == pytest.approx(12)
        assert end_s(simulated([{"fault": "controller-stop", "at": "4 s"}])) == pytest.approx(12)

    def test_a_run_without_any_controller_is_shared_fairly_and_ends(self):
        options = {"micro_batches": 3, "activation": "2 s of link"}
        never = simulated([{"fault": "controller-stop", "at": "0 s"}], "echelonflow", **options)
        fair = simulated([], "fair", **options)
        assert sorted(f.finish_s for f in never.flows) == pytest.approx(sorted(f.finish_s for f in fair.flows))

    def test_a_flow_keeps_the_class_of_its_last_iteration(self):
        options = {"micro_batches": 3, "activation": "2 s of link", "iterations": 2}
        known = simulated([{"fault": "controller-stop", "at": "7.9 s"}], "echelonflow", **options)
        whole = simulated([], "echelonflow", **options)
        assert end_s(known) <= end_s(simulated([{"fault": "controller-stop", "at": "0 s"}], "echelonflow", **options))
        assert end_s(whole) <= end_s(known) + 1e-9

    @pytest.mark.parametrize("policy", ["fair", "echelonflow", "coflow(grouping=group)"])
    def test_decisions_come_back_with_it(self, policy):
        options = {"micro_batches": 3, "activation": "2 s of link", "iterations": 4}
        stop = [{"fault": "controller-stop", "at": "3 s", "for": "1 s"}]
        record = simulated(stop, policy, **options)
        assert len({(c.iteration, c.step) for c in record.computes}) == 4 * 6

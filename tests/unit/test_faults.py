"""Planned faults: what an experiment file may ask for, and the arithmetic of what follows."""

from __future__ import annotations

import math
from pathlib import Path

import msgspec
import pytest

from echelon.experiment.schema import check
from echelonflow.errors import InputError
from echelonflow.model.faults import (
    ControllerStop,
    Crash,
    Fault,
    LinkDown,
    LinkRate,
    LostMessages,
    Slowdown,
    Slowdowns,
    changes_s,
    ended_jobs,
    link_shares,
)

FILE = Path("x.yaml")


def experiment(*faults: dict, jobs: int = 1):
    job = {
        "paradigm": "pipeline", "stages": 2, "micro_batches": 2, "forward": "1 s", "activation": "1 s of link",
    }  # fmt: skip
    placed = [{**job, "name": f"p{i}", "placement": [f"h{2 * i + 1}", f"h{2 * i + 2}"]} for i in range(jobs)]
    return check(
        {
            "name": "x",
            "network": {"topology": "single-switch", "hosts": 6, "rate": "10 Mbit/s"},
            "jobs": placed,
            "policies": ["fair"],
            "faults": list(faults),
        },
        FILE,
    )


class TestFile:
    def test_every_kind_is_read_with_its_units_and_sorted_by_time(self):
        found = experiment(
            {"fault": "controller-stop", "at": "3 s", "for": "1 s"},
            {"fault": "link-down", "link": ["h1", "s1"], "at": "2 s", "for": "500 ms"},
            {"fault": "link-rate", "link": ["s1", "h2"], "rate": "40 %", "at": "1 s"},
            {"fault": "link-rate", "link": ["s1", "h3"], "rate": "4 Mbit/s", "at": "1 s", "for": "1 s"},
            {"fault": "slowdown", "host": "h1", "factor": 1.5, "at": "0 s"},
            {"fault": "crash", "host": "h2", "at": "4 s"},
            {"fault": "lost-messages", "host": "h1", "share": "20 %", "at": "0.5 s", "for": "1 s"},
        ).faults
        assert found == (
            Slowdown(at_s=0.0, host="h1", factor=1.5),
            LostMessages(at_s=0.5, for_s=1.0, host="h1", share=0.2),
            LinkRate(at_s=1.0, ends=("s1", "h2"), share=0.4),
            LinkRate(at_s=1.0, for_s=1.0, ends=("s1", "h3"), share=0.4),
            LinkDown(at_s=2.0, for_s=0.5, ends=("h1", "s1")),
            ControllerStop(at_s=3.0, for_s=1.0),
            Crash(at_s=4.0, host="h2"),
        )

    @pytest.mark.parametrize(
        ("fault", "words"),
        [
            ({"fault": "link-down", "at": "1 s"}, "faults.0: link-down lacks link; it takes link, at, for"),
            ({"fault": "crash", "host": "h1", "at": "1 s", "for": "1 s"}, "crash does not take for; it takes host, at"),
            (
                {"fault": "link-down", "link": ["h1", "s9"], "at": "1 s", "for": "1 s"},
                "faults.0.link: unknown node 's9'",
            ),
            (
                {"fault": "link-down", "link": ["h1", "h2"], "at": "1 s", "for": "1 s"},
                "no cable joins h1 and h2; h1 is joined to s1",
            ),
            ({"fault": "link-down", "link": ["h1", "s1"], "at": "1 s"}, "faults.0.for: is missing"),
            ({"fault": "crash", "host": "h6", "at": "1 s"}, "no job has a rank on 'h6'; they are on h1, h2"),
            ({"fault": "controller-stop", "at": "soon"}, "faults.0.at: 'soon' is not a duration"),
            ({"fault": "controller-stop", "at": "25 h"}, "a fault begins within 24 h"),
            ({"fault": "controller-stop", "at": "1 s", "for": "0 s"}, "faults.0.for: is 0 s"),
            ({"fault": "slowdown", "host": "h1", "factor": 0.5, "at": "1 s"}, "faults.0.factor: is 0.5"),
            ({"fault": "link-rate", "link": ["h1", "s1"], "rate": "100 %", "at": "1 s"}, "must be below"),
            ({"fault": "link-rate", "link": ["h1", "s1"], "rate": "20 Mbit/s", "at": "1 s"}, "must be below"),
            ({"fault": "lost-messages", "host": "h1", "share": "100 %", "at": "1 s"}, "between 0 % and 100 %"),
        ],
    )
    def test_what_is_wrong_is_said_with_its_place(self, fault, words):
        with pytest.raises(InputError) as refused:
            experiment(fault)
        assert words in str(refused.value)
        assert "\n" not in str(refused.value)

    def test_two_faults_of_one_thing_at_one_time_are_refused(self):
        first = {"fault": "link-rate", "link": ["h1", "s1"], "rate": "50 %", "at": "1 s", "for": "2 s"}
        with pytest.raises(InputError, match=r"faults\.1: overlaps with faults\.0"):
            experiment(first, {"fault": "link-down", "link": ["s1", "h1"], "at": "2 s", "for": "1 s"})
        assert len(experiment(first, {**first, "at": "3 s"}).faults) == 2

    def test_a_fault_survives_its_way_to_disk(self):
        faults = experiment({"fault": "slowdown", "host": "h1", "factor": 2, "at": "1 s"}).faults
        assert msgspec.json.decode(msgspec.json.encode(faults), type=tuple[Fault, ...]) == faults


class TestArithmetic:
    slow = (Slowdown(at_s=1.0, for_s=3.0, host="h1", factor=3.0), Slowdown(at_s=10.0, host="h1", factor=2.0))

    @pytest.mark.parametrize(
        ("start_s", "duration_s", "finish_s"),
        [
            (0.0, 1.0, 1.0),  # before it
            (0.0, 1.5, 2.5),  # half a second of it takes three times as long
            (1.0, 1.0, 4.0),
            (1.0, 2.0, 5.0),  # one second done in three, the other at full speed
            (3.0, 1.0, 4.0 + 2 / 3),
            (9.0, 2.0, 12.0),  # into one that never ends
            (20.0, 1.0, 22.0),
        ],
    )
    def test_a_straggler_is_slow_only_while_it_is_planned(self, start_s, duration_s, finish_s):
        assert Slowdowns(self.slow, "h1").finish_s(start_s, duration_s) == pytest.approx(finish_s)
        assert Slowdowns(self.slow, "h2").finish_s(start_s, duration_s) == start_s + duration_s

    def test_links_of_a_fault_are_struck_in_both_directions_while_it_holds(self):
        built = experiment(
            {"fault": "link-rate", "link": ["h1", "s1"], "rate": "40 %", "at": "1 s", "for": "1 s"},
            {"fault": "crash", "host": "h2", "at": "3 s"},
        )
        names = {link.index: link.name for link in built.network.links}

        def shares(now_s: float) -> dict[str, float]:
            return {names[i]: share for i, share in link_shares(built.faults, built.network, now_s).items()}

        assert shares(0.5) == {}
        assert shares(1.0) == {"h1->s1": 0.4, "s1->h1": 0.4}
        assert shares(2.0) == {}
        assert shares(1e6) == {"h2->s1": 0.0, "s1->h2": 0.0}
        assert changes_s(built.faults) == [1.0, 2.0, 3.0]

    def test_a_crash_ends_the_jobs_that_it_strikes_and_no_others(self):
        built = experiment({"fault": "crash", "host": "h3", "at": "3 s"}, jobs=2)
        assert ended_jobs(built.faults, built.jobs) == {"p1": 3.0}
        assert built.faults[0].until_s == math.inf

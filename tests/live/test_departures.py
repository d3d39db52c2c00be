"""A program that does otherwise in a run than in its lesson: it goes on to its end with the right results, and says where it departed."""

from __future__ import annotations

import re
import time

import pytest

from echelonflow.records.agent_log import Received, Sent, read_agent_log
from echelonflow.wire.messages import Done, Finish, Release
from tests.live.forked import codes_of
from tests.live.processes import ROOT, printed
from tests.live.rehearsed import WARM_UP, Rehearsed

RANKS, STEPS = 3, 5
SCRIPT = ROOT / "tests/live/departs.py"
AT = 3
"""The step at which a program departs: iteration 2 of those that count."""


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return Rehearsed(tmp_path_factory.mktemp("lesson"), RANKS, SCRIPT, STEPS)


def right(folder):
    said = [printed(folder, rank) for rank in range(RANKS)]
    return all(f"steps {STEPS}" in text and "differs" not in text for text in said), said


def finished(coordinator):
    """Each flow that was released ended, once."""
    released = sorted((m.flow, m.iteration) for m in coordinator.of(Release))
    assert released == sorted((m.flow, m.iteration) for m in coordinator.of(Finish))
    return released


def test_a_program_that_does_as_before_goes_by_declared_flows(lesson, tmp_path):
    with lesson.run(tmp_path, [STEPS], STEPS - WARM_UP, 700) as (started, coordinator):
        assert codes_of(started) == [0] * RANKS, right(tmp_path)[1]
        assert len(coordinator.of(Done)) == RANKS
        released = finished(coordinator)
    assert right(tmp_path)[0]
    assert len(released) == len(lesson.imported.dag.transfers) * (STEPS - WARM_UP)
    assert all(each.departure is None and not each.other_bytes for each in lesson.outcomes(tmp_path))


@pytest.mark.parametrize(
    ("number", "how", "who", "words"),
    [
        (0, "skipped", (0, 1, 2), "was not in the lesson there|was not called|in the place of|in the lesson it"),
        (1, "extra", (0, 1, 2), "in the place of|in the lesson it|was not in the lesson"),
        (2, "kind", (0, 1, 2), "all-gather among ranks 0, 1, 2 came in the place of all-reduce"),
        (
            3,
            "larger",
            (0, 1, 2),
            "all-reduce among ranks 0, 1, 2 sends .* bytes and receives .*; in the lesson it sends",
        ),
        (4, "two of three", (1, 2), "all-to-all among ranks 0, 1, 2 sends 16,004 bytes"),
        (5, "nothing for 0", (0, 1, 2), "all-to-all among ranks 0, 1, 2 sends"),
        (6, "last", (0, 1, 2), "barrier among ranks 0, 1, 2 was not in the lesson there"),
    ],
)
def test_a_program_that_departs_ends_with_the_right_results(lesson, tmp_path, number, how, who, words):
    with lesson.run(tmp_path, [STEPS, how, AT], STEPS - WARM_UP, 701 + number) as (started, coordinator):
        codes = codes_of(started)
        assert codes == [0] * RANKS, right(tmp_path)[1]
        assert len(coordinator.of(Done)) == RANKS
        released = finished(coordinator)
    good, said = right(tmp_path)
    assert good, said
    assert 0 < len(released) < len(lesson.imported.dag.transfers) * (STEPS - WARM_UP)
    outcomes = lesson.outcomes(tmp_path)
    assert [each.rank for each in outcomes if each.departure is not None] == list(who)
    for each in outcomes:
        if each.departure is not None:
            assert each.other_bytes > 0
            assert each.departure.iteration == AT - WARM_UP
    assert re.search(words, outcomes[who[0]].departure.how), outcomes[who[0]]
    faults = []
    lines = [line for host in ("h1", "h2", "h3") for line in read_agent_log(tmp_path / f"{host}.jsonl", faults)]
    assert faults == []
    for kind in (Sent, Received):
        assert sorted((line.flow, line.iteration) for line in lines if isinstance(line, kind)) == released


@pytest.mark.parametrize(
    ("number", "how", "code", "words"),
    [
        (0, "dies", -9, "lost rank 1 at 127.0.0."),
        (1, "raises", 1, "rank 1: job 'gpt': the program ended after 2 iterations that count"),
    ],
)
def test_all_ranks_of_a_run_name_the_one_that_has_gone(lesson, tmp_path, number, how, code, words):
    with lesson.run(tmp_path, [STEPS, how, AT], STEPS - WARM_UP, 720 + number) as (started, _):
        started[1].join()
        began_s = time.monotonic()
        codes = codes_of(started)
        assert time.monotonic() - began_s < 5.0
    assert codes == [1, code, 1]
    for rank in (0, 2):
        assert words in printed(tmp_path, rank)


def test_a_program_that_warms_up_otherwise_is_told_so_at_once(lesson, tmp_path):
    with lesson.run(tmp_path, [STEPS, "skipped", 0], STEPS - WARM_UP, 722) as (started, _):
        assert codes_of(started) == [1] * RANKS
    for rank in range(RANKS):
        assert "did otherwise than in the lesson while it warmed up" in printed(tmp_path, rank)

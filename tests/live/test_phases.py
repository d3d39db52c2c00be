"""A program that changes in mid-run: what it does before and after that are jobs of their own, and each goes by flows of its own."""

from __future__ import annotations

from collections import Counter

import pytest

from echelonflow.records.agent_log import Computed, Held, Sent, read_agent_log
from echelonflow.records.phases import Phase
from echelonflow.wire.messages import Done, Finish, Release
from tests.live.forked import codes_of
from tests.live.processes import ROOT, printed
from tests.live.rehearsed import Rehearsed
from tests.live.test_examples import losses, with_gloo

RANKS, STEPS, GROWS = 3, 9, 4
COUNTED = STEPS - 2
"""The first one warms up, and the one in which it changes is like no other."""
PHASES = [Phase("gpt", 1, 3), Phase("gpt.2", 5, 4)]


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lesson")
    return Rehearsed(folder, RANKS, ROOT / "tests/live/departs.py", STEPS, "", -1, GROWS)


def lines_of(folder, ranks):
    found = [read_agent_log(folder / f"h{rank + 1}.jsonl") for rank in range(ranks)]
    return [list(lines) for lines in found]


def flows_of(messages):
    return Counter((each.job, each.flow) for each in messages)


def wanted(lesson):
    """How often each flow of each job is sent."""
    return {(job.name, each.name): job.iterations for job in lesson.jobs() for each in job.dag.transfers}


def right(folder):
    said = [printed(folder, rank) for rank in range(RANKS)]
    assert all(f"steps {STEPS}" in text and "differs" not in text for text in said), said


def test_both_phases_go_by_declared_flows_and_when_the_second_began_is_on_record(lesson, tmp_path):
    assert lesson.phases == PHASES
    with lesson.run(tmp_path, [STEPS, "", -1, GROWS], COUNTED, 740) as (started, coordinator):
        assert codes_of(started) == [0] * RANKS, [printed(tmp_path, rank) for rank in range(RANKS)]
        assert len(coordinator.of(Done)) == RANKS
        assert flows_of(coordinator.of(Release)) == flows_of(coordinator.of(Finish)) == wanted(lesson)
    right(tmp_path)
    assert all(each.departure is None and not each.other_bytes for each in lesson.outcomes(tmp_path))
    first, second = lesson.jobs()
    sizes_bytes = {
        rank: sum(
            job.iterations * each.size_bytes
            for job in (first, second)
            for each in job.dag.transfers
            if each.src_rank == rank
        )
        for rank in range(RANKS)
    }
    assert {each.rank: each.scheduled_bytes for each in lesson.outcomes(tmp_path)} == sizes_bytes
    for rank, lines in enumerate(lines_of(tmp_path, RANKS)):
        (held,) = (line for line in lines if isinstance(line, Held))
        assert (held.job, held.iteration, held.ready_s) == ("gpt.2", 0, held.begin_s)
        ends_s = [line.finish_s for line in lines if isinstance(line, Computed) and line.job == "gpt"]
        begins_s = [line.start_s for line in lines if isinstance(line, Computed) and line.job == "gpt.2"]
        # In between it waits at a barrier, and sends what nobody schedules.
        assert max(ends_s) < held.begin_s == pytest.approx(min(begins_s), abs=1e-6)
        computed = Counter(line.job for line in lines if isinstance(line, Computed))
        assert computed == {
            job.name: job.iterations * sum(step.rank == rank for step in job.dag.computes) for job in (first, second)
        }


@pytest.mark.parametrize(
    ("number", "how", "at", "counted", "words"),
    [
        (1, "skipped", 2, 1, ""),
        (2, "extra", GROWS, 3, "was not in the lesson there"),
        (3, "skipped", GROWS, 3, "before it became job gpt.2 it called "),
        (4, "larger", 7, 5, "in the lesson it sends"),
    ],
)
def test_a_program_that_departs_in_any_of_them_goes_on_to_its_end(lesson, tmp_path, number, how, at, counted, words):
    with lesson.run(tmp_path, [STEPS, how, at, GROWS], COUNTED, 740 + number) as (started, coordinator):
        assert codes_of(started) == [0] * RANKS, [printed(tmp_path, rank) for rank in range(RANKS)]
        assert len(coordinator.of(Done)) == RANKS
        released = flows_of(coordinator.of(Release))
        assert released == flows_of(coordinator.of(Finish))
    right(tmp_path)
    assert released.total() < sum(wanted(lesson).values())
    for each in lesson.outcomes(tmp_path):
        assert each.departure is not None
        assert each.departure.iteration == counted
        assert words in each.departure.how
        assert each.other_bytes > 0


def test_a_pipeline_whose_lines_become_longer_has_the_losses_of_gloo(tmp_path):
    script, ranks, steps = ROOT / "examples/live/train_pipeline.py", 4, 8
    argv = ["--steps", str(steps), "--width", "32", "--grow-after", "4"]
    (tmp_path / "lesson").mkdir()
    seen = Rehearsed(tmp_path / "lesson", ranks, script, *argv)
    assert seen.phases == [Phase("gpt", 1, 3), Phase("gpt.2", 5, 3)]
    first, second = seen.jobs()
    sizes_bytes = [{each.size_bytes for each in job.dag.transfers} for job in (first, second)]
    assert sizes_bytes[1] == {2 * each for each in sizes_bytes[0]}
    with seen.run(tmp_path, argv, 6, 745) as (started, coordinator):
        assert codes_of(started) == [0] * ranks, [printed(tmp_path, rank) for rank in range(ranks)]
        assert flows_of(coordinator.of(Finish)) == wanted(seen)
    ours = losses(printed(tmp_path, ranks - 1))
    assert len(ours) == steps
    assert ours == pytest.approx(with_gloo(script, *argv), rel=1e-5)
    assert all(not each.other_bytes for each in seen.outcomes(tmp_path))
    sent = [line for lines in lines_of(tmp_path, ranks) for line in lines if isinstance(line, Sent)]
    assert flows_of(sent) == wanted(seen)

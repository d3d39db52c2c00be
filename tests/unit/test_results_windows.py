"""Whether a job kept its own discipline: by logs of runs that did, and of runs that did not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from echelonflow.model.discipline import Window
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.analysis.windows import of_windows
from tests.unit.gated_jobs import gradients_job


def flow(layer, ready_s, release_s, finish_s):
    return FlowRecord(
        "gated", 0, f"push {layer}", "gradients", "dp-gradients", f"push {layer}", "h1", "h2", 1, 2, 1000, 0.0,
        release_s, release_s, finish_s, 1000, 1000, ready_s=None if ready_s == release_s else ready_s,
    )  # fmt: skip


def told(window, *flows, placement=("h1", "h2"), sizes_bytes=None):
    """`sizes_bytes`: of the tasks by layer, which are then listed in the order in which gradients become ready."""
    record = RunRecord("fair", 0, flows=list(flows))
    acked_s = {(f.job, f.iteration, f.flow): f.finish_s + 0.1 for f in flows}
    job = gradients_job(window, placement)
    if sizes_bytes is not None:
        tasks = [replace(task, size_bytes=size) for task, size in zip(job.discipline.tasks, sizes_bytes, strict=True)]
        job = replace(job, discipline=replace(job.discipline, tasks=tuple(tasks[::-1])))
    return of_windows(record, acked_s, [job])


ONE = Window(slots=1)


def test_one_after_the_other_in_order_of_priority_is_right():
    assert told(ONE, flow(3, 1, 1, 4), flow(2, 2, 7.1, 9), flow(1, 3, 4.1, 7), flow(0, 20, 20, 21)) == []


def test_what_starts_before_the_end_was_noticed_is_beyond_the_window():
    (reason,) = told(ONE, flow(3, 1, 1, 4), flow(2, 2, 4, 9))
    assert "rank 0: layer 2 of iteration 0 started at 4.000000 s beside 1 others (slots: 1)" in reason


def test_a_third_beside_two_is_beyond_the_window():
    (reason,) = told(
        Window(slots=2), flow(3, 1, 1, 9), flow(2, 1.5, 1.5, 4), flow(0, 3, 3.5, 3.6), flow(1, 2, 9.1, 9.5)
    )
    assert "layer 0 of iteration 0 started at 3.500000 s beside 2 others (slots: 2)" in reason


def test_what_was_ready_and_goes_first_is_not_to_be_overtaken():
    flows = flow(3, 1, 1, 9), flow(1, 2, 6, 8), flow(2, 1.5, 4, 5), flow(0, 20, 20, 21)
    (reason,) = told(Window(slots=2), *flows)
    assert (
        "layer 2 of iteration 0 started at 4.000000 s, and layer 1, which goes before it, was ready since 2.0" in reason
    )
    assert told(Window(slots=2), *flows[:3]) == []  # not all of the rank was seen


def test_of_those_that_start_at_one_moment_the_last_in_order_may_overdraw():
    flows = flow(3, 1, 1, 4), flow(2, 2, 2, 9), flow(1, 2, 4.1, 6), flow(0, 3, 4.1, 6)
    window = Window(credit_bytes=2500)
    assert told(window, *flows, sizes_bytes=(1000, 3000, 100, 2000)) == []
    (reason,) = told(window, *flows, sizes_bytes=(3000, 1000, 100, 2000))
    assert "layer 1 of iteration 0 started at 4.100000 s beside 3100 bytes (credit: 2500)" in reason


def test_with_one_at_a_time_order_is_judged_though_nothing_else_is_on_its_way():
    flows = flow(3, 1, 1, 4), flow(2, 2, 4.1, 5), flow(1, 3, 5.1, 6), flow(0, 20, 20, 21)
    (reason,) = told(ONE, *flows)
    assert "layer 2 of iteration 0 started at 4.100000 s, and layer 1" in reason


@pytest.mark.parametrize(
    ("window", "kept"),
    [
        (Window(credit_bytes=1000), False),
        (Window(credit_bytes=1001), True),
        (Window(credit_bytes=1999, overdraw=False), False),
        (Window(credit_bytes=2000, overdraw=False), True),
        (Window(), True),
    ],
)
def test_credit_counts_in_bytes_and_may_be_overdrawn_by_the_last(window, kept):
    assert (told(window, flow(3, 1, 1, 4), flow(2, 2, 2, 4)) == []) is kept


def test_a_rank_that_has_nothing_on_its_way_may_start_what_it_likes():
    """Layer 3 is under way until it is pulled, but all that the rank has sent of it has ended."""
    job = gradients_job(ONE, ends="pull")
    pull = replace(flow(3, 6, 6, 8), flow="pull 3", src_host="h2", dst_host="h1")
    record = RunRecord("fair", 0, flows=[flow(3, 1, 1, 4), flow(1, 2, 5, 6), pull])
    acked_s = {("gated", 0, "push 3"): 4.5, ("gated", 0, "push 1"): 6.5, ("gated", 0, "pull 3"): 8.5}
    assert of_windows(record, acked_s, [job]) == []
    acked_s["gated", 0, "push 3"] = 5.5
    (reason,) = of_windows(record, acked_s, [job])
    assert "layer 1 of iteration 0 started at 5.000000 s beside 1 others" in reason


def test_what_stays_within_a_host_is_not_judged():
    assert told(ONE, flow(3, 1, 1, 4), flow(2, 2, 2, 9), placement=("h1", "h1")) == []


def test_a_rank_of_a_program_may_follow_what_another_has_begun():
    job = gradients_job(ONE)
    theirs = replace(flow(2, 2, 3.5, 9), flow="pull 2", src_host="h2", dst_host="h1", coflow="push 2")
    steps = tuple(replace(s, coflow="push 2") if s.name == "pull 2" else s for s in job.dag.steps)
    job = replace(job, dag=replace(job.dag, steps=steps))
    record = RunRecord("fair", 0, flows=[flow(3, 1, 1, 4), flow(2, 2, 4, 9), theirs])
    acked_s = {(f.job, f.iteration, f.flow): f.finish_s + 0.1 for f in record.flows}
    (reason,) = of_windows(record, acked_s, [job])
    assert "layer 2 of iteration 0 started at 4.000000 s beside 1 others" in reason
    assert of_windows(record, acked_s, [job], programs=["gated"]) == []
    later = RunRecord("fair", 0, flows=[flow(3, 1, 1, 4), flow(2, 2, 4, 9), replace(theirs, release_s=4.5)])
    assert of_windows(later, acked_s, [job], programs=["gated"])  # this rank was the first to begin

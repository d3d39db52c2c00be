"""Tasks and the core of one rank: order, window and what may never happen, whatever comes when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelonflow.errors import InputError, RunError
from echelonflow.job_scheduling.comm_task import CommTask, TaskState
from echelonflow.job_scheduling.core import Core
from echelonflow.model.discipline import Window


def names(tasks):
    return [task.name for task in tasks]


def ready(core, *tasks):
    return [names(core.notify_ready(task)) for task in tasks]


@given(size_bytes=st.integers(1, 10**12), partition_bytes=st.integers(1, 10**12))
def test_partitions_are_few_alike_and_add_up(size_bytes, partition_bytes):
    if size_bytes // partition_bytes > 1000:
        partition_bytes = -(-size_bytes // 1000)
    task = CommTask("t", size_bytes, 7, 3)
    parts = task.partition(partition_bytes)
    assert sum(part.size_bytes for part in parts) == size_bytes
    assert len(parts) == -(-size_bytes // partition_bytes)
    assert max(part.size_bytes for part in parts) <= partition_bytes
    assert max(part.size_bytes for part in parts) - min(part.size_bytes for part in parts) <= 1
    assert {(part.priority, part.iteration) for part in parts} == {(7, 3)}
    assert (parts == [task]) == (size_bytes <= partition_bytes)


def test_a_partitioned_task_is_what_its_partitions_come_to():
    task = CommTask("t", 10)
    first, second = task.partition(5)
    states = [task.state]
    for step in (
        first.notify_ready, first.start, second.notify_ready, first.notify_finish, second.start, second.notify_finish,
    ):  # fmt: skip
        step()
        states.append(task.state)
    assert [state.value for state in states] == ["posted", "ready", *["started"] * 4, "finished"]
    assert names((first, second)) == ["t.0", "t.1"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda task: task.start(), "'t' of iteration 0 is posted; it cannot become started"),
        (lambda task: task.notify_finish(), "is posted; it cannot become finished"),
        (lambda task: (task.notify_ready(), task.notify_ready()), "is ready; it cannot become ready"),
        (lambda task: (task.notify_ready(), task.partition(1)), "only one that is posted can be cut"),
        (lambda task: (task.partition(1), task.partition(1)), "only one that is posted can be cut"),
        (lambda task: (task.partition(1), task.start()), "it is its partitions that are started"),
    ],
)
def test_steps_out_of_turn_are_refused(wrong, message):
    with pytest.raises(RunError, match=message):
        wrong(CommTask("t", 10))


def test_sizes_of_nothing_are_refused():
    with pytest.raises(InputError, match="task 't' has 0 bytes"):
        CommTask("t", 0)
    with pytest.raises(InputError, match="partition is 0 bytes; at least 1"):
        CommTask("t", 10).partition(0)


def test_a_more_urgent_task_overtakes_those_that_wait_and_none_that_has_started():
    core = Core(Window(slots=1))
    last, middle, first = (CommTask(name, 1, priority) for name, priority in (("last", 9), ("middle", 5), ("first", 0)))
    assert ready(core, last, middle, first) == [["last"], [], []]
    assert names(core.notify_finish(last)) == ["first"]
    assert names(core.notify_finish(first)) == ["middle"]


def test_equals_start_by_iteration_then_as_they_became_ready():
    core = Core(Window(slots=1))
    tasks = [CommTask("0", 1), CommTask("c", 1, 1, 1), CommTask("b", 1, 1, 0), CommTask("a", 1, 1, 0)]
    ready(core, *tasks)
    order = []
    under_way = tasks[0]
    while core.under_way:
        (under_way,) = core.notify_finish(under_way) or (None,)
        order += [] if under_way is None else [under_way.name]
    assert order == ["b", "a", "c"]


def test_what_starts_with_any_credit_left_may_overdraw_it():
    core = Core(Window(credit_bytes=10))
    assert ready(core, *(CommTask(name, 6) for name in "abc")) == [["a"], ["b"], []]
    assert core.under_way_bytes == 12


def test_where_credit_may_not_be_overdrawn_smaller_tasks_overtake():
    core = Core(Window(credit_bytes=10, overdraw=False))
    large, larger, small = CommTask("large", 6, 0), CommTask("larger", 7, 1), CommTask("small", 4, 2)
    assert ready(core, large, larger, small) == [["large"], [], ["small"]]
    assert names(core.notify_finish(small)) == []
    assert names(core.notify_finish(large)) == ["larger"]


WINDOWS = st.builds(
    Window, st.none() | st.integers(1, 40), st.none() | st.integers(1, 4), overdraw=st.booleans()
)  # fmt: skip


@given(
    window=WINDOWS,
    tasks=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 5), st.integers(0, 1)), max_size=20),
    choices=st.randoms(use_true_random=False),
)
def test_whatever_comes_when_the_window_holds_and_every_task_comes_through(window, tasks, choices):
    credit_bytes = window.credit_bytes
    if not window.overdraw and credit_bytes is not None:
        tasks = [(min(size, credit_bytes), *rest) for size, *rest in tasks]
    core = Core(window)
    to_come = [CommTask(str(n), *task) for n, task in enumerate(tasks)]
    everything = list(to_come)
    waiting, under_way = [], []
    while to_come or under_way:
        if to_come and (not under_way or choices.random() < 0.5):
            task = to_come.pop(choices.randrange(len(to_come)))
            waiting.append(task)
            started = core.notify_ready(task)
        else:
            started = core.notify_finish(under_way.pop(choices.randrange(len(under_way))))
        for each in started:
            waiting.remove(each)
            # Nothing that fits and is more urgent was left behind.
            urgent = [other for other in waiting if (other.priority, other.iteration) < (each.priority, each.iteration)]
            assert not urgent or not window.overdraw
            under_way.append(each)
        taken_bytes = sum(task.size_bytes for task in under_way)
        assert (core.waiting, core.under_way, core.under_way_bytes) == (len(waiting), len(under_way), taken_bytes)
        assert window.slots is None or len(under_way) <= window.slots
        if credit_bytes is not None:
            most_bytes = (
                credit_bytes if not window.overdraw else credit_bytes - 1 + started[-1].size_bytes if started else None
            )
            assert most_bytes is None or taken_bytes <= most_bytes
            left_bytes = credit_bytes - taken_bytes
            could = [task for task in waiting if left_bytes > 0 and (window.overdraw or task.size_bytes <= left_bytes)]
        else:
            could = waiting
        assert not could or (window.slots is not None and len(under_way) == window.slots)  # none waits without need
    assert not waiting
    assert all(task.state is TaskState.FINISHED for task in everything)


@given(
    slots=st.none() | st.integers(1, 4),
    tasks=st.lists(st.tuples(st.sampled_from([10, 30, 45, 60]), st.integers(0, 4), st.integers(0, 1)), max_size=40),
    choices=st.randoms(use_true_random=False),
)
def test_of_all_that_fit_the_first_in_order_starts(slots, tasks, choices):
    core = Core(Window(100, slots, overdraw=False))
    waiting, under_way = [], []  # the first in order of readiness
    for name, task in enumerate(tasks):
        if under_way and choices.random() < 0.5:
            started = core.notify_finish(under_way.pop(choices.randrange(len(under_way))))
        elif waiting and not under_way:
            core.start_over_credit(waiting[-1])
            under_way.append(waiting.pop())
            continue
        else:
            waiting.append(CommTask(str(name), *task))
            started = core.notify_ready(waiting[-1])
        expected = []
        while slots is None or len(under_way) < slots:
            left_bytes = 100 - sum(each.size_bytes for each in under_way)
            fit = [each for each in waiting if each.size_bytes <= left_bytes]
            if not fit:
                break
            first = min(fit, key=lambda each: (each.priority, each.iteration))
            waiting.remove(first)
            under_way.append(first)
            expected.append(first)
        assert started == expected


def test_what_is_started_over_the_credit_takes_its_credit_and_is_not_started_again():
    core = Core(Window(credit_bytes=10))
    big, forced, other = CommTask("big", 10), CommTask("forced", 5, 9), CommTask("other", 5, 0)
    ready(core, big, forced, other)
    core.start_over_credit(forced)
    assert (core.waiting, core.under_way_bytes) == (1, 15)
    assert core.notify_finish(big) == [other]
    assert (core.waiting, core.under_way, core.under_way_bytes) == (0, 2, 10)
    assert core.notify_finish(other) == []
    assert core.notify_finish(forced) == []

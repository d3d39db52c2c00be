from __future__ import annotations

import dataclasses

import msgspec
import pytest

from echelonflow.codec import builtins, convert
from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec, Window

PUSHES = (
    Compute("b", 0, 1.0),
    Transfer("push", 0, 1, 100, "c", ("b",)),
    Transfer("pull", 1, 0, 100, "c", ("push",)),
    Compute("f", 0, 1.0, ("pull",)),
)
DAG = JobDag(2, PUSHES, (Group("g", "x", ("push", "pull"), (0.0, 0.0)),), (("f", "b"),))
TASK = TaskSpec("t", 0, 100, 3, ("push",), ("pull",), 7)


def job(*tasks, window=None):
    return Job("j", DAG, ("h1", "h2"), discipline=Discipline("p3", window or Window(), tasks))


def test_a_job_has_no_discipline_unless_it_is_given_one():
    assert Job("j", DAG, ("h1", "h2")).discipline is None
    assert job(TASK).discipline.tasks == (TASK,)


def test_json_round_trip():
    discipline = Discipline("bytescheduler(partition=4 MB)", Window(1000, 2, overdraw=False), (TASK,))
    text = msgspec.json.encode(builtins(discipline))
    assert convert(msgspec.json.decode(text), Discipline, "plan.json") == discipline


def test_json_of_what_cannot_be_is_refused_by_place():
    wrong = builtins(Discipline("fifo", Window(), (TASK,)))
    wrong["window"]["slots"] = 0
    with pytest.raises(InputError, match=r"^plan\.json: slots is 0; at least 1"):
        convert(wrong, Discipline, "plan.json")


def test_a_task_ends_with_its_own_transfers_unless_others_are_named():
    assert TaskSpec("t", 0, 100, 0, ("push",)).ends == ("push",)
    assert TASK.ends == ("pull",)


def test_the_first_iteration_may_have_an_order_of_its_own():
    assert [TASK.priority_in(iteration) for iteration in range(3)] == [7, 3, 3]
    assert dataclasses.replace(TASK, first_priority=None).priority_in(0) == 3
    assert dataclasses.replace(TASK, first_priority=0).priority_in(0) == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Window(credit_bytes=0), "credit is 0 bytes; at least 1 byte"),
        (lambda: Window(credit_bytes=1 << 63), "63 bits at most"),
        (lambda: Window(slots=0), "slots is 0; at least 1"),
        (lambda: dataclasses.replace(TASK, size_bytes=0), "task 't' has 0 bytes"),
        (lambda: dataclasses.replace(TASK, transfers=()), "task 't' holds no transfer"),
        (lambda: job(TASK, dataclasses.replace(TASK, transfers=("pull",))), "rank 0 has two tasks called 't'"),
        (lambda: job(dataclasses.replace(TASK, rank=2)), "job j: task 't' is on rank 2; there are ranks 0 to 1"),
        (lambda: job(dataclasses.replace(TASK, transfers=("b",))), "job j: task 't' names 'b', which is no transfer"),
        (lambda: job(dataclasses.replace(TASK, ends=("?",))), "task 't' names '\\?', which is no transfer"),
        (lambda: job(dataclasses.replace(TASK, transfers=("pull",))), "holds 'pull', which another rank sends"),
        (lambda: job(dataclasses.replace(TASK, transfers=("push", "push"))), "'push' is held by task 't' and again"),
        (lambda: job(TASK, dataclasses.replace(TASK, name="u")), "'push' is held by task 't' and again by 'u'"),
        (lambda: job(dataclasses.replace(TASK, ends=("pull", "pull"))), "twice among those it ends with"),
        (lambda: job(TASK, window=Window(99, overdraw=False)), "would never start; a credit of 100 bytes or smaller"),
    ],
)
def test_what_cannot_be_is_refused_and_named(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_a_task_ends_only_with_what_its_rank_notices():
    steps = (*PUSHES, Transfer("other", 1, 2, 5, "c"))
    dag = JobDag(3, steps, (Group("g", "x", ("push", "pull", "other"), (0.0,) * 3),))
    with pytest.raises(InputError, match="ends with 'other', which is neither from that rank nor to it"):
        Discipline("x", Window(), (dataclasses.replace(TASK, ends=("other",)),)).check(dag)


def test_what_overdraws_may_be_larger_than_the_credit():
    assert job(TASK, window=Window(1)).discipline.window.credit_bytes == 1

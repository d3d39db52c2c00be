from __future__ import annotations

import dataclasses
import json

import pytest

from echelonflow.errors import InputError
from echelonflow.model import dag
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.progress import JobProgress


def ping_pong(iterations_edge=True):
    """Rank 0 computes, sends to rank 1, which computes and sends back; rank 0 then starts over."""
    steps = (
        Compute("a", 0, 1.0),
        Transfer("there", 0, 1, 100, "there", ("a",)),
        Compute("b", 1, 2.0, ("there",)),
        Transfer("back", 1, 0, 100, "back", ("b",)),
        Compute("end", 0, 0.5, ("back", "a")),
    )
    groups = (Group("g1", "x", ("there",), (0.0,)), Group("g2", "x", ("back",), (0.0,)))
    return JobDag(2, steps, groups, (("end", "a"),) if iterations_edge else ())


def test_times_without_network():
    runs = dag.run_without_network(ping_pong(), 2)
    assert runs[0]["end"] == (3.0, 3.5)
    assert runs[1]["a"] == (3.5, 4.5)
    assert dag.iteration_times_without_network(ping_pong(), 3) == [3.5, 3.5, 3.5]


def test_json_round_trip():
    assert dag.from_dict(json.loads(json.dumps(dag.to_dict(ping_pong())))) == ping_pong()


def test_json_says_at_a_transfer_and_at_its_group_that_they_belong_together():
    written = dag.to_dict(ping_pong())
    assert [step.get("group") for step in written["steps"]] == [None, "g1", None, "g2", None]
    written["steps"][1]["group"] = "g2"
    with pytest.raises(InputError, match="'there' names group 'g2', but is listed by group 'g1'"):
        dag.from_dict(written)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((Group("g1", "x", ("there", "back"), (0.0, 0.0)), Group("g2", "x", ("back",), (0.0,))), "'back' is listed by"),
        ((Group("g1", "x", ("there", "back", "a"), (0.0,) * 3),), "group 'g1' lists 'a', which is no transfer"),
        ((Group("g1", "x", ("there", "there"), (0.0,) * 2),), "'there' is listed by group 'g1' and again by 'g1'"),
        ((Group("g1", "x", (), ()),), "group 'g1' has no flows"),
        ((Group("g1", "x", ("there", "back"), (0.0,)),), "2 flows but 1 offsets"),
    ],
)
def test_every_transfer_is_in_one_group(groups, message):
    with pytest.raises(InputError, match=message):
        ping_pong().with_groups(groups)


def test_json_of_another_version_is_refused():
    with pytest.raises(InputError, match="version 99"):
        dag.from_dict({**dag.to_dict(ping_pong()), "version": 99})


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (Compute("a", 0, 1.0), "two steps called 'a'"),
        (Compute("x", 2, 1.0), "rank 2; there are ranks 0 to 1"),
        (Compute("x", 0, float("nan")), "lasts nan"),
        (Compute("x", 0, 1.0, ("nowhere",)), "unknown step 'nowhere'"),
        (Transfer("x", 0, 1, 0, "x"), "0 bytes"),
        (Transfer("x", 1, 1, 5, "x"), "to itself"),
        (Transfer("x", 0, 1, 5, "x"), "transfer 'x' is in no group"),
    ],
)
def test_impossible_steps_are_refused_by_name(step, message):
    good = ping_pong()
    with pytest.raises(InputError, match=message):
        dataclasses.replace(good, steps=(*good.steps, step))


def test_a_cycle_is_refused():
    with pytest.raises(InputError, match="cycle through x, y"):
        JobDag(1, (Compute("x", 0, 1.0, ("y",)), Compute("y", 0, 1.0, ("x",))))


def test_progress_follows_the_dag_over_iterations():
    progress = JobProgress(Job("j", ping_pong(), ("h1", "h2"), iterations=2))
    ready = progress.start()
    order = []
    while ready:
        order.append(ready.pop(0))
        ready += progress.finish(*order[-1])
    names = ["a", "there", "b", "back", "end"]
    assert order == [(0, n) for n in names] + [(1, n) for n in names]
    assert progress.done


def test_progress_of_one_host_counts_only_its_own_steps():
    progress = JobProgress(Job("j", ping_pong(), ("h1", "h2")), owned={"b", "back"})
    assert progress.start() == []
    assert progress.finish(0, "there") == [(0, "b")]
    assert progress.finish(0, "b") == [(0, "back")]
    assert progress.finish(0, "back") == []
    assert progress.done


def test_with_groups_changes_groups_alone():
    before = ping_pong()
    assert before.offset_s == {"there": 0.0, "back": 0.0}
    later = tuple(dataclasses.replace(group, offsets_s=(2.0,)) for group in before.groups)
    after = before.with_groups(later)
    assert after == dataclasses.replace(before, groups=later)
    assert after.offset_s == {"there": 2.0, "back": 2.0}
    assert before.offset_s == {"there": 0.0, "back": 0.0}
    with pytest.raises(InputError, match="'back' is in no group"):
        before.with_groups(later[:1])


def test_a_step_waits_for_the_last_of_those_before_it_in_either_iteration():
    steps = (Compute("a", 0, 1.0), Compute("b", 0, 3.0), Compute("c", 0, 1.0, ("a", "b")))
    runs = dag.run_without_network(JobDag(1, steps, (), (("c", "a"), ("b", "a"))), 2)
    assert runs[0]["c"] == (3.0, 4.0)
    assert runs[1]["a"] == (4.0, 5.0)
    assert runs[1]["b"] == (0.0, 3.0)

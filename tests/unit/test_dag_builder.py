"""The one builder of DAGs: turns of a GPU, joins, groups, and what it refuses."""

from __future__ import annotations

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Group, run_without_network
from traffic.workloads.dag_builder import DagBuilder


def test_a_gpu_takes_its_computations_in_turn_and_begins_again_after_its_last():
    builder = DagBuilder(2)
    first = builder.compute(0, "a", 1.0)
    builder.hold(0, ["elsewhere"])
    builder.beside(1, "elsewhere", 5.0, [first])
    builder.compute(0, "b", 1.0, [first])
    dag = builder.dag({})
    assert dag.by_name["b"] == Compute("b", 0, 1.0, ("a", "elsewhere"))  # once, whoever names it
    assert dag.next_iteration == (("b", "a"),)
    assert run_without_network(dag)[0]["b"] == (6.0, 7.0)


def test_a_turn_that_was_said_already_keeps_its_place():
    builder = DagBuilder(2)
    for rank in range(2):
        builder.compute(rank, f"c{rank}", 1.0)
    builder.beside(0, "other", 1.0, ())
    builder.next_iteration("other", "c0")
    builder.next_iteration("c0", "c0")
    assert builder.dag({}).next_iteration == (("c1", "c1"), ("other", "c0"), ("c0", "c0"))


def test_groups_stand_as_they_were_declared_and_flows_as_they_are_consumed():
    builder = DagBuilder(2)
    builder.group("empty", "k")
    builder.group("late", "k", "derived", weight=2.0)
    builder.group("flat", "k")
    done = builder.compute(0, "a", 1.0)
    for name in ("x", "y"):
        builder.transfer(name, 0, 1, 10, "late", after=[done])
    builder.transfer("z", 0, 1, 10, "flat", "shared", after=[done])
    builder.compute(1, "needs y", 3.0, ["y"])
    builder.compute(1, "needs x", 1.0, ["x", "z"])
    dag = builder.dag({"made": "here"})
    assert dag.groups == (
        Group("late", "k", ("y", "x"), (0.0, 3.0), 2.0),
        Group("flat", "k", ("z",), (0.0,)),
    )
    assert [transfer.coflow for transfer in dag.transfers] == ["x", "y", "shared"]
    assert dag.parameters == {"made": "here"}


def test_a_rule_is_given_flows_in_the_order_in_which_they_are_consumed():
    builder = DagBuilder(2)
    builder.group("g", "k", lambda flows: [10.0 * place for place, _ in enumerate(flows)])
    for name in ("x", "y"):
        builder.transfer(name, 0, 1, 10, "g")
    builder.compute(1, "needs y", 3.0, ["y"])
    builder.compute(1, "needs x", 1.0, ["x"])
    assert builder.dag({}).groups == (Group("g", "k", ("y", "x"), (0.0, 10.0)),)


@pytest.mark.parametrize("steps", [8, 9])
def test_a_join_stands_for_its_steps_or_where_they_are_many_for_a_step_of_no_duration(steps):
    builder = DagBuilder(1)
    names = [builder.beside(0, f"s{i}", 1.0, ()) for i in range(steps)]
    builder.beside(0, "end", 1.0, ["outer"])
    builder.join("outer", 0, ["inner"])
    builder.join("inner", 0, names)
    builder.next_iteration("outer", "s0")
    dag = builder.dag({})
    if steps == 8:
        assert dag.by_name["end"].after == tuple(names)
        assert dag.next_iteration == tuple((name, "s0") for name in names)
    else:
        assert dag.by_name["end"].after == ("outer",)
        assert dag.by_name["outer"] == Compute("outer", 0, 0.0, tuple(names), "join")
        assert dag.next_iteration == (("outer", "s0"),)


def test_changes_are_made_before_offsets_are_found():
    def slower(dag):
        steps = [Compute(s.name, s.rank, 9.0, s.after) if isinstance(s, Compute) else s for s in dag.steps]
        return type(dag)(dag.ranks, tuple(steps), dag.groups)

    builder = DagBuilder(2)
    builder.group("g", "k", "derived")
    for name in ("x", "y"):
        builder.transfer(name, 0, 1, 10, "g")
        builder.compute(1, f"needs {name}", 1.0, [name])
    assert builder.dag({}, [slower]).groups[0].offsets_s == (0.0, 9.0)


@pytest.mark.parametrize(
    ("joins", "words"),
    [
        ({"a": ["b"], "b": ["a"]}, "cycle through 'a'"),
        ({"a": ["nowhere"]}, "'a' waits for 'nowhere', which does not exist"),
        ({"step": []}, "two steps are called 'step'"),
    ],
)
def test_joins_that_cannot_end_are_refused_by_name(joins, words):
    builder = DagBuilder(1)
    builder.beside(0, "step", 1.0, ())
    with pytest.raises(InputError, match=words):
        for name, after in joins.items():
            builder.join(name, 0, after)
        builder.dag({})


def test_what_would_fill_memory_is_refused_before_it_is_made():
    builder = DagBuilder(1000, most_steps=100)
    with pytest.raises(InputError, match="more than 100 steps, which is the limit"):
        builder.collective("c", "all-reduce", "direct", range(1000), 10**6, [()] * 1000, kind="k")
    assert builder.empty

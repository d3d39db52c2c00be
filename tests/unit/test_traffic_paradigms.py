from __future__ import annotations

import itertools

import pytest

from echelonflow.errors import InputError
from echelonflow.model.arrangement import staggered
from echelonflow.model.dag import Compute, JobDag, iteration_times_without_network, run_without_network
from traffic.workloads import paradigms


def gpipe(**options) -> JobDag:
    given = {"stages": 4, "micro_batches": 6, "forward_s": 1.0, "backward_s": 2.0, "activation_bytes": 1000, **options}
    return paradigms.build("gpipe", given)


def test_both_are_found_by_name():
    assert {"gpipe", "pipeline"} <= set(paradigms.names())


@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 1), (2, 3), (3, 8), (5, 4)])
def test_gpipe_without_network_is_the_textbook_bubble(stages, micro_batches):
    dag = gpipe(stages=stages, micro_batches=micro_batches, update_s=0.25)
    expected = (micro_batches + stages - 1) * (1.0 + 2.0) + 0.25
    first, second = iteration_times_without_network(dag, 2)
    assert first == pytest.approx(expected)
    # Without a network nothing but its own update keeps a stage from the next iteration.
    assert second <= expected + 1e-9


@pytest.mark.parametrize("times", [(1.0, 2.0), ([1.0, 3.0], [2.0, 0.5]), ([3.0, 1.0], [0.5, 4.0])])
def test_offsets_derived_from_the_dag_are_equation_6(times):
    forward_s, backward_s = times
    options = {"stages": 2, "forward_s": forward_s, "backward_s": backward_s}
    derived, eq6 = gpipe(**options), gpipe(**options, arrangement="eq6")
    for ours, papers in zip(derived.groups, eq6.groups, strict=True):
        assert ours.offsets_s == pytest.approx(papers.offsets_s)
        assert ours.transfers == papers.transfers
    slower = max(forward_s) if isinstance(forward_s, list) else forward_s
    assert eq6.groups[0].offsets_s == staggered(6, slower)


def test_a_slow_stage_further_up_sets_the_pace_of_derived_offsets_only():
    options = {"stages": 3, "forward_s": [5.0, 1.0, 1.0]}
    derived, eq6 = gpipe(**options), gpipe(**options, arrangement="eq6")
    assert derived.groups[1].offsets_s == pytest.approx(staggered(6, 5.0))
    assert eq6.groups[1].offsets_s == pytest.approx(staggered(6, 1.0))


def test_gpipe_groups_are_pairs_of_neighbours_and_directions():
    dag = gpipe(stages=3)
    assert [g.name for g in dag.groups] == [
        "pp-forward 0->1", "pp-forward 1->2", "pp-backward 1->0", "pp-backward 2->1",
    ]  # fmt: skip
    assert dag.groups[2].transfers[0] == "pp-backward 1->0 m5"  # the last micro-batch goes back first
    assert len({t.coflow for t in dag.transfers}) == len(dag.transfers)


def test_a_rank_runs_one_computation_at_a_time():
    dag = gpipe(stages=3, forward_s=[1.0, 0.3, 2.0], backward_s=[0.5, 2.5, 1.0], update_s=[0.1, 0.2, 0.3])
    for rank in range(3):
        spans = sorted(
            run[step.name]
            for run in run_without_network(dag, 3)
            for step in dag.steps
            if isinstance(step, Compute) and step.rank == rank
        )
        assert all(a[1] <= b[0] + 1e-9 for a, b in itertools.pairwise(spans))


def test_gradients_are_as_large_as_activations_unless_given():
    assert {t.size_bytes for t in gpipe(activation_bytes=7).transfers} == {7}
    dag = gpipe(stages=2, activation_bytes=7, gradient_bytes=[9])
    sizes = {dag.group_of[t.name].name: t.size_bytes for t in dag.transfers}
    assert sizes == {"pp-forward 0->1": 7, "pp-backward 1->0": 9}


def test_pipeline_is_the_papers_example():
    dag = paradigms.build("pipeline", {"stages": 2, "micro_batches": 3, "forward_s": 1.0, "activation_bytes": 2000})
    assert iteration_times_without_network(dag, 1) == [4.0]
    assert [g.offsets_s for g in dag.groups] == [(0.0, 1.0, 2.0)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"forward_s": [1.0, 2.0]}, "forward: 2 values for 4 stages"),
        ({"activation_bytes": [1, 2]}, "activation: 2 values for 3 boundaries"),
        ({"stages": 1}, "at least 2"),
        ({"micro_batches": 0}, "micro_batches"),
        ({"colour": 1}, "paradigm gpipe: colour: unknown key"),
    ],
)
def test_bad_options_are_named(options, words):
    with pytest.raises(InputError, match=words):
        gpipe(**options)

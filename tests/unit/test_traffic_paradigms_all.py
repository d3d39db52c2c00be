"""What holds for every paradigm, whichever there are."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import pytest

from echelon.experiment.jobs import bound_paradigm
from echelon.experiment.specs import JobSpec
from echelonflow.model import arrangement, topologies
from echelonflow.model.dag import Compute, derived_offsets, from_dict, run_without_network, to_dict
from echelonflow.options import bind
from echelonflow.scheduling import policies
from results import colours
from simulator.fluid import simulate
from tests.unit.paradigm_cases import (
    CASES,
    LINK_Bps,
    built,
    in_all_iterations,
    measured_entry,
    placed,
    sent_bytes,
    variations,
)  # fmt: skip
from traffic.agent.plan import check_observable
from traffic.workloads import paradigms

MEASURABLE = [name for name in paradigms.names() if hasattr(paradigms.load(name), "from_profile")]


@pytest.mark.parametrize("case", CASES)
def test_hosts_notice_all_that_their_ranks_wait_for(case):
    check_observable(placed(built(case)))


@pytest.mark.parametrize("name", paradigms.names())
def test_any_option_may_be_changed(name):
    """What comes of it is a job, or refused in words."""
    worked = set()
    for option, _, dag in variations(name):
        if dag is not None:
            worked.add(option)
            check_observable(placed(dag))
            assert in_all_iterations(placed(dag, 2)) == Counter({step.name: 2 for step in dag.steps})
            assert from_dict(to_dict(dag)) == dag
    assert worked, "no option of the example can be changed"


@pytest.mark.parametrize("name", MEASURABLE)
def test_a_paradigm_is_built_from_a_measured_profile(name):
    dag = bound_paradigm(JobSpec(name="j", paradigm=name, **measured_entry(name)), LINK_Bps).dag()
    check_observable(placed(dag))
    assert in_all_iterations(placed(dag, 2)) == Counter({step.name: 2 for step in dag.steps})


@pytest.mark.parametrize("case", CASES)
def test_no_cycle_over_iterations_and_every_step_once_in_each(case):
    dag = built(case)
    assert in_all_iterations(placed(dag)) == Counter({step.name: 3 for step in dag.steps})


@pytest.mark.parametrize("case", CASES)
def test_every_transfer_is_sent_once_in_an_iteration_and_all_of_it(case):
    dag = built(case)
    job = placed(dag, 2)
    network = topologies.build("single-switch", {"hosts": dag.ranks, "rate_bps": 1e5})
    record = simulate([job], network, policies.load("fair"))
    expected = {(i, t.name): t.size_bytes for i in range(2) for t in dag.transfers}
    assert {(f.iteration, f.flow): f.received_bytes for f in record.flows} == expected
    assert len(record.flows) == len(expected)


@pytest.mark.parametrize("case", CASES)
def test_a_gpu_runs_one_computation_at_a_time_in_one_order(case):
    if getattr(paradigms.load(case.partition(",")[0]), "COMPUTES_BESIDE", False):
        pytest.skip("servers compute beside the GPU")
    dag = built(case)
    spans = defaultdict(list)
    for iteration, run in enumerate(run_without_network(dag, 3)):
        for step in dag.computes:
            spans[step.rank].append((*run[step.name], iteration))
    for rank in range(dag.ranks):
        in_order = sorted(spans[rank])
        assert all(a[1] <= b[0] + 1e-9 and a[2] <= b[2] for a, b in itertools.pairwise(in_order))


def written(options: dict) -> dict:
    """Options as an experiment file has them."""

    def with_unit(value, unit):
        return [f"{v} {unit}" for v in value] if isinstance(value, list) else f"{value} {unit}"

    found = {}
    for name, value in options.items():
        stem, _, unit = name.rpartition("_")
        found |= {stem: with_unit(value, "B" if unit == "bytes" else "s")} if unit in ("s", "bytes") else {name: value}
    return found


@pytest.mark.parametrize("case", CASES)
def test_every_option_can_be_written_in_an_experiment(case):
    name, options = case.partition(",")[0], CASES[case]
    if any(0 in value for value in options.values() if isinstance(value, list)):
        pytest.skip("a size of nothing cannot be written")
    assert bind(paradigms.load(name).build, written(options)) == options


@pytest.mark.parametrize("case", CASES)
def test_json_keeps_it_all(case):
    dag = built(case)
    assert from_dict(to_dict(dag)) == dag


@pytest.mark.parametrize("case", CASES)
def test_coflows_do_not_cross_groups_and_pipelines_have_one_per_micro_batch(case):
    dag = built(case)
    groups, flows = defaultdict(set), Counter()
    for t in dag.transfers:
        groups[t.coflow].add(dag.group_of[t.name].name)
        flows[t.coflow] += 1
    assert all(len(of) == 1 for of in groups.values())
    assert all(flows[t.coflow] == 1 for t in dag.transfers if dag.group_of[t.name].kind.startswith("pp-"))


@pytest.mark.parametrize("case", CASES)
def test_groups_that_are_coflows_have_equal_offsets_in_the_dag_too(case):
    dag = built(case)
    offsets = derived_offsets(dag)
    coflow_like = ("dp-", "tp-", "ps-", "ep-", "zero-", "fsdp-reduce")
    for group in dag.groups:
        if group.kind.startswith(coflow_like):
            assert group.offsets_s == arrangement.equal(len(group.transfers))
        if group.kind.startswith(coflow_like) and not case.endswith(
            ("halving", "tree")
        ):  # whose rounds follow each other
            assert [offsets[name] for name in group.transfers] == pytest.approx([0.0] * len(group.transfers))


def test_computations_are_of_kinds_that_pictures_tell_apart():
    kinds = {step.kind for case in CASES for step in built(case).steps if isinstance(step, Compute)}
    assert kinds <= set(colours.COMPUTATIONS)


@pytest.mark.parametrize("name", paradigms.names())
def test_the_closed_form_is_what_the_dag_sends(name):
    """Within a byte a flow: sizes are whole."""
    module = paradigms.load(name)
    if not hasattr(module, "sent_bytes"):
        pytest.skip(f"{name} has no closed form")
    entry = measured_entry(name) if name in MEASURABLE else module.EXAMPLE
    bound = bound_paradigm(JobSpec(name="j", paradigm=name, **entry), LINK_Bps)
    expected, dag = bound.sent_bytes(), bound.dag()
    assert expected is not None
    sent, flows = sent_bytes(dag), Counter(transfer.src_rank for transfer in dag.transfers)
    assert len(expected) == dag.ranks
    assert all(abs(sent[rank] - size_bytes) <= flows[rank] for rank, size_bytes in enumerate(expected))

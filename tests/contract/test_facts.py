"""Facts that every implementation must reproduce (docs/design.md, "The mathematics"), and textbook definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.model import topologies
from echelonflow.model.dag import Group, Job, JobDag, Transfer
from echelonflow.scheduling import policies
from echelonflow.scheduling.fill import least_tardiness_s
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from simulator.fluid import simulate
from tests.contract.snapshots import link_load, snapshots, words_of
from tests.unit.synthetic_run import paper_job

MADD = [f"coflow(grouping={g},order={o})" for g, o in itertools.product(*(words_of("coflow")[k] for k in ("grouping", "order")))]  # fmt: skip
FORMS = [f"echelonflow(order={o},within={w})" for o, w in itertools.product(*(words_of("echelonflow")[k] for k in ("order", "within")))]  # fmt: skip


@pytest.fixture(scope="module")
def one_link():
    return topologies.build("single-switch", {"hosts": 2, "rate_bps": 100e6})


@pytest.mark.parametrize(
    ("text", "end_s", "max_tardiness_s"),
    [
        ("fair", 8.5, 4.5),
        ("coflow(grouping=group)", 10.0, 6.0),
        ("coflow(grouping=collective)", 8.0, 4.0),
        *((form, 8.0, 4.0) for form in FORMS),
        # Flow by flow, in the order of their release: the same as EchelonFlow where there is one group.
        *((text, 8.0, 4.0) for text in ("fifo", "srpt", "edf", "aalo", "sincronia", "coflow(order=fifo)")),
        # One job, one group, one Coflow: nothing to put in order, and its flows share as under TCP.
        *((text, 8.5, 4.5) for text in ("weighted", "weighted(per=job)", "job-priority", "crux", "sincronia(grouping=group)")),
        *((f"coflow(grouping=group,rates=greedy,order={order})", 8.5, 4.5) for order in words_of("coflow")["order"]),
    ],
)  # fmt: skip
def test_the_papers_pipeline_example(one_link, text, end_s, max_tardiness_s):
    """Fact 1: Fig. 2, three micro-batches over one link."""
    record = simulate([paper_job(one_link)], one_link, policies.load(text))
    assert max(c.finish_s for c in record.computes) == pytest.approx(end_s, abs=1e-6)
    tardiness = max(flow.finish_s - 1.0 - flow.offset_s for flow in record.flows)
    assert tardiness == pytest.approx(max_tardiness_s, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(snapshot=snapshots(equal_offsets=True))
def test_with_every_group_a_coflow_echelonflow_is_coflow_bit_for_bit(snapshot):
    """Fact 2 (the paper's Properties 2 and 4)."""
    coflow = policies.load("coflow(grouping=group)")(snapshot)
    echelon = policies.load("echelonflow(order=remaining,pending=ignore,patience=inf)")(snapshot)
    assert np.array_equal(coflow.rates_Bps, echelon.rates_Bps)
    assert np.array_equal(coflow.rank, echelon.rank)


@settings(max_examples=60, deadline=None)
@given(snapshot=snapshots(max_groups=1))
def test_with_one_group_echelonflow_is_earliest_ideal_finish_first(snapshot):
    edf, echelon = policies.load("edf")(snapshot), policies.load("echelonflow(order=tardiness,within=strict)")(snapshot)
    assert np.array_equal(edf.rates_Bps, echelon.rates_Bps)
    assert np.array_equal(edf.rank, echelon.rank)


@pytest.mark.parametrize("text", [*FORMS, "edf"])
@settings(max_examples=15, deadline=None)
@given(flows=st.lists(st.tuples(st.integers(1, 8), st.sampled_from([0.0, 0.1, 0.5, 1.0, 2.0])), min_size=1, max_size=5))
def test_one_link_one_group_is_the_earliest_due_date_optimum(one_link, text, flows):
    """Fact 3, against the best of all orders in which the flows can be sent."""
    unit_bytes = round(one_link.capacity_Bps[0] / 4)
    steps = tuple(Transfer(f"x{i}", 0, 1, size * unit_bytes, f"x{i}") for i, (size, _) in enumerate(flows))
    head_s = min(offset for _, offset in flows)
    offsets = tuple(offset - head_s for _, offset in flows)
    dag = JobDag(2, steps, (Group("g", "test", tuple(step.name for step in steps), offsets),))
    record = simulate([Job("one", dag, ("h1", "h2"))], one_link, policies.load(text))
    tardiness = max(flow.finish_s - flow.offset_s for flow in record.flows)
    seconds = [step.size_bytes / one_link.capacity_Bps[0] for step in steps]
    best = min(
        max(end - offsets[i] for i, end in zip(order, itertools.accumulate(seconds[i] for i in order), strict=True))
        for order in itertools.permutations(range(len(flows)))
    )
    assert tardiness == pytest.approx(best, abs=1e-6)


def is_max_min(snapshot, rates, weights):
    """Every flow has a full link on which no flow gets more for its weight (Bertsekas and Gallager)."""
    hop_flow = snapshot.hop_flow()
    level = (rates / weights)[hop_flow]
    most = np.zeros(snapshot.links)
    np.maximum.at(most, snapshot.path_link, level)
    full = link_load(snapshot, rates) >= snapshot.capacity_Bps * (1 - 1e-6)
    is_bottleneck = full[snapshot.path_link] & (level >= most[snapshot.path_link] * (1 - 1e-6))
    return bool(np.all(np.bincount(hop_flow, weights=is_bottleneck, minlength=snapshot.flows) > 0))


@settings(max_examples=100, deadline=None)
@given(snapshot=snapshots())
def test_fair_is_max_min_by_the_textbook(snapshot):
    assert is_max_min(snapshot, policies.load("fair")(snapshot).rates_Bps, np.ones(snapshot.flows))


@settings(max_examples=60, deadline=None)
@given(snapshot=snapshots())
def test_weighted_is_weighted_max_min_by_the_textbook(snapshot):
    g = snapshot.groups
    weight_of_job = np.array([max(g.weight[g.job == j]) for j in range(len(snapshot.jobs.id))])
    job = g.job[snapshot.group]
    pull = {
        "flow": g.weight[snapshot.group],
        "group": (g.weight / np.bincount(snapshot.group, minlength=len(g.id)))[snapshot.group],
        "job": (weight_of_job / np.bincount(job, minlength=len(weight_of_job)))[job],
    }
    for per, weights in pull.items():
        assert is_max_min(snapshot, policies.load(f"weighted(per={per})")(snapshot).rates_Bps, weights), per


@pytest.mark.parametrize("text", MADD)
@settings(max_examples=15, deadline=None)
@given(snapshot=snapshots(max_groups=1, equal_offsets=True))
def test_a_lone_coflow_under_madd_finishes_at_its_bottleneck_bound(text, snapshot):
    rates = policies.load(text)(snapshot).rates_Bps
    bound = np.max(link_load(snapshot, snapshot.remaining_bytes) / snapshot.capacity_Bps)
    assert np.max(snapshot.remaining_bytes / rates) == pytest.approx(bound, rel=1e-9)


def test_least_tardiness_on_one_link_by_hand():
    """Three flows of 2, 2, 2 s due at 1, 2, 3 s: earliest due date first ends at 2, 4, 6: tardiness 3."""
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})
    size = round(2 * network.capacity_Bps[0])
    flows = tuple(FlowDeclaration(f"f{i}", i, f"f{i}", "h1", "h2", size, 1.0 + i, i, 5001) for i in range(3))
    state = SchedulerState(network)
    state.declare(Declare("job", "g", "test", 1.0, flows))
    for flow in flows:
        state.release(("job", 0, flow.flow), 1.0)
    snapshot, _ = state.snapshot(1.0)  # reference 0: due at 1, 2, 3
    assert least_tardiness_s(snapshot)[0] == pytest.approx(1.0 + 6.0 - 3.0)

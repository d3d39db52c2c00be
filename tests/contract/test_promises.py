"""What policies say of themselves in module constants, held against what they do."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import InputError, PolicyError
from echelonflow.model import topologies
from echelonflow.model.dag import Group, Job, JobDag, Transfer
from echelonflow.scheduling import policies
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from simulator.fluid import simulate
from tests.contract.snapshots import NETWORK, VARIANTS, module_of, snapshots

BLIND = [text for text in VARIANTS if not policies.load(text).promises.knows_sizes]
SIGHTED = [
    name
    for name in policies.names()
    # without sizes there are no clocks either, and those that only choose by them have nothing left to fail on
    if policies.load(name).promises.knows_sizes and name not in ("cassini", "layer-priority", "lookahead")
]


def made(**contents):
    """A policy module made here."""
    module = types.ModuleType("made")
    module.__dict__.update(contents)
    return module


@pytest.fixture
def two_flows():
    """Two flows on one link, of different sizes, and one that is not released yet."""
    state = SchedulerState(NETWORK)
    flows = tuple(
        FlowDeclaration(f"f{i}", i, f"c{i}", "h1", "h2", (i + 1) * 100_000, float(i), i, 5001) for i in range(3)
    )
    state.declare(Declare("job", "g", "test", 1.0, flows, 1.0))
    for flow in flows[:2]:
        state.release(("job", 0, flow.flow), 0.0)
    return state.snapshot(0.0)[0]


def test_the_blind_are_those_whose_papers_say_so():
    blind = {plain for plain in BLIND if "(" not in plain}
    assert {"aalo", "fair", "fifo", "job-priority", "random-order", "weighted"} <= blind
    assert blind.isdisjoint({"coflow", "crux", "echelonflow", "edf", "sincronia", "srpt"})


def test_a_policy_that_knows_no_sizes_is_shown_none(two_flows):
    seen = []

    def allocate(snapshot):
        seen.append(snapshot)
        return Allocation(np.zeros(snapshot.flows), np.zeros(snapshot.flows, np.int64))

    policies.bind(made(allocate=allocate, KNOWS_SIZES=False), "blind", {})(two_flows)
    (shown,) = seen
    sizes = (shown.remaining_bytes, shown.groups.pending_bytes, shown.groups.alone_s, shown.jobs.alone_s)
    assert all(size.size and np.isnan(size).all() for size in sizes)
    assert np.array_equal(shown.sent_bytes, two_flows.sent_bytes), "what was sent may be known"
    assert np.isfinite(two_flows.remaining_bytes).all()


@pytest.mark.parametrize("name", SIGHTED)
def test_a_policy_that_reads_sizes_fails_if_it_says_that_it_knows_none(name, two_flows):
    liar = made(**{**vars(module_of(name)), "KNOWS_SIZES": False})
    with pytest.raises(PolicyError, match="policy liar"):
        policies.bind(liar, "liar", {})(two_flows)


@pytest.mark.parametrize("text", BLIND)
@settings(max_examples=20, deadline=None)
@given(snapshot=snapshots(), seed=st.integers(0, 99))
def test_sizes_do_not_change_the_answer_of_a_policy_that_knows_none(text, snapshot, seed):
    draw = np.random.default_rng(seed).uniform
    groups, jobs = snapshot.groups, snapshot.jobs
    other = dataclasses.replace(
        snapshot,
        remaining_bytes=snapshot.remaining_bytes * draw(0.1, 10, snapshot.flows),
        groups=dataclasses.replace(
            groups,
            alone_s=groups.alone_s * draw(0.1, 10, len(groups.id)),
            pending_bytes=groups.pending_bytes * draw(0.1, 10, len(groups.pending_bytes)),
        ),
        jobs=dataclasses.replace(jobs, alone_s=jobs.alone_s * draw(0.1, 10, len(jobs.id))),
    )
    first, second = policies.load(text)(snapshot), policies.load(text)(other)
    assert np.array_equal(first.rates_Bps, second.rates_Bps)
    assert np.array_equal(first.rank, second.rank)
    assert first.valid_until_s == second.valid_until_s


def test_promises_that_are_neither_true_nor_false_are_refused():
    with pytest.raises(InputError, match="policy odd: KNOWS_SIZES is 'no'; it must be True or False"):
        policies.bind(made(allocate=print, KNOWS_SIZES="no"), "odd", {})


STREAM = 200
"""Short flows, each released when the one before has ended."""


def end_of_the_long_flow(text):
    """When one flow of 1 s ends, and when an endless seeming stream of flows of 0.25 s does, on one link."""
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})
    a_second = round(network.capacity_Bps[0])

    def job(name, size_bytes, iterations, next_iteration, weight):
        steps = (Transfer("x", 0, 1, size_bytes, "c"),)
        dag = JobDag(2, steps, (Group("g", "test", ("x",), (0.0,)),), next_iteration)
        return Job(name, dag, ("h1", "h2"), iterations, weight)

    jobs = [job("short", a_second // 4, STREAM, (("x", "x"),), 2.0), job("z-long", a_second, 1, (), 1.0)]
    record = simulate(jobs, network, policies.load(text))
    ends = {name: max(flow.finish_s for flow in record.flows if flow.job == name) for name in ("short", "z-long")}
    return ends["z-long"], ends["short"]


@pytest.mark.parametrize("text", [text for text in VARIANTS if policies.load(text).promises.starvation_free])
def test_nobody_starves_where_that_is_promised(text):
    end_s, _ = end_of_the_long_flow(text)
    assert end_s < STREAM * 0.25 / 2, "a flow waited for as long as others came"


@pytest.mark.parametrize("text", ["srpt", "coflow", "sincronia", "job-priority"])
def test_the_stream_does_starve_policies_that_promise_nothing(text):
    end_s, stream_s = end_of_the_long_flow(text)
    assert end_s > stream_s

"""What every policy must do, found by name: a new file in echelonflow/policies is tested unasked."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow import policies, topologies
from echelonflow.allocation import Allocation, check
from echelonflow.errors import PolicyError
from echelonflow.fill import least_tardiness_s
from echelonflow.messages import Declare, FlowDeclaration
from echelonflow.state import SchedulerState

NETWORK = topologies.build(
    "leaf-spine", {"leaves": 2, "spines": 1, "hosts_per_leaf": 3, "rate_bps": 8e6, "fabric_rate_bps": 16e6}
)


def _variants():
    """Every policy with its defaults, and with each word of each option."""
    for name in policies.names():
        yield name
        for option, values in policies.options_of(name).items():
            words = values.split(" (default")[0].split("|")
            if len(words) > 1:
                yield from (f"{name}({option}={word})" for word in words)


VARIANTS = list(_variants())


@st.composite
def snapshots(draw, max_groups=4, equal_offsets=False):
    """A random state of a small leaf-spine: groups of one to four flows, some partly sent, some finished."""
    state = SchedulerState(NETWORK)
    hosts = st.sampled_from(NETWORK.hosts)
    index = 0
    for g in range(draw(st.integers(1, max_groups))):
        flows = []
        for _ in range(draw(st.integers(1, 4))):
            src, dst = draw(hosts), draw(hosts)
            if src == dst:
                dst = NETWORK.hosts[(NETWORK.hosts.index(src) + 1) % len(NETWORK.hosts)]
            offset = 0.0 if equal_offsets else draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
            size = draw(st.integers(1, 10)) * 100_000
            coflow = f"g{g}" if equal_offsets else f"g{g}c{draw(st.integers(0, 2))}"
            flows.append(FlowDeclaration(f"f{index}", index, coflow, src, dst, size, offset, index, 5001))
            index += 1
        weight = draw(st.sampled_from([1.0, 1.0, 2.0]))
        state.declare(Declare("job", f"g{g}", "test", 1.0 if equal_offsets else weight, tuple(flows)))
        for flow in flows:
            if flow is flows[0] or draw(st.booleans()):
                key = ("job", 0, flow.flow)
                state.release(key, draw(st.sampled_from([0.0, 0.25, 1.0])))
                state.progress(key, flow.size_bytes * draw(st.sampled_from([0.0, 0.3, 0.9])))
        if len(flows) > 1 and draw(st.booleans()):
            released = [k for k in state.active if k[2] in {f.flow for f in flows}]
            if len(released) > 1:
                state.finish(released[0], 1.5)
    return state.snapshot(2.0)[0]


def shuffled(snapshot, seed):
    """The same snapshot with flows, groups and Coflows in another order; and the order of the flows."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(snapshot.flows)
    groups, coflows = rng.permutation(len(snapshot.groups.id)), rng.permutation(len(snapshot.coflows.id))
    new_group, new_coflow = np.argsort(groups), np.argsort(coflows)

    def ragged(start, values, rows):
        parts = [values[start[r] : start[r + 1]] for r in rows]
        return np.cumsum([0, *map(len, parts)]), np.concatenate(parts) if parts else values[:0]

    path_start, path_link = ragged(snapshot.path_start, snapshot.path_link, order)
    g, c = snapshot.groups, snapshot.coflows
    pending_start, pending_link = ragged(g.pending_start, g.pending_link, groups)
    return order, dataclasses.replace(
        snapshot,
        **{name: getattr(snapshot, name)[order] for name in ("flow_id", "remaining_bytes", "sent_bytes", "release_s", "ideal_finish_s")},
        group=new_group[snapshot.group][order],
        coflow=new_coflow[snapshot.coflow][order],
        path_start=path_start,
        path_link=path_link,
        groups=dataclasses.replace(
            g, id=g.id[groups], weight=g.weight[groups], reference_s=g.reference_s[groups],
            incurred_tardiness_s=g.incurred_tardiness_s[groups], pending_start=pending_start, pending_link=pending_link,
            pending_bytes=ragged(g.pending_start, g.pending_bytes, groups)[1],
        ),
        coflows=dataclasses.replace(c, id=c.id[coflows], weight=c.weight[coflows], arrival_s=c.arrival_s[coflows]),
    )  # fmt: skip


def arrays(snapshot):
    own = [getattr(snapshot, f.name) for f in dataclasses.fields(snapshot)]
    tables = [getattr(t, f.name) for t in (snapshot.groups, snapshot.coflows) for f in dataclasses.fields(t)]
    return [a.copy() for a in (*own, *tables) if isinstance(a, np.ndarray)]


def idle_share(snapshot, allocation):
    """For each flow, the least share of capacity left over on any link of its path."""
    hop_flow = snapshot.hop_flow()
    load = np.bincount(snapshot.path_link, weights=allocation.rates_Bps[hop_flow], minlength=snapshot.links)
    left = 1 - load / snapshot.capacity_Bps
    least = np.full(snapshot.flows, np.inf)
    np.minimum.at(least, hop_flow, left[snapshot.path_link])
    return least


@pytest.mark.parametrize("text", VARIANTS)
@settings(max_examples=60, deadline=None)
@given(snapshot=snapshots(), seed=st.integers(0, 99))
def test_contract(text, snapshot, seed):
    policy = policies.load(text)
    before = arrays(snapshot)
    answer = policy(snapshot)  # raises PolicyError where a link is overloaded
    assert all(np.array_equal(a, b) for a, b in zip(before, arrays(snapshot), strict=True)), "input was changed"
    again = policy(snapshot)
    assert np.array_equal(answer.rates_Bps, again.rates_Bps), "not deterministic"
    assert np.array_equal(answer.rank, again.rank), "not deterministic"
    assert np.all(idle_share(snapshot, answer) < 1e-6), "a link that some flow could use is idle"
    order, other = shuffled(snapshot, seed)
    moved = policy(other)
    assert np.array_equal(moved.rank, answer.rank[order]), "the order of rows decides"
    np.testing.assert_allclose(moved.rates_Bps, answer.rates_Bps[order], rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("text", VARIANTS)
@settings(max_examples=30, deadline=None)
@given(snapshot=snapshots())
def test_twice_the_bytes_on_twice_the_network_is_the_same_problem(text, snapshot):
    double = dataclasses.replace(
        snapshot,
        remaining_bytes=snapshot.remaining_bytes * 2,
        sent_bytes=snapshot.sent_bytes * 2,
        capacity_Bps=snapshot.capacity_Bps * 2,
    )
    once, twice = policies.load(text)(snapshot), policies.load(text)(double)
    assert np.array_equal(once.rank, twice.rank)
    np.testing.assert_allclose(twice.rates_Bps, once.rates_Bps * 2, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("text", VARIANTS)
def test_nothing_to_do(text):
    state = SchedulerState(NETWORK)
    snapshot, keys = state.snapshot(0.0)
    assert keys == []
    assert policies.load(text)(snapshot).rates_Bps.shape == (0,)


@settings(max_examples=100, deadline=None)
@given(snapshot=snapshots(equal_offsets=True))
def test_with_every_group_a_coflow_echelonflow_is_coflow_bit_for_bit(snapshot):
    """Design, section 3, fact 2 (the paper's Properties 2 and 4)."""
    coflow = policies.load("coflow(grouping=group)")(snapshot)
    echelon = policies.load("echelonflow(order=remaining)")(snapshot)
    assert np.array_equal(coflow.rates_Bps, echelon.rates_Bps)
    assert np.array_equal(coflow.rank, echelon.rank)


@settings(max_examples=100, deadline=None)
@given(snapshot=snapshots())
def test_fair_is_max_min_by_the_textbook(snapshot):
    """Every flow has a link that is full and on which no flow gets more (Bertsekas and Gallager)."""
    rates = policies.load("fair")(snapshot).rates_Bps
    hop_flow = snapshot.hop_flow()
    load = np.bincount(snapshot.path_link, weights=rates[hop_flow], minlength=snapshot.links)
    most = np.zeros(snapshot.links)
    np.maximum.at(most, snapshot.path_link, rates[hop_flow])
    full = load >= snapshot.capacity_Bps * (1 - 1e-6)
    is_bottleneck = full[snapshot.path_link] & (rates[hop_flow] >= most[snapshot.path_link] * (1 - 1e-6))
    assert np.all(np.bincount(hop_flow, weights=is_bottleneck, minlength=snapshot.flows) > 0)


@settings(max_examples=60, deadline=None)
@given(snapshot=snapshots(max_groups=1, equal_offsets=True))
def test_a_lone_coflow_finishes_at_its_bottleneck_bound(snapshot):
    rates = policies.load("coflow")(snapshot).rates_Bps
    volume = np.bincount(
        snapshot.path_link, weights=snapshot.remaining_bytes[snapshot.hop_flow()], minlength=snapshot.links
    )
    bound = np.max(volume / snapshot.capacity_Bps)
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


def test_too_much_is_refused_naming_policy_and_link():
    state = SchedulerState(NETWORK)
    flow = FlowDeclaration("f", 0, "c", "h1", "h2", 1000, 0.0, 1, 5001)
    state.declare(Declare("job", "g", "test", 1.0, (flow,)))
    state.release(("job", 0, "f"), 0.0)
    snapshot, _ = state.snapshot(0.0)
    greedy = Allocation(np.array([2e6]), np.array([0]))
    with pytest.raises(PolicyError, match=r"policy greedy allocates .* on h1->l1"):
        check(greedy, snapshot, "greedy")
    with pytest.raises(PolicyError, match="not a number"):
        check(Allocation(np.array([np.nan]), np.array([0])), snapshot, "nan")
    with pytest.raises(PolicyError, match="shape"):
        check(Allocation(np.array([1.0, 2.0]), np.array([0, 0])), snapshot, "long")

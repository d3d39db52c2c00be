"""EchelonFlow's orders, pending bytes and weights by hand; its starvation bound in simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.scheduling import policies, urgency
from echelonflow.scheduling.fill import quantised
from echelonflow.scheduling.policies.echelonflow import Order
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from simulator.fluid import simulate
from tests.contract.snapshots import snapshots, words_of

ORDERS = words_of("echelonflow")["order"]


@pytest.fixture(scope="module")
def one_link():
    """1 s of link is `capacity_Bps[0]` bytes; all flows go from h1 to h2."""
    return topologies.build("single-switch", {"hosts": 2, "rate_bps": 100e6})


class Link:
    """A state whose flows all go from h1 to h2, sizes in seconds of link."""

    def __init__(self, network):
        self.state = SchedulerState(network)
        self.second = network.capacity_Bps[0]
        self.ports = 0

    def group(self, name, sizes_s, offsets_s, job="job", weight=1.0):
        flows = []
        for i, (size_s, offset_s) in enumerate(zip(sizes_s, offsets_s, strict=True)):
            size = round(size_s * self.second)
            flows.append(
                FlowDeclaration(f"{name}{i}", self.ports, f"{name}{i}", "h1", "h2", size, offset_s, self.ports, 5001)
            )
            self.ports += 1
        self.state.declare(Declare(job, name, "test", weight, tuple(flows)))

    def release(self, *flows, at_s=0.0, job="job"):
        for flow in flows:
            self.state.release((job, 0, flow), at_s)

    def order(self, text, now_s=0.0):
        """Names of the flows in flight, the first served first; stages that share a place in one string."""
        snapshot, keys = self.state.snapshot(now_s)
        answer = policies.load(text)(snapshot)
        places = {}
        for key, rank in zip(keys, answer.rank.tolist(), strict=True):
            places.setdefault(rank, []).append(key[2])
        return ["+".join(sorted(places[rank])) for rank in sorted(places)]


def test_orders_between_groups_by_hand(one_link):
    """Old: a is 1 s late beyond help and has 3 s left; young: b has 2 s left, in two stages."""
    link = Link(one_link)
    link.group("a", [3], [0])
    link.group("b", [1, 1], [0, 5])
    link.release("a0", at_s=0.0)
    link.release("b0", "b1", at_s=1.0)
    assert link.order("echelonflow(order=tardiness)", 1.0) == ["b0", "b1", "a0"]  # 1 against 4
    assert link.order("echelonflow(order=remaining)", 1.0) == ["b0", "b1", "a0"]  # 2 against 3
    assert link.order("echelonflow(order=extra)", 1.0) == ["b0", "b1", "a0"]  # 1 against 3
    # As stages: b0 should end in 1 s, a0 in 3 s, b1 is not due before 5 s.
    assert link.order("echelonflow(order=due)", 1.0) == ["b0", "a0", "b1"]


def test_extra_forgives_what_nothing_can_undo(one_link):
    link = Link(one_link)
    link.group("a", [1], [0])
    link.group("b", [2], [0])
    link.release("a0", at_s=0.0)
    link.release("b0", at_s=7.0)
    assert link.order("echelonflow(order=tardiness,patience=inf)", 8.0) == ["b0", "a0"]  # 3 against 9
    assert link.order("echelonflow(order=extra,patience=inf)", 8.0) == ["a0", "b0"]  # 1 against 2


def test_jobs_are_served_by_the_network_time_of_an_iteration(one_link):
    """The job with more bytes in an iteration goes last, also when it has less in flight."""
    link = Link(one_link)
    link.group("a", [1, 9], [0, 1], job="large")
    link.group("b", [2, 2], [0, 0], job="small")
    link.release("a0", job="large")
    link.release("b0", "b1", job="small")
    assert link.order("echelonflow(order=job)") == ["b0+b1", "a0"]
    assert link.order("echelonflow(order=due)") == ["a0", "b0+b1"]


@pytest.mark.parametrize("order", ORDERS)
def test_more_weight_is_sooner(one_link, order):
    link = Link(one_link)
    for name, weight in (("a", 1.0), ("b", 3.0)):
        link.group(name, [2], [0], job=f"job {name}", weight=weight)
        link.release(f"{name}0", job=f"job {name}")
    assert link.order(f"echelonflow(order={order})") == ["b0", "a0"]


def test_more_weight_is_sooner_also_for_groups_that_are_early():
    key, weight = np.array([-3.0, -3.0, 4.0, 4.0]), np.array([1.0, 2.0, 1.0, 2.0])
    assert urgency.weighted(key, weight).argsort().tolist() == [1, 0, 3, 2]


def test_pending_bytes_count_if_asked(one_link):
    link = Link(one_link)
    link.group("a", [1, 9], [0, 0.5])
    link.group("b", [2], [0])
    link.release("a0", "b0")
    assert link.order("echelonflow(order=remaining,pending=ignore)") == ["a0", "b0"]
    assert link.order("echelonflow(order=remaining,pending=count)") == ["b0", "a0"]
    assert link.order("echelonflow(order=tardiness,pending=ignore)") == ["a0", "b0"]
    assert link.order("echelonflow(order=tardiness,pending=count)") == ["b0", "a0"]


def test_least_tardiness_with_pending_bytes_is_that_of_the_papers_example(one_link):
    """Flows of 2 s due at 1, 2, 3 s: when only the first is released, 6 s - 2 s are known already."""
    link = Link(one_link)
    link.group("a", [2, 2, 2], [0, 1, 2])
    link.release("a0", at_s=1.0)
    snapshot, _ = link.state.snapshot(1.0)
    assert urgency.group_tardiness_s(snapshot, pending=False)[0] == pytest.approx(2.0)
    assert urgency.group_tardiness_s(snapshot, pending=True)[0] == pytest.approx(4.0)


@settings(max_examples=80, deadline=None)
@given(snapshot=snapshots())
def test_time_that_a_stage_needs_by_definition(snapshot):
    found = urgency.stage_bottleneck_s(snapshot)
    ideal = quantised(snapshot.ideal_finish_s)
    for flow in range(snapshot.flows):
        volume = np.zeros(snapshot.links)
        for other in np.flatnonzero((snapshot.group == snapshot.group[flow]) & (ideal <= ideal[flow])):
            path = snapshot.path_link[snapshot.path_start[other] : snapshot.path_start[other + 1]]
            volume[path] += snapshot.remaining_bytes[other]
        assert found[flow] == pytest.approx(np.max(volume / snapshot.capacity_Bps))


@pytest.mark.parametrize(
    "options", ["patience=0", "patience=-1", "patience=nan", "drift=-0.1", "drift=nan", "interval=0"]
)
def test_values_that_make_no_sense_are_refused(options):
    with pytest.raises(InputError, match=rf"echelonflow\({options}\).*must be"):
        policies.load(f"echelonflow({options})")


def stream(one_link, small_jobs):
    """A job whose one flow takes 5 s of link, and one job after the other that keeps the link busy, 1 s each."""
    second = one_link.capacity_Bps[0]
    jobs = [one_flow("big", round(5 * second), 0.0)]
    jobs += [one_flow(f"small {i}", round(second), float(i)) for i in range(small_jobs)]
    return jobs


def one_flow(name, size_bytes, start_s, weight=1.0):
    steps = (Transfer("x", 0, 1, size_bytes, "x"), Compute("c", 1, 0.0, ("x",)))
    return Job(name, JobDag(2, steps, (Group("x", "test", ("x",), (0.0,)),)), ("h1", "h2"), 1, weight, start_s)


def finishes_s(jobs, network, text):
    return {flow.job: flow.finish_s for flow in simulate(jobs, network, policies.load(text)).flows}


@pytest.mark.parametrize("order", ORDERS)
def test_without_patience_a_stream_of_small_groups_starves_a_big_one(one_link, order):
    jobs = stream(one_link, 60)
    assert finishes_s(jobs, one_link, f"echelonflow(order={order},patience=inf)")["big"] == pytest.approx(65.0)
    # Overdue at 2 * 5 s; all small ones that are overdue sooner have ended by then.
    assert finishes_s(jobs, one_link, f"echelonflow(order={order},patience=2)")["big"] == pytest.approx(15.0)


def test_the_default_has_patience_but_not_without_end(one_link):
    assert finishes_s(stream(one_link, 200), one_link, "echelonflow")["big"] < 200.0


@settings(max_examples=40, deadline=None)
@given(
    flows=st.lists(st.tuples(st.integers(1, 50), st.integers(0, 60)), min_size=2, max_size=12),
    order=st.sampled_from(ORDERS),
    patience=st.sampled_from([0.25, 1.0, 3.0]),
)
def test_once_overdue_a_group_waits_for_none_that_is_overdue_later(one_link, flows, order, patience):
    """The bound that the policy's docstring states, on one link: m + V / c."""
    second = one_link.capacity_Bps[0]
    jobs = [one_flow(f"j{i:02}", round(size * second / 10), start / 10) for i, (size, start) in enumerate(flows)]
    finish_s = finishes_s(jobs, one_link, f"echelonflow(order={order},patience={patience})")
    alone_s = {job.name: job.dag.transfers[0].size_bytes / second for job in jobs}
    moment_s = {job.name: job.start_s + patience * alone_s[job.name] for job in jobs}
    for name, m in moment_s.items():
        before = [other for other in moment_s if moment_s[other] <= m + 1e-6 and finish_s[other] > m]
        assert finish_s[name] <= m + sum(alone_s[other] for other in before) + 1e-6


def test_valid_until_the_next_group_is_overdue(one_link):
    link = Link(one_link)
    link.group("a", [1], [0])
    link.group("b", [2, 1], [0, 4])
    link.release("a0", "b0")
    policy = policies.load("echelonflow(patience=2)")
    assert policy(link.state.snapshot(0.0)[0]).valid_until_s == pytest.approx(2.0)
    assert policy(link.state.snapshot(2.001)[0]).valid_until_s == pytest.approx(0 + 4 + 2 * 3)
    assert policy(link.state.snapshot(11.0)[0]).valid_until_s == math.inf
    assert policies.load("echelonflow(patience=inf)")(link.state.snapshot(0.0)[0]).valid_until_s == math.inf
    # Both overdue: in the order of the moments, 2 and 10 s.
    for order in ORDERS:
        assert link.order(f"echelonflow(order={order},patience=2)", 11.0) == ["a0", "b0"]


def test_the_options_are_those_of_the_annotation():
    assert set(ORDERS) == set(Order.__args__)

"""Simulations in which an allocation is put in force by the weights of classes."""

from __future__ import annotations

import numpy as np
import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.measured import Measured, Settings
from echelonflow.model.units import payload_share
from echelonflow.scheduling import policies, weighting
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from simulator.fluid import simulate
from simulator.realism import Realism

NETWORK = topologies.build("single-switch", {"hosts": 4, "rate_bps": 1e6 / payload_share(1500)})
PORT_BPS = NETWORK.capacity_Bps[0]
WEIGHTED = Realism(enforcer="weighted")


def sender(name, alone_s, start_s=0.0, dst="h2"):
    """A job of one transfer from h1."""
    steps = (Transfer("x", 0, 1, round(alone_s * PORT_BPS), "x"), Compute("c", 1, 0.0, ("x",)))
    dag = JobDag(2, steps, (Group("g", "pp", ("x",), (0.0,)),))
    return Job(name, dag, ("h1", dst), start_s=start_s)


def ends_s(jobs, policy, **options):
    record = simulate(jobs, NETWORK, policy, **options)
    return {flow.job: flow.finish_s for flow in record.flows}


def three_to_one(snapshot):
    """The first flow is to have three times as much as any other."""
    share = np.where(snapshot.flow_id == snapshot.flow_id.min(), 3.0, 1.0)
    return Allocation(PORT_BPS * share / share.sum(), np.zeros(snapshot.flows, np.int64))


MINE = Policy("mine", "weighted", "", three_to_one)


@pytest.mark.parametrize("undecided", ["wait", "ahead", "last-class"])
def test_two_flows_share_a_link_as_is_allocated_and_who_is_left_has_all_of_it(undecided):
    found = ends_s([sender("a", 1.5), sender("b", 1.0, dst="h3")], MINE, realism=Realism(undecided=undecided))
    # a has three quarters and ends after 2 s; b has sent half by then.
    assert found == pytest.approx({"a": 2.0, "b": 2.5}, abs=1e-4)


def test_rates_that_leave_something_do_not_leave_it_idle():
    """A paced sender keeps to its half; one with a weight takes what nobody else does."""

    def half(snapshot):
        return Allocation(np.full(snapshot.flows, PORT_BPS / 4), np.zeros(snapshot.flows, np.int64))

    jobs = [sender("a", 1.0), sender("b", 1.0, dst="h3")]
    paced = ends_s(jobs, Policy("mine", "rate", "", half), realism=Realism(classes=7))
    weighted = ends_s(jobs, Policy("mine", "weighted", "", half))
    assert paced == pytest.approx({"a": 4.0, "b": 4.0}, abs=1e-4)
    assert weighted == pytest.approx({"a": 2.0, "b": 2.0}, abs=1e-4)


def test_who_is_to_have_nothing_still_has_the_least_weight():
    """Where `priority` has the second flow wait, weights let a little of it through."""
    jobs = [sender("a", 1.0), sender("b", 1.0, dst="h3")]
    strict = ends_s(jobs, policies.load("srpt"), realism=Realism(classes=7))
    weighted = ends_s(jobs, policies.load("srpt"), realism=WEIGHTED)
    assert sorted(strict.values()) == pytest.approx([1.0, 2.0], abs=1e-4)
    assert sorted(weighted.values()) == pytest.approx([1.0 + weighting.LEAST_SHARE, 2.0], abs=1e-3)


def test_in_few_classes_flows_of_unlike_rates_share_one():
    jobs = [sender("a", 1.0), sender("b", 1.0, dst="h3")]
    found = ends_s(jobs, MINE, realism=Realism(classes=1))
    assert found == pytest.approx({"a": 2.0, "b": 2.0}, abs=1e-4)


def test_a_run_is_repeated_by_weights_that_come_into_force_as_late_as_it_measured():
    jobs = [sender("a", 3.0), sender("b", 1.0, start_s=1.0, dst="h3")]
    at_once = ends_s(jobs, MINE, realism=WEIGHTED)
    again = ends_s(jobs, MINE, realism=WEIGHTED, measured=Measured(settings=Settings()))
    late = ends_s(jobs, MINE, realism=WEIGHTED, measured=Measured(settings=Settings(usual_first_s=0.2)))
    assert again == pytest.approx(at_once, abs=1e-4)
    assert late["b"] == pytest.approx(at_once["b"] + 0.2 * 0.75, abs=0.1)
    assert late["b"] > at_once["b"]


def test_every_policy_can_be_enforced_so():
    jobs = [sender("a", 0.5), sender("b", 1.0, start_s=0.2, dst="h3"), sender("c", 0.3, start_s=0.4)]
    for name in policies.deciding_alone():
        assert max(ends_s(jobs, policies.load(name), realism=WEIGHTED).values()) == pytest.approx(1.8, abs=1e-3)

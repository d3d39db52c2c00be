"""A simulation that repeats what a run was late by, against times worked out by hand.

One link carries a flow of 2 s alone on it; computations take 1 s (the paper's Fig. 2), unless said otherwise.
"""

from __future__ import annotations

import dataclasses
import math

import pytest

from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.measured import Decided, Measured, Settings
from echelonflow.scheduling import policies
from simulator.decided import DecisionsTaken
from simulator.fluid import simulate
from simulator.realism import EXACT, Realism
from tests.unit.synthetic_run import paper_job, paper_network

NETWORK = paper_network()
CLASSES = Realism(classes=7)


def key(step, iteration=0, job="pipeline"):
    return (job, iteration, step)


def run(measured, policy="echelonflow", realism=CLASSES, jobs=None):
    record = simulate(jobs or [paper_job(NETWORK)], NETWORK, policies.load(policy), realism=realism, measured=measured)
    return (
        {c.step: c for c in record.computes},
        {f.flow: f for f in record.flows},
        record.end_s,
    )


def one_flow(size_s=2.0):
    """A computation, a flow and a computation, of which the next iteration's first waits for the last."""
    steps = (
        Compute("p", 0, 1.0),
        Transfer("x", 0, 1, round(size_s * NETWORK.capacity_Bps[0]), "x", ("p",)),
        Compute("c", 1, 1.0, ("x",)),
    )
    return Job("one", JobDag(2, steps, (Group("g", "pp", ("x",), (0.0,)),), (("c", "p"),)), ("h1", "h2"))


def test_nothing_measured_is_the_simulation_as_it_was():
    assert run(None)[2] == pytest.approx(8, abs=1e-4)
    ideal = simulate([paper_job(NETWORK)], NETWORK, policies.load("fair"))
    again = simulate([paper_job(NETWORK)], NETWORK, policies.load("fair"), measured=Measured())
    assert (ideal.computes, ideal.flows) == (again.computes, again.flows)


def test_settings_that_take_no_time_are_the_simulation_with_classes():
    for policy in ("fair", "echelonflow", "coflow(grouping=group)"):
        plain = simulate([paper_job(NETWORK)], NETWORK, policies.load(policy), realism=CLASSES)
        timed = simulate(
            [paper_job(NETWORK)],
            NETWORK,
            policies.load(policy),
            realism=CLASSES,
            measured=Measured(settings=Settings()),
        )
        assert [c.finish_s for c in timed.computes] == pytest.approx([c.finish_s for c in plain.computes])


def test_a_late_computation_ends_late_and_delays_nothing_on_its_host():
    computes, flows, _ = run(Measured(late_s={key("p0"): 0.25}), realism=EXACT)
    assert computes["p0"].finish_s == 1.25
    assert computes["p0"].late_s == 0.25
    assert computes["p1"].start_s == 1.0
    assert flows["x0"].release_s == 1.0


def test_a_flow_is_released_when_its_host_noticed():
    _, flows, end_s = run(Measured(late_s={key("p0"): 0.25}, release_s={key("x0"): 0.25}), realism=EXACT)
    assert flows["x0"].release_s == 1.25
    assert end_s == pytest.approx(8.25, abs=1e-4)


def test_the_last_computation_ends_the_iteration_late():
    assert run(Measured(late_s={key("c2"): 0.5}), realism=EXACT)[2] == pytest.approx(8.5, abs=1e-4)


def test_a_flow_waits_for_its_first_setting():
    settings = Settings(first_s={key("x", job="one"): 0.3})
    _, flows, end_s = run(Measured(settings=settings), jobs=[one_flow()])
    assert flows["x"].release_s == 1.0
    assert flows["x"].start_s == pytest.approx(1.3)
    assert end_s == pytest.approx(4.3, abs=1e-4)


def test_while_a_flow_waits_others_have_the_link():
    """Under fair sharing x1 waits for 1 s, and x0 has the whole link meanwhile; then x1 and x2 share it to the end."""
    settings = Settings(first_s={key("x1"): 1.0})
    _, flows, end_s = run(Measured(settings=settings), policy="fair")
    assert flows["x0"].finish_s == pytest.approx(3.0, abs=1e-4)
    assert flows["x1"].start_s == pytest.approx(3.0)
    assert flows["x1"].finish_s == flows["x2"].finish_s == pytest.approx(7.0, abs=1e-4)
    assert end_s == pytest.approx(9.0, abs=1e-4)


def test_a_change_in_mid_flight_comes_into_force_later():
    """The short job's flow comes at 1 s and goes first; the long one's is only moved down 0.5 s later: of two classes none was spared."""
    long_job = dataclasses.replace(one_flow(6.0), name="long")
    short_job = dataclasses.replace(one_flow(1.0), name="short", start_s=1.0)
    alone = {"long": 0.0, "short": 0.0}
    for name, changed_s in (("at once", 0.0), ("late", 0.5)):
        settings = Settings(usual_change_s=changed_s)
        record = simulate([long_job, short_job], NETWORK, policies.load("srpt"), realism=Realism(classes=2),
                          measured=Measured(settings=settings))  # fmt: skip
        alone[name] = next(f.finish_s for f in record.flows if f.job == "short")
    assert alone["at once"] == pytest.approx(3.0, abs=1e-4)
    # For 0.5 s both are in one class and share: a quarter of a second of the short one is sent then.
    assert alone["late"] == pytest.approx(3.25, abs=1e-4)


def test_who_finds_a_class_above_the_one_in_flight_waits_for_no_change():
    long_job = dataclasses.replace(one_flow(6.0), name="long")
    short_job = dataclasses.replace(one_flow(1.0), name="short", start_s=1.0)
    record = simulate([long_job, short_job], NETWORK, policies.load("srpt"), realism=CLASSES,
                      measured=Measured(settings=Settings(usual_change_s=0.5)))  # fmt: skip
    assert next(f.finish_s for f in record.flows if f.job == "short") == pytest.approx(3.0, abs=1e-4)


@pytest.mark.parametrize("enforcer", ["priority", "rate"])
def test_what_was_decided_for_the_same_flows_is_decided_again(enforcer):
    """The short job's flow would go first; it was decided otherwise while both were in flight."""
    long_job = dataclasses.replace(one_flow(6.0), name="long")
    short_job = dataclasses.replace(one_flow(1.0), name="short", start_s=1.0)
    both = {key("x", job="long"): (0, NETWORK.capacity_Bps[0]), key("x", job="short"): (None, 0.0)}
    settings = Settings(decided={frozenset(both): [Decided(2.0, both)]})
    record = simulate([long_job, short_job], NETWORK, policies.load("srpt"),
                      realism=dataclasses.replace(CLASSES, enforcer=enforcer), measured=Measured(settings=settings))  # fmt: skip
    finish_s = {f.job: f.finish_s for f in record.flows}
    assert finish_s["long"] == pytest.approx(7.0, abs=1e-4)
    assert finish_s["short"] == pytest.approx(8.0, abs=1e-4)  # alone, which was never decided: the policy is asked


def of(time_s, **classes):
    """A decision for flow `x` of some jobs."""
    flows = {job: (each, 0.0 if each is None else math.inf) for job, each in classes.items()}
    return Decided(time_s, {key("x", job=job): each for job, each in flows.items()})


def found(decisions, *jobs, now_s=0.0):
    taken = DecisionsTaken({frozenset(one.flows): [one] for one in decisions})
    return taken.for_flows([key("x", job=job) for job in jobs], now_s)


def test_a_decision_for_just_these_flows_is_taken_before_one_for_them_and_others():
    just, more, most = of(5.0, a=1, b=0), of(1.0, a=0, b=1, c=2), of(2.0, a=0, b=1, c=2, d=3)
    assert found([most, more, just], "a", "b", now_s=1.0) is just
    assert found([most, more], "b", "a", now_s=2.0) is more
    assert found([most, more, just], "d", "a") is most
    assert found([just], "a", "c") is None
    assert found([just], "c") is None
    assert found([just]) is None


def test_of_decisions_for_as_many_flows_the_nearest_in_time_is_taken():
    early, late = of(1.0, a=0, b=1), of(3.0, a=1, c=0)
    assert found([early, late], "a", now_s=1.9) is early
    assert found([early, late], "a", now_s=2.1) is late


def test_a_rate_holds_for_just_the_flows_that_it_was_decided_for():
    paced = Decided(1.0, {key("x", job=job): (0, 1e6) for job in "ab"})
    assert found([paced], "a", "b") is paced
    assert found([paced], "a") is None


def test_a_flow_that_had_to_wait_for_others_does_not_wait_without_them():
    waiting = of(1.0, a=0, b=None)
    assert found([waiting], "a") is waiting
    assert found([waiting], "b") is None
    assert found([waiting], "a", "b") is waiting


def test_both_ends_of_a_flow_go_on_when_they_have_noticed():
    settings = Settings(arrival_s={key("x", job="one"): 0.2}, acknowledged_s={key("x", job="one"): 0.4})
    computes, flows, _ = run(Measured(settings=settings), jobs=[one_flow()])
    assert flows["x"].finish_s == pytest.approx(3.0, abs=1e-4)
    assert computes["c"].start_s == pytest.approx(3.2, abs=1e-4)
    acknowledged = Compute("then", 0, 1.0, ("x",))
    job = one_flow()
    dag = dataclasses.replace(job.dag, steps=(*job.dag.steps, acknowledged))
    computes, _, _ = run(Measured(settings=settings), jobs=[dataclasses.replace(job, dag=dag)])
    assert computes["then"].start_s == pytest.approx(3.4, abs=1e-4)


def test_an_end_that_is_noticed_before_all_else_has_ended_delays_nothing():
    settings = Settings(arrival_s={key("x2"): 0.2})
    assert run(Measured(settings=settings), policy="fair")[2] == pytest.approx(8.5, abs=1e-4)


@pytest.mark.parametrize(("policy", "enforcer"), [("fair", "priority"), ("fair", "rate"), ("echelonflow", "priority")])
def test_links_that_carry_less(policy, enforcer):
    carried = tuple(0.8 * rate for rate in NETWORK.capacity_Bps)
    realism = dataclasses.replace(CLASSES, enforcer=enforcer)
    _, flows, _ = run(Measured(carried_Bps=carried), policy, realism, jobs=[one_flow()])
    assert flows["x"].finish_s == pytest.approx(1 + 2 / 0.8, abs=1e-4)


def test_links_that_carry_more_are_used_by_who_waits_for_them():
    carried = tuple(1.25 * rate for rate in NETWORK.capacity_Bps)
    _, flows, _ = run(Measured(carried_Bps=carried), jobs=[one_flow()])
    assert flows["x"].finish_s == pytest.approx(1 + 2 / 1.25, abs=1e-4)


def test_causes_can_be_left_out_one_by_one():
    whole = Measured(late_s={key("p0"): 0.1}, settings=Settings(usual_first_s=0.2), carried_Bps=(1.0,))
    assert whole.without(links=True) == dataclasses.replace(whole, carried_Bps=None)
    assert whole.without(settings=True, links=True).obeys_at_once
    assert not whole.without(links=True).obeys_at_once

"""Leads, rests, tails and least iteration times, by hand."""

from __future__ import annotations

import dataclasses

import pytest

from echelonflow.model import topologies
from echelonflow.model.clock import clock_of
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer

NETWORK = topologies.build("single-switch", {"hosts": 3, "rate_bps": 8e6})
SECOND = round(NETWORK.capacity_Bps[0])
"""Bytes that a link carries in one."""


def job(steps, next_iteration=(), ranks=2, placement=("h1", "h2", "h3")):
    transfers = tuple(step.name for step in steps if isinstance(step, Transfer))
    groups = (Group("g", "test", transfers, (0.0,) * len(transfers)),) if transfers else ()
    return Job("job", JobDag(ranks, tuple(steps), groups, tuple(next_iteration)), placement[:ranks])


def transfer(name, src, dst, seconds, after=(), coflow=None):
    return Transfer(name, src, dst, round(seconds * SECOND), coflow or name, tuple(after))


STAGES = (Compute("a", 0, 1.0), transfer("t", 0, 1, 1.0, ["a"]), Compute("b", 1, 2.0, ("t",)))


def test_iterations_that_begin_when_the_one_before_has_ended():
    found = clock_of(job(STAGES, [("b", "a")]), NETWORK)
    assert found.lead_s == {"t": pytest.approx(1)}
    assert found.tail_s == {"t": pytest.approx(2 + 1 + 1 + 2, rel=1e-5)}
    assert found.iteration_s == pytest.approx(4, rel=1e-5)


def test_iterations_that_begin_while_the_one_before_goes_on():
    """As a pipeline's stages do: each goes on with the next iteration as soon as it is through with its own part."""
    found = clock_of(job(STAGES, [("a", "a"), ("b", "b")]), NETWORK)
    assert found.tail_s == {"t": pytest.approx(2 + 2)}
    assert found.iteration_s == pytest.approx(2)


def test_what_nobody_waits_for_soon_has_a_short_tail():
    """`late` is only waited for at the end of the next iteration, `soon` at its beginning."""
    steps = (
        Compute("a", 0, 1.0),
        transfer("soon", 0, 1, 1.0, ["a"]),
        transfer("late", 0, 1, 1.0, ["a"]),
        Compute("first", 1, 3.0),
        Compute("last", 1, 1.0, ("first",)),
    )
    found = clock_of(job(steps, [("soon", "first"), ("late", "last"), ("last", "first"), ("a", "a")]), NETWORK)
    assert found.tail_s == {"soon": pytest.approx(4), "late": pytest.approx(1)}


def test_one_that_nobody_waits_for_has_until_the_next_iteration_ends():
    found = clock_of(job((*STAGES, transfer("report", 1, 0, 1.0, ["b"])), [("b", "a")]), NETWORK)
    assert found.tail_s["report"] == 0


def test_the_rest_leads_through_computations_of_its_own_iteration_alone():
    steps = (*STAGES, transfer("back", 1, 0, 1.0, ["b"]), Compute("update", 0, 4.0, ("back",)))
    found = clock_of(job(steps, [("update", "a")]), NETWORK)
    assert found.rest_s == {"t": pytest.approx(2), "back": pytest.approx(4)}


def test_a_flow_counts_as_long_as_its_coflow_on_its_way():
    steps = (
        transfer("x", 0, 2, 1.0, coflow="both"),
        transfer("y", 1, 2, 2.0, coflow="both"),
        Compute("sum", 2, 1.0, ("x", "y")),
    )
    found = clock_of(job(steps, [("sum", "x"), ("sum", "y")], ranks=3), NETWORK)
    assert found.tail_s == {"x": pytest.approx(1 + 3 + 1, rel=1e-5), "y": pytest.approx(1 + 3 + 1, rel=1e-5)}
    assert found.iteration_s == pytest.approx(4, rel=1e-5)


def test_a_link_can_be_what_an_iteration_takes_longest():
    steps = tuple(transfer(f"t{i}", 0, 1, 1.0) for i in range(5))
    assert clock_of(job(steps), NETWORK).iteration_s == pytest.approx(5, rel=1e-5)


def test_what_stays_within_a_host_takes_no_time_and_has_no_clock():
    found = clock_of(dataclasses.replace(job(STAGES, [("b", "a")]), placement=("h1", "h1")), NETWORK)
    assert found.tail_s == {}
    assert found.iteration_s == 3


def test_a_pipeline_s_tails_differ_by_the_paper_s_offsets():
    """Micro-batches whose forward passes follow one another: d = r + m t, as in the paper's equation 6."""
    steps, forward_s = [], 2.0
    for m in range(3):
        steps += [
            Compute(f"f0 {m}", 0, 1.0, (f"f0 {m - 1}",) if m else ()),
            transfer(f"t{m}", 0, 1, 0.5, [f"f0 {m}"]),
            Compute(f"f1 {m}", 1, forward_s, (f"t{m}", f"f1 {m - 1}") if m else (f"t{m}",)),
        ]
    tail_s = clock_of(job(steps, [("f1 2", "f0 0")]), NETWORK).tail_s
    assert [tail_s["t0"] - tail_s[f"t{m}"] for m in range(3)] == pytest.approx([0, forward_s, 2 * forward_s])


def test_the_way_to_the_end_of_its_own_iteration_leads_through_transfers_too():
    steps = (*STAGES, transfer("back", 1, 0, 1.0, ["b"]), Compute("update", 0, 4.0, ("back",)))
    found = clock_of(job(steps, [("update", "a")]), NETWORK)
    assert found.to_end_s == {"t": pytest.approx(2 + 1 + 4, rel=1e-5), "back": pytest.approx(4)}


def test_layers_go_by_what_waits_first_in_this_iteration_or_the_next():
    """Pushes come in the order of the backward pass, layer 1 first; the next forward pass waits for layer 0 first."""
    steps = (
        Compute("f0", 0, 1.0),
        Compute("f1", 0, 1.0, ("f0",)),
        Compute("b1", 0, 1.0, ("f1",)),
        Compute("b0", 0, 1.0, ("b1",)),
        transfer("push 1", 0, 1, 0.1, ["b1"]),
        transfer("push 0", 0, 1, 0.1, ["b0"]),
        transfer("pull 1", 1, 0, 0.1, ["push 1"]),
        transfer("pull 0", 1, 0, 0.1, ["push 0"]),
        transfer("report", 0, 1, 0.1, ["b0"]),
    )
    found = clock_of(job(steps, [("pull 0", "f0"), ("pull 1", "f1"), ("b0", "f0")]), NETWORK)
    assert found.layer == {"push 0": 0, "pull 0": 0, "push 1": 1, "pull 1": 1, "report": 2}

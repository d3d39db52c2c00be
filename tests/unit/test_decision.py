"""Decisions by forms: what policies answer, bit for bit."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util

import numpy as np
import pytest
from hypothesis import given, settings

from echelon.benchmarks.scaling import random_state
from echelonflow.model import topologies
from echelonflow.scheduling import decision, kernels, policies
from echelonflow.scheduling.trace_kernels import jit
from tests.contract.snapshots import VARIANTS, snapshots

WITH_FORMS = [text for text in VARIANTS if policies.load(text).form() is not None]


@functools.cache
def plain_loops():
    """The loops in plain Python: nothing to compile, and quick for few flows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "COMPILED", False)
        spec = importlib.util.find_spec("echelonflow.scheduling.decision_loops")
        copy = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(copy)
    return copy


def assert_same(found, expected):
    np.testing.assert_array_equal(found.rank, expected.rank)
    np.testing.assert_array_equal(found.rates_Bps, expected.rates_Bps)
    assert found.valid_until_s == expected.valid_until_s


@pytest.mark.parametrize("text", WITH_FORMS)
@settings(deadline=None, max_examples=15)
@given(snapshot=snapshots())
def test_a_form_decides_as_its_policy(text, snapshot):
    policy = policies.load(text)
    form = policy.form()
    if form.counts_pending:
        snapshot = without_pending(snapshot)
    assert_same(decision.Decision.decide(plain_loops(), form, snapshot), policy(snapshot))


def without_pending(snapshot):
    groups = snapshot.groups
    start = np.zeros_like(groups.pending_start)
    return dataclasses.replace(
        snapshot,
        groups=dataclasses.replace(
            groups, pending_start=start, pending_link=groups.pending_link[:0], pending_bytes=groups.pending_bytes[:0]
        ),
    )


def test_before_kernels_are_compiled_the_policy_is_asked(monkeypatch):
    monkeypatch.setattr(kernels, "of_this_process", lambda: kernels.Runners(patience_elements=1e9))
    policy = policies.load("coflow")
    snapshot = some_snapshot(50)
    assert_same(decision.Decision(policy)(snapshot), policy(snapshot))


@settings(deadline=None, max_examples=5)
@given(snapshot=snapshots())
def test_where_bytes_to_come_count_the_policy_is_asked(snapshot):
    policy = policies.load("echelonflow(order=remaining,pending=count)")
    assert_same(decision.Decision(policy)(snapshot), policy(snapshot))


def some_snapshot(flows):
    network = topologies.build(
        "leaf-spine", {"leaves": 4, "spines": 2, "hosts_per_leaf": 8, "rate_bps": 1e9, "fabric_rate_bps": 4e9}
    )
    return random_state(network, flows).snapshot(3.0)[0]


@pytest.mark.slow  # compiles them, where that was not done before
@pytest.mark.skipif(not kernels.can_compile(), reason="numba is not installed, or ECHELON_PLAIN is set")
@pytest.mark.parametrize("text", [name for name in policies.deciding_alone() if policies.load(name).form() is not None])
def test_compiled_forms_decide_as_their_policies_with_many_flows(text, monkeypatch):
    monkeypatch.setattr(kernels, "of_this_process", compiled_runners)
    policy, snapshot = policies.load(text), some_snapshot(3000)
    decide = decision.Decision(policy)
    monkeypatch.setattr(decide, "_policy", None)  # nobody is asked
    assert_same(decide(snapshot), policy(snapshot))


@functools.cache
def compiled_runners():
    runners = kernels.Runners(patience_elements=0)
    runners.compile()
    return runners

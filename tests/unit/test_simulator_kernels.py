"""Whole traces run by forms: what the event loop says with the policies themselves, and the same uncompiled."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from echelonflow.model import topologies
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.scheduling import policies, trace_kernels
from echelonflow.scheduling.kernels import can_compile
from echelonflow.scheduling.trace_kernels import jit
from simulator import trace
from simulator.realism import Realism
from tests.contract.snapshots import VARIANTS

SWITCH = topologies.build("single-switch", {"hosts": 6, "rate_bps": 1e6})
LEAF_SPINE = topologies.build(
    "leaf-spine", {"leaves": 3, "spines": 2, "hosts_per_leaf": 2, "rate_bps": 1e6, "fabric_rate_bps": 1e6}
)


def random_trace(seed, *, coflows=15, mappers=3, reducers=3, ports=6):
    """Shuffles of a few mappers and reducers, some with equal sizes, some at the same moment, some within a port."""
    rng = np.random.default_rng(seed)
    coflow, src, dst, size_bytes = [], [], [], []
    for c in range(coflows):
        froms = rng.choice(ports, rng.integers(1, mappers + 1), replace=False)
        for to in rng.choice(ports, rng.integers(1, reducers + 1), replace=False):
            size = 1e5 * (rng.integers(1, 9) if c % 2 else rng.uniform(0.01, 9.0))
            for source in froms:
                coflow.append(c)
                src.append(source)
                dst.append(to)
                size_bytes.append(size if rng.random() < 0.8 else size * rng.random() + 1)
    arrival_s = np.round(rng.uniform(0, 6, coflows), 1)
    weight = rng.choice([1.0, 1.0, 2.0], coflows)
    return CoflowTrace(
        rng.permutation(coflows) + 1, arrival_s, np.array(coflow), np.array(src), np.array(dst), np.array(size_bytes),
        weight,
    )  # fmt: skip


LOOPS = ("max_min", "order", "bssi", "coflow_sharing", "fair_sharing", "flow_by_flow", "in_turn")
"""Modules with compiled functions, each after those that it imports."""
LIKE_THE_EVENT_LOOP = [text for text in VARIANTS if policies.load(text).form() is not None]


def plain_loops(monkeypatch):
    """Fresh copies of the loops in plain Python: nothing to compile, and quick on small traces."""
    monkeypatch.setattr(jit, "COMPILED", False)
    for name in LOOPS:
        full = f"{trace_kernels.__name__}.{name}"
        spec = importlib.util.spec_from_file_location(full, Path(trace_kernels.__file__).parent / f"{name}.py")
        copy = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, full, copy)
        spec.loader.exec_module(copy)


@pytest.fixture
def plain(monkeypatch):
    """Forms are used, uncompiled, for traces of any size."""
    plain_loops(monkeypatch)
    monkeypatch.setattr(trace, "can_compile", lambda: True)


def both(policy, given, network, monkeypatch, realism=None):
    """The trace's records by the form and by the event loop; whether the form was used."""
    records, used = [], []
    original = trace._TraceSource.run_form
    monkeypatch.setattr(
        trace._TraceSource, "run_form", lambda *told: used.append(original(*told)) or used[-1]
    )  # fmt: skip
    for least in (0, 1 << 60):
        monkeypatch.setattr(trace, "KERNEL_FLOWS", least)
        loaded = policies.load(policy)
        records.append(trace.simulate_trace(given, network, loaded, realism=realism or Realism()))
    return (*records, used != [] and used[0] is not None)


def by_the_event_loop(policy):
    """Whether a policy with a form has none that whole traces can be run by."""
    return policy in {"weighted(per=group)", "weighted(per=job)", "layer-priority"}


@pytest.mark.parametrize("policy", LIKE_THE_EVENT_LOOP)
@pytest.mark.parametrize("network", [SWITCH, LEAF_SPINE], ids=["switch", "leaf-spine"])
@pytest.mark.parametrize("seed", range(3))
def test_a_form_does_as_the_policy_says(policy, network, seed, plain, monkeypatch):
    quick, slow, used = both(policy, random_trace(seed), network, monkeypatch)
    assert used is not by_the_event_loop(policy)
    np.testing.assert_allclose(quick.flow_finish_s, slow.flow_finish_s, rtol=1e-9)
    assert quick.events == slow.events


def test_every_policy_that_ships_has_a_form_with_its_defaults():
    """But for those whose weights follow what connections have sent, which no form can say."""
    without = [policies.load(name) for name in policies.deciding_alone() if policies.load(name).form() is None]
    assert [policy.name for policy in without if not policy.promises.reads_connections] == []


@pytest.mark.parametrize("policy", LIKE_THE_EVENT_LOOP)
def test_a_policy_that_is_shown_no_sizes_has_a_form_that_reads_none(policy):
    loaded = policies.load(policy)
    assert loaded.promises.knows_sizes or not loaded.form().reads_sizes


def test_one_class_changes_nothing_for_fair_sharing(plain, monkeypatch):
    quick, slow, used = both("fair", random_trace(3), SWITCH, monkeypatch, Realism(classes=1))
    assert used
    np.testing.assert_allclose(quick.flow_finish_s, slow.flow_finish_s, rtol=1e-9)


@pytest.mark.parametrize(
    ("policy", "realism"),
    [
        ("coflow", Realism(decision_latency_s=0.01)),
        ("coflow", Realism(classes=8, enforcer="priority")),
        ("fair", Realism(decision_latency_s=0.01)),
        ("echelonflow", Realism(burst_s=0.01)),
        ("echelonflow(reuse=iterations)", Realism()),
    ],
)
def test_no_form_where_it_would_say_something_else(policy, realism, monkeypatch):
    monkeypatch.setattr(trace, "can_compile", lambda: True)
    assert trace.compiled_form(policies.load(policy), realism) is None


@pytest.mark.slow  # compiles them, where that was not done before
@pytest.mark.skipif(not can_compile(), reason="numba is not installed, or ECHELON_PLAIN is set: nothing is compiled")
@pytest.mark.parametrize(
    "policy", ["aalo(first_bytes=100000,factor=2)", "coflow", "fair", "fifo", "job-priority", "sincronia"]
)
def test_uncompiled_the_results_are_the_same_bit_for_bit(policy, monkeypatch):
    events, ended_s = [], []
    for prepare in (lambda: None, lambda: plain_loops(monkeypatch)):
        prepare()
        source = trace._TraceSource(random_trace(1), LEAF_SPINE)
        events.append(source.run_form(policies.load(policy).form()))
        ended_s.append(source._ended_s)
    assert events[0] == events[1]
    np.testing.assert_array_equal(*ended_s)


def test_sums_of_very_different_sizes_keep_their_small_parts(plain, monkeypatch):
    """A gigabyte and a few bytes between the same ports: what the first leaves of a sum must not be rounding."""
    sizes = np.array([1e9, 7.0, 1e9, 3.0, 11.0, 5e8])
    columns = (np.zeros(6, np.int64), np.array([0, 0, 1, 1, 2, 2]), np.array([3, 4, 3, 4, 4, 5]), sizes)
    given = CoflowTrace(np.array([1]), np.zeros(1), *columns)
    quick, slow, used = both("coflow", given, SWITCH, monkeypatch)
    assert used
    np.testing.assert_allclose(quick.flow_finish_s, slow.flow_finish_s, rtol=1e-9)

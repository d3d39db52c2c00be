"""The benchmarks of decisions and of whole traces: what they measure is what they say."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from echelon.benchmarks import _policy_of_five_lines, decisions, whole_traces
from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.scheduling import policies

NETWORK = topologies.build("single-switch", {"hosts": 12, "rate_bps": 1e9})
TRACE = "150 2\n0 0 1 0 1 1:4\n1 1000 1 0 1 2:1\n"


def test_one_group_has_as_many_coflows_as_asked_all_in_flight():
    snapshot, _ = decisions.one_group(NETWORK, 40).snapshot(2.0)
    assert (snapshot.flows, len(snapshot.coflows.id), len(snapshot.groups.id)) == (80, 40, 1)
    assert np.unique(np.bincount(snapshot.coflow)).tolist() == [2]


def test_the_median_leaves_the_first_decision_out():
    told = []
    assert decisions.median_ms(told.append, None, 2) >= 0
    assert len(told) == 1 + 2 * decisions.DECISIONS


def test_a_decision_is_held_to_what_it_must_take(monkeypatch):
    snapshot, _ = decisions.one_group(NETWORK, 5).snapshot(2.0)
    monkeypatch.setattr(decisions, "median_ms", lambda decide, *_: 4.0 if isinstance(decide, policies.Policy) else 2.0)
    figure = decisions._figure("fair", "fair", snapshot, 1)
    assert (figure.measured, figure.ok) == ("4.0 ms, in simulations 2.0 ms", True)
    monkeypatch.setattr(decisions, "median_ms", lambda *_: 10.5)
    assert decisions._figure("fair", "fair", snapshot, 1).ok is False


def test_the_policy_of_ones_own_that_is_measured_is_a_policy():
    snapshot, _ = decisions.one_group(NETWORK, 5).snapshot(2.0)
    fifo = policies.load("fifo")(snapshot)
    with contextlib.closing(policies.load(_policy_of_five_lines.__file__)) as own:
        np.testing.assert_array_equal(own(snapshot).rates_Bps, fifo.rates_Bps)
    np.testing.assert_array_equal(_policy_of_five_lines.allocate(snapshot).rates_Bps, fifo.rates_Bps)


@pytest.mark.slow  # starts programs
def test_a_whole_trace_is_run_and_its_average_told(tmp_path):
    trace = tmp_path / "trace.txt"
    trace.write_text(TRACE)
    wall_s, cpu_s, average_s = whole_traces.measure("fair", trace)
    assert 0 < cpu_s < 60 > wall_s > 0
    MB_s = 2**20 / (1e9 / 8 * 1460 / 1514)
    assert average_s == pytest.approx((4 + 1) / 2 * MB_s, rel=1e-6)
    with pytest.raises(RunError, match="the run failed"):
        whole_traces.measure("fair", tmp_path / "nothing.txt")


def test_the_limits_name_policies_that_there_are():
    assert set(whole_traces.LIMITS_S) <= set(policies.names())

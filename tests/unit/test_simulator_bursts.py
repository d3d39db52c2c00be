"""What a link passes at once after an idle spell: how much a flow gains by it, and when it gains nothing."""

from __future__ import annotations

import numpy as np
import pytest

from echelonflow.model import topologies
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.model.tcp import PIECE_BYTES, PIECE_S
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from simulator.realism import Realism
from simulator.trace import simulate_trace
from tests.unit.synthetic_run import paper_job

NETWORK = topologies.build("single-switch", {"hosts": 4, "rate_bps": 8e6})
LINK_BPS = NETWORK.capacity_Bps[0]
BURST_S = 0.02


def finish_s(*flows, policy="fair", burst_s=BURST_S, **realism):
    """When flows end that are each (arrival, source, destination, seconds of the link), each a Coflow of its own."""
    arrival_s, src, dst, seconds = (np.array(column) for column in zip(*flows, strict=True))
    ids = np.arange(len(flows))
    trace = CoflowTrace(ids, arrival_s.astype(float), ids, src, dst, np.round(seconds * LINK_BPS))
    record = simulate_trace(trace, NETWORK, policies.load(policy), realism=Realism(burst_s=burst_s, **realism))
    return record.flow_finish_s


@pytest.mark.parametrize("realism", [{}, {"classes": 7}, {"classes": 7, "decision_latency_s": 0.005}])
def test_a_flow_on_idle_links_gains_the_burst_once_however_long_its_path(realism):
    latency_s = realism.get("decision_latency_s", 0.0)
    assert finish_s((0, 0, 1, 1.0), **realism) == pytest.approx([1.0 - BURST_S + latency_s], abs=1e-5)


def test_paced_flows_gain_no_more_than_is_written_of_them_at_a_time():
    """A Coflow alone on idle links: its sender writes 3 ms of what they carry, and then the next 3 ms."""
    coflow = "coflow(grouping=collective)"
    for burst_s, gained_s in ((BURST_S, PIECE_S), (0.002, 0.002)):
        paced = finish_s((0, 0, 1, 1.0), policy=coflow, classes=7, burst_s=burst_s)
        assert paced == pytest.approx([1.0 - gained_s], abs=1e-5)
    by_order = finish_s((0, 0, 1, 1.0), policy=coflow, classes=7, enforcer="priority")
    assert by_order == pytest.approx([1.0 - BURST_S], abs=1e-5)


def test_what_tcp_paces_comes_no_faster_than_links_carry():
    capacity_Bps = np.array([1.0, 1.01]) * PIECE_BYTES / PIECE_S
    found = Realism(burst_s=BURST_S).burst_bytes("rate", capacity_Bps)
    assert found.tolist() == [PIECE_BYTES, 0.0]


def test_one_that_is_shorter_than_the_burst_is_there_at_once():
    assert finish_s((1.0, 0, 1, 0.01)) == pytest.approx([1.0], abs=1e-5)


def test_a_link_gains_as_much_again_only_after_as_long_an_idle_spell():
    # From 0.98 s the path is idle: for long, for half a burst, for no time.
    for gap_s, gained_s in ((0.5, BURST_S), (BURST_S / 2, BURST_S / 2), (0.0, 0.0)):
        begin_s = 1.0 - BURST_S + gap_s
        _, second_s = finish_s((0, 0, 1, 1.0), (begin_s, 0, 1, 1.0))
        assert second_s == pytest.approx(begin_s + 1.0 - gained_s, abs=1e-5)


def test_flows_that_start_together_share_one_burst():
    assert finish_s((0, 0, 1, 1.0), (0, 0, 1, 1.0)) == pytest.approx([2.0 - BURST_S] * 2, abs=1e-5)


def test_where_paths_meet_the_link_that_they_share_limits_the_burst():
    assert finish_s((0, 0, 2, 1.0), (0, 1, 2, 1.0)) == pytest.approx([2.0 - BURST_S] * 2, abs=1e-5)


def test_a_busy_link_passes_nothing_at_once_to_a_newcomer():
    first_s, second_s = finish_s((0, 0, 1, 1.0), (0.5, 0, 1, 1.0))
    # What is sent and when the last flow ends does not depend on the newcomer.
    assert second_s == pytest.approx(2.0 - BURST_S, abs=1e-5)
    assert first_s == pytest.approx(0.5 + 2 * (0.5 - BURST_S), abs=1e-5)


HALF = """
import numpy as np
from echelonflow.scheduling.allocation import Allocation

def allocate(snapshot):
    rates = np.full(snapshot.flows, snapshot.capacity_Bps.min() / 2)
    return Allocation(rates_Bps=rates, rank=np.arange(snapshot.flows))
"""


def test_a_flow_that_its_policy_slows_down_gains_nothing(tmp_path):
    (tmp_path / "half.py").write_text(HALF)
    assert finish_s((0, 0, 1, 1.0), policy=str(tmp_path / "half.py")) == pytest.approx([2.0], abs=1e-5)


def test_results_of_the_papers_example_move_by_less_than_a_burst_for_each_idle_spell():
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 100e6})
    for policy in ("fair", "coflow(grouping=group)", "echelonflow"):
        exact, burst = (
            max(
                c.finish_s
                for c in simulate(
                    [paper_job(network)], network, policies.load(policy), realism=Realism(burst_s=burst_s)
                ).computes
            )
            for burst_s in (0.0, BURST_S)
        )
        assert exact - 3 * BURST_S <= burst <= exact

"""From an allocation to marks and rates."""

from __future__ import annotations

import numpy as np
import pytest

from controller.enforcers import CRUMB_SHARE, SAME_RATE, Treatment, priority, rate
from echelonflow.model import topologies
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.classes import DATA_CLASSES, class_of_dscp, dscp_of_class
from echelonflow.wire.messages import Declare, FlowDeclaration

DATA = dscp_of_class(1)


def snapshot_of(pairs):
    """One released flow per (source, destination), all on a four-host switch of 1 MB/s links or so."""
    network = topologies.build("single-switch", {"hosts": 4, "rate_bps": 8e6})
    state = SchedulerState(network)
    flows = tuple(
        FlowDeclaration(f"f{i}", i, "c", src, dst, 10**6, 0.0, 10_000 + i, 5001) for i, (src, dst) in enumerate(pairs)
    )
    state.declare(Declare("job", "g", "k", 1.0, flows))
    for flow in flows:
        state.release(("job", 0, flow.flow), 0.0)
    return state.snapshot(1.0)[0]


def ranks(*values):
    """Those that come first have a rate, the others none."""
    return Allocation((np.array(values) == min(values)) * 1e5, np.array(values))


def rates(*values):
    return Allocation(np.array(values, float), np.zeros(len(values), np.int64))


def link_load(snapshot, treatments):
    values = np.array([t.rate_Bps for t in treatments])
    return np.bincount(snapshot.path_link, values[snapshot.hop_flow()], snapshot.links)


def test_priority_keeps_order_and_never_paces():
    treatments = priority(snapshot_of([("h1", "h2")] * 3), ranks(2, 0, 0), [None] * 3)
    classes = [class_of_dscp(t.dscp) for t in treatments]
    assert classes[1] == classes[2] < classes[0]
    assert all(t.rate_Bps is None for t in treatments)


def test_priority_has_new_flows_wait_where_classes_run_out():
    treatments = priority(snapshot_of([("h1", "h2")] * 10), ranks(*range(10)), [None] * 10)
    assert [class_of_dscp(t.dscp) for t in treatments[:7]] == [1, 2, 3, 4, 5, 6, 7]
    assert treatments[7:] == [None] * 3


def test_priority_pauses_flows_in_flight_where_classes_run_out_and_they_go_on_later():
    in_force = [*(Treatment(dscp_of_class(c)) for c in DATA_CLASSES), Treatment(dscp_of_class(7))]
    order = ranks(*range(8))
    treatments = priority(snapshot_of([("h1", "h2")] * 8), order, in_force)
    assert treatments[:7] == in_force[:7]
    assert treatments[7] == Treatment(dscp_of_class(7), 0.0)
    without_the_seventh = [*treatments[:6], treatments[7]]
    assert priority(snapshot_of([("h1", "h2")] * 7), ranks(*range(7)), without_the_seventh) == in_force[:7]


def test_priority_has_nobody_wait_for_whom_there_is_a_rate():
    allocation = Allocation(np.full(10, 1e5), np.arange(10))
    treatments = priority(snapshot_of([("h1", "h2")] * 10), allocation, [None] * 10)
    assert [class_of_dscp(t.dscp) for t in treatments] == [1, 2, 3, 4, 5, 6, 7, 7, 7, 7]
    assert all(t.rate_Bps is None for t in treatments)


def test_priority_leaves_flows_where_they_are_if_the_order_allows():
    in_force = [Treatment(dscp_of_class(3)), None]
    treatments = priority(snapshot_of([("h1", "h2")] * 2), ranks(0, 1), in_force)
    assert treatments[0] == in_force[0]
    assert class_of_dscp(treatments[1].dscp) > 3


def test_rate_gives_one_class_and_the_allocated_rates():
    treatments = rate(snapshot_of([("h1", "h2")] * 2), rates(700_000, 0), [None, None])
    assert treatments == [Treatment(DATA, 700_000.0), Treatment(DATA, 0.0)]


@pytest.mark.parametrize(("new", "expected"), [(1 - SAME_RATE / 2, 1.0), (1 - 2 * SAME_RATE, 1 - 2 * SAME_RATE)])
def test_a_small_change_of_rate_is_left_out(new, expected):
    snapshot = snapshot_of([("h1", "h2")])
    (treatment,) = rate(snapshot, rates(500_000 * new), [Treatment(DATA, 500_000.0)])
    assert treatment.rate_Bps == pytest.approx(500_000 * expected, rel=1e-12)


def test_a_small_change_is_made_where_a_link_would_be_overloaded():
    snapshot = snapshot_of([("h1", "h2"), ("h1", "h3"), ("h4", "h3")])
    capacity = snapshot.capacity_Bps[0]
    in_force = [Treatment(DATA, capacity / 2), Treatment(DATA, capacity / 2), Treatment(DATA, 0.3 * capacity)]
    # The second flow is owed a bit less than it has, the first a good deal more: together too much for h1.
    wanted = rates(0.503 * capacity, 0.4976 * capacity * 0.99, 0.3 * capacity * 1.001)
    treatments = rate(snapshot, wanted, in_force)
    assert np.all(link_load(snapshot, treatments) <= snapshot.capacity_Bps * (1 + 1e-6))
    wanted = rates(capacity * 0.502, capacity * 0.498, 0.3 * capacity * 1.001)
    in_force[0] = Treatment(DATA, capacity * 0.4)
    treatments = rate(snapshot, wanted, in_force)
    assert treatments[1].rate_Bps == wanted.rates_Bps[1]
    assert treatments[2] == in_force[2]
    assert np.all(link_load(snapshot, treatments) <= snapshot.capacity_Bps * (1 + 1e-6))


def test_pausing_and_resuming_are_never_small():
    snapshot = snapshot_of([("h1", "h2")] * 2)
    treatments = rate(snapshot, rates(0, 500_000), [Treatment(DATA, 500_000.0), Treatment(DATA, 0.0)])
    assert [t.rate_Bps for t in treatments] == [0.0, 500_000.0]


def test_a_crumb_is_a_pause_unless_it_is_all_that_anyone_has():
    snapshot = snapshot_of([("h1", "h2"), ("h1", "h3"), ("h4", "h3")])
    crumb = snapshot.capacity_Bps[0] * CRUMB_SHARE / 2
    assert [t.rate_Bps for t in rate(snapshot, rates(500_000, crumb, crumb), [None] * 3)] == [500_000.0, 0.0, crumb]


def test_from_priority_to_rate_every_flow_gets_its_rate():
    (treatment,) = rate(snapshot_of([("h1", "h2")]), rates(500_000), [Treatment(dscp_of_class(4), None)])
    assert treatment == Treatment(DATA, 500_000.0)


def test_many_crumbs_are_a_meal():
    """A Coflow of many small flows beside a large one must not wait for it: together they have more than a crumb."""
    snapshot = snapshot_of([("h1", "h2")] * 5)
    crumb = snapshot.capacity_Bps[0] * CRUMB_SHARE * 0.9
    given = [500_000.0, crumb, crumb, crumb, crumb]
    assert [t.rate_Bps for t in rate(snapshot, rates(*given), [None] * 5)] == given

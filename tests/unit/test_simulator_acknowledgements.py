"""Acknowledgements take their part of the links that they go back by, and of no others."""

import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Group, Job, JobDag, Transfer
from echelonflow.model.measured import Measured
from echelonflow.scheduling import policies
from simulator.fluid import simulate

NETWORK = topologies.build("single-switch", {"hosts": 3, "rate_bps": 1e6})
SIZE_BYTES = round(NETWORK.capacity_Bps[0])
SHARE = 0.01


def finish_s(*ends, policy="fair", share=SHARE):
    """When each of the flows with these ends has ended, which are as long as a link carries in a second."""
    steps = tuple(Transfer(f"x{i}", src, dst, SIZE_BYTES, f"x{i}", ()) for i, (src, dst) in enumerate(ends))
    group = Group("x", "x", tuple(step.name for step in steps), tuple(0.0 for _ in steps))
    job = Job("job", JobDag(3, steps, (group,), ()), ("h1", "h2", "h3"), 1)
    record = simulate([job], NETWORK, policies.load(policy), measured=Measured(acknowledgement_share=share))
    found = {flow.flow: flow.finish_s for flow in record.flows}
    return [found[step.name] for step in steps]


def test_one_direction_alone_has_its_links_for_itself():
    assert finish_s((0, 1)) == pytest.approx([1.0], abs=1e-4)


@pytest.mark.parametrize("policy", ["fair", "fifo", "echelonflow"])
def test_both_directions_take_of_each_other(policy):
    """Each gets the share x of its links for which x + 0.01 x = 1."""
    assert finish_s((0, 1), (1, 0), policy=policy) == pytest.approx([1 + SHARE] * 2, rel=2e-4)


def test_a_ring_is_slower_by_the_share_everywhere():
    assert finish_s((0, 1), (1, 2), (2, 0)) == pytest.approx([1 + SHARE] * 3, rel=2e-4)


def test_what_goes_back_is_in_nobody_s_way_where_no_data_goes():
    assert finish_s((0, 1), (0, 2)) == pytest.approx([2.0, 2.0], abs=1e-4)


def test_no_share_is_no_difference():
    assert finish_s((0, 1), (1, 0), share=0.0) == pytest.approx([1.0, 1.0], abs=1e-4)

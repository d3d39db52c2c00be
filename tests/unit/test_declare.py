"""Declarations of placed jobs: ports that name a flow, and spread it over the queues of an egress."""

from __future__ import annotations

from echelonflow.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.declare import FIRST_SOURCE_PORT, declarations

HOSTS = ("h1", "h2", "h3", "h4")


def incast_job(name):
    """Two transfers of every other rank to rank 0."""
    computes = [Compute(f"c{src}", src, 2.0) for src in (1, 2, 3)]
    transfers = [
        Transfer(f"{src} m{m}", src, 0, 1000, "g", f"{src} m{m}", (f"c{src}",)) for m in (0, 1) for src in (1, 2, 3)
    ]
    group = Group("g", "test", tuple(t.name for t in transfers), (0.0,) * len(transfers))
    return Job(name, JobDag(4, (*computes, *transfers), (group,)), HOSTS)


def flows(jobs):
    return [flow for group in declarations(jobs) for flow in group.flows]


def test_no_two_flows_of_a_host_have_the_same_port():
    found = flows([incast_job("a"), incast_job("b")])
    assert len({(flow.src_host, flow.src_port) for flow in found}) == len(found) == 12
    assert min(flow.src_port for flow in found) == FIRST_SOURCE_PORT


def test_flows_that_meet_from_one_host_or_from_several_differ_in_their_low_bits():
    found = flows([incast_job("a")])
    of_h2 = [flow.src_port % 16 for flow in found if flow.src_host == "h2"]
    first_of_each = [flow.src_port % 16 for flow in found if flow.flow.endswith("m0")]
    assert len(set(of_h2)) == 2
    assert len(set(first_of_each)) == 3


def test_every_group_of_a_job_tells_how_much_the_job_computes():
    assert [group.compute_s for group in declarations([incast_job("a")])] == [6.0]

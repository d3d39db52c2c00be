"""Declarations of placed jobs: ports that name a flow, and spread it over the queues of an egress."""

from __future__ import annotations

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.wire import declare
from echelonflow.wire.classes import FLOW_QUEUES
from echelonflow.wire.declare import FIRST_SOURCE_PORT, declarations

HOSTS = ("h1", "h2", "h3", "h4")


def incast_job(name):
    """Two transfers of every other rank to rank 0."""
    computes = [Compute(f"c{src}", src, 2.0) for src in (1, 2, 3)]
    transfers = [
        Transfer(f"{src} m{m}", src, 0, 1000, f"{src} m{m}", (f"c{src}",)) for m in (0, 1) for src in (1, 2, 3)
    ]
    group = Group("g", "test", tuple(t.name for t in transfers), (0.0,) * len(transfers))
    return Job(name, JobDag(4, (*computes, *transfers), (group,)), HOSTS)


def flows(jobs):
    return [flow for group in declarations(jobs) for flow in group.flows]


def queue(flow):
    return flow.src_port % FLOW_QUEUES


def test_no_two_flows_of_a_host_have_the_same_port():
    found = flows([incast_job("a"), incast_job("b")])
    assert len({(flow.src_host, flow.src_port) for flow in found}) == len(found) == 12
    assert min(flow.src_port for flow in found) == FIRST_SOURCE_PORT
    assert max(flow.src_port for flow in found) < FIRST_SOURCE_PORT + 2 * FLOW_QUEUES


def test_flows_that_meet_from_one_host_or_from_several_are_in_queues_of_their_own():
    found = flows([incast_job("a")])
    assert len({queue(flow) for flow in found}) == len(found)  # all arrive at one host


def test_jobs_do_not_share_queues_while_there_are_enough():
    jobs = [incast_job(f"j{place}") for place in range(FLOW_QUEUES)]
    of_job = [
        {queue(flow) for group in declarations(jobs) if group.job == job.name for flow in group.flows} for job in jobs
    ]
    assert [len(queues) for queues in of_job] == [1] * len(jobs)
    assert len(set.union(*of_job)) == len(jobs)
    assert len(flows([*jobs, incast_job("one more")])) == 6 * len(jobs) + 6


def test_a_queue_is_dealt_again_only_after_all_others_where_flows_leave_and_arrive():
    """All to all on 8 hosts, four times: each host's own flows, and those that it gets, go round the queues."""
    transfers = [
        Transfer(f"{turn} {src} {dst}", src, dst, 1000, "g")
        for turn in range(4) for src in range(8) for dst in range(8) if src != dst
    ]  # fmt: skip
    group = Group("g", "test", tuple(t.name for t in transfers), (0.0,) * len(transfers))
    found = flows([Job("a", JobDag(8, tuple(transfers), (group,)), tuple(f"h{i}" for i in range(8)))])
    for end in ("src_host", "dst_host"):
        for host in {getattr(flow, end) for flow in found}:
            there = [queue(flow) for flow in found if getattr(flow, end) == host]
            assert all(len(set(there[i : i + 7])) == 7 for i in range(len(there) - 6))


def test_a_host_may_use_all_its_ports_and_no_more(monkeypatch):
    monkeypatch.setattr(declare, "MAX_FLOWS", 2 * FLOW_QUEUES)
    sent = [Transfer(f"t{i}", 0, 1, 1000, "g") for i in range(2 * FLOW_QUEUES + 1)]

    def job(transfers):
        group = Group("g", "test", tuple(t.name for t in transfers), (0.0,) * len(transfers))
        return Job("a", JobDag(2, tuple(transfers), (group,)), ("h1", "h2"))

    idle = incast_job("b")  # leaves half of the queues to itself until the others are full
    assert len({flow.src_port for flow in flows([job(sent[:-1]), idle]) if flow.src_host == "h1"}) == 2 * FLOW_QUEUES
    with pytest.raises(InputError, match=f"host h1 sends more than {2 * FLOW_QUEUES} flows"):
        declarations([job(sent)])


def test_every_group_of_a_job_tells_how_much_the_job_computes():
    assert [group.compute_s for group in declarations([incast_job("a")])] == [6.0]

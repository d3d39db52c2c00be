"""Which of two jobs on one link is to go first, and Crux's order by that."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.scheduling import policies
from echelonflow.scheduling.correction import Burst, begin_and_rest_s, goes_first, gpus_busy, iteration_behind_s
from echelonflow.wire.messages import FlowClock
from simulator.fluid import simulate

NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})
LINK_BPS = float(NETWORK.capacity_Bps[0])


def burst(compute_s, iteration_s, begin_s, load_s, rest_s=0.0):
    return Burst(compute_s, iteration_s, begin_s, load_s, rest_s)


@pytest.mark.parametrize(
    ("second", "iteration_s"),
    [
        (burst(1.0, 2.0, 1.0, 1.0), 2.0),  # the first one sends in [0, 1), [2, 3), ...: it has its gaps
        (burst(1.0, 1.0, 0.0, 0.5), 1.0),  # sends half a second in each gap, and has to end two iterations in it
        (burst(0.0, 0.5, 0.0, 2.0), 4.0),  # sends all the time
    ],
)
def test_who_goes_second_gets_the_gaps(second, iteration_s):
    first = burst(1.0, 2.0, 0.0, 1.0)
    assert iteration_behind_s(first, second) == pytest.approx(iteration_s, rel=0.03)


def test_who_goes_behind_a_job_that_never_stops_never_ends():
    never = burst(1.0, 1.0, 0.0, 1.0)
    assert iteration_behind_s(never, burst(1.0, 1.0, 0.0, 0.1)) == math.inf
    assert gpus_busy(never, burst(1.0, 1.0, 0.0, 0.1)) == 1.0


def test_a_job_whose_traffic_is_hidden_behind_its_computation_can_wait():
    """Both send for a second in 4 s. The first one's computation ends no sooner for that, the second one waits for it."""
    hidden, exposed = burst(4.0, 4.0, 1.0, 1.0), burst(3.0, 4.0, 3.0, 1.0)
    assert goes_first(hidden, exposed) == 0, "there is room for both, whoever goes first"
    hidden, exposed = burst(4.0, 4.0, 0.5, 2.0), burst(2.0, 4.0, 2.0, 2.0)
    assert goes_first(hidden, exposed) == -goes_first(exposed, hidden)


def test_an_iteration_sends_from_its_first_flow_on():
    flows = [
        FlowClock(1.0, 0.0, 0.0, 3.0, 0, 1.0),
        FlowClock(2.0, 0.0, 0.0, 0.5, 0, 1.5),
        FlowClock(2.5, 0.0, 0.0, 0.2, 0, 1.0),
    ]
    assert begin_and_rest_s(flows) == (1.0, 0.5)
    assert begin_and_rest_s([]) == (0.0, 0.0)


def overlapping(name, compute_s, begin_s, send_s, iterations=30):
    """A job that computes for `begin_s`, then sends while it computes for the rest; both have to end."""
    steps = (
        Compute("before", 0, begin_s),
        Compute("beside", 0, compute_s - begin_s, ("before",)),
        Transfer("t", 0, 1, round(send_s * LINK_BPS), "t", ("before",)),
    )
    dag = JobDag(2, steps, (Group("g", "test", ("t",), (0.0,)),), (("t", "before"), ("beside", "before")))
    return Job(name, dag, ("h1", "h2"), iterations)


def busy(jobs, policy):
    """Mean number of GPUs that compute, while all jobs go on."""
    record = simulate(jobs, NETWORK, policies.load(policy))
    ends = {job.name: max(c.finish_s for c in record.computes if c.job == job.name) for job in jobs}
    until_s = min(ends.values())
    return sum(c.finish_s - c.start_s for c in record.computes if c.finish_s <= until_s) / until_s


@pytest.mark.parametrize("seed", range(8))
def test_of_two_jobs_the_corrected_order_keeps_no_fewer_gpus_busy(seed):
    """Against both orders, simulated: by weights of `job-priority`."""
    rng = random.Random(seed)
    jobs = []
    for name in "ab":
        begin_s = rng.uniform(0.2, 1.0)
        jobs.append(overlapping(name, begin_s + rng.uniform(0.1, 2.0), begin_s, rng.uniform(0.5, 2.0)))
    orders = [
        busy([dataclasses.replace(job, weight=1.0 + (job.name == first)) for job in jobs], "job-priority")
        for first in "ab"
    ]
    assert busy(jobs, "crux(correction=pairs)") >= max(orders) * 0.97

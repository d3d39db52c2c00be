"""The clusters of the growth benchmark are what it says, and so is its exponent."""

from __future__ import annotations

from collections import Counter

import pytest

from echelon.benchmarks import fluid_growth


def test_every_gpu_has_one_rank_and_jobs_share_no_server():
    jobs, network = fluid_growth.cluster(256, 2)
    assert len(jobs) == 8
    ranks = Counter(host for job in jobs for host in job.placement)
    assert set(ranks) == set(network.hosts)
    assert set(ranks.values()) == {fluid_growth.GPUS_OF_SERVER}
    assert all(job.iterations == 2 for job in jobs)


def test_flows_of_an_iteration_are_those_between_servers():
    jobs, _ = fluid_growth.cluster(256, 1)
    flows = sum(not job.is_local(transfer) for job in jobs for transfer in job.dag.transfers)
    assert fluid_growth.flows_of_an_iteration(256) == flows > 0


def test_a_small_case_is_small():
    jobs, network = fluid_growth.small_case()
    assert (len(jobs), len(network.hosts), {job.iterations for job in jobs}) == (2, 4, {2})


@pytest.mark.parametrize(("times_s", "exponent"), [([1.0, 10.0], 1.0), ([1.0, 100.0], 2.0), ([3.0, 3.0], 0.0)])
def test_exponent(times_s, exponent):
    assert fluid_growth.growth((100, 1000), times_s) == pytest.approx(exponent)

"""The benchmark's cluster is what it says, and big enough simulations come out the same twice."""

from __future__ import annotations

from collections import Counter

import pytest

from echelon.benchmarks import fluid_scale
from echelonflow.scheduling import policies
from simulator.fluid import simulate


@pytest.mark.parametrize("jobs_per_server", [1, 2])
def test_every_gpu_of_the_cluster_has_one_rank(jobs_per_server):
    jobs, network = fluid_scale.cluster(1, jobs_per_server=jobs_per_server)
    ranks = Counter(host for job in jobs for host in job.placement)
    assert sum(ranks.values()) == 1024
    assert set(ranks) == set(network.hosts)
    assert set(ranks.values()) == {fluid_scale.GPUS}
    on_servers = Counter(host for job in jobs for host in set(job.placement))
    assert set(on_servers.values()) == {jobs_per_server}
    kinds = {group.kind for job in jobs for group in job.dag.groups}
    assert kinds >= {"all-reduce", "pp-forward", "pp-backward", "gathers", "scatter", "push", "pull"}


def test_the_same_jobs_come_out_the_same_twice():
    def once():
        jobs, network = fluid_scale.cluster(1)
        return simulate(jobs[:4], network, policies.load("echelonflow"))

    one, other = once(), once()
    assert one == other
    assert one.flows

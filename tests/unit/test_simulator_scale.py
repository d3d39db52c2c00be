"""The benchmark's cluster is what it says, and big enough simulations come out the same twice."""

from __future__ import annotations

from collections import Counter

from echelonflow import policies
from experiments.benchmarks import fluid_scale
from simulator.fluid import simulate


def test_every_gpu_of_the_cluster_has_one_rank():
    jobs, network = fluid_scale.cluster(1)
    ranks = Counter(host for job in jobs for host in job.placement)
    assert sum(ranks.values()) == 1024
    assert set(ranks) == set(network.hosts)
    assert set(ranks.values()) == {fluid_scale.GPUS}
    kinds = {group.kind for job in jobs for group in job.dag.groups}
    assert kinds >= {"all-reduce", "pp-forward", "pp-backward", "gathers", "scatter", "push", "pull"}


def test_the_same_jobs_come_out_the_same_twice():
    def once():
        jobs, network = fluid_scale.cluster(1)
        return simulate(jobs[:4], network, policies.load("echelonflow"))

    one, other = once(), once()
    assert one == other
    assert one.flows

"""Every job scheduler in the simulator: it comes through whatever is late, and the best one is as good as can be."""

from __future__ import annotations

import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from simulator.realism import Realism
from tests.unit.test_priority_theorem import NETWORK, SEARCHES, SLOT_BYTES, about, anything_but_idling, small_models
from traffic.workloads import job_schedulers
from traffic.workloads.in_job import build_job_dag
from traffic.workloads.tensors import Setting, Tensor, TensorModel

SWITCH = topologies.build("single-switch", {"hosts": 6, "rate_bps": 1e8})
RATE_BPS = SWITCH.capacity_Bps[0]
CASES = [(name, architecture) for name in job_schedulers.names() for architecture in job_schedulers.architectures(name)]


def placed(name, scheduler, model, setting, hosts, iterations):
    dag, discipline = build_job_dag(model, job_schedulers.load(scheduler).plan(model, setting), setting, scheduler)
    return Job(name, dag, tuple(hosts[: dag.ranks]), iterations, discipline=discipline)


@pytest.mark.parametrize(("scheduler", "architecture"), CASES)
def test_late_computations_and_a_rival_stall_nobody(scheduler, architecture):
    sizes = [int(RATE_BPS * share) for share in (0.05, 0.14, 0.08)]
    model = TensorModel(tuple(Tensor(f"t{at}", size, 0.02, 0.04, 0.001) for at, size in enumerate(sizes)))
    setting = Setting(
        architecture, workers=4, servers=2 if architecture == "parameter-server" else 0, rate_Bps=RATE_BPS
    )
    if scheduler == "bytescheduler":
        scheduler = f"bytescheduler(partition={sizes[0]} B, credit={sizes[0]} B)"
    hosts = SWITCH.hosts
    jobs = [placed(str(n), scheduler, model, setting, each, 2) for n, each in enumerate((hosts, hosts[::-1]))]
    for policy in ("fair", "echelonflow"):
        record = simulate(jobs, SWITCH, policies.load(policy), realism=Realism(late_s=0.03))
        assert len(record.flows) == sum(2 * len(job.dag.transfers) for job in jobs)
        assert all(flow.ready_s is None or flow.ready_s < flow.release_s for flow in record.flows)


@pytest.mark.parametrize("architecture", SEARCHES)
def test_bytescheduler_with_tiny_partitions_reaches_the_least_that_the_search_finds(architecture):
    served = architecture == "parameter-server"
    setting = Setting(architecture, workers=1 if served else 2, servers=int(served), rate_Bps=NETWORK.capacity_Bps[0])
    scheduler = f"bytescheduler(partition={SLOT_BYTES} B, credit={SLOT_BYTES} B)"
    for layers in small_models(8):
        model = TensorModel(
            tuple(
                Tensor(f"t{at}", layer.size_bytes * SLOT_BYTES, layer.forward_s, layer.backward_s)
                for at, layer in enumerate(layers)
            )
        )
        if max(layer.size_bytes for layer in layers) == 1:
            continue  # nothing to cut
        record = simulate([placed("j", scheduler, model, setting, NETWORK.hosts, 2)], NETWORK, policies.load("fair"))
        ends_s = {c.iteration: c.finish_s for c in record.computes if c.rank == 0 and c.kind == "forward"}
        assert ends_s[1] - ends_s[0] == about(SEARCHES[architecture](layers, anything_but_idling))

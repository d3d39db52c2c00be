"""What a job scheduler makes of two layers, simulated, against what can be worked out by hand.

A layer goes forward in f and backward in b. Its tensor takes a0 or a1 on a link, where a1 is longer than b. There are two
workers on a ring (each sends as much as the tensor has), or one worker and one server.
"""

from __future__ import annotations

import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.scheduling import policies
from results.analysis.rows import iteration_rows
from simulator.fluid import simulate
from tests.unit.tensor_cases import model_of
from traffic.workloads import job_schedulers
from traffic.workloads.tensors import PARAMETER_SERVER, Setting

F_S, B_S, A0_S, A1_S = 0.05, 0.1, 0.1, 0.3
PASSES_S = 2 * F_S
PREEMPTED_S = 2 * B_S + A0_S + max(F_S, A1_S - B_S) + F_S
"""l1 is sent until l0 is ready, then l0, then the rest of l1 while l0 goes forward."""
PARTITION = "partition=50 kB, credit=50 kB"


def period_s(text, architecture):
    """An iteration in the long run."""
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 80e6})
    rate_Bps = network.capacity_Bps[0]
    model = model_of(round(A0_S * rate_Bps), round(A1_S * rate_Bps), forward_s=F_S, backward_s=B_S, update_s=0.0)
    served = architecture == PARAMETER_SERVER
    setting = Setting(architecture, 1 if served else 2, 1 if served else 0, rate_Bps)
    dag, discipline = job_schedulers.load(text).job(model, setting, {})
    job = Job("job", dag, tuple(network.hosts), 3, discipline=discipline)
    record = simulate([job], network, policies.load("fair"))
    return iteration_rows(record, [job])[1].duration_s


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("fifo", B_S + A1_S + A0_S + PASSES_S),
        ("fifo(framework=mxnet)", B_S + A1_S + A0_S + PASSES_S),  # l0 comes last, so nothing is gained
        ("ddp(first=1 B, bucket=1 B)", B_S + A1_S + A0_S + PASSES_S),
        ("ddp(first=25 MB)", 2 * B_S + A1_S + A0_S + PASSES_S),  # the first bucket takes both layers
        ("tac", B_S + A1_S + A0_S + PASSES_S),  # l1 is whole, and cannot be overtaken
        (f"bytescheduler({PARTITION})", PREEMPTED_S),
        (f"bytescheduler({PARTITION}, barrier=true)", B_S + A1_S + A0_S + PASSES_S),
        ("dear(layers=1)", B_S + A1_S / 2 + A0_S + max(F_S, A1_S / 2) + F_S),
        ("dear(layers=2)", 2 * B_S + A1_S + A0_S + PASSES_S),
    ],
)
def test_on_a_ring(text, expected_s):
    assert period_s(text, "ring") == pytest.approx(expected_s, rel=0.03)


@pytest.mark.parametrize(
    ("text", "expected_s"),
    [
        ("fifo", B_S + 2 * A1_S + A0_S + PASSES_S),  # l1 is pulled when it has been pushed, then l0
        ("fifo(framework=tensorflow)", B_S + 2 * (A1_S + A0_S) + PASSES_S),
        ("tic", B_S + A1_S + A0_S + A0_S + max(F_S, A1_S) + F_S),  # l0 is pulled first, l1 while it goes forward
        ("tac", B_S + A1_S + A0_S + A0_S + max(F_S, A1_S) + F_S),
        ("random(seed=1)", B_S + 2 * (A1_S + A0_S) + PASSES_S),  # this seed pulls l1 first
        ("p3(slice=50 kB)", PREEMPTED_S),  # a slice is pulled while the next one is pushed
        (f"bytescheduler({PARTITION})", PREEMPTED_S),
    ],
)
def test_with_a_server(text, expected_s):
    assert period_s(text, PARAMETER_SERVER) == pytest.approx(expected_s, rel=0.03)

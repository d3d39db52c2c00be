"""One worker that stands for all: the fast simulation says what the engine says, and no order beats the bound."""

from __future__ import annotations

import itertools
import random

import pytest

from echelonflow.errors import InputError, RunError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.one_of_each import OneOfEach
from echelonflow.scheduling import policies
from simulator.alone import simulate_alone
from simulator.fluid import simulate
from simulator.realism import Realism
from traffic.workloads import job_schedulers
from traffic.workloads.in_job import build_job_dag
from traffic.workloads.one_of_each import bound, one_of_each
from traffic.workloads.tensors import PARAMETER_SERVER, Setting, Tensor, TensorModel

ITERATIONS = 4
PART = 120_000
"""Every size is a multiple, so that shares of it are whole bytes, and as large as one formula says."""
TEXTS = (
    "fifo",
    "fifo(framework=tensorflow)",
    "ddp(bucket=600 kB, first=120 kB)",
    "random",
    "p3(slice=120 kB)",
    "tic",
    "tac",
    "tac(crosses=true)",
    "dear(bucket=600 kB)",
    "bytescheduler(partition=120 kB, credit=240 kB)",
    "bytescheduler(partition=120 kB, credit=120 kB)",
    "bytescheduler(partition=120 kB, credit=480 kB, overdraw=false)",
    "bytescheduler(partition=120 kB, credit=120 kB, barrier=true)",
)


def _case(seed: int) -> tuple[TensorModel, Setting, random.Random]:
    rng = random.Random(seed)
    rate_Bps = 10.0e6
    tensors = [
        Tensor(
            f"l{i}",
            PART * rng.randint(1, 6),
            rng.uniform(0.001, 0.1),
            rng.uniform(0.001, 0.2),
            rng.choice([0.0, rng.uniform(0.001, 0.02)]),
        )
        for i in range(rng.randint(4, 6))
    ]
    tensors[0] = Tensor("l0", 4 * PART, 0.01, 0.02, 0.001)
    architecture = rng.choice([PARAMETER_SERVER, "ring", "reduce-scatter"])
    workers = rng.choice([1, 2, 3, 4, 5])
    servers = rng.choice([1, 2, 3]) if architecture == PARAMETER_SERVER else 0
    return TensorModel(tuple(tensors)), Setting(architecture, workers, servers, rate_Bps), rng


def _network(setting: Setting, ranks: int):
    options = {"ports": max(ranks, 2), "rate_bps": setting.rate_Bps * 8, "rate_of": "payload"}
    return topologies.build("big-switch", options)


def _by_the_engine(model, plan, setting, realism=None):
    dag, discipline = build_job_dag(model, plan, setting)
    hosts = tuple(f"h{rank + 1}" for rank in range(dag.ranks))
    job = Job("whole", dag, hosts, ITERATIONS, discipline=discipline)
    extra = {} if realism is None else {"realism": realism}
    record = simulate([job], _network(setting, dag.ranks), policies.load("fair"), **extra)
    ends_s = [0.0] * ITERATIONS
    for compute in record.computes:
        if compute.kind == "backward":
            ends_s[compute.iteration] = max(ends_s[compute.iteration], compute.finish_s)
    return ends_s


def _schedulers(setting: Setting):
    found = map(job_schedulers.load, TEXTS)
    return [scheduler for scheduler in found if setting.architecture in scheduler.architectures]


@pytest.mark.parametrize("seed", range(16))
def test_fast_simulation_says_what_the_engine_says(seed):
    model, setting, _ = _case(seed)
    for scheduler in _schedulers(setting):
        plan = scheduler.plan(model, setting)
        fast = simulate_alone(one_of_each(model, plan, setting, ITERATIONS))
        assert fast.backward_ends_s == pytest.approx(_by_the_engine(model, plan, setting), rel=1e-6), scheduler.name


@pytest.mark.parametrize("seed", range(30))
def test_no_order_beats_the_bound(seed):
    model, setting, _ = _case(100 + seed)
    least_s = bound(model, setting).least_s
    for scheduler in _schedulers(setting):
        plan = scheduler.plan(model, setting)
        ends_s = simulate_alone(one_of_each(model, plan, setting, ITERATIONS)).backward_ends_s
        assert min(b - a for a, b in itertools.pairwise(ends_s)) >= least_s * (1 - 1e-9), scheduler.name


@pytest.mark.parametrize("architecture", ["ring", PARAMETER_SERVER])
def test_small_partitions_by_layer_come_to_the_bound(architecture):
    """With partitions that cost nothing, what is left is the last one on its way."""
    model, _, _ = _case(7)
    setting = Setting(architecture, 4, 1 if architecture == PARAMETER_SERVER else 0, 4.0e6)
    least_s = bound(model, setting).least_s
    over = []
    for partition in (120_000, 12_000):
        text = f"bytescheduler(partition={partition} B, credit={partition} B)"
        plan = job_schedulers.load(text).plan(model, setting)
        found_s = simulate_alone(one_of_each(model, plan, setting, ITERATIONS)).iteration_s()
        over.append(found_s / least_s - 1)
    assert -1e-9 <= over[1] <= over[0] + 1e-9
    assert over[1] < 0.03


@pytest.mark.parametrize("seed", range(10))
def test_iterations_behind_the_second_are_all_alike(seed):
    """Nothing is on its way when the last layer goes forward: so a grid may look at one iteration."""
    model, setting, _ = _case(200 + seed)
    for scheduler in _schedulers(setting):
        one = one_of_each(model, scheduler.plan(model, setting), setting, 5)
        ends_s = simulate_alone(one).backward_ends_s
        later_s = [b - a for a, b in itertools.pairwise(ends_s[1:])]
        assert later_s == pytest.approx([later_s[0]] * len(later_s)), scheduler.name


@pytest.mark.parametrize("seed", range(6))
def test_from_end_to_end_an_iteration_takes_what_it_takes_from_backward_pass_to_backward_pass(seed):
    """What trails behind the backward pass is the same in every iteration: what was measured by either stands."""
    model, setting, _ = _case(seed)
    for scheduler in _schedulers(setting):
        run = simulate_alone(one_of_each(model, scheduler.plan(model, setting), setting, 5))
        backward_s = run.backward_ends_s
        assert all(end_s >= before_s for end_s, before_s in zip(run.ends_s, backward_s, strict=True))
        for skip in (1, 2):
            between_s = (backward_s[-1] - backward_s[skip - 1]) / (5 - skip)
            assert run.iteration_s(skip) == pytest.approx(between_s), scheduler.name


def test_latency_of_one_transfer_at_a_time_is_the_engine_s():
    """With one flow in flight at each link a decision that comes late costs what a transfer's start does."""
    model, _, _ = _case(3)
    setting = Setting("ring", 3, rate_Bps=10.0e6)
    plan = job_schedulers.load("bytescheduler(partition=120 kB, credit=120 kB)").plan(model, setting)
    fast = simulate_alone(one_of_each(model, plan, setting, ITERATIONS), latency_s=0.004)
    slow = _by_the_engine(model, plan, setting, Realism(decision_latency_s=0.004))
    assert fast.backward_ends_s == pytest.approx(slow, rel=1e-6)


def _two_flows(capacity_Bps, crossings):
    steps = (
        Compute("b", 0, 1.0, (), "backward"),
        Transfer("x", 0, 1, 100, "x", ("b",)),
        Transfer("y", 0, 1, 100, "y", ("b",)),
        Compute("end", 0, 0.0, ("x", "y")),
    )
    dag = JobDag(2, steps, (Group("g", "k", ("x", "y"), (0.0, 0.0)),))
    return OneOfEach(Job("j", dag, ("h1", "h2")), crossings, capacity_Bps)


@pytest.mark.parametrize(
    ("capacity_Bps", "crossings", "end_s"),
    [
        ((100.0,), {"x": ((0, 1),), "y": ((0, 1),)}, 3.0),
        ((100.0,), {"x": ((0, 3),), "y": ((0, 1),)}, 1 + 4.0),  # three like x beside one y, all at a quarter
        ((100.0, 25.0), {"x": ((0, 1), (1, 1)), "y": ((0, 1),)}, 1 + 4.0),  # x is held back, y takes the rest
        ((100.0, 100.0), {"x": ((0, 1),), "y": ((1, 2),)}, 1 + 2.0),
    ],
)
def test_rates_are_max_min_fair(capacity_Bps, crossings, end_s):
    assert simulate_alone(_two_flows(capacity_Bps, crossings)).ends_s == pytest.approx((end_s,))


def test_iterations_that_are_left_out_leave_some():
    run = simulate_alone(_two_flows((100.0,), {"x": ((0, 1),), "y": ((0, 1),)}))
    with pytest.raises(RunError, match="1 iterations of which 1 are left out"):
        run.iteration_s()


@pytest.mark.parametrize(
    ("capacity_Bps", "crossings", "says"),
    [
        ((100.0,), {"x": ((0, 1),)}, "'y' crosses no link"),
        ((100.0,), {"x": ((0, 1),), "y": ((1, 1),)}, "crosses link 1"),
        ((100.0,), {"x": ((0, 1),), "y": ((0, 0),)}, "with 0 flows"),
        ((0.0,), {"x": ((0, 1),), "y": ((0, 1),)}, "carries 0.0 B/s"),
    ],
)
def test_links_that_do_not_fit_are_refused(capacity_Bps, crossings, says):
    with pytest.raises(InputError, match=says):
        _two_flows(capacity_Bps, crossings)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (Setting("tree", 4, rate_Bps=1e6), "tree: its ranks are not alike"),
        (Setting(PARAMETER_SERVER, 4, 4, 1e6, colocated=True), "with colocated servers"),
        (Setting("ring", 4), "needs the rate"),
    ],
)
def test_what_is_not_symmetric_is_refused(setting, says):
    model, _, _ = _case(1)
    plan = job_schedulers.load("fifo").plan(model, setting)
    with pytest.raises(InputError, match=says):
        one_of_each(model, plan, setting, ITERATIONS)

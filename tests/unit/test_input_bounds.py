"""Bounds on what a few words can make large: held before it is made, told with the option, and wide enough for real work."""

from __future__ import annotations

import itertools
import time
import tracemalloc
import typing
from pathlib import Path

import pytest

from echelon.experiment import schema
from echelon.experiment.extent import MOST_EMULATED_RUNS, Extent, check_emulation
from echelonflow import bounds
from echelonflow.bounds import BeyondBoundsError
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.wire.declare import MAX_FLOWS
from tests.unit.paradigm_cases import CASES, built
from traffic.workloads import paradigms, scaling
from traffic.workloads.collectives import Algorithm, Collective, expand, flows_of, waits_of
from traffic.workloads.dag_builder import DagBuilder

SOON_S = 1.0
LITTLE_BYTES = 30e6


def refused_soon(build, words):
    """InputError with `words`, raised at once and in little memory."""
    tracemalloc.start()
    started_s = time.perf_counter()
    try:
        with pytest.raises(InputError, match=words):
            build()
        took_s, most_bytes = time.perf_counter() - started_s, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert took_s < SOON_S
    assert most_bytes < LITTLE_BYTES


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("single-switch", {"hosts": 10**7}, "hosts: 10,000,000 is too many: 10,000,000 hosts are asked for; the bound is 10,000"),
        ("single-switch", {"hosts": 1}, "hosts: 1 is too few"),
        ("dumbbell", {"hosts": 10**9}, "hosts: 1,000,000,000 is too many"),
        ("big-switch", {"ports": 10**8}, "ports: 100,000,000 is too many"),
        ("leaf-spine", {"leaves": 1000, "spines": 1, "hosts_per_leaf": 1000}, r"\(with .*\) is too many: 1,000,000 hosts"),
        ("leaf-spine", {"leaves": 1000, "spines": 5000, "hosts_per_leaf": 1}, r"spines: 5,000 \(with .*\) .*5,001,000 cables"),
        ("leaf-spine", {"leaves": 1, "spines": 10**9, "hosts_per_leaf": 2}, "spines: 1,000,000,000"),
        ("single-switch", {"hosts": 2, "mtu_bytes": 40}, "mtu: 40 B is beyond the bounds of a packet"),
        ("big-switch", {"ports": 2, "mtu_bytes": 40, "rate_of": "payload"}, "mtu: 40 B is beyond the bounds of a packet"),
        ("single-switch", {"hosts": 2, "mtu_bytes": 10**9}, "mtu: 1,000,000,000 B is beyond"),
        ("single-switch", {"hosts": 2, "rate_bps": float("inf")}, "a rate must be positive and finite"),
    ],
)  # fmt: skip
def test_networks_are_refused_before_they_are_made(name, options, words):
    refused_soon(lambda: topologies.build(name, {"rate_bps": 1e8, **options}), words)


LAYER = {"forward_s": 1.0, "backward_s": 1.0}
STAGE = {"forward_s": 1.0, "backward_s": 1.0, "activation_bytes": 1000}
HUGE = [
    ("pipeline", {"stages": 10**8, "micro_batches": 1, "forward_s": 1.0, "activation_bytes": 1}),
    ("pipeline", {"stages": 2, "micro_batches": 10**9, "forward_s": 1.0, "activation_bytes": 1}),
    ("gpipe", {"stages": 10**8, "micro_batches": 1, **STAGE}),
    ("gpipe", {"stages": 4, "micro_batches": 10**8, **STAGE}),
    ("pipeline-1f1b", {"stages": 10_000, "micro_batches": 1000, **STAGE}),
    ("interleaved-1f1b", {"stages": 2, "chunks": 10**9, "micro_batches": 2, **STAGE}),
    ("pipedream", {"stages": 100, "micro_batches": 10**6, **STAGE}),
    ("data-parallel", {"ranks": 10**9, "layers": 2, "parameter_bytes": 9, **LAYER}),
    ("data-parallel", {"ranks": 5000, "layers": 2, "parameter_bytes": 9, "algorithm": "direct", **LAYER}),
    ("data-parallel", {"ranks": 2, "layers": 10**9, "parameter_bytes": 9, **LAYER}),
    ("data-parallel", {"ranks": 2, "layers": 2, "parameter_bytes": 9, "micro_batches": 10**9, **LAYER}),
    ("parameter-server", {"workers": 5000, "servers": 5000, "layers": 2, "parameter_bytes": 9, **LAYER}),
    ("tensor-parallel", {"ranks": 2, "layers": 2, "activation_bytes": 9, "all_reduces": 10**9, **LAYER}),
    ("tensor-parallel", {"ranks": 10_000, "layers": 1000, "activation_bytes": 9, **LAYER}),
    ("fsdp", {"ranks": 10_000, "layers": 100, "parameter_bytes": 9, **LAYER}),
    ("zero", {"ranks": 10_000, "layers": 1000, "parameter_bytes": 9, "bucket_bytes": 1, **LAYER}),
    ("expert-parallel", {"ranks": 2000, "layers": 2, "dispatch_bytes": 9, **LAYER}),
    (
        "hybrid",
        {"tensor": 99, "pipeline": 99, "data": 99, "layers": 99, "micro_batches": 9, **STAGE, "parameter_bytes": 9},
    ),
    (
        "hybrid",
        {"tensor": 1, "pipeline": 200, "data": 2, "layers": 5000, "micro_batches": 1, **STAGE, "parameter_bytes": 9},
    ),
]


@pytest.mark.parametrize(("name", "options"), HUGE, ids=[f"{name}-{i}" for i, (name, _) in enumerate(HUGE)])
def test_jobs_are_refused_before_they_are_made(name, options):
    refused_soon(lambda: paradigms.build(name, options), "are asked for; the bound is ")


@pytest.mark.parametrize("case", CASES)
def test_what_is_expected_of_a_job_is_no_more_than_it_has_and_no_less_than_half(case, monkeypatch):
    expected = []
    monkeypatch.setattr(DagBuilder, "expect", lambda _, steps: expected.append(steps))
    steps = len(built(case).steps)
    assert len(expected) == 1
    assert steps / 2 <= expected[0] <= steps


def test_the_size_of_a_collective_is_known_without_making_it():
    tried = 0
    pairs = itertools.product(typing.get_args(Collective), typing.get_args(Algorithm), (1, 2, 3, 4, 8, 13, 16))
    for collective, algorithm, ranks in pairs:
        after = [("a", "b")] * ranks
        try:
            found = expand("c", collective, algorithm, ranks=range(ranks), size_bytes=1000, after=after)
        except InputError:  # halving-doubling needs a power of two
            continue
        tried += 1
        assert flows_of(collective, algorithm, ranks) == len(found.transfers), (collective, algorithm, ranks)
        waits = sum(len(flow.after) for flow in found.transfers)
        assert waits <= waits_of(collective, algorithm, after), (collective, algorithm, ranks)
    assert tried > 100


def test_dependencies_are_bounded_as_well_as_steps():
    builder = DagBuilder(3, most_waits=5)
    builder.compute(0, "a", 1.0)
    builder.compute(0, "b", 1.0, ["a"])
    with pytest.raises(BeyondBoundsError, match="wait for more than 5 others"):
        builder.collective("c", "all-reduce", "direct", range(3), 9, [("b",)] * 3, kind="k")


def test_a_large_simulation_is_within_the_bounds():
    """Thousands of GPUs: what a fluid simulation is for."""
    network = topologies.build("leaf-spine", {"leaves": 64, "spines": 16, "hosts_per_leaf": 64, "rate_bps": 1e11})
    dag = paradigms.build("data-parallel", {"ranks": 2048, "layers": 24, "parameter_bytes": 10**8, **LAYER})
    extent = Extent()
    extent.add(Job("j", dag, network.hosts[:2048], iterations=10))
    assert not extent.exceeded
    DagBuilder(1024).expect(1024 * 48 * 5)


def test_jobs_are_counted_together_and_no_more_are_made_after_too_many():
    entry = {
        "name": "a",
        "paradigm": "fsdp",
        "ranks": 700,
        "layers": 80,
        "forward": "1 s",
        "backward": "1 s",
        "parameter": "1 MB",
    }
    data = {
        "name": "many",
        "network": {"topology": "single-switch", "hosts": 700, "rate": "1 Gbit/s"},
        "jobs": [{**entry, "name": f"j{i}", "layers": 20000 if i else 2} for i in range(200)],
        "policies": ["fair"],
    }
    with pytest.raises(InputError) as refused:
        schema.check(data, Path("e.yaml"))
    assert str(refused.value) == (
        "e.yaml: jobs.1.layers: 20,000 (with ranks 700) is too many: 20,000 layers are asked for; the bound is 10,000"
    )


def test_iterations_of_large_jobs_are_bounded():
    dag = paradigms.build("pipeline", {"stages": 2, "micro_batches": 100, "forward_s": 1.0, "activation_bytes": 9})
    with pytest.raises(
        BeyondBoundsError, match=r"iterations: 1,000,000 \(with steps 300\) is too many: 300,000,000 steps"
    ):
        Extent().add(Job("j", dag, ("h1", "h2"), iterations=10**6))


def test_an_emulation_has_tighter_bounds():
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e8})
    small, large = (
        Job(
            "j",
            paradigms.build("pipeline", {"stages": 2, "micro_batches": m, "forward_s": 1.0, "activation_bytes": 9}),
            network.hosts,
        )
        for m in (2, 60_000)
    )
    check_emulation(network, [small], MOST_EMULATED_RUNS, 1)
    with pytest.raises(BeyondBoundsError, match=rf"repeats: 30,000 .*each has a port.* {MOST_EMULATED_RUNS:,}"):
        check_emulation(network, [small], 30_000, 1)
    with pytest.raises(BeyondBoundsError, match="180,000 emulated steps in an iteration"):
        check_emulation(network, [large], 1, 1)
    many = topologies.build("single-switch", {"hosts": 600, "rate_bps": 1e8})
    with pytest.raises(BeyondBoundsError, match="hosts: 600 is too many: 600 emulated hosts"):
        check_emulation(many, [small], 1, 1)
    assert bounds.MOST_EMULATED_STEPS <= MAX_FLOWS  # so that no host runs out of source ports


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf"), 1e300, 1e-300])
def test_factors_of_scaling_are_bounded(factor):
    dag = paradigms.build("pipeline", {"stages": 2, "micro_batches": 1, "forward_s": 1.0, "activation_bytes": 9})
    for given in ({"bandwidth": factor, "time": 1.0}, {"bandwidth": 1.0, "time": factor}):
        with pytest.raises(InputError, match="is not a number from 1e-06 to 1,000,000"):
            scaling.scale(dag, **given)

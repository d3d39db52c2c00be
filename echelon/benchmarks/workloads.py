"""How long it takes to make a 3-D job of 1,024 ranks, and to read other people's traces; nothing is simulated."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echelon.benchmarks import Figure, Say, _traces
from echelon.benchmarks._own_process import timed_in_own_process
from echelon.experiment.import_jobs import import_files
from echelon.experiment.jobs import find_profile
from traffic.workloads import formats, profile, traces
from traffic.workloads.paradigms import hybrid

KINETO = "kineto/nccl_allreduce_2gpu_one_step.json.gz"
MOST_IMPORT_S = 2.0

PROFILE = "gpt2-xl-b1-s512-cpu"
THREE_D: dict[str, Any] = {"tensor": 8, "pipeline": 8, "data": 16, "micro_batches": 8}
MOST_DAG_S, MOST_DAG_GB = 10.0, 2.0
EXPORTED: dict[str, Any] = {"tensor": 2, "pipeline": 4, "data": 2, "micro_batches": 8}
"""A smaller one, written as Chakra traces and read back: what exported files of some MB take."""


def run(repeat: int, say: Say) -> list[Figure]:
    """Medians of `repeat`, each in a fresh process; a trace that is not there is left out and reported."""
    what = f"3-D job of 8 x 8 x 16 = 1,024 ranks ({PROFILE}, 8 micro-batches): its DAG built"
    figures = [timed_in_own_process(what, MOST_DAG_S, repeat, say, build_three_d, most_GB=MOST_DAG_GB)]
    if (facebook := _traces.find(_traces.FACEBOOK, say)) is not None:
        what = f"reading {facebook.name}, {facebook.stat().st_size / 1e3:.0f} kB, to run it as a trace"
        figures.append(timed_in_own_process(what, MOST_IMPORT_S, repeat, say, read_trace, str(facebook)))
        what = "the same, made a job of a step for each flow"
        figures.append(timed_in_own_process(what, None, repeat, say, read_job, "coflow-benchmark", [str(facebook)], {}))
    if (kineto := _traces.find(KINETO, say)) is not None:
        what = f"importing {kineto.name}, {kineto.stat().st_size / 1e3:.0f} kB packed"
        options = {"symmetric": True}
        figures.append(
            timed_in_own_process(what, MOST_IMPORT_S, repeat, say, read_job, "kineto", [str(kineto)], options)
        )
    with tempfile.TemporaryDirectory(prefix="echelon-workloads-") as folder:
        job = hybrid.from_profile(profile.read(find_profile(PROFILE)), **EXPORTED)
        written = formats.write_chakra(job, Path(folder) / "job")
        size_MB = sum(path.stat().st_size for path in written) / 1e6
        what = f"importing a job of ours from Chakra traces ({len(written)} ranks, {size_MB:.1f} MB)"
        figures.append(
            timed_in_own_process(what, None, repeat, say, read_job, "chakra", [str(path) for path in written], {})
        )
    return figures


def build_three_d() -> tuple[float, str]:
    """Seconds from the profile's file to the job, and its size."""
    started_s = time.perf_counter()
    dag = hybrid.from_profile(profile.read(find_profile(PROFILE)), **THREE_D)
    elapsed_s = time.perf_counter() - started_s
    return elapsed_s, f"{len(dag.transfers):,} flows, {len(dag.computes):,} computations, {len(dag.groups):,} groups"


def read_trace(file: str) -> tuple[float, str]:
    """Seconds that reading a trace of Coflows takes, and what is in it."""
    started_s = time.perf_counter()
    trace = traces.read("coflow-benchmark", Path(file), {})
    return time.perf_counter() - started_s, f"{trace.coflows:,} Coflows, {trace.flows:,} flows"


def read_job(name: str, files: Sequence[str], options: dict[str, Any]) -> tuple[float, str]:
    """Seconds that importing `files` of format `name` takes, and what is in the job."""
    started_s = time.perf_counter()
    dag = import_files(name, [Path(file) for file in files], options).dag
    elapsed_s = time.perf_counter() - started_s
    return elapsed_s, f"{len(dag.transfers):,} flows, {len(dag.computes):,} computations"

"""How long it takes to make a 3-D job of 1,024 ranks, and to read other people's traces; nothing is simulated."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.benchmarks import Figure, Say
from experiments.benchmarks._apart import timed_apart
from experiments.import_jobs import import_files
from experiments.jobs import find_profile
from traffic import formats, profile, traces
from traffic.paradigms import hybrid

DATA_VARIABLE = "ECHELON_TRACES"
"""Names a folder with the traces of `FILES`, none of which is shipped: other people's, some without a licence."""
DATA_PLACE = Path(__file__).parents[3] / "shared" / "data"
FILES: Sequence[tuple[str, str]] = (
    ("coflow-benchmark", "coflow-benchmark/FB2010-1Hr-150-0.txt"),
    ("kineto", "kineto/nccl_allreduce_2gpu_one_step.json.gz"),
)
"""Format and file: the largest there are, as they are and when unpacked."""
MOST_IMPORT_S = 2.0

PROFILE = "gpt2-xl-b1-s512-cpu"
THREE_D: dict[str, Any] = {"tensor": 8, "pipeline": 8, "data": 16, "micro_batches": 8}
MOST_DAG_S, MOST_DAG_GB = 10.0, 2.0
EXPORTED: dict[str, Any] = {"tensor": 2, "pipeline": 4, "data": 2, "micro_batches": 8}
"""A smaller one, written as Chakra traces and read back: what exported files of some MB take."""


def run(repeat: int, say: Say) -> list[Figure]:
    """Medians of `repeat`, each in a fresh process; a trace that is not there is left out, and said."""
    what = f"3-D job of 8 x 8 x 16 = 1,024 ranks ({PROFILE}, 8 micro-batches): its DAG built"
    figures = [timed_apart(what, MOST_DAG_S, repeat, say, build_three_d, most_GB=MOST_DAG_GB)]
    place = Path(os.environ.get(DATA_VARIABLE, DATA_PLACE))
    for name, file in FILES:
        path = place / file
        if not path.is_file():
            say(f"{file} left out: it is not in {place}; set {DATA_VARIABLE} to a folder that has it")
            continue
        what = f"import of {path.name} ({path.stat().st_size / 1e3:.0f} kB)"
        figures.append(timed_apart(what, MOST_IMPORT_S, repeat, say, read_file, name, [str(path)]))
    with tempfile.TemporaryDirectory(prefix="echelon-workloads-") as folder:
        job = hybrid.from_profile(profile.read(find_profile(PROFILE)), **EXPORTED)
        written = formats.write_chakra(job, Path(folder) / "job")
        size_MB = sum(path.stat().st_size for path in written) / 1e6
        what = f"import of a job of ours as Chakra traces ({len(written)} ranks, {size_MB:.1f} MB)"
        figures.append(timed_apart(what, None, repeat, say, read_file, "chakra", [str(path) for path in written]))
    return figures


def build_three_d() -> tuple[float, str]:
    """Seconds from the profile's file to the job, and its size."""
    started_s = time.perf_counter()
    dag = hybrid.from_profile(profile.read(find_profile(PROFILE)), **THREE_D)
    elapsed_s = time.perf_counter() - started_s
    return elapsed_s, f"{len(dag.transfers):,} flows, {len(dag.computes):,} computations, {len(dag.groups):,} groups"


def read_file(name: str, files: Sequence[str]) -> tuple[float, str]:
    """Seconds that reading `files` of format (or trace format) `name` takes, and what is in them."""
    started_s = time.perf_counter()
    if name in traces.names():
        trace = traces.read(name, Path(files[0]), {})
        return time.perf_counter() - started_s, f"{trace.flows:,} flows"
    options = {"symmetric": True} if name == "kineto" else {}
    imported = import_files(name, [Path(file) for file in files], options)
    elapsed_s = time.perf_counter() - started_s
    return elapsed_s, f"{len(imported.dag.transfers):,} flows, {len(imported.dag.computes):,} computations"

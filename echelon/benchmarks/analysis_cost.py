"""What results cost beside the simulation: processor time and memory of tables, pictures and files, at scale.

The jobs are made as a SimAI table of transformer layers, on 32 ranks of which eight are tensor-parallel: some 19,000 steps
an iteration. One fresh process simulates them under every policy and does nothing else. Another carries out all that
`echelon run --backend fluid` does. What the second takes beyond the first is outside the simulation: interpreter, libraries,
reading the experiment, records, tables, pictures, report. Times are of the processor, medians over repeats.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._own_process import in_own_process
from echelon.experiment import schema
from echelon.running import runner
from echelon.running.simulated import predict
from echelonflow.records.progress import Analysing, Progress
from results.analysis.shown import Pictures

LAYERS, RANKS, TENSOR = 66, 32, 8
POLICIES = ("fair", "coflow(grouping=collective)", "echelonflow")
MOST_SHARE, GOAL_SHARE = 0.5, 0.2
MANY_ITERATIONS = 38
"""Of the same job under one policy: some 720,000 steps."""
MOST_S, MOST_GB = 60.0, 2.0
"""For the results of that."""


@dataclass(frozen=True)
class Cost:
    """What a process took: seconds of the processor."""

    whole_s: float
    """From its start."""
    simulation_s: float
    """Simulating, and keeping what came of it where a run did it."""


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` times each; a run of one iteration under three policies with pictures and without, and one of many iterations."""
    with tempfile.TemporaryDirectory() as name:
        once = experiment(Path(name) / "once", 1, POLICIES)
        in_own_process("compiling", simulated, str(once))  # what is compiled is kept on disk
        figures = [_shares(once, pictures, repeat, say) for pictures in ("few", "none")]
        many = experiment(Path(name) / "many", MANY_ITERATIONS, ("fair",))
        return [*figures, _of_many(many, repeat, say)]


def experiment(folder: Path, iterations: int, policies: Sequence[str]) -> Path:
    """The experiment file, and beside it the workload that it imports."""
    folder.mkdir(parents=True)
    (folder / "layers.txt").write_text(workload(), encoding="utf-8")
    file = folder / "experiment.yaml"
    named = "".join(f"  - {policy}\n" for policy in policies)
    file.write_text(
        f"""\
name: analysis-cost
network: {{topology: single-switch, hosts: {RANKS}, rate: 100 Gbit/s}}
jobs:
  - name: j
    iterations: {iterations}
    import: {{format: simai, files: [layers.txt]}}
policies:
{named}""",
        encoding="utf-8",
    )
    return file


def workload() -> str:
    """A SimAI table: in every layer the tensor-parallel ranks reduce what they computed, and gradients are all-reduced."""
    header = f"model_parallel_NPU_group: {TENSOR} ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: {RANKS} checkpoints: 0 checkpoint_initiates: 0"
    lines = [f"HYBRID_TRANSFORMER_FWD_IN_BCKWD {header}", str(LAYERS)]
    for n in range(LAYERS):
        name, microseconds = ("attention", 400) if n % 2 == 0 else ("mlp", 700)
        nanoseconds = microseconds * 1000 + n  # no two layers end at one moment
        lines.append(
            f"{name}\t-1\t{nanoseconds}\tALLREDUCE\t16777216\t{nanoseconds}\tALLREDUCE\t16777216\t{nanoseconds}\tALLREDUCE\t33554432\t1"
        )
    return "\n".join(lines) + "\n"


def simulated(file: str) -> Cost:
    """The cost of simulating every policy of an experiment."""
    found = schema.load(Path(file), {}, ())
    started_s = time.process_time()
    for policy in found.policies:
        predict(found, policy)
    ended_s = time.process_time()
    return Cost(ended_s, ended_s - started_s)


def carried_out(file: str, pictures: Pictures) -> Cost:
    """The cost of all that the command does."""
    begun_s = [0.0, 0.0]

    def report(progress: Progress) -> None:
        begun_s[isinstance(progress, Analysing)] = time.process_time()

    with tempfile.TemporaryDirectory() as name:
        runner.run(schema.load(Path(file), {}, ()), Path(name) / "out", "fluid", report, pictures=pictures)
    return Cost(time.process_time(), begun_s[1] - begun_s[0])


def _shares(file: Path, pictures: Pictures, repeat: int, say: Say) -> Figure:
    what = f"{_steps(file):,} steps under {len(POLICIES)} policies, --pictures {pictures}: outside the simulation"
    alone, whole = [], []
    for n in range(repeat):
        only, _ = in_own_process(what, simulated, str(file))
        all_of_it, peak_GB = in_own_process(what, carried_out, str(file), pictures)
        alone.append(only.simulation_s)
        whole.append(all_of_it.whole_s)
        say(f"{what}, {n + 1} of {repeat}: {alone[-1]:.2f} of {whole[-1]:.2f} s simulate, {peak_GB:.2f} GB")
    return share_outside(what, alone, whole)


def share_outside(what: str, simulation_s: Sequence[float], whole_s: Sequence[float]) -> Figure:
    """The share of the processor's time that is not simulation, by medians."""
    alone, whole = statistics.median(simulation_s), statistics.median(whole_s)
    share = 1 - alone / whole
    measured = f"{share:.0%}: {whole - alone:.2f} s beside {alone:.2f} s"
    return Figure(what, measured, f"under {MOST_SHARE:.0%} (goal {GOAL_SHARE:.0%})", share < MOST_SHARE)


def _of_many(file: Path, repeat: int, say: Say) -> Figure:
    what = f"{_steps(file):,} steps under fair: tables and pictures"
    costs_s, peaks_GB = [], []
    for n in range(repeat):
        cost, peak_GB = in_own_process(what, carried_out, str(file), "few")
        costs_s.append(cost.whole_s - cost.simulation_s)
        peaks_GB.append(peak_GB)
        say(f"{what}, {n + 1} of {repeat}: {costs_s[-1]:.2f} s beside {cost.simulation_s:.2f} s, {peak_GB:.2f} GB")
    return bounded(what, costs_s, peaks_GB)


def bounded(what: str, costs_s: Sequence[float], peaks_GB: Sequence[float]) -> Figure:
    """Time by the median, memory by the most."""
    cost_s, peak_GB = statistics.median(costs_s), max(peaks_GB)
    ok = cost_s < MOST_S and peak_GB < MOST_GB
    return Figure(what, f"{cost_s:.2f} s, {peak_GB:.2f} GB", f"under {MOST_S:g} s and {MOST_GB:g} GB", ok)


def _steps(file: Path) -> int:
    return sum(job.iterations * len(job.dag.steps) for job in schema.load(file, {}, ()).jobs)

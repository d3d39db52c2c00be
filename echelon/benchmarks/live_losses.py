"""Losses of the example programs after 50 steps: through our process group and through Gloo, with the same seeds.

Each program of `examples/live/` trains with four ranks on loopback, and with as many seeds as there are repeats. What may differ is
the order of sums, and with it the last digits. Needs PyTorch: scripts/setup.sh --live.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._live_ranks import require_torch, run_ranks
from echelon.places import EXAMPLES
from echelon.running import gloo
from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from results.analysis.training import losses_in

RANKS = 4
STEPS = 50
PROGRAMS = ("train_ddp.py", "train_fsdp2.py", "train_pipeline.py", "train_tensor_parallel.py")
FOLDER = EXAMPLES / "live"
MOST_OFF = 1e-4
"""Relative: what 50 steps may make of rounding in single precision."""
LIMIT_S = 300.0


def run(repeat: int, say: Say) -> list[Figure]:
    """All programs with `repeat` seeds each (InputError where there is no PyTorch, RunError where a rank fails)."""
    require_torch("live-losses")
    figures = []
    for name in PROGRAMS:
        off, last = [], []
        for seed in range(repeat):
            argv = [str(FOLDER / name), "--steps", str(STEPS), "--seed", str(seed)]
            ours, theirs = losses_of_ours(argv), losses_of_gloo(argv)
            off.append(farthest(ours, theirs))
            last.append((theirs[0], theirs[STEPS - 1]))
            say(f"{name}, seed {seed}: loss {last[-1][0]:.4f} to {last[-1][1]:.4f}, at most {off[-1]:.1e} off Gloo's")
        begin, end = last[0]
        figures.append(
            Figure(
                f"{name}: loss in {STEPS} steps, farthest from Gloo's",
                f"{max(off):.1e} ({repeat} seeds; the first goes from {begin:.3f} to {end:.3f})",
                f"{MOST_OFF:g}",
                max(off) <= MOST_OFF,
            )
        )
    return figures


def farthest(ours: Mapping[int, float], theirs: Mapping[int, float]) -> float:
    """The largest relative distance of a step's loss from Gloo's (RunError unless both have all steps)."""
    for backend, found in (("echelon", ours), ("gloo", theirs)):
        if list(found) != list(range(STEPS)):
            raise RunError(f"through {backend}, losses of {len(found)} steps were printed, and {STEPS} were asked for")
    return max(abs(ours[step] / loss - 1) for step, loss in theirs.items())


def losses_of_ours(argv: Sequence[str]) -> dict[int, float]:
    """By step the loss of a program that trains through our process group."""
    with tempfile.TemporaryDirectory(prefix="echelon-losses-") as folder:
        run_ranks(
            [*module_argv("traffic.live"), *argv], RANKS, Path(folder), f"{Path(argv[0]).name} by echelon", LIMIT_S
        )
        return _numbers(sorted(Path(folder).glob("rank*.txt")))


def losses_of_gloo(argv: Sequence[str]) -> dict[int, float]:
    """The same through Gloo, started by torchrun."""
    with tempfile.TemporaryDirectory(prefix="echelon-losses-") as folder:
        said = Path(folder) / "said.txt"
        gloo.train(argv[0], argv[1:], RANKS, said, LIMIT_S)
        return _numbers([said])


def _numbers(paths: Sequence[Path]) -> dict[int, float]:
    return {step: float(loss) for step, loss in losses_in(paths).items()}

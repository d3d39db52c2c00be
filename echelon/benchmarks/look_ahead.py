"""What looking ahead costs: how long a roll-out takes, of eight jobs on 64 hosts, and a decision while the planner is busy.

Random jobs of all patterns on a two-to-one oversubscribed leaf-spine, in steady state. A roll-out goes twelve iterations of
the slowest job far, from where all jobs are. On packets the planner is a process of its own: decisions go on beside it, of a
coordinator with 1,000 flows in flight.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics

from echelon.benchmarks import Figure, Say, _busy_planner
from echelon.cases import random_jobs
from echelon.study import steady
from echelonflow.scheduling import policies
from simulator import fluid
from simulator.fluid import simulate

JOBS, HOSTS = 8, 64
ROUNDS, TRIES = 12, 16
GOAL_S = 0.05
FOREGROUND_MUST_MS, FOREGROUND_GOAL_MS = 5.0, 2.0


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` cases of eight jobs."""
    fluid.warm_up()
    per_roll_out_s, per_round_s = [], []
    for number in range(repeat):
        rng = random.Random(f"look-ahead/{number}")
        case = steady.perturbed(random_jobs.draw(rng, f"{random_jobs.FABRIC}{HOSTS}", jobs=JOBS), rng)
        together_s = steady.loads_of(case.jobs, case.network).together_s
        jobs = [
            dataclasses.replace(job, iterations=math.ceil(2 * ROUNDS * float(together_s.max()) / own_s))
            for job, own_s in zip(case.jobs, together_s.tolist(), strict=True)
        ]
        policy = policies.load(f"lookahead(tries={TRIES},rounds={ROUNDS})")
        say(f"case {number + 1} of {repeat}")
        simulate(jobs, case.network, policy)
        per_roll_out_s.append(policy.memory.took_s / policy.memory.roll_outs)
        per_round_s.append(per_roll_out_s[-1] / ROUNDS)
    shown = f"{statistics.median(per_roll_out_s) * 1e3:.1f} ms (up to {max(per_roll_out_s) * 1e3:.1f})"
    rounds = f"{statistics.median(per_round_s) * 1e3:.1f} ms (up to {max(per_round_s) * 1e3:.1f})"
    return [
        Figure(
            f"a roll-out, {JOBS} jobs on {HOSTS} hosts, {ROUNDS} iterations of the slowest",
            shown,
            "goal: 50 ms",
            statistics.median(per_roll_out_s) < GOAL_S,
        ),
        Figure("the same, for each iteration of the slowest", rounds, "reported", None),
        *_foreground(repeat, say),
    ]


def _foreground(repeat: int, say: Say) -> list[Figure]:
    """Decisions while the planner is at work, and what the plan before cost."""
    took: list[_busy_planner.Took] = []
    roll_outs_ms: list[float] = []
    for number in range(repeat):
        say(f"decisions beside a busy planner, {number + 1} of {repeat}")
        found, made = _busy_planner.decisions()
        took += found
        roll_outs_ms.append(made.took_s / made.roll_outs * 1e3)
    cpu_ms, wall_ms = (statistics.quantiles(times, n=20)[-1] for times in zip(*took, strict=True))
    flows = f"{_busy_planner.LEAST_FLOWS:,} flows and more"
    return [
        Figure(
            f"a decision under lookahead while the planner is busy, {flows}: 95th percentile",
            f"{cpu_ms:.2f} ms of a processor ({wall_ms:.2f} on the wall)",
            f"under {FOREGROUND_MUST_MS:g} ms (goal {FOREGROUND_GOAL_MS:g} ms)",
            cpu_ms < FOREGROUND_MUST_MS,
        ),
        Figure(
            f"a roll-out of the planner, {flows} in an iteration",
            f"{statistics.median(roll_outs_ms):.0f} ms",
            "reported",
            None,
        ),
    ]

"""What looking ahead costs: how long a roll-out takes, of eight jobs on 64 hosts, and what it finds.

Random jobs of all patterns on a two-to-one oversubscribed leaf-spine, in steady state. A roll-out goes twelve iterations of
the slowest job far, from where all jobs are. Iteration times are simulated, with those of the candidates beside them.
"""

from __future__ import annotations

import dataclasses
import math
import random
import statistics

from echelon.benchmarks import Figure, Say
from echelon.cases import random_jobs
from echelon.study import steady
from echelonflow.scheduling import policies
from simulator import fluid
from simulator.fluid import simulate

JOBS, HOSTS = 8, 64
ROUNDS, TRIES = 12, 16
GOAL_S = 0.05


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
    ]

"""How firm the simulation's answers are: every paradigm with late computations, slow decisions and slightly slow links.

Simulates experiments/paradigms/*.yaml (`--only 'gpipe*'`: those whose name fits) under four policies, once exactly and
`repeat` times as an emulation has it. Then computations end some ms late, decisions take some unless they are made
ahead, links carry a little less, and there are no more classes than packets have. Where two jobs, groups or Coflows are
about to tie, or a flow ends just before the next one of its group comes, milliseconds decide what goes first. An answer
may then be another altogether: it hinges on the tie. What is shown is how far exposed communication moves.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._paradigm_files import POLICIES, files
from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelonflow.model.network import Network
from echelonflow.scheduling import policies
from echelonflow.wire.classes import DATA_CLASSES
from results.analysis.rows import iteration_rows
from simulator.fluid import simulate
from simulator.realism import Realism

MOST_MEDIAN, MOST_WORST = 0.06, 0.15
"""How far exposed communication may move: in the median over all experiments, jobs and policies; anywhere."""
LATE_S = 0.005
"""Mean: how late computations end, and what they wait for begins, on two cores that also carry the packets."""
DECISION_LATENCY_S = 0.005
LINK_SHARE = 0.985
"""What TCP makes of a link when flows take turns on it."""


@dataclass(frozen=True, slots=True)
class Moved:
    """Shares by which the exposed communication of a job under a policy moved, one for each repeat."""

    job: str
    policy: str
    by: tuple[float, ...]

    @property
    def middle(self) -> float:
        return statistics.median(self.by)

    @property
    def farthest(self) -> float:
        return max(map(abs, self.by))

    def __str__(self) -> str:
        return f"{self.middle:+.1%} [{min(self.by):+.1%}, {max(self.by):+.1%}] ({self.job}, {self.policy})"


def run(repeat: int, say: Say, only: Sequence[str] = ()) -> list[Figure]:
    """For each experiment the job and policy whose answer moves most; InputError if `only` fits none."""
    figures, everything = [], []
    for path in files(only):
        experiment = schema.load(path, {"policies": list(POLICIES)})
        found = [moved for policy in experiment.policies for moved in moved_by(experiment, policy, repeat)]
        everything += found
        worst = max(found, key=lambda moved: moved.farthest)
        say(f"{experiment.name}: {worst}")
        figures.append(
            Figure(
                f"{experiment.name}: exposed communication moves by (median, from least to most), where it does most",
                str(worst),
                f"under {MOST_WORST:.0%}",
                worst.farthest < MOST_WORST,
            )
        )
    median = statistics.median(abs(moved.middle) for moved in everything)
    what = f"median over all {len(everything)} (experiment, job, policy)"
    return [*figures, Figure(what, f"{median:.1%}", f"under {MOST_MEDIAN:.0%}", median < MOST_MEDIAN)]


def moved_by(experiment: Experiment, policy: str, repeat: int) -> list[Moved]:
    """For each job, how far what emulation adds moves its exposed communication under `policy`."""
    disturbed = dataclasses.replace(
        experiment.realism,
        classes=len(DATA_CLASSES),
        late_s=LATE_S,
        decision_latency_s=DECISION_LATENCY_S,
        undecided=experiment.emulation.decisions,
    )
    slower = dataclasses.replace(experiment, network=_with_links(experiment.network, LINK_SHARE))
    exact_s = _exposed_s(experiment, policy, 0, experiment.realism)
    runs = [_exposed_s(slower, policy, number, disturbed) for number in range(repeat)]
    return [Moved(job, policy, tuple(found[job] / exact_s[job] - 1 for found in runs)) for job in exact_s]


def _with_links(network: Network, share: float) -> Network:
    """The network with every cable at `share` of its rate."""
    cables = tuple(dataclasses.replace(cable, rate_bps=share * cable.rate_bps) for cable in network.cables)
    return dataclasses.replace(network, cables=cables)


def _exposed_s(experiment: Experiment, policy: str, repeat: int, realism: Realism) -> Mapping[str, float]:
    """Exposed communication of each job over all its iterations, simulated."""
    record = simulate(experiment.jobs, experiment.network, policies.load(policy), repeat, realism=realism)
    total_s: dict[str, float] = defaultdict(float)
    for row in iteration_rows(record, experiment.jobs):
        total_s[row.job] += row.exposed_s
    return total_s

"""How one emulated run is simulated again: as its prediction is, or with the classes and the pacing that the testbed has."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence

from controller import enforcers
from echelonflow.model.counting import ALL, Counted, Counting
from echelonflow.model.dag import Job
from echelonflow.model.faults import Fault
from echelonflow.model.measured import Measured
from echelonflow.model.network import Network
from echelonflow.records.rates import RateLog
from echelonflow.records.run_record import RunRecord, as_begun
from echelonflow.scheduling import policies
from echelonflow.scheduling.policies.lookahead import Adopted
from results.analysis.context import Context
from results.analysis.counted import only
from results.analysis.evidence import RawRun
from results.analysis.figures import job_figures
from results.analysis.rows import run_rows
from simulator.fluid import simulate
from simulator.realism import EXACT, Enforcer, Realism

Times = dict[str, float]
"""Mean iteration time of each job, in seconds."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What was asked for, as the prediction takes it."""

    jobs: Sequence[Job]
    network: Network
    realism: Realism = EXACT
    faults: Sequence[Fault] = ()
    counting: Counting = ALL


@dataclasses.dataclass(frozen=True)
class Stages:
    """How one run is simulated: as its prediction is, or with the classes and the pacing that the testbed has."""

    asked: Asked
    policy: str
    repeat: int
    """Of the run: what computations draw depends on it."""
    ideal: Realism
    enforced: Realism
    counted: Counted
    """The iterations of the run that count: the same count in every simulation of it."""
    plans: Sequence[Adopted] = ()
    """What was in force in the run, and from when, where somebody looked ahead for the policy: that is repeated, not planned anew."""

    @staticmethod
    def of(context: Context, asked: Asked, run: RawRun, counted: Counted, plans: Sequence[Adopted] = ()) -> Stages:
        realism, calibration = asked.realism, context.calibration
        attempt = None if calibration is None else calibration.of_run(run.outcome.run_index)
        if attempt is not None and realism.burst_s == 0:
            realism = dataclasses.replace(realism, burst_s=attempt.burst_s)
        classes, folding = enforcers.folded_by(run.outcome.enforcer)
        enforced = dataclasses.replace(
            realism,
            classes=min(realism.classes or classes, classes),
            folding=folding,
            enforcer=_enforcer(run.outcome.enforcer),
            decision_latency_s=0.0,
            undecided="wait",
            late_s=0.0,
        )
        return Stages(asked, run.outcome.policy, run.outcome.repeat, realism, enforced, counted, plans)

    def times(self, realism: Realism, measured: Measured) -> Times:
        """Mean iteration time of every job, with some causes."""
        return self.mean_s(self.simulated(realism, measured))

    def simulated(self, realism: Realism, measured: Measured, rates: RateLog | None = None) -> RunRecord:
        """The run again, with some causes."""
        with contextlib.closing(policies.load(self.policy)) as policy:
            if policy.promises.plans:
                policy.memory.follow(self.plans)
            return simulate(
                self.asked.jobs, self.asked.network, policy, self.repeat,
                realism=realism, faults=self.asked.faults, measured=measured, rates=rates,
            )  # fmt: skip

    def mean_s(self, record: RunRecord) -> Times:
        """Mean iteration time of every job in a simulation, over the iterations that count in the run."""
        jobs = as_begun(self.asked.jobs, record)
        figures = job_figures(only(run_rows(record, jobs), self.counted), jobs)
        return {job: each.iteration_s for job, each in figures.items()}


def _enforcer(text: str) -> Enforcer:
    """What a simulation calls the enforcer of a run; one that is not known, from a damaged record, counts as `priority`."""
    found: dict[str, Enforcer] = {"rate": "rate", enforcers.WEIGHTED: "weighted"}
    return found.get(enforcers.name_of(text), "priority")

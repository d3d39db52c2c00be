"""Whether a run may be believed, by effect: how far its machine moved its times, and how much of them nothing explains."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from echelonflow.records.budget import Ensemble
from results.analysis.budget import JobBudget
from results.analysis.chance import Effect, difference, mean, one_more
from results.analysis.fidelity import Fidelity
from results.analysis.figures import JobFigures
from results.analysis.limits import Limits

TOLD_APART = 0.005
"""Share of an iteration that is not told from none: valid runs differ by so much that nothing explains, in the median."""
_TOLD_S, _TOLD_SHARE = 5e-5, 5e-4
"""What is less is written as nothing."""


@dataclass(frozen=True, slots=True)
class JobEffects:
    """What one job of a run was moved by, and what nothing explains, each with how far chance alone may reach."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "simulations",
        "scatter",
        "iteration_s",
        "explained_s",
        "exposed_s",
        "computation",
        "hindered",
        "links",
        "unexplained",
    )

    iteration_s: float
    """Iteration time as measured. Computed."""
    exposed_s: float
    """Exposed communication as measured. Computed."""
    computation: Effect
    """What late computations added to the iteration, in seconds. From budget.json."""
    hindered: Effect
    """What came of settings in spells in which the host or other programs had the processors. From budget.json."""
    links: Effect
    """What was added by links that carried other than they declare. From budget.json."""
    unexplained: Effect
    """What none of all causes explains. Computed."""
    simulations: int = 1
    """So many of each stage say that. From budget.json."""
    scatter: float = 0.0
    """How far iterations scatter by chance in these: twice their deviation over their mean. From budget.json."""

    @property
    def explained_s(self) -> float:
        """Iteration time by the simulations with all causes: their mean. From budget.json."""
        return self.iteration_s - self.unexplained.value

    @property
    def hangs_on_chance(self) -> bool:
        """Whether its iterations scatter by more than is told from nothing."""
        return self.simulations > 1

    @property
    def moved(self) -> tuple[Effect, ...]:
        """What the machine did: late computations, hindered settings, link rates."""
        return self.computation, self.hindered, self.links

    def least_exposed_s(self, limit: float) -> float:
        """What a share of exposed communication is taken of: at least so much that `limit` of it can be told from nothing."""
        return least_exposed(self.exposed_s - self.unexplained.value, self.explained_s, limit)


def effects(budgets: Mapping[str, JobBudget], ensemble: Ensemble | None = None) -> dict[str, JobEffects]:
    """What moved each job of a run: by one simulation of each stage, or by its `ensemble` if the job scatters in that.

    A job that does not is judged as if there were none.
    """
    return {job: _effects(job, budget, ensemble) for job, budget in budgets.items()}


def _effects(job: str, budget: JobBudget, ensemble: Ensemble | None) -> JobEffects:
    if ensemble is None or job not in ensemble.links_s:
        return _by_one(budget)
    scatter = _scatter([stage[job] for stage in ensemble.stages_s])
    return _by_many(job, budget, ensemble, scatter) if scatter > TOLD_APART else _by_one(budget)


def _scatter(stages: Sequence[Sequence[float]]) -> float:
    """Twice the deviation within stages, over their mean."""
    different = dict.fromkeys(map(tuple, stages))
    mean_s = statistics.fmean(statistics.fmean(times_s) for times_s in different)
    variance = statistics.fmean(statistics.variance(times_s) for times_s in different)
    return 2 * math.sqrt(variance) / mean_s if mean_s > 0 else 0.0


def _by_one(budget: JobBudget) -> JobEffects:
    return JobEffects(
        budget.iteration_s,
        budget.exposed_s,
        Effect(budget.computation_s),
        Effect(budget.hindered_s),
        Effect(budget.links_s),
        Effect(budget.unexplained_s),
    )


def _by_many(job: str, budget: JobBudget, ensemble: Ensemble, scatter: float) -> JobEffects:
    on_time_s, computation_s, decisions_s, links_s = (stage[job] for stage in ensemble.stages_s)
    return JobEffects(
        budget.iteration_s,
        budget.exposed_s,
        difference(computation_s, on_time_s),
        difference(decisions_s, computation_s),
        difference(links_s, decisions_s),
        one_more(budget.iteration_s, links_s),
        len(links_s),
        scatter,
    )


def keeps_limits(found: Mapping[str, JobEffects], limits: Limits) -> bool:
    """Whether the times of a run are those of the network, jobs and policy that were asked for."""
    return not any(
        _is_moved(job, limits) or _is_unexplained(job, limits) or job.scatter > limits.max_scatter_iteration
        for job in found.values()
    )


def judge_effects(found: Mapping[str, JobEffects], fidelity: Fidelity, limits: Limits) -> list[str]:
    """In words, why they are not; empty if they are."""
    reasons = []
    for name, job in found.items():
        if job.scatter > limits.max_scatter_iteration:
            reasons.append(_scattered(name, job, limits))
            continue
        if _is_moved(job, limits):
            reasons.append(_moved(name, job, fidelity, limits))
        if _is_unexplained(job, limits):
            reasons.append(_unexplained(name, job, fidelity, limits))
    return reasons


def judge_together(runs: Sequence[Mapping[str, JobEffects]], limits: Limits) -> list[str]:
    """Why runs of one policy do not count, of which each by itself would: in words, empty if they do.

    In a single run much may be chance. In the mean over runs it is less, by the root of their number, and what every run
    has stays. Jobs that single simulations judged in all runs need no more: the mean keeps the limits that each keeps.
    """
    reasons = []
    for name in dict.fromkeys(job for run in runs for job in run):
        jobs = [run[name] for run in runs if name in run]
        if not any(job.hangs_on_chance for job in jobs):
            continue
        unexplained = _Shares.of(
            [[job.unexplained] for job in jobs], jobs, limits.max_unexplained_iteration, limits.max_unexplained_exposed
        )
        if unexplained.too_much:
            iteration, exposed = unexplained.told
            reasons.append(
                f"{len(jobs)} runs together: iterations of job {name} took {iteration} off the time that the measured causes "
                f"explain (limit {limits.max_unexplained_iteration:.0%}), and exposed communication is {exposed} off (limit "
                f"{limits.max_unexplained_exposed:.0%}). In one run that may be chance, in their mean it is not: the network or "
                "the hosts were not what was declared and measured"
            )
        moved = _Shares.of([job.moved for job in jobs], jobs, limits.max_moved_iteration, limits.max_moved_exposed)
        if moved.too_much:
            causes = ", ".join(
                f"{what} {_told(cause)}"
                for what, cause in zip(
                    ("late computations", "late decisions", "link rates"), moved.iteration, strict=True
                )
            )
            reasons.append(
                f"{len(jobs)} runs together: the machine moved iterations of job {name} by {_sum(moved.iteration):.1%} more than "
                f"chance does (limit {limits.max_moved_iteration:.0%}) and exposed communication by {_sum(moved.exposed):.1%} "
                f"(limit {limits.max_moved_exposed:.0%}): {causes}; end other work, wait for a quieter spell, or stretch time "
                "(scaling)"
            )
    return reasons


@dataclass(frozen=True, slots=True)
class _Shares:
    """Effects as shares of iteration time and of exposed communication, in the mean over runs, and whether they are too much."""

    iteration: Sequence[Effect]
    exposed: Sequence[Effect]
    limits: tuple[float, float]

    @staticmethod
    def of(
        parts: Sequence[Sequence[Effect]], jobs: Sequence[JobEffects], iteration_limit: float, exposed_limit: float
    ) -> _Shares:
        """Of the same `parts` of a job in each run."""
        wholes = [(job.explained_s, job.least_exposed_s(exposed_limit)) for job in jobs]
        iteration, exposed = (
            [
                mean([part.over(whole[i]) for part, whole in zip(each, wholes, strict=True)])
                for each in zip(*parts, strict=True)
            ]
            for i in (0, 1)
        )
        return _Shares(iteration, exposed, (iteration_limit, exposed_limit))

    @property
    def too_much(self) -> bool:
        return _sum(self.iteration) > self.limits[0] or _sum(self.exposed) > self.limits[1]

    @property
    def told(self) -> tuple[str, str]:
        """The first effect, in words."""
        return _told(self.iteration[0]), _told(self.exposed[0])


def _sum(parts: Sequence[Effect]) -> float:
    """What is more than chance of several effects: none makes up for another."""
    return sum(abs(part.beyond) for part in parts)


def _told(share: Effect) -> str:
    return f"{share.value:+.1%}" + (f" ±{share.chance:.1%}" if share.chance >= _TOLD_SHARE else "")


def _is_moved(job: JobEffects, limits: Limits) -> bool:
    return _Shares.of([job.moved], [job], limits.max_moved_iteration, limits.max_moved_exposed).too_much


def _is_unexplained(job: JobEffects, limits: Limits) -> bool:
    return _Shares.of(
        [[job.unexplained]], [job], limits.max_unexplained_iteration, limits.max_unexplained_exposed
    ).too_much


def not_told_s(figures: Mapping[str, JobFigures]) -> float:
    """The time that is not told from none in any job's iterations; 0 where none has ended."""
    iterations_s = [found.iteration_s for found in figures.values() if found.iteration_s > 0]
    return min(iterations_s, default=0.0) * TOLD_APART


def least_exposed(exposed_s: float, iteration_s: float, limit: float) -> float:
    """Exposed communication of an iteration, or as much as it takes for `limit` of it to be told from nothing."""
    return max(exposed_s, iteration_s * TOLD_APART / limit) if limit > 0 else exposed_s


def _scattered(name: str, job: JobEffects, limits: Limits) -> str:
    return (
        f"iterations of job {name} scatter by ±{job.scatter:.1%} (limit {limits.max_scatter_iteration:.0%}) in {job.simulations} simulations "
        "that differ by next to nothing: what a run of it takes is chance, and nothing can be told of its machine. Give it "
        "more iterations, or a policy or a network under which less hangs on who comes first (ARCHITECTURE.md, Comparisons)"
    )


def _moved(name: str, job: JobEffects, fidelity: Fidelity, limits: Limits) -> str:
    shares = _Shares.of([job.moved], [job], limits.max_moved_iteration, limits.max_moved_exposed)
    causes = {
        "late computations {} (" + _late(fidelity) + ")": job.computation,
        "decisions that came late while others had the processors {} (" + _taken(fidelity) + ")": job.hindered,
        "link rates {} (" + _link(fidelity) + ")": job.links,
    }
    told = [
        words.replace("{}", _told_ms(cause), 1)
        for words, cause in sorted(causes.items(), key=lambda cause: -abs(cause[1].beyond))
        if cause.value
    ]
    chance = f" more than chance does, by {job.simulations} simulations" if job.hangs_on_chance else ""
    return (
        f"the machine moved iterations of job {name} by {_sum(shares.iteration):.1%}{chance} (limit {limits.max_moved_iteration:.0%}) and "
        f"exposed communication by {_sum(shares.exposed):.1%} (limit {limits.max_moved_exposed:.0%}): {'; '.join(told)}; "
        "end other work, wait for a quieter spell, or stretch time (scaling)"
    )


def _told_ms(time: Effect) -> str:
    return f"{time.value * 1e3:+.1f} ms" + (f" ±{time.chance * 1e3:.1f} ms" if time.chance >= _TOLD_S else "")


def _unexplained(name: str, job: JobEffects, fidelity: Fidelity, limits: Limits) -> str:
    shares = _Shares.of([[job.unexplained]], [job], limits.max_unexplained_iteration, limits.max_unexplained_exposed)
    iteration, exposed = shares.told
    chance = f"; ± is what chance does, by {job.simulations} simulations" if job.hangs_on_chance else ""
    return (
        f"iterations of job {name} took {job.iteration_s:.3f} s, {iteration} off the {job.explained_s:.3f} s "
        f"that the measured causes explain (limit {limits.max_unexplained_iteration:.0%}{chance}), and exposed communication is "
        f"{exposed} off (limit {limits.max_unexplained_exposed:.0%}): the network or the hosts were not what was "
        f"declared and measured ({_suspects(fidelity)}), or the job stands on an edge (ARCHITECTURE.md, Comparisons)"
    )


def _late(fidelity: Fidelity) -> str:
    late_s = fidelity.late_p99_s or 0.0
    taken = ""
    if fidelity.late_stolen is not None and fidelity.late_others is not None:
        taken = (
            f"; meanwhile {fidelity.late_stolen:.0%} of the processors were stolen by the host, "
            f"and {fidelity.late_others:.0%} taken by other programs"
        )
    return f"one in a hundred ended {late_s * 1e3:.1f} ms late or more{taken}"


def _taken(fidelity: Fidelity) -> str:
    parts = [] if fidelity.cpu_busy is None else [f"processors were busy {fidelity.cpu_busy:.0%} of the time"]
    if fidelity.cpu_stolen is not None:
        parts.append(f"{fidelity.cpu_stolen:.0%} of them stolen by the host")
    if fidelity.cpu_others is not None:
        parts.append(f"{fidelity.cpu_others:.0%} taken by other programs")
    return ", ".join(parts)


def _link(fidelity: Fidelity) -> str:
    if fidelity.link_carried_share is None:
        return "as they were calibrated"
    return f"link {fidelity.link_waited_for} carried {fidelity.link_carried_share:.0%} while flows waited for it"


def _suspects(fidelity: Fidelity) -> str:
    parts = [f"queues dropped {fidelity.queue_drop_share:.1%} of the packets"]
    if fidelity.link_carried_share is not None:
        parts.append(_link(fidelity))
    return "; ".join([*parts, _taken(fidelity)])

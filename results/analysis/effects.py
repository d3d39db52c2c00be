"""Whether a run may be believed, by effect: how far its machine moved its times, and how much of them nothing explains."""

from __future__ import annotations

from collections.abc import Mapping

from results.analysis.budget import JobBudget
from results.analysis.fidelity import Fidelity
from results.analysis.figures import JobFigures
from results.analysis.limits import Limits

TOLD_APART = 0.005
"""Share of an iteration that is not told from none: valid runs differ by so much that nothing explains, in the median."""


def judge_effects(budgets: Mapping[str, JobBudget], fidelity: Fidelity, limits: Limits) -> list[str]:
    """Why the times of a run are not those of the network, jobs and policy that were asked for; empty if they are."""
    reasons = []
    for job, budget in budgets.items():
        reasons += _moved(job, budget, fidelity, limits)
        reasons += _unexplained(job, budget, fidelity, limits)
    return reasons


def not_told_s(figures: Mapping[str, JobFigures]) -> float:
    """The time that is not told from none in any job's iterations; 0 where none has ended."""
    iterations_s = [found.iteration_s for found in figures.values() if found.iteration_s > 0]
    return min(iterations_s, default=0.0) * TOLD_APART


def moved_s(budget: JobBudget) -> float:
    """By how much the machine moved the job's iterations: no cause makes up for another."""
    return abs(budget.computation_s) + abs(budget.hindered_s) + abs(budget.links_s)


def least_exposed_s(budget: JobBudget, limit: float) -> float:
    """What a share of exposed communication is taken of: at least so much that `limit` of it can be told from nothing."""
    return least_exposed(budget.exposed_s - budget.unexplained_s, budget.explained_s, limit)


def least_exposed(exposed_s: float, iteration_s: float, limit: float) -> float:
    """The same of any time and its exposed communication."""
    return max(exposed_s, iteration_s * TOLD_APART / limit) if limit > 0 else exposed_s


def _shares(part_s: float, budget: JobBudget, exposed_limit: float) -> tuple[float, float]:
    """A part as a share of iteration time and of exposed communication."""
    exposed_s = least_exposed_s(budget, exposed_limit)
    return (
        part_s / budget.explained_s if budget.explained_s > 0 else 0.0,
        part_s / exposed_s if exposed_s > 0 else 0.0,
    )


def _moved(job: str, budget: JobBudget, fidelity: Fidelity, limits: Limits) -> list[str]:
    iteration, exposed = _shares(moved_s(budget), budget, limits.max_moved_exposed)
    if iteration <= limits.max_moved_iteration and exposed <= limits.max_moved_exposed:
        return []
    causes = {
        f"late computations {budget.computation_s * 1e3:+.1f} ms ({_late(fidelity)})": budget.computation_s,
        f"decisions that came late while others had the processors {budget.hindered_s * 1e3:+.1f} ms ({_taken(fidelity)})": (
            budget.hindered_s
        ),
        f"link rates {budget.links_s * 1e3:+.1f} ms ({_link(fidelity)})": budget.links_s,
    }
    told = [words for words, part_s in sorted(causes.items(), key=lambda cause: -abs(cause[1])) if part_s]
    words = (
        f"the machine moved iterations of job {job} by {iteration:.1%} (limit {limits.max_moved_iteration:.0%}) and "
        f"exposed communication by {exposed:.1%} (limit {limits.max_moved_exposed:.0%}): {'; '.join(told)}; "
        "end other work, wait for a quieter spell, or stretch time (scaling)"
    )
    return [words]


def _unexplained(job: str, budget: JobBudget, fidelity: Fidelity, limits: Limits) -> list[str]:
    iteration, exposed = _shares(budget.unexplained_s, budget, limits.max_unexplained_exposed)
    if abs(iteration) <= limits.max_unexplained_iteration and abs(exposed) <= limits.max_unexplained_exposed:
        return []
    words = (
        f"iterations of job {job} took {budget.iteration_s:.3f} s, {iteration:+.1%} off the {budget.explained_s:.3f} s "
        f"that the measured causes explain (limit {limits.max_unexplained_iteration:.0%}), and exposed communication is "
        f"{exposed:+.1%} off (limit {limits.max_unexplained_exposed:.0%}): the network or the hosts were not what was "
        f"declared and measured ({_suspects(fidelity)}), or the job stands on an edge (ARCHITECTURE.md, Comparisons)"
    )
    return [words]


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

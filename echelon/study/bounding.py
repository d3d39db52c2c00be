"""What `echelon bound` finds: each policy's distance from what no scheduler can beat, on one experiment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from echelon.study import closed, contenders, flow_orders
from echelonflow.errors import InputError
from echelonflow.model.dag import Job, iteration_times_without_network
from echelonflow.model.network import Network
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import bounds
from echelonflow.scheduling.steady import least_loads_of
from echelonflow.tables import text_table
from simulator.fluid import simulate

Say = Callable[[str], None]
NOTHING = 0.01
"""A relative gain below this is called none."""

EQUAL = 1e-3
"""Policies whose iteration times differ by less are named together."""


@dataclass(frozen=True)
class PolicyDistance:
    """One policy: seconds, and relative distance from the bound; None where there is no bound on tardiness."""

    policy: str
    iteration_s: float
    iteration_gap: float
    tardiness_s: float
    tardiness_gap: float | None


@dataclass(frozen=True)
class Distances:
    """Everything found about one experiment; times are means over jobs of the mean over a job's iterations."""

    experiment: str
    no_network_s: float
    bound_s: float
    steady_s: float
    """What the mean iteration time cannot be below while all jobs go on; a batch that ends may undercut it."""
    bound_alone_s: dict[str, float]
    most_gain: float
    """The share of fair sharing's iteration time that any scheduler could save, at most."""
    tardiness_bound_s: float | None
    no_tardiness_bound: str | None
    """Why there is none."""
    best_order: dict[str, Any] | None
    """The best of all orders of flows (greedy rates), where there are few enough to try."""
    policies: tuple[PolicyDistance, ...]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def distances(
    name: str, jobs: Sequence[Job], network: Network, policies: Sequence[str], most_orders: int, programs: int, say: Say
) -> Distances:
    """Simulate `jobs` under fair sharing and `policies`, and bound what any scheduler could do.

    `most_orders` orders of flows are tried at most (all or none); `programs` linear programs are spent on the bound of
    tardiness.
    """
    scores = {}
    for policy in dict.fromkeys([contenders.FAIR, *policies]):
        say(f"simulating {policy}")
        scores[policy] = closed.run(jobs, network, policy)
    say("bounding iteration times")
    least_s = min(score.iteration_s for score in scores.values())
    bound = bounds.iteration_bound(jobs, network, programs=programs, enough_s=least_s)
    say("bounding tardiness")
    tardiness_s, why_not = _tardiness_bound_s(jobs, network, programs)
    best = _best_order(jobs, network, most_orders, say)
    return Distances(
        experiment=name,
        no_network_s=_no_network_s(jobs),
        bound_s=bound.mean_s,
        steady_s=bounds.pace_bound(least_loads_of(jobs, network)).least,
        bound_alone_s=bound.alone_s,
        most_gain=max(1 - bound.mean_s / scores[contenders.FAIR].iteration_s, 0.0),
        tardiness_bound_s=tardiness_s,
        no_tardiness_bound=why_not,
        best_order=best,
        policies=tuple(
            PolicyDistance(
                policy,
                score.iteration_s,
                score.iteration_s / bound.mean_s - 1,
                score.tardiness_s,
                score.tardiness_s / tardiness_s - 1 if tardiness_s else None,
            )
            for policy, score in scores.items()
        ),
    )


def _no_network_s(jobs: Sequence[Job]) -> float:
    return sum(sum(iteration_times_without_network(j.dag, j.iterations)) / j.iterations for j in jobs) / len(jobs)


def _tardiness_bound_s(jobs: Sequence[Job], network: Network, programs: int) -> tuple[float | None, str | None]:
    try:
        flows = bounds.of_jobs(jobs, network)
    except InputError as error:
        return None, str(error)
    return bounds.sum_of_tardiness(flows, programs=programs).total_s, None


def _best_order(jobs: Sequence[Job], network: Network, most: int, say: Say) -> dict[str, Any] | None:
    number, _ = flow_orders.number_of_orders(jobs)
    if not flow_orders.flow_names(jobs) or number > most:
        return None
    say(f"trying all {number} orders of flows")

    def iteration_s(record: RunRecord) -> float:
        return closed.score(record, jobs).iteration_s

    found = flow_orders.best(jobs, network, flow_orders.all_of(jobs), iteration_s)
    record = simulate(jobs, network, flow_orders.by_order(jobs, found.order))
    return {
        "iteration_s": found.value,
        "tardiness_s": closed.score(record, jobs).tardiness_s,
        "orders": found.tried,
        "order": ["/".join(flow) for flow in found.order],
    }


def table(found: Distances) -> str:
    """The distances in lines of text, and what they say."""
    head = ("", "iteration", "above bound", "tardiness", "above bound")
    rows = []
    bound_s = found.tardiness_bound_s
    rows.append(("no network", f"{found.no_network_s:.4g}", "", "", ""))
    rows.append(("lower bound", f"{found.bound_s:.4g}", "", "-" if bound_s is None else f"{bound_s:.4g}", ""))
    rows.append(("steady state", f"{found.steady_s:.4g}", "", "", ""))
    if found.best_order is not None:
        best_s, late_s = found.best_order["iteration_s"], found.best_order["tardiness_s"]
        words = f"best of {found.best_order['orders']} orders"
        rows.append((words, f"{best_s:.4g}", _above(best_s / found.bound_s - 1),
                     f"{late_s:.4g}", _above(late_s / bound_s - 1 if bound_s else None)))  # fmt: skip
    rows.extend(
        (p.policy, f"{p.iteration_s:.4g}", _above(p.iteration_gap), f"{p.tardiness_s:.4g}", _above(p.tardiness_gap))
        for p in found.policies
    )
    notes = ["", "seconds, simulated (fluid); means over jobs, sums of tardiness over groups by weight"]
    notes.append("steady state: the least while all jobs go on; a batch whose jobs end one by one may take less")
    if found.no_tardiness_bound is not None:
        notes.append(f"no bound on tardiness: {found.no_tardiness_bound}")
    return "\n".join([f"{found.experiment}:", text_table(head, rows), *notes, "", verdict(found)])


def _above(gap: float | None) -> str:
    return "-" if gap is None else f"{max(gap, 0.0):+.1%}"  # below 0 only by the solver's rounding


def verdict(found: Distances) -> str:
    """Would scheduling help at all? In one sentence or two."""
    fair = found.policies[0]
    if found.most_gain < NOTHING:
        return (
            f"Would it help? No. Fair sharing takes {fair.iteration_s:.4g} s an iteration, and no scheduler can save "
            f"more than {found.most_gain:.1%} of that."
        )
    least_s = min(p.iteration_s for p in found.policies)
    best = " and ".join(p.policy for p in found.policies if p.iteration_s <= least_s * (1 + EQUAL))
    gained = 1 - least_s / fair.iteration_s
    text = (
        f"Would it help? No scheduler can save more than {found.most_gain:.1%} of fair sharing's "
        f"{fair.iteration_s:.4g} s an iteration"
    )
    if gained < NOTHING:
        return f"{text}; of the policies here, none saves {NOTHING:.0%}."
    return f"{text}; {gained:.1%} is saved by {best}."

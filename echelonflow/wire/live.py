"""What the controller's REST interface says to who watches a run: jobs, what is late, and the last decision.

Lists are cut where a reader would not look any further; how many there are is said beside them.
"""

from __future__ import annotations

import msgspec

from echelonflow.wire.rest import RunStatus

MOST_JOBS = 100
MOST_GROUPS = 8
"""Groups of a job that are named."""
MOST_ORDERED = 24
"""Flows of the last decision that are named, in the order that was decided."""
MOST_CHANGED = 24
MOST_RECENT = 8
"""Decisions before the last one."""


class JobLive(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its flows show it. Times are seconds since the run's zero.

    `late_s` is the most that one of its flows in flight is past its ideal finish (negative: all have time left), None
    where none is in flight. Tardiness is that of groups whose flows have all ended: of a group it is the worst of its flows.
    """

    job: str
    iteration: int
    """The latest of which a flow was released."""
    began_s: float
    """When the first of its flows was released."""
    lasted_s: float | None
    """From the first release of the iteration before to that one."""
    groups: tuple[str, ...]
    """With flows in flight, in order of their names."""
    groups_in_flight: int
    flows_in_flight: int
    late_s: float | None
    ended_groups: int
    tardiness_s: float
    """The sum over groups and iterations."""
    worst_tardiness_s: float


class FlowInOrder(msgspec.Struct, frozen=True, kw_only=True):
    """A flow at its place in an order; `rate_Bps` is what the policy gave it.

    `traffic_class` is None where it has none: it has ended since, or waits. `due_s` is its ideal finish since the run's zero.
    """

    job: str
    iteration: int
    flow: str
    rank: int
    traffic_class: int | None
    rate_Bps: float
    due_s: float


class FlowChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A flow whose setting was changed: its class from now on, and its rate (None: unlimited, 0: it waits)."""

    job: str
    iteration: int
    flow: str
    traffic_class: int
    rate_Bps: float | None


class DecisionLive(msgspec.Struct, frozen=True, kw_only=True):
    """The last decision, why it was made, and what it changed; flows beyond the first ones are only counted."""

    number: int
    time_s: float
    policy: str
    trigger: str
    """Events since the decision before."""
    flows: int
    groups: int
    policy_ms: float
    total_ms: float
    order: tuple[FlowInOrder, ...]
    changes: int
    changed: tuple[FlowChanged, ...]


class DecisionBrief(msgspec.Struct, frozen=True, kw_only=True):
    """A decision before the last one."""

    number: int
    time_s: float
    trigger: str
    flows: int
    changes: int


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """GET /live; `run` is None between runs, and the rest empty. `decision` is None before the first one."""

    run: RunStatus | None = None
    decisions: int = 0
    swaps: int = 0
    fallbacks: int = 0
    jobs: tuple[JobLive, ...] = ()
    """The first by name."""
    jobs_in_all: int = 0
    decision: DecisionLive | None = None
    recent: tuple[DecisionBrief, ...] = ()
    """The latest first."""

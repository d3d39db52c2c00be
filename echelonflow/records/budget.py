"""budget.json: each run simulated again with what it measured, cause by cause, so that its time can be explained.

Every figure is a job's mean iteration time in seconds. Each stage has the causes of those before it, and one more.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from echelonflow.codec import Document
from echelonflow.records.blame import Blame
from echelonflow.records.link_load import LinkLoad

Members = dict[str, tuple[float, ...]]
"""Mean iteration times of each job, in all simulations of a stage: those in the same place were disturbed alike."""


class Ensemble(msgspec.Struct, frozen=True, kw_only=True):
    """One run simulated many times in each stage, disturbed by next to nothing, to tell causes apart from chance.

    All stages have acknowledgements, the classes of the testbed, and settings as they came. Each has the causes of those before it, and one
    more. One that has no cause of its own is the stage before.
    """

    on_time_s: Members
    """No computation is late, settings come as usual in the spells in which others had the machine, links carry what they declare."""
    computation_s: Members
    """With late computations."""
    decisions_s: Members
    """And with settings that came when they came."""
    links_s: Members
    """And with what links carried: all causes."""

    @property
    def stages_s(self) -> tuple[Members, ...]:
        """The times of each stage, in this order."""
        return self.on_time_s, self.computation_s, self.decisions_s, self.links_s

    @property
    def is_whole(self) -> bool:
        """Whether every stage has the same jobs, and each of them equally many times, two at least."""
        lengths = {len(times_s) for stage in self.stages_s for times_s in stage.values()}
        return (
            len(lengths) == 1
            and min(lengths) > 1
            and all(stage.keys() == self.links_s.keys() for stage in self.stages_s)
        )


class ExplainedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run; the times are by job. Where the simulation failed, `failure` says why, and there are none."""

    run_index: int
    zero_monotonic_s: float | None
    """As in run.json: a run that was made again under the same name is another one."""
    ideal_s: dict[str, float] = msgspec.field(default_factory=dict)
    """Nothing is late, decisions are in force at once, and links carry what they declare."""
    computation_s: dict[str, float] = msgspec.field(default_factory=dict)
    """With late computations."""
    decisions_s: dict[str, float] = msgspec.field(default_factory=dict)
    """And with settings that came when they came, in as many classes as there are."""
    unhindered_s: dict[str, float] = msgspec.field(default_factory=dict)
    """The same, if settings had come as usual in the spells in which others had the machine."""
    acknowledgements_s: dict[str, float] | None = None
    """`decisions_s`, and with acknowledgements on the links; None from before they were looked at."""
    links_s: dict[str, float] = msgspec.field(default_factory=dict)
    """And with what links carried."""
    blame: tuple[Blame, ...] = ()
    """What the mean iteration of each job was spent on, in the simulation with all causes; empty from before that was asked."""
    links: tuple[LinkLoad, ...] = ()
    """How busy links were in that simulation."""
    ensemble: Ensemble | None = None
    """Many simulations of each stage, where single ones break limits of effect; None where they break none, and from before there were any."""
    failure: str | None = None

    @property
    def times_s(self) -> list[float]:
        """All times of all stages."""
        members = () if self.ensemble is None else self.ensemble.stages_s
        return [
            *(time_s for times in self.stages_s for time_s in times.values()),
            *(time_s for stage in members for times_s in stage.values() for time_s in times_s),
        ]

    @property
    def stages_s(self) -> tuple[dict[str, float], ...]:
        """The times of each stage: ideal, computation, unhindered, decisions, acknowledgements, links."""
        acknowledged_s = self.decisions_s if self.acknowledgements_s is None else self.acknowledgements_s
        return self.ideal_s, self.computation_s, self.unhindered_s, self.decisions_s, acknowledged_s, self.links_s


class Budgets(msgspec.Struct, frozen=True):
    """All runs that could be simulated again, by label."""

    runs: dict[str, ExplainedRun]


def write_budgets(path: Path, budgets: Budgets) -> None:
    """Write budget.json."""
    _DOCUMENT.write(path, budgets)


def read_budgets(path: Path) -> Budgets | None:
    """Read budget.json; None where there is none, InputError where it is malformed."""
    return _DOCUMENT.read(path) if path.exists() else None


_DOCUMENT = Document("echelon-budget", 1, Budgets)

"""What training programs printed and found in their runs: losses, computation beyond its profile, and what was not declared."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.records.certainty import Certainty, read_certainty
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.records.live_part import LiveOutcome, read_live_outcome
from echelonflow.records.outcome import read_outcome

_MOST_CHARACTERS = 1000
"""Of a line that are looked at together: a program may print anything."""
_MOST_STEPS = 1_000_000
"""Of a program, the first ones."""
Losses = Mapping[int, str]
"""By step the loss, as it was printed."""

_LOSS = re.compile(r"\bstep\b[\s:=]*(\d{1,12})\b.*?\bloss\b[\s:=]*([-+]?\d[-+.\de]*)", re.IGNORECASE)
"""Such as "step 3 loss 2.31" or "Step: 3, lr 0.1, loss = 2.31"."""


@dataclass(frozen=True)
class Trained:
    """A job that is a training program, over all runs of a folder."""

    job: str
    computed: int
    """Computations that ended, of all ranks and runs."""
    overran: int | None
    """Of these, how many took longer than their profile by over a hundredth; None where computation was measured, and has none."""
    scheduled_bytes: int
    other_bytes: int
    """What did not go by declared flows, in iterations that count."""
    departure: str | None
    """Where the program first did otherwise than in its lesson, in words; None where it never did."""
    certainty: Certainty | None
    """How far it repeated itself in its lesson; None where that is not at hand."""
    lesson: Losses
    """Of the run from which the program was learned; empty where it printed none, or where that run is not at hand."""
    gloo: Losses
    """Of a run without us, with Gloo; empty where there was none, or it printed none."""
    runs: Mapping[tuple[str, int], Losses]
    """By policy and repeat."""

    @property
    def overran_share(self) -> float | None:
        return None if self.overran is None else self.overran / max(self.computed, 1)

    @property
    def other_share(self) -> float:
        return self.other_bytes / max(self.scheduled_bytes + self.other_bytes, 1)

    @property
    def whole(self) -> int:
        """How many runs made all steps of the lesson."""
        return sum(losses.keys() == self.lesson.keys() for losses in self.runs.values())

    @property
    def equal(self) -> int:
        """How many losses are those of the lesson, in all digits that were printed."""
        return self.equal_to(self.lesson)

    @property
    def farthest(self) -> float:
        """The largest relative distance of a loss from that of the lesson."""
        return self.farthest_from(self.lesson)

    def equal_to(self, other: Losses) -> int:
        """How many losses of all runs are those of the `other` run, in all digits that were printed."""
        return sum(loss == other.get(step) for losses in self.runs.values() for step, loss in losses.items())

    def farthest_from(self, other: Losses) -> float:
        """The largest relative distance of a loss of any run from that of the `other` run; 0 where they share no step."""
        pairs = [
            (float(loss), float(other[step]))
            for losses in self.runs.values()
            for step, loss in losses.items()
            if step in other
        ]
        return max((abs(mine - theirs) / max(abs(theirs), 1e-12) for mine, theirs in pairs), default=0.0)


def trained(folder: RunFolder) -> list[Trained]:
    """The training programs of a run folder, in the order of their names; none in one of replays."""
    found: dict[str, list[LiveOutcome]] = defaultdict(list)
    runs: dict[str, dict[tuple[str, int], Losses]] = defaultdict(dict)
    for run in folder.runs():
        outcomes = list(_outcomes(run))
        if not outcomes:
            continue
        try:
            ended = read_outcome(run.outcome)
        except InputError:
            continue  # the verdict says so
        for outcome in outcomes:
            found[outcome.job].append(outcome)
        for job in {outcome.job for outcome in outcomes}:
            runs[job][ended.policy, ended.repeat] = losses_in(run.outputs(job))
    return [_trained(folder, job, found[job], runs[job]) for job in sorted(found)]


def _trained(folder: RunFolder, job: str, each: list[LiveOutcome], runs: Mapping[tuple[str, int], Losses]) -> Trained:
    gloo = folder.with_gloo(job)
    overran = [one.overran for one in each if one.overran is not None]
    return Trained(
        job=job,
        computed=sum(one.computed for one in each),
        overran=sum(overran) if overran else None,
        scheduled_bytes=sum(one.scheduled_bytes for one in each),
        other_bytes=sum(one.other_bytes for one in each),
        departure=_departure(each),
        certainty=_certainty(folder.lesson().certainty(job)),
        lesson=losses_in(folder.lesson().learned(job).glob("rank*.txt")),
        gloo=losses_in([gloo] if gloo.is_file() else []),
        runs=runs,
    )


def departures(run: RunFiles) -> list[str]:
    """Why a run is not that of the programs that were learned, job by job; empty where all did as in their lessons."""
    by_job: dict[str, list[LiveOutcome]] = defaultdict(list)
    for outcome in _outcomes(run):
        by_job[outcome.job].append(outcome)
    found = []
    for job, each in sorted(by_job.items()):
        departure = _departure(each)
        if departure is not None:
            other, scheduled = sum(one.other_bytes for one in each), sum(one.scheduled_bytes for one in each)
            found.append(
                f"job {job} did otherwise than in its lesson ({departure}): {other / max(other + scheduled, 1):.1%} of its bytes were not "
                "scheduled; let the program do the same in every iteration, or let it make more steps"
            )
    return found


def _departure(each: Sequence[LiveOutcome]) -> str | None:
    """Where a rank was the first to do otherwise."""
    found = [(one.departure.iteration, one.rank, one.departure.how) for one in each if one.departure is not None]
    if not found:
        return None
    iteration, rank, how = min(found)
    return f"rank {rank}, iteration {iteration}: {how}"


def _certainty(path: Path) -> Certainty | None:
    try:
        return read_certainty(path)
    except InputError:  # of an older folder, or the lesson is elsewhere
        return None


def _outcomes(run: RunFiles) -> Iterator[LiveOutcome]:
    for path in sorted((run.root / "live").glob("*.json")):
        if path.name.startswith("part-"):
            continue
        try:
            yield read_live_outcome(path)
        except InputError:
            continue  # of a run that was cut short, which says so itself


def losses_in(paths: Iterable[Path]) -> dict[int, str]:
    """The losses that the ranks of a program printed into files; of several ranks that print a step's, the first one's."""
    found: dict[int, str] = {}
    for path in sorted(paths):
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in iter(lambda: file.readline(_MOST_CHARACTERS), ""):
                for step, loss in _LOSS.findall(line):
                    if len(found) < _MOST_STEPS:
                        found.setdefault(int(step), loss)
    return dict(sorted((step, loss) for step, loss in found.items() if _is_number(loss)))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def training_lines(programs: Iterable[Trained]) -> Iterator[str]:
    """What is to be known of each program, in words."""
    for one in programs:
        if one.overran is None:
            yield f"{one.job}: {one.computed:,} computations were measured: each run is explained by what they took in it"
        else:
            yield f"{one.job}: {one.overran:,} of {one.computed:,} computations took longer than their profile by over 1 %"
        if one.certainty is not None:
            yield f"{one.job}: learned from a lesson in which {one.certainty}"
        if one.departure is not None:
            yield (
                f"{one.job}: the program did otherwise than in its lesson ({one.departure}); {one.other_share:.1%} of all bytes "
                "of iterations that count were not scheduled"
            )
        elif one.other_bytes:
            yield (
                f"{one.job}: {one.other_share:.1%} of all bytes were not scheduled: they are received from whoever sends first"
            )
        if one.lesson:
            yield (
                f"{one.job}: {one.whole} of {len(one.runs)} runs made all {len(one.lesson)} steps; "
                f"{_beside(one, one.lesson, 'the lesson')}"
            )
        if one.gloo:
            yield f"{one.job}: {_beside(one, one.gloo, 'a run with Gloo')}"


def _beside(one: Trained, other: Losses, name: str) -> str:
    """How the losses of all runs compare with those of another run."""
    return (
        f"{one.equal_to(other)} of {len(other) * len(one.runs)} losses are those of {name} in all digits, "
        f"and the farthest is {one.farthest_from(other):.1e} off"
    )

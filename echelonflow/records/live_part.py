"""One process's part in a run of training programs, from the runner to the process (live-<host>.json), and what it says in the end."""

from __future__ import annotations

from pathlib import Path

import msgspec

from echelonflow.codec import Document
from echelonflow.records.phases import Phase

PART_VARIABLE = "ECHELON_LIVE_PART"
"""Names the file to the process."""


READY_LIMIT_S = 300.0
"""For all programs of a run to have loaded torch and warmed up: two cores may do that for a dozen of them."""


class LivePart(msgspec.Struct, frozen=True, kw_only=True):
    """The process of rank `rank` of program `job` on `host`. Without a plan it only observes, and writes that to `observed`.

    With one, `phases` say which of its iterations are those of which job of the plan. Where computation is `profiled`, it takes what the plan
    says; elsewhere it is measured.
    """

    job: str
    rank: int
    ranks: int
    host: str
    address: str
    """IPv4 of the host on the emulated network."""
    store: str
    """File by which the processes of the job find each other."""
    program: str
    arguments: tuple[str, ...] = ()
    observed: str | None = None
    plan: str | None = None
    lesson: str | None = None
    """What this rank was seen to do (`echelonflow.records.observed`); there where a plan is."""
    socket: str = ""
    records: str = ""
    outcome: str = ""
    phases: tuple[Phase, ...] = ()
    profiled: bool = False
    scheduler: str | None = None
    """The job scheduler that puts in order what it sends."""


class Departure(msgspec.Struct, frozen=True):
    """A program first did otherwise than in its lesson in this iteration of those that count, counted from 0; `how` says what."""

    iteration: int
    how: str


class LiveOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of a rank found in a run.

    `computed` computations ended, of which `overran` took longer than their profile by more than a hundredth; None where computation is
    measured, and has none. Of what was exchanged in
    iterations that count, `scheduled_bytes` went by flows that were declared; `other_bytes` did not, as the program did otherwise than it was
    seen to.
    """

    job: str
    rank: int
    computed: int
    overran: int | None
    scheduled_bytes: int
    other_bytes: int
    departure: Departure | None = None
    """Where it first did otherwise; None where it did not."""


def write_part(path: Path, part: LivePart) -> None:
    """Write a process's part."""
    _PART.write(path, part)


def read_part(path: Path) -> LivePart:
    """Read it (InputError, naming the file)."""
    return _PART.read(path)


def write_live_outcome(path: Path, outcome: LiveOutcome) -> None:
    """Write what a process found."""
    _OUTCOME.write(path, outcome)


def read_live_outcome(path: Path) -> LiveOutcome:
    """Read it (InputError, naming the file)."""
    return _OUTCOME.read(path)


_PART = Document("echelon-live-part", 1, LivePart)
_OUTCOME = Document("echelon-live-outcome", 1, LiveOutcome)

"""What the critical path of a job spent its time on, cause by cause (docs/measures.md, "Blame")."""

from __future__ import annotations

from typing import Literal

import msgspec

Cause = Literal["computation", "communication", "other job", "own flows", "job scheduler", "enforcement", "unexplained"]
CAUSES: tuple[Cause, ...] = (
    "computation",
    "communication",
    "other job",
    "own flows",
    "job scheduler",
    "enforcement",
    "unexplained",
)
"""In the order in which they are shown."""


class Blame(msgspec.Struct, frozen=True):
    """Seconds of one job's mean iteration that one cause takes; all of them add up to it."""

    job: str
    """Name of the job whose iteration it is. From the experiment file."""
    cause: Cause
    """What the time went to: `computation`, `communication`, `other job`, `own flows`, `job scheduler`, `enforcement` or
    `unexplained`. Computed."""
    blamed_s: float
    """How much of the job's mean iteration it took: the causes of a job add up to that. Computed."""
    other: str = ""
    """The job that was waited for; empty but for `other job`. Computed."""
    link: str = ""
    """The link on which was waited; empty where there is none. Computed."""

"""How an experiment is getting on: what the emulator says on standard output, a line a report, and what a user sees."""

from __future__ import annotations

from collections.abc import Callable

import msgspec


class _Report(msgspec.Struct, frozen=True, tag_field="stage"):
    """One report; "stage" says which."""


class Predicting(_Report, frozen=True, tag="predicting"):
    """The fluid simulation of every policy goes on."""


class Simulating(_Report, frozen=True, tag="simulating"):
    """A trace of Coflows is being simulated: `now_s` of it, of which the last Coflow arrives at `last_s`."""

    policy: str
    now_s: float
    last_s: float


class Looking(_Report, frozen=True, tag="looking"):
    """The machine is looked at, for how accurate it is now."""


class Waiting(_Report, frozen=True, tag="waiting"):
    """A quieter spell is waited for, `left_s` at most: `error` is what iteration times are told to now, `asked` what should be.

    `seen` says in words what the machine is like.
    """

    error: float
    asked: float
    seen: str
    left_s: float


class Building(_Report, frozen=True, tag="building"):
    """The network is being built."""

    hosts: int
    switches: int


class Learning(_Report, frozen=True, tag="learning"):
    """Training programs run once, to be seen."""

    programs: int


class Calibrating(_Report, frozen=True, tag="calibrating"):
    """Links are being measured."""

    datapath: str
    tso: bool


class Running(_Report, frozen=True, tag="running"):
    """Run `run` (from 0) of `of` begins; `expected_s` is its length by fluid simulation."""

    run: int
    of: int
    policy: str
    repeat: int
    expected_s: float


class IterationBegun(_Report, frozen=True, tag="iteration"):
    """The first host has entered an iteration of the present run."""

    iteration: int


class LinksCarried(_Report, frozen=True, tag="links"):
    """What links have carried so far at `time_s` (monotonic clock): bytes by link, in the network's order, and by class.

    Only where somebody watches the run.
    """

    time_s: float
    carried_bytes: tuple[tuple[int, ...], ...]


class RunFailed(_Report, frozen=True, tag="run_failed"):
    """A run failed, and says why; the next one is tried."""

    policy: str
    repeat: int
    reason: str


class Repeating(_Report, frozen=True, tag="repeating"):
    """Some runs do not count, and others are made in their place; `reason` says which, why and how many."""

    reason: str


class Broke(_Report, frozen=True, tag="broke"):
    """A part that all runs share has died: the runs that are left need a fresh world."""

    reason: str


class Analysing(_Report, frozen=True, tag="analysing"):
    """Raw records become tables and pictures."""


class Warned(_Report, frozen=True, tag="warning"):
    """Something that the user should know, and that stops nothing."""

    reason: str


class Invalid(_Report, frozen=True, tag="invalid"):
    """The emulation cannot be trusted, and was not carried further."""

    reason: str


class Failed(_Report, frozen=True, tag="failed"):
    """The experiment ended before its end."""

    reason: str


class Interrupted(_Report, frozen=True, tag="interrupted"):
    """The user ended the experiment."""


class Done(_Report, frozen=True, tag="done"):
    """All runs have been carried out."""


Progress = (
    Predicting
    | Simulating
    | Looking
    | Waiting
    | Building
    | Learning
    | Calibrating
    | Running
    | IterationBegun
    | LinksCarried
    | RunFailed
    | Repeating
    | Broke
    | Analysing
    | Warned
    | Invalid
    | Failed
    | Interrupted
    | Done
)
Report = Callable[[Progress], None]
"""Is told of progress."""

_DECODER: msgspec.json.Decoder[Progress] = msgspec.json.Decoder(Progress)


def progress_line(report: Progress) -> bytes:
    """The report as one line, with its end."""
    return msgspec.json.encode(report) + b"\n"


def parse_progress(line: bytes) -> Progress | None:
    """The report on `line`; None if it is something else, such as a library's warning."""
    try:
        return _DECODER.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None

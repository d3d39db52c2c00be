"""The account of an import: what the files list, and every cause for which the job has more or less of it.

Three sums are followed: bytes, computation time, and how many collectives and messages there are. A reader counts what
it finds as the files list it. Whoever then leaves something out, adds something or counts it otherwise says how much, and
why. What the job has is counted in its DAG. `Account.balance` holds the two against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from echelonflow.errors import InputError, RunError
from echelonflow.model.dag import JobDag

Kind = Literal["dropped", "added", "counted"]
_TOLERANCE: Final = 1e-9
"""Of computation time, relative: sums of many durations are not exact."""

AS_FLOWS: Final = "a collective of n ranks as flows: (n - 1) times its bytes, an all-reduce 2 (n - 1) times"
SHARES: Final = "bytes: every share of a collective has at least 1"
SHARDS: Final = "bytes of an all-gather are each rank's shard (gather_size)"
LISTED_BY_ALL: Final = "a collective is listed by each of its ranks"
BOTH_ENDS: Final = "a message is listed by both of its ends"


@dataclass(frozen=True, slots=True)
class Amount:
    """So many bytes, seconds of computation, and collectives or messages; a difference may be negative."""

    size_bytes: int = 0
    compute_s: float = 0.0
    communications: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.size_bytes + other.size_bytes,
            self.compute_s + other.compute_s,
            self.communications + other.communications,
        )

    def __neg__(self) -> Amount:
        return Amount(-self.size_bytes, -self.compute_s, -self.communications)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why the job differs from what was read, and by how much."""

    kind: Kind
    things: int
    """How many of what `words` speaks of; 0 where it speaks of no number."""
    words: str
    amount: Amount

    @property
    def text(self) -> str:
        """What happened and why, as a report says it."""
        return f"{self.things:,} {self.words}" if self.things else self.words

    @property
    def label(self) -> str:
        """What happened; of what was dropped without the reason that follows a colon, which the report has above."""
        what = self.text.partition(": ")[0] if self.kind == "dropped" else self.text
        return what if self.kind == "counted" else f"{self.kind}: {what}"


@dataclass(frozen=True)
class Balance:
    """What was read, the causes of differences, and what the job has: `read` and all causes together are `job`."""

    read: Amount
    causes: tuple[Cause, ...]
    job: Amount

    @property
    def unexplained(self) -> Amount:
        """What the job has beyond what was read and every cause; seconds that are next to nothing count as none."""
        amounts = [self.read, *(cause.amount for cause in self.causes)]
        left = self.job + -sum(amounts, Amount())
        seconds = sum([self.job.compute_s, *(-amount.compute_s for amount in amounts)])
        scale_s = sum(abs(amount.compute_s) for amount in amounts)
        rounding = abs(seconds) <= _TOLERANCE * max(scale_s, self.job.compute_s)
        return Amount(left.size_bytes, 0.0 if rounding else seconds, left.communications)

    def lines(self) -> list[str]:
        """The account as lines of text: bytes, seconds of computation, collectives and messages, and the cause."""
        without = self.unexplained
        rows = [
            ("bytes", "computation", "collectives", "and messages"),
            (f"{self.read.size_bytes:,}", f"{self.read.compute_s:.9g} s", f"{self.read.communications:,}", "read"),
            *(_row(cause.amount, cause.label) for cause in self.causes if cause.amount != Amount()),
            (f"{self.job.size_bytes:,}", f"{self.job.compute_s:.9g} s", f"{self.job.communications:,}", "in the job"),
            _row(without, "without a cause"),
        ]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        return ["  ".join([*(cell.rjust(w) for cell, w in zip(row, widths, strict=False)), row[3]]) for row in rows]


class Account:
    """Collects what is read and why the job will differ; causes with the same words are one."""

    def __init__(self) -> None:
        self.read = Amount()
        self._causes: dict[tuple[Kind, str], Cause] = {}

    def found(self, *, size_bytes: int = 0, compute_s: float = 0.0, communications: int = 0) -> None:
        """What the files list."""
        self.read += Amount(size_bytes, compute_s, communications)

    def dropped(
        self, words: str, *, things: int = 1, size_bytes: int = 0, compute_s: float = 0.0, communications: int = 0
    ) -> None:
        """What is left out (amounts as they were read), and after a colon why."""
        self._add("dropped", things, words, -Amount(size_bytes, compute_s, communications))

    def added(
        self, words: str, *, things: int = 1, size_bytes: int = 0, compute_s: float = 0.0, communications: int = 0
    ) -> None:
        """What is in the job and not listed, and after a colon why."""
        self._add("added", things, words, Amount(size_bytes, compute_s, communications))

    def counted(self, words: str, *, size_bytes: int = 0, compute_s: float = 0.0, communications: int = 0) -> None:
        """What a file lists in another measure than the job: once for all ranks, or without the algorithm; signed."""
        self._add("counted", 0, words, Amount(size_bytes, compute_s, communications))

    def dropped_alone(self, kind: str, size_bytes: int) -> None:
        """A collective whose group is one rank."""
        self.dropped(f"{kind}s in groups of one rank: nobody to send to", size_bytes=size_bytes, communications=1)

    def lost(self) -> list[str]:
        """What was dropped so far, and why."""
        return [cause.text for cause in self._causes.values() if cause.kind == "dropped"]

    def balance(self, source: str, dag: JobDag) -> Balance:
        """The account with what `dag` has; RunError, naming `source`, where a difference has no cause.

        Raises InputError for computations that take longer together than can be counted.
        """
        job = Amount(
            sum(transfer.size_bytes for transfer in dag.transfers),
            sum(step.duration_s for step in dag.computes),
            len({transfer.coflow for transfer in dag.transfers}),
        )
        if not (math.isfinite(job.compute_s) and math.isfinite(self.read.compute_s)):
            raise InputError(
                f"{source}: computations take longer together than can be counted; is the unit of time right?"
            )
        found = Balance(self.read, tuple(self._causes.values()), job)
        if (left := found.unexplained) != Amount():
            raise RunError(
                f"{source}: the job has {left.size_bytes:+,} bytes, {left.compute_s:+.9g} s of computation and "
                f"{left.communications:+,} collectives or messages for which there is no cause; "
                f"this is a fault of the importer, so there is no job"
            )
        return found

    def _add(self, kind: Kind, things: int, words: str, amount: Amount) -> None:
        before = self._causes.get((kind, words))
        if before is not None:
            things, amount = before.things + things, before.amount + amount
        self._causes[kind, words] = Cause(kind, things, words, amount)


def _row(amount: Amount, words: str) -> tuple[str, str, str, str]:
    def shown(value: float, text: Callable[[float], str]) -> str:
        return text(value) if value else "0"

    return (
        shown(amount.size_bytes, lambda v: f"{v:+,}"),
        shown(amount.compute_s, lambda v: f"{v:+.9g} s"),
        shown(amount.communications, lambda v: f"{v:+,}"),
        words,
    )

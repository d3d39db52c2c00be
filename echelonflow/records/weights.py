"""When switches' queues were given other weights, and when they had them (weights.jsonl): only of runs under `weighted`.

Which weights, the decisions say. Times are readings of the monotonic clock in seconds, as in events.jsonl.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from echelonflow.codec import Log
from echelonflow.files import Appended


class WeightsGiven(msgspec.Struct, frozen=True):
    """`classes` of all switches were given other weights at `sent_s`, and had them at `confirmed_s`.

    They belong to the decision before which the run's log had `decisions` others: the line of that number, from 0 on.
    """

    classes: int
    decisions: int
    sent_s: float
    confirmed_s: float


_LOG: Log[WeightsGiven] = Log("echelon-weights", 1, WeightsGiven)


class WeightsLog:
    """The log of one run, open for writing."""

    def __init__(self, path: Path) -> None:
        self._file = Appended(path)
        self._file.write(_LOG.header)

    def write(self, given: WeightsGiven) -> None:
        """Append a change that was carried out."""
        self._file.write(_LOG.line(given))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_weights(path: Path, faults: list[str] | None = None) -> list[WeightsGiven]:
    """All changes in `path` that were carried out, none where it does not exist (InputError for a malformed line).

    Where `faults` are asked for, such lines are left out and told there instead.
    """
    return list(_LOG.read(path, faults))

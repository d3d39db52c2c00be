"""When switches were given rules, and when they had them (rules.jsonl): only where a run asks for confirmations.

Times are readings of the monotonic clock in seconds, as in events.jsonl.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from echelonflow.codec import Log
from echelonflow.files import Appended


class RulesGiven(msgspec.Struct, frozen=True):
    """One switch was given `rules` changes at `sent_s`, and had carried them out when its answer came at `confirmed_s`.

    They belong to the decision before which the run's log had `decisions` others: the line of that number, from 0 on.
    """

    switch: str
    rules: int
    decisions: int
    sent_s: float
    confirmed_s: float


_LOG: Log[RulesGiven] = Log("echelon-rules", 1, RulesGiven)


class RulesLog:
    """The log of one run, open for writing."""

    def __init__(self, path: Path) -> None:
        self._file = Appended(path)
        self._file.write(_LOG.header)

    def write(self, given: RulesGiven) -> None:
        """Append a change that was confirmed."""
        self._file.write(_LOG.line(given))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_rules(path: Path, faults: list[str] | None = None) -> list[RulesGiven]:
    """All confirmed changes in `path`, none where it does not exist (InputError for a malformed line).

    Where `faults` are asked for, such lines are left out and told there instead.
    """
    return list(_LOG.read(path, faults))

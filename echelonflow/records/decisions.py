"""What the coordinator decided, a line for each decision (decisions.jsonl)."""

from __future__ import annotations

from pathlib import Path

from echelonflow.codec import Log
from echelonflow.files import Appended
from echelonflow.records.run_record import DecisionRecord

_LOG: Log[DecisionRecord] = Log("echelon-decisions", 1, DecisionRecord, {0: lambda data, _: data})


class DecisionLog:
    """The log of one run, open for writing: a decision is in the file when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._file = Appended(path)
        self._file.write(_LOG.header)

    def write(self, decision: DecisionRecord) -> None:
        """Append a decision."""
        self._file.write(_LOG.line(decision))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_decisions(path: Path, faults: list[str] | None = None) -> list[DecisionRecord]:
    """All decisions in `path`, none where it does not exist (InputError, naming the line, for a malformed one).

    Where `faults` are asked for, such lines are left out and told there instead.
    """
    return list(_LOG.read(path, faults))

"""How fast each flow went at every moment of a simulation: kept in memory while its run is explained, never on disk."""

from __future__ import annotations

from array import array

import numpy as np

from echelonflow.model.arrays import Floats, Ints

MOST_CHANGES = 20_000_000
"""Of rates that are kept: 16 bytes each."""
MOST_NUMBER = 20_000_000
"""By which a simulation may know a flow: 8 bytes for each that is smaller."""


class RateLog:
    """Whenever the rate of a flow changed: when, which flow, and its rate from then on.

    A simulation calls its flows by numbers of its own. `end` says which of them the flows of its record are. What is more than
    `most` changes is not kept, and then nothing can be made of the rest.
    """

    def __init__(self, most: int = MOST_CHANGES) -> None:
        self._most = most
        self._moment_s, self._changes = array("d"), array("q")
        self._number, self._rate_Bps = array("q"), array("d")
        self._in_force_Bps: Floats = np.zeros(1024)
        """By number of a flow: its rate, 0 before the first one."""
        self._of_record: Ints = np.zeros(0, np.int64)
        self.is_full = False

    def note(self, now_s: float, number: Ints, rate_Bps: Floats) -> None:
        """The flows in flight, and their rates from `now_s` on, in bytes per second."""
        if self.is_full or not len(number):
            return
        highest = int(number.max())
        if highest >= MOST_NUMBER or len(self._number) > self._most:
            self.is_full = True
            return
        if highest >= len(self._in_force_Bps):
            room = np.zeros(max(highest + 1, 2 * len(self._in_force_Bps)))
            room[: len(self._in_force_Bps)] = self._in_force_Bps
            self._in_force_Bps = room
        changed = np.flatnonzero(rate_Bps != self._in_force_Bps[number])
        if not len(changed):
            return
        number, rate_Bps = number[changed], rate_Bps[changed]
        self._in_force_Bps[number] = rate_Bps
        self._moment_s.append(now_s)
        self._changes.append(len(changed))
        self._number.frombytes(np.ascontiguousarray(number, np.int64).tobytes())
        self._rate_Bps.frombytes(np.ascontiguousarray(rate_Bps, np.float64).tobytes())

    def end(self, number: Ints) -> None:
        """The simulation is over: the numbers of the flows in its record, in their order."""
        self._of_record = np.asarray(number, np.int64)

    def pieces(self, finish_s: Floats) -> tuple[Ints, Floats, Floats, Floats]:
        """What every flow was sent, piece by piece: its row in the record, begin and end in seconds, bytes per second.

        Pieces of a flow lie side by side, in order of time; those without a rate are left out. `finish_s` is when each
        flow of the record ended. Flows that have no record are left out, too.
        """
        number, rate_Bps = np.array(self._number, np.int64), np.array(self._rate_Bps)
        begin_s = np.repeat(np.array(self._moment_s), np.array(self._changes, np.int64))
        row_of = np.full(len(self._in_force_Bps), -1)
        seen = self._of_record < len(row_of)  # of the others no rate was ever told
        row_of[self._of_record[seen]] = np.flatnonzero(seen)
        row = row_of[number]
        order = np.flatnonzero(row >= 0)
        order = order[np.argsort(row[order], kind="stable")]
        row, begin_s, rate_Bps = row[order], begin_s[order], rate_Bps[order]
        end_s = finish_s[row]
        follows = row[1:] == row[:-1]
        end_s[:-1][follows] = begin_s[1:][follows]
        kept = (rate_Bps > 0) & (end_s > begin_s)
        return row[kept], begin_s[kept], end_s[kept], rate_Bps[kept]

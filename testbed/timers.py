"""How late timers fire on this machine, and the least burst of a link that makes up for it.

A link is a token bucket that a timer serves. While the timer is late, tokens gather, up to the burst; what would have
come on top is lost for good. So a wait that ends late by L loses max(L - burst, 0) seconds of the link. The sum over
many waits is the share of its capacity that a link with this burst would lose (`lost_share`).

Also a script, standard library only: `timers.py --core C --begin B --end E` waits on one core and prints the latenesses
as JSON. It waits at the switch daemon's priority, since a switch that is woken late starves its links in the same way.
It waits while a link is being filled, since a host takes time from a busy machine alone.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

WAIT_S = 0.0005
BURSTS_S = (0.002, 0.004, 0.008, 0.012, 0.016, 0.02)
"""From what a quiet machine of one's own needs to where a burst is itself an error: 20 ms are 4 % of half a second."""
MOST_LOST_SHARE = 0.001
"""Of a link's capacity: a thirtieth of the error that calibration allows, as a second may be a calm one."""
PROBED_CORES = 4
_PR_SET_TIMERSLACK = 29


@dataclass(frozen=True)
class Lateness:
    """Latenesses of all waits in seconds, and for how long waits went on (all cores together)."""

    late_s: tuple[float, ...]
    probed_s: float

    def lost_share(self, burst_s: float) -> float:
        """Share of its capacity that a link would lose with bursts of `burst_s`."""
        return sum(max(late_s - burst_s, 0.0) for late_s in self.late_s) / self.probed_s

    def quantile_s(self, share: float) -> float:
        """The lateness that `share` (0 to 1) of the waits do not exceed."""
        return sorted(self.late_s)[min(int(share * len(self.late_s)), len(self.late_s) - 1)]

    def least_burst_s(self) -> float:
        """The least of `BURSTS_S` with which a link would lose no more than `MOST_LOST_SHARE`; else the greatest."""
        enough = (burst_s for burst_s in BURSTS_S if self.lost_share(burst_s) <= MOST_LOST_SHARE)
        return next(enough, BURSTS_S[-1])


def longer_burst_s(burst_s: float) -> float:
    """The next longer of `BURSTS_S`; the longest stays what it is."""
    return next((longer_s for longer_s in BURSTS_S if longer_s > burst_s), BURSTS_S[-1])


def cores() -> list[int]:
    """The cores to wait on: those that this process may use, a few at most."""
    return sorted(os.sched_getaffinity(0))[:PROBED_CORES]


def pooled(outputs: Sequence[str]) -> Lateness:
    """What several probes printed, as one."""
    found = [json.loads(output) for output in outputs]
    return Lateness(tuple(late_s for one in found for late_s in one["late_s"]), sum(one["probed_s"] for one in found))


def wait_often(begin_s: float, end_s: float) -> dict[str, object]:
    """Wait for `WAIT_S` again and again from `begin_s` to `end_s` (CLOCK_MONOTONIC); how late each wait ended.

    It waits once at least, also where it was started too late to wait at all: that is lateness, too.
    """
    late_s: list[float] = []
    time.sleep(max(begin_s - time.monotonic(), 0.0))
    first_s = now_s = time.monotonic()
    while now_s < end_s or not late_s:
        time.sleep(WAIT_S)
        then_s, now_s = now_s, time.monotonic()
        late_s.append(round(now_s - then_s - WAIT_S, 7))
    return {"late_s": late_s, "probed_s": now_s - first_s}


def main(argv: list[str] | None = None) -> int:
    """`timers.py --core C --begin B --end E`."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--begin", type=float, required=True)
    parser.add_argument("--end", type=float, required=True)
    arguments = parser.parse_args(argv)
    os.sched_setaffinity(0, {arguments.core})
    # Linux lets ordinary waits end up to 50 us late on purpose; the kernel's own timers are not so.
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
    print(json.dumps(wait_often(arguments.begin, arguments.end)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

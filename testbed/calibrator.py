"""Keeps an emulated network true to its declaration: chooses bursts, measures, and tries again when links are off.

A machine that is shared has bad minutes. They are waited for, within reason, and with longer bursts where links carry
too little. Runs that are made in spite of a bad calibration count where it moves their times by little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from echelonflow.records.calibration import Calibration, CalibrationAttempt, TimerLateness
from testbed import calibrate, timers
from testbed.load import read_sample, stolen_share

if TYPE_CHECKING:
    from testbed.mininet_network import EmulatedNetwork

RETRY_AFTER_S = (5.0, 15.0, 30.0)
MORE_STOLEN_SHARE = 0.05
"""So much more of the processors taken away in a run than when links were measured, and they are measured again."""

Tell = Callable[[str], None]
"""Is told, in words, that links are off and what is done about it."""


class Calibrator:
    """Measures the links of `net` before the first run, and again when there is reason to; `calibration` has it all.

    `save` is called with the calibration after every attempt. `runs_s` is how long all runs are expected to take: no
    longer is waited for better links. `earlier` attempts, of worlds before this one, speak for the runs made there.
    """

    def __init__(
        self,
        net: EmulatedNetwork,
        max_error: float,
        runs_s: float,
        *,
        tell: Tell,
        save: Callable[[Calibration], None],
        sleep: Callable[[float], None] = time.sleep,
        earlier: Sequence[CalibrationAttempt] = (),
    ) -> None:
        self._net = net
        self._max_error = max_error
        self._patience_s = runs_s
        self._tell = tell
        self._save = save
        self._sleep = sleep
        self._least_burst_s = 0.0
        self._attempts = list(earlier)
        self._first_run = 0
        self._begin_s = time.monotonic()

    @property
    def calibration(self) -> Calibration:
        ovs = self._net.ovs
        return Calibration(datapath=ovs.datapath, tso=ovs.tso, openvswitch=ovs.version, attempts=tuple(self._attempts))

    def begin(self, first_run: int = 0) -> None:
        """Measure the links before the first run; while they are off, wait and measure again."""
        self._first_run = first_run
        self._attempt(first_run=first_run, choose_burst=True)
        for wait_s in RETRY_AFTER_S:
            self._patience_s -= wait_s
            if not self._off() or self._patience_s < 0:
                break
            self._tell(f"{self._off()}; trying again in {wait_s:g} s")
            self._sleep(wait_s)
            self._attempt(first_run=first_run, choose_burst=True)
        if self._off():
            self._tell(f"{self._off()}; runs count where that moves their times by little")

    def before_run(self, run_index: int) -> None:
        """Measure the links again if they were off when last measured."""
        if run_index > self._first_run and self._off():
            self._attempt(first_run=run_index, choose_burst=True)
            self._tell(self._off() or "links carry what they declare again")

    def after_run(self, run_index: int, cpu_stolen: float) -> None:
        """Measure the links as they are, if much was stolen (share of the processors) in a run; it counts if they hold."""
        if self._attempts and not self._off() and cpu_stolen > self._attempts[-1].stolen_share + MORE_STOLEN_SHARE:
            self._attempt(first_run=run_index, choose_burst=False)
            if self._off():
                self._tell(f"{self._off()} after {cpu_stolen:.0%} of the processors were taken away in the run")

    def _attempt(self, *, first_run: int, choose_burst: bool) -> None:
        begin_s, before = time.monotonic(), read_sample()
        lateness = calibrate.watch_timers(self._net) if choose_burst else None
        if lateness is not None:
            self._net.set_burst(max(lateness.least_burst_s(), self._least_burst_s))
        links = tuple(calibrate.calibrate(self._net, self._max_error))
        attempt = CalibrationAttempt(
            first_run=first_run,
            burst_s=self._net.burst_s,
            links=links,
            timers=None if lateness is None else _summary(lateness),
            stolen_share=stolen_share(before, read_sample()),
            after_s=begin_s - self._begin_s,
        )
        self._attempts.append(attempt)
        self._save(self.calibration)
        off = attempt.off(self._max_error)
        if any(link.error < 0 for link in off):
            self._least_burst_s = timers.longer_burst_s(attempt.burst_s)
        elif off:
            self._least_burst_s = 0.0  # too much: no longer bursts than timers ask for

    def _off(self) -> str:
        """What is wrong with the links as last measured; empty if nothing is."""
        off = self._attempts[-1].off(self._max_error) if self._attempts else []
        if not off:
            return ""
        worst = max(off, key=lambda link: abs(link.error))
        return f"{worst.kind} links carry {worst.error:+.1%} of what they declare"


def _summary(lateness: timers.Lateness) -> TimerLateness:
    return TimerLateness(
        waits=len(lateness.late_s),
        median_s=lateness.quantile_s(0.5),
        p99_s=lateness.quantile_s(0.99),
        max_s=lateness.quantile_s(1.0),
        lost_share={f"{burst_s * 1e3:g} ms": lateness.lost_share(burst_s) for burst_s in timers.BURSTS_S},
    )

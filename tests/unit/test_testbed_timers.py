"""How late timers fire, and the burst that is chosen by it; the probe on this machine's own timers."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from testbed import timers
from testbed.timers import BURSTS_S, Lateness, longer_burst_s, pooled
from tests.waiting import end_of, started


def lateness(*late_ms, probed_s=1.0):
    return Lateness(tuple(ms / 1e3 for ms in late_ms), probed_s)


def test_what_a_late_timer_loses_is_what_its_burst_does_not_hold():
    found = lateness(0.1, 5.0, 11.0)
    assert [found.lost_share(burst_s) for burst_s in (0.002, 0.004, 0.008, 0.02)] == pytest.approx(
        [0.012, 0.008, 0.003, 0.0]
    )


@pytest.mark.parametrize(
    ("late_ms", "burst_s"),
    [([0.05] * 1000, 0.002), ([2.9], 0.002), ([3.5], 0.004), ([2.9, 2.9], 0.004), ([7.0] * 9, 0.008), ([300.0], 0.02)],
    ids=["in time", "once hardly late", "once late", "twice hardly late", "often late", "beyond help"],
)
def test_the_least_burst_that_loses_next_to_nothing_is_chosen(late_ms, burst_s):
    found = lateness(*late_ms)
    assert found.least_burst_s() == burst_s
    assert burst_s == BURSTS_S[-1] or found.lost_share(burst_s) <= timers.MOST_LOST_SHARE


def test_a_step_longer_ends_at_the_longest():
    assert [longer_burst_s(b) for b in (0.0, *BURSTS_S)] == [*BURSTS_S, BURSTS_S[-1]]


def test_quantiles():
    found = lateness(*range(1, 101))
    assert (found.quantile_s(0.5), found.quantile_s(0.99), found.quantile_s(1.0)) == (0.051, 0.1, 0.1)


def test_a_probe_that_starts_too_late_waits_once_all_the_same():
    found = timers.wait_often(time.monotonic() - 2.0, time.monotonic() - 1.0)
    assert len(found["late_s"]) == 1
    assert found["probed_s"] >= timers.WAIT_S


def test_the_probe_waits_as_often_as_it_can():
    begin_s = time.monotonic()
    found = timers.wait_often(begin_s, begin_s + 0.2)
    waited_s = sum(found["late_s"]) + timers.WAIT_S * len(found["late_s"])
    assert found["probed_s"] == pytest.approx(waited_s, rel=1e-3)
    assert found["probed_s"] >= 0.1
    assert min(found["late_s"]) >= -1e-6


def test_as_a_script_it_waits_on_a_core_of_its_own_and_prints_what_is_pooled():
    argv = [sys.executable, "-I", "-S", timers.__file__, "--begin", "0", "--end", str(time.monotonic() + 0.5), "--core"]
    outputs = []
    for core in timers.cores():
        with started([*argv, str(core)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            code, output, errors = end_of(process, 30)
        assert code == 0, errors
        outputs.append(output)
    found = pooled(outputs)
    assert len(found.late_s) >= len(outputs)
    assert found.probed_s >= timers.WAIT_S * len(outputs)

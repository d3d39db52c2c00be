"""CPU shares from clocks: of all cores, of what the host takes away, of the busiest thread of a process."""

from __future__ import annotations

import os
import threading
import time

import psutil
import pytest

from testbed import load
from testbed.load import Sample, busy_share, core_share, read_sample, stolen_share, summary, thread_share


def test_the_clocks_are_the_machines(monkeypatch):
    times = psutil._pslinux.scputimes(100, 0, 50, 800, 40, 5, 5, 3, 7, 0)
    monkeypatch.setattr(load.psutil, "cpu_times", lambda percpu=False: [times] if percpu else times)
    sample = read_sample()
    # Waiting for a disk is idle time, and guests' time is counted in "user" already.
    assert (sample.busy_s, sample.stolen_s, sample.total_s) == (163, 3, 1003)


def test_each_thread_of_the_process_is_watched():
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    try:
        assert {threading.get_native_id(), other.native_id} <= set(read_sample(os.getpid()).threads_s)
    finally:
        ended.set()
        other.join()


def test_a_thread_that_computes_is_the_busiest():
    before = read_sample(os.getpid())
    end_s = time.thread_time() + 0.1
    while time.thread_time() < end_s:
        pass
    after = read_sample(os.getpid())
    own = threading.get_native_id()
    assert after.threads_s[own] - before.threads_s[own] == pytest.approx(0.1, abs=0.05)
    assert 0 < thread_share(before, after) <= 1


def test_no_share_is_more_than_all_of_it_by_rounding():
    a, b = Sample(0.0, 0.1, 0.0, 0.1), Sample(1.0, 1000.3, 0.0, 1000.3 - 1e-9, {1: 1.02})
    assert (busy_share(a, b), thread_share(a, b)) == (1.0, 1.0)


def test_a_daemon_that_is_gone_has_no_threads():
    assert read_sample(2**22 + 1).threads_s == {}


def test_the_busiest_thread_counts_not_their_sum():
    a = Sample(0.0, 0.0, 0.0, 0.0, {1: 0.1, 2: 0.1})
    b = Sample(2.0, 1.0, 0.4, 4.0, {1: 0.6, 2: 1.5})
    assert (busy_share(a, b), stolen_share(a, b), thread_share(a, b)) == (0.25, 0.1, 0.7)


def samples(*steps):
    """A sample every 0.5 s: of two cores, `busy_s` and `spent_s` more than before in each."""
    found = [Sample(0.0, 0.0, 0.0, 0.0, {1: 0.0})]
    for busy_s, spent_s in steps:
        last = found[-1]
        at_s = last.at_s + 0.5
        found.append(Sample(at_s, last.busy_s + busy_s, 0.0, 2 * at_s, {1: last.threads_s[1] + spent_s}))
    return found


def test_summary_has_the_mean_and_the_worst_two_seconds():
    quiet, loud = (0.25, 0.0), (1.0, 0.5)
    found = summary(samples(*[quiet] * 4, *[loud] * 4))
    assert (found.cpu_busy, found.cpu_busy_max) == (0.625, 1.0)
    assert (found.switch_thread_busy, found.switch_thread_busy_max) == (0.5, 1.0)
    instant = summary(samples(*[quiet] * 4, loud, *[quiet] * 4))
    assert instant.cpu_busy_max == pytest.approx(0.4375)
    assert summary(samples(loud)).cpu_busy_max == 1.0  # a run that is shorter is judged as a whole


def test_the_busiest_core_counts_though_all_together_are_half_idle():
    a = Sample(0.0, 0.0, 0.0, 0.0, cores_s=((0.0, 0.0), (5.0, 10.0)))
    b = Sample(2.0, 2.0, 0.0, 4.0, cores_s=((2.0, 2.0), (5.1, 12.0)))
    assert core_share(a, b) == 1.0
    assert summary([a, b]).core_busy == 1.0
    assert core_share(a, Sample(2.0, 2.0, 0.0, 4.0)) is None


def test_a_thread_born_between_samples_counts_from_zero():
    assert thread_share(Sample(0.0, 0, 0, 0), Sample(1.0, 1, 0, 2, {5: 0.4})) == pytest.approx(0.4)


def test_what_others_take_is_what_ours_does_not():
    a = Sample(0.0, 0.0, 0.0, 0.0, processes_s=10.0, ours_s={1: 3.0, 2: 1.0})
    b = Sample(2.0, 3.0, 0.0, 4.0, processes_s=13.0, ours_s={1: 4.0, 3: 0.5})
    # Of 3 s of all processes 1 s is the first one's and 0.5 s that of one which has begun; 2 has ended.
    assert load.others_share(a, b) == pytest.approx(1.5 / 4.0)


def test_what_begins_and_ends_within_a_run_is_ours():
    samples = [
        Sample(0.0, 0.0, 0.0, 0.0, processes_s=0.0, ours_s={1: 0.0}),
        Sample(0.5, 0.0, 0.0, 1.0, processes_s=0.8, ours_s={1: 0.1, 2: 0.6}),
        Sample(1.0, 0.0, 0.0, 2.0, processes_s=1.0, ours_s={1: 0.3}),  # 2 has ended
    ]
    assert summary(samples).cpu_others == pytest.approx((0.1 + 0.0) / 2.0)


def test_a_process_that_computes_is_seen():
    before = read_sample()
    end_s = time.process_time() + 0.1
    while time.process_time() < end_s:
        pass
    after = read_sample()
    assert after.ours_s[os.getpid()] - before.ours_s[os.getpid()] == pytest.approx(0.1, abs=0.05)


def test_a_run_is_told_of_half_a_second_at_a_time():
    samples = [
        Sample(10.0, 0.0, 0.0, 0.0, processes_s=0.0),
        Sample(10.5, 0.4, 0.0, 1.0, processes_s=0.4),
        Sample(11.0, 1.3, 0.5, 2.0, processes_s=0.7),
    ]
    found = summary(samples)
    assert [(w.begin_s, w.end_s) for w in found.windows] == [(10.0, 10.5), (10.5, 11.0)]
    assert [w.stolen for w in found.windows] == [0.0, 0.5]
    assert [w.others for w in found.windows] == pytest.approx([0.4, 0.3])
    assert found.cpu_others == pytest.approx(0.35)

"""CPU shares from the clocks of /proc, on a /proc of our own."""

from __future__ import annotations

import pytest

from testbed.load import Sample, read_sample, shares, summary

STAT = "cpu  100 0 50 800 40 5 5 0 7 0\ncpu0 1 2 3 4\n"


@pytest.fixture
def proc(tmp_path):
    (tmp_path / "stat").write_text(STAT)
    for thread, ticks in (("7", 30), ("8", 90)):
        task = tmp_path / "7" / "task" / thread
        task.mkdir(parents=True)
        (task / "stat").write_text(f"{thread} (a (b) c) S " + " ".join(["0"] * 10) + f" {ticks} 5 0 0\n")
    return tmp_path


def test_idle_and_waiting_time_is_not_busy_and_guest_time_not_counted_twice(proc):
    sample = read_sample(7, proc, clock=lambda: 3.0)
    assert (sample.at_s, sample.busy_ticks, sample.total_ticks) == (3.0, 160, 1000)


def test_each_thread_is_watched_whatever_its_name_holds(proc):
    assert read_sample(7, proc).threads == {"7": 35, "8": 95}


def test_a_daemon_that_is_gone_has_no_threads(proc):
    assert read_sample(9, proc).threads == {}


def test_the_busiest_thread_counts_not_their_sum():
    a = Sample(0.0, 0, 0, {"1": 10, "2": 10})
    b = Sample(2.0, 100, 400, {"1": 60, "2": 150})
    assert shares(a, b, ticks_per_s=100) == (0.25, 0.7)


def test_summary_has_the_mean_and_the_worst_window():
    samples = [Sample(0.0, 0, 0, {"1": 0}), Sample(0.5, 90, 100, {"1": 50}), Sample(1.0, 100, 200, {"1": 50})]
    found = summary(samples, ticks_per_s=100)
    assert found == {"cpu_busy": 0.5, "cpu_busy_max": 0.9, "switch_thread_busy": 0.5, "switch_thread_busy_max": 1.0}


def test_a_thread_born_between_samples_counts_from_zero():
    a, b = Sample(0.0, 0, 0, {}), Sample(1.0, 1, 2, {"5": 40})
    assert shares(a, b, ticks_per_s=100)[1] == pytest.approx(0.4)

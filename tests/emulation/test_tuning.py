"""`echelon tune` on real packets: each trial is a run of its own, and what was tried is not tried again."""

from __future__ import annotations

import json

import pytest

from tests.emulation.conftest import echelon

pytestmark = pytest.mark.emulation

EXPERIMENT = """
name: tuned
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs:
  - {name: net, paradigm: data-parallel, ranks: 2, layers: 4, forward: 20 ms, backward: 40 ms, parameter: 500 kB,
     iterations: 3, scheduler: "bytescheduler(partition=500 kB, credit=2 MB)"}
policies: [fair]
# The machine may be busy: what is tested here is what was tried, not how fast it was.
emulation: {limits: {max_link_error: 1, max_cpu_busy: 1, max_switch_thread_busy: 1, max_late_p99_s: 1, max_late_share: 1,
                     max_queue_drop_share: 1, max_stray_share: 0.05, max_log_pcap_median_s: 1, max_log_pcap_p99_s: 1,
                     max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1, max_unexplained_exposed: 1}}
"""


def test_a_point_is_tried_on_packets_and_only_once(tmp_path):
    file, out = tmp_path / "tuned.yaml", tmp_path / "out"
    file.write_text(EXPERIMENT)
    space = "--space=partition=200 kB..500 kB,credit=200 kB..2 MB"
    command = (
        "tune",
        file,
        space,
        "--method=random",
        "--samples=1",
        "--backend=emulation",
        "--repeats=1",
        "--out",
        out,
    )
    said = echelon(*command)
    assert "emulated, medians over 1 run" in said
    assert "a first try, which does not count" in said
    runs = sorted(path.name for path in (out / "runs").iterdir())
    assert [name.rpartition("-")[0] for name in runs] == ["0-default-0", "0-off-0", "0-sample-0", "0-warm-up-0"]
    default, off, sample, warm_up = (scheduler_of(out / "runs" / name) for name in runs)
    assert default == warm_up == "bytescheduler(partition=500 kB, credit=2 MB)"
    assert off == "fifo"
    assert sample not in (default, off)
    assert all(list((out / "runs" / name / "pcap").iterdir()) for name in runs)
    before = {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")}
    again = echelon(*command)
    assert "a first try" not in again
    assert {path: path.stat().st_mtime_ns for path in (out / "runs").rglob("*")} == before


def scheduler_of(folder):
    """The job scheduler that a run's jobs had."""
    (job,) = json.loads((folder / "manifest.json").read_text())["experiment"]["jobs"]
    return job["scheduler"]

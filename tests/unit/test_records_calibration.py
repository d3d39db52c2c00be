"""calibration.json: written and read back, which attempt speaks for a run, and older files."""

from __future__ import annotations

import json

import pytest

from echelonflow.errors import InputError
from echelonflow.records.calibration import (
    Calibration,
    CalibrationAttempt,
    LinkMeasurement,
    TimerLateness,
    read_calibration,
    write_calibration,
)


def link(error):
    return LinkMeasurement(kind="edge", path="h1->s1", declared_Bps=1e6, measured_Bps=1e6 * (1 + error), error=error)


def calibration(*attempts):
    found = tuple(CalibrationAttempt(first_run=run, burst_s=0.004, links=(link(error),)) for run, error in attempts)
    return Calibration(datapath="userspace", tso=True, openvswitch="3.1.0", attempts=found)


def test_what_is_written_is_read_back(tmp_path):
    timers = TimerLateness(waits=9, median_s=1e-5, p99_s=1e-3, max_s=0.01, lost_share={"4 ms": 0.001})
    attempt = CalibrationAttempt(first_run=0, burst_s=0.008, links=(link(0.01),), timers=timers, stolen_share=0.1)
    written = Calibration(datapath="kernel", tso=False, openvswitch="3.1.0", attempts=(attempt,))
    write_calibration(tmp_path / "c.json", written)
    assert read_calibration(tmp_path / "c.json") == written
    assert '"datapath": "kernel"' in (tmp_path / "c.json").read_text()


def test_a_run_is_spoken_for_by_the_latest_attempt_that_reaches_back_to_it():
    # Off at first and tried again; then off after run 3, which it reaches back to, and well again before run 4.
    found = calibration((0, -0.2), (0, 0.0), (3, -0.1), (4, 0.01))
    assert [found.of_run(run).links[0].error for run in range(6)] == [0.0, 0.0, 0.0, -0.1, 0.01, 0.01]
    assert [bool(found.of_run(run).off(0.03)) for run in range(5)] == [False, False, False, True, False]


def test_a_link_of_which_nothing_is_known_is_off():
    assert calibration((0, float("nan"))).last.off(1.0)


def test_a_file_from_before_versions_is_one_attempt(tmp_path):
    path = tmp_path / "c.json"
    entry = {
        "kind": "edge", "path": "h1->s1 (h1 to h2)", "declared_Bps": 1e6, "measured_Bps": 9.9e5, "error": -0.01,
        "rtt_ms": 0.2, "rtt_loaded_ms": 15.1, "ok": True, "attempts": 2,
    }  # fmt: skip
    path.write_text(json.dumps({"links": [entry], "datapath": "userspace", "tso": True, "openvswitch": "3.1.0"}))
    found = read_calibration(path)
    assert (found.last.first_run, found.last.burst_s, found.last.links[0].attempts) == (0, 0.002, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "is not JSON"), ("[]", "is not a JSON object"), ('{"version": 1}', "missing field datapath"), ('{"version": 7}', "is echelon-calibration of version 7; this revision reads")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named(tmp_path, text, words):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(InputError, match=rf"c\.json: {words}"):
        read_calibration(tmp_path / "c.json")
    assert read_calibration(tmp_path / "none.json") is None

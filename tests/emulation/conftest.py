"""Running `echelon` as a user does, and looking at what it started."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ECHELON = [sys.executable, "-m", "echelon.cli"]
CSV_COLUMNS = {
    "iterations": "policy,repeat,job,iteration,start_s,finish_s,duration_s,exposed_s,predicted_s",
    "groups": "policy,repeat,job,iteration,group,kind,reference_s,finish_s,tardiness_s",
    "flows": "policy,repeat,job,iteration,group,flow,src,dst,size_bytes,release_s,start_s,finish_s,ideal_finish_s,"
    "tardiness_s,dscp,pcap_start_s,pcap_finish_s,pcap_bytes,pcap_dscp,retransmissions",
}

SHORT_PIPELINE = """
name: short
time_unit: 400 ms
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs:
  - {name: pipeline, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 400 ms, activation: 800 ms of link}
policies: [fair, coflow(grouping=group), echelonflow]
"""


@pytest.fixture
def short_pipeline(tmp_path) -> Path:
    """The paper's example with a unit of 0.4 s, on links that nobody judges: for tests of what becomes of processes."""
    path = tmp_path / "short.yaml"
    path.write_text(SHORT_PIPELINE + "emulation: {limits: {max_link_error: 1}}\n")
    return path


def echelon(*arguments, code=0) -> str:
    """What another `echelon` command prints, which must end with `code`."""
    done = subprocess.run([*ECHELON, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextlib.contextmanager
def echelon_run(*arguments):
    """`echelon run ...` as a child process, ended in any case."""
    # Tests that a shell runs in the background are deaf to Ctrl-C, and so would be what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*ECHELON, "run", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def own_interfaces() -> set[str]:
    """Network interfaces of this (the machine's own) namespace."""
    return {path.name for path in Path("/sys/class/net").iterdir()}

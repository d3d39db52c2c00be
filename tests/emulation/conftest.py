"""Running `echelon` as a user does, and looking at what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from echelonflow.scheduling.kernels import PLAIN_VARIABLE
from testbed import world
from tests.waiting import ending, started

ECHELON = [sys.executable, "-m", "echelon.cli"]
CSV_COLUMNS = {
    "iterations": "policy,repeat,job,iteration,start_s,finish_s,duration_s,exposed_s,predicted_s,in_force,counted,valid",
    "groups": "policy,repeat,job,iteration,group,kind,reference_s,finish_s,tardiness_s,valid",
    "flows": "policy,repeat,job,iteration,group,flow,src,dst,size_bytes,release_s,start_s,finish_s,ideal_finish_s,"
    "tardiness_s,dscp,pcap_start_s,pcap_finish_s,pcap_bytes,pcap_dscp,retransmissions,"
    "ahead,held,corrected_s,ready_s,path,valid",
}

SHORT_PIPELINE = """
# The paper's example with a unit of 0.4 s. Nobody judges the links: a busy machine's lose a little.
name: short
time_unit: 400 ms
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs:
  - {name: pipeline, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 400 ms, activation: 800 ms of link}
policies: [fair, coflow(grouping=group), echelonflow]
emulation: {limits: {max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}
"""


@pytest.fixture
def short_pipeline(tmp_path) -> Path:
    path = tmp_path / "short.yaml"
    path.write_text(SHORT_PIPELINE)
    return path


def echelon(*arguments, code=0) -> str:
    """What another `echelon` command prints, which must end with `code`."""
    done = subprocess.run([*ECHELON, *map(str, arguments)], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def echelon_run(*arguments, compiled=False):
    """A context manager of `echelon run ...` as a child process, ended in any case, and its world with it.

    Without compiled loops it decides the same, and starts two seconds sooner.
    """
    # Tests that a shell runs in the background are deaf to Ctrl-C, and so would be what they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    argv = [*ECHELON, "run", *map(str, arguments)]
    env = os.environ if compiled else {**os.environ, PLAIN_VARIABLE: "1"}
    return started(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def output_of_world(argv, log, limit_s=90.0) -> str:
    """What a program prints that is run in a world of its own, which must end well; its errors go to `log`."""
    with ending(world.spawn(argv, log)) as inside:  # it ends with its input, so that is left open
        limit = threading.Timer(limit_s, inside.kill)
        limit.start()
        try:
            said = inside.stdout.read().decode()
            code = inside.wait()
        finally:
            limit.cancel()
    assert code == 0, f"exit {code} (killed after {limit_s:g} s if -9)\n{said[-2000:]}\n{log.read_text()}"
    return said


def own_interfaces() -> set[str]:
    """Network interfaces of this (the machine's own) namespace."""
    return {path.name for path in Path("/sys/class/net").iterdir()}

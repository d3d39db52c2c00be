"""How long a network takes to come up, connect to its controller, and go."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.running import runner
from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.records.folder import RunFolder

LIMIT_S = 10.0


def run(repeat: int, say: Say) -> list[Figure]:
    """A leaf-spine of 16 hosts and 6 switches, up and down `repeat` times."""
    network = topologies.build("leaf-spine", {"leaves": 4, "spines": 2, "hosts_per_leaf": 4, "rate_bps": 30e6})
    times_s = []
    for n in range(repeat):
        with tempfile.TemporaryDirectory(prefix="echelon-startup-") as root:
            started_s = time.monotonic()
            failure = runner.only_build(network, RunFolder(Path(root)))
            times_s.append(time.monotonic() - started_s)
        if failure is not None:
            raise RunError(failure)
        say(f"{n + 1} of {repeat}: {times_s[-1]:.1f} s")
    median = statistics.median(times_s)
    return [
        Figure(
            "16 hosts, 6 switches up, connected and down",
            f"{median:.1f} s ({min(times_s):.1f} to {max(times_s):.1f})",
            f"under {LIMIT_S:g} s",
            median < LIMIT_S,
        )
    ]

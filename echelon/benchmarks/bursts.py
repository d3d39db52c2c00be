"""What links carry with bursts of 2, 4, 8 and 20 ms and with the one that is chosen, measured in turns.

Each round measures how late timers fire, then fills the link once with each burst. What it then carries is held against
what the lateness foretells. On a shared machine rounds differ more than bursts do, so bursts take turns.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from echelon.benchmarks import Figure, Say
from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from testbed import preflight, world

BURSTS_S = (0.002, 0.004, 0.008, 0.02)
MOST_OFF = 0.01
"""Of the median: one measurement of half a second may be off by far more, and calibration then takes another."""


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` rounds on a link of 50 Mbit/s."""
    preflight.require()
    say(f"{repeat} rounds of {len(BURSTS_S) + 1} measurements")
    with tempfile.TemporaryDirectory(prefix="bench-") as name, world.machine_lock():
        log = Path(name) / "world.log"
        argv = module_argv("echelon.benchmarks._bursts_world", name, str(repeat))
        with world.spawn(argv, log) as inside:
            assert inside.stdout is not None
            output = inside.stdout.read()
            inside.wait()
        if inside.returncode != 0:
            raise RunError(f"the world of the bursts failed: {log.read_text()[-500:].strip()}")
    return figures(json.loads(output.splitlines()[-1]))


def figures(rounds: list[dict[str, list[float]]]) -> list[Figure]:
    """One figure for each burst; of each round "burst_s", "error", "lost_share", and last of these the chosen burst's."""
    found = []
    columns = {key: np.array([one[key] for one in rounds]) for key in ("burst_s", "error", "lost_share")}
    for place in range(columns["error"].shape[1]):
        error, lost = columns["error"][:, place], columns["lost_share"][:, place]
        measured = (
            f"{np.median(error):+.2%} ({error.min():+.2%} to {error.max():+.2%}, n = {len(error)}); "
            f"lateness foretells {-np.median(lost):+.2%}"
        )
        chosen = place == len(BURSTS_S)
        bursts_ms = sorted({round(burst_s * 1e3) for burst_s in columns["burst_s"][:, place]})
        words = f"the chosen burst ({', '.join(map(str, bursts_ms))} ms)" if chosen else f"bursts of {bursts_ms[0]} ms"
        ok = bool(abs(np.median(error)) <= MOST_OFF) if chosen else None
        must = f"median within {MOST_OFF:.0%}" if chosen else ""
        found.append(Figure(f"what a link carries over what it declares, {words}", measured, must, ok))
    stolen = [one["stolen_share"][0] for one in rounds]
    found.append(Figure("processors taken away by the host", f"{min(stolen):.1%} to {max(stolen):.1%}", "", None))
    return found

"""A link filled with one burst after the other: `python -m echelon.benchmarks._bursts_world DIR ROUNDS`, in a private world.

Prints a JSON list, for each round "burst_s", "error" and "lost_share" of every burst, the chosen one last, and
"stolen_share".
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

from echelon.benchmarks.bursts import BURSTS_S
from echelon.running.standing import standing
from echelonflow.model import topologies
from echelonflow.records.assignment import Assignment
from echelonflow.records.folder import RunFolder
from testbed import world
from testbed.calibrate import calibrate, watch_timers
from testbed.load import read_sample, stolen_share
from testbed.mininet_network import EmulatedNetwork

RATE_BPS = 50e6
NOT_JUDGED = 1.0
"""Each link is measured once, whatever comes out."""


def main(folder: RunFolder, rounds: int) -> None:
    """Print what was measured in `rounds` rounds."""
    world.enter()
    folder.logs.mkdir()
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": RATE_BPS})
    with standing(folder, Assignment(network=network, calibrate=False)) as emulation:
        found = [one_round(emulation.net, number) for number in range(rounds)]
    print(json.dumps(found), flush=True)


def one_round(net: EmulatedNetwork, number: int) -> dict[str, list[float]]:
    """Late timers, then the link with each burst, another one first in every round."""
    before = read_sample()
    lateness = watch_timers(net)
    assert lateness is not None
    bursts_s = [*BURSTS_S, lateness.least_burst_s()]
    errors = [0.0] * len(bursts_s)
    for turn in range(len(bursts_s)):
        place = (number + turn) % len(bursts_s)
        net.set_burst(bursts_s[place])
        errors[place] = statistics.fmean(link.error for link in calibrate(net, NOT_JUDGED))
    return {
        "burst_s": bursts_s,
        "error": errors,
        "lost_share": [lateness.lost_share(burst_s) for burst_s in bursts_s],
        "stolen_share": [stolen_share(before, read_sample())],
    }


if __name__ == "__main__":
    main(RunFolder(Path(sys.argv[1])), int(sys.argv[2]))

"""Writes shuffles.txt, the small trace beside this file: `python experiments/traces/generate.py > experiments/traces/shuffles.txt`.

Made up, in the coflow-benchmark format. Shapes as the Coflow papers describe those of data centres: most Coflows are
small and narrow, most bytes are in a few wide ones.
"""

from __future__ import annotations

import random
import sys

from traffic.workloads.traces.coflow_benchmark import Shuffle, write

PORTS = 16
COFLOWS = 60
MEAN_GAP_MS = 900
SEED = 1
# Share of the Coflows, most mappers, most reducers, least and most MB per flow.
KINDS = ((0.55, 3, 3, 1, 4), (0.2, 4, 4, 5, 80), (0.1, 16, 8, 1, 4), (0.15, 16, 16, 5, 60))


def shuffles() -> list[Shuffle]:
    """The Coflows of the trace, in order of arrival."""
    draw = random.Random(SEED)
    found, arrival_ms = [], 0.0
    for i in range(COFLOWS):
        arrival_ms += draw.expovariate(1 / MEAN_GAP_MS)
        _, mappers, reducers, least_MB, most_MB = draw.choices(KINDS, [kind[0] for kind in KINDS])[0]
        from_ports = sorted(draw.sample(range(PORTS), draw.randint(1, mappers)))
        to_ports = sorted(draw.sample(range(PORTS), draw.randint(1, reducers)))
        sizes_MB = [float(draw.randint(least_MB, most_MB) * len(from_ports)) for _ in to_ports]
        found.append(Shuffle(i + 1, round(arrival_ms), tuple(from_ports), tuple(zip(to_ports, sizes_MB, strict=True))))
    return found


if __name__ == "__main__":
    sys.stdout.write(write(PORTS, shuffles()))

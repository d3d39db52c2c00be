"""How much this machine carries, found by trying.

A trial is an experiment like any other: every host sends to the next one round the ring, all at once, and the
verdict judges it. The highest host rate at which it is valid is remembered per topology and number of hosts.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from echelon.experiment.schema import Experiment
from echelon.experiment.specs import EmulationSpec
from echelon.running import runner
from echelon.running.capacity import Capacity
from echelonflow.errors import EXIT_INTERRUPTED, EXIT_VALID, InputError, RunError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.network import Network
from echelonflow.model.units import format_rate
from results.analysis.limits import Limits

Say = Callable[[str], None]

FLOW_S = 1.5
MOST_OFF = 0.05
"""A trial that takes longer than predicted by more than this is not carried, whatever the verdict says."""
FIRST_RATE_BPS = 10e6
MOST_RATE_BPS = 1e9
REFINEMENTS = 2
LIMITS = Limits(max_late_p99_s=0.05, max_late_share=1.0)
"""A trial computes next to nothing, once: it is the network that is tried, and what is late shows in how long it takes."""


def find(topology: str, hosts: int, say: Say) -> Capacity:
    """Try rates, doubling then halving the interval, until the limit is known to a quarter (rate 0: none carried)."""
    good_bps, bad_bps, rate_bps = 0.0, None, FIRST_RATE_BPS
    for _ in range(REFINEMENTS + 8):
        carried = _try(build(topology, hosts, rate_bps), say)
        if carried:
            good_bps = rate_bps
        else:
            bad_bps = rate_bps
        if bad_bps is None:
            rate_bps *= 2
        else:
            rate_bps = (good_bps + bad_bps) / 2
        if rate_bps > MOST_RATE_BPS or (bad_bps is not None and bad_bps - good_bps <= bad_bps / 4):
            break
    return Capacity(topology, hosts, good_bps)


def build(topology: str, hosts: int, rate_bps: float) -> Network:
    """A network of this topology with `hosts` hosts (InputError where that is impossible)."""
    if topology == "leaf-spine":
        if hosts % 4 != 0:
            raise InputError(f"leaf-spine is tried with four hosts to a leaf; {hosts} is not a multiple of 4")
        options = {"leaves": hosts // 4, "spines": 2, "hosts_per_leaf": 4, "rate_bps": rate_bps}
        return topologies.build(topology, options)
    return topologies.build(topology, {"hosts": hosts, "rate_bps": rate_bps})


def ring(network: Network) -> Job:
    """Every host sends to the next at once, for `FLOW_S` of its link; then an instant of computation ends it."""
    hosts = network.hosts
    size_bytes = round(FLOW_S * min(network.capacity_Bps))
    steps: list[Compute | Transfer] = []
    for rank in range(len(hosts)):
        after = (rank + 1) % len(hosts)
        steps.append(Transfer(f"x{rank}", rank, after, size_bytes, "ring"))
        steps.append(Compute(f"c{after}", after, 0.05, (f"x{rank}",)))
    names = tuple(f"x{rank}" for rank in range(len(hosts)))
    dag = JobDag(len(hosts), tuple(steps), (Group("ring", "ring", names, (0.0,) * len(hosts)),))
    return Job("ring", dag, hosts)


def _try(network: Network, say: Say) -> bool:
    experiment = Experiment(
        name="capacity", title="capacity", path=Path("capacity"), network=network, jobs=(ring(network),),
        policies=("fair",), repeats=1, seed=0, emulation=EmulationSpec(), limits=LIMITS,
        time_unit_s=None, notes=(), source={},
    )  # fmt: skip
    rate_bps = network.cables[0].rate_bps
    with tempfile.TemporaryDirectory(prefix="echelon-capacity-") as folder:
        code, summary = runner.run(experiment, Path(folder), "emulation", lambda _: None, pictures=False)
        if code == EXIT_INTERRUPTED:
            raise RunError("interrupted; nothing is remembered of it")
    off = summary.results[0].iteration_difference if summary.results else None
    carried = code == EXIT_VALID and off is not None and abs(off) <= MOST_OFF
    reason = "" if carried else f": {summary.reasons[0] if summary.reasons else f'{off:+.1%} off the prediction'}"
    say(
        f"{network.name}, {len(network.hosts)} hosts at {format_rate(rate_bps)}: {'carried' if carried else 'not carried'}{reason}"
    )
    return carried

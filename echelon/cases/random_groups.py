"""Random EchelonFlows with releases known beforehand: staggered ones and Coflows, on one link or a leaf-spine.

Each is a job of its own that computes only to release its flows. So tardiness is all there is to compare, and a lower
bound on its sum holds.
"""

from __future__ import annotations

import random

from echelon.cases.random_jobs import Case
from echelonflow.model import topologies
from echelonflow.model.arrangement import staggered
from echelonflow.model.dag import Compute, Group, Job, JobDag, Step, Transfer
from echelonflow.model.network import Network

TOPOLOGIES = ("one-link", "leaf-spine")
RATE_BPS = 1e9
SPREAD_S = 0.1
"""Groups begin within this time; sizes follow from it."""
LOAD = (0.3, 1.2)
"""Range of a group's bytes at its slowest link, in `SPREAD_S`; drawn log-uniformly."""


def draw(rng: random.Random, topology: str, groups: int = 0) -> Case:
    """`groups` groups (2 to 6 unless given), each staggered or a Coflow with even chance, on `topology`."""
    network = _network(topology)
    count = groups or rng.randint(2, 6)
    jobs = [_staggered(rng, i, network) if rng.random() < 0.5 else _coflow(rng, i, network) for i in range(count)]
    kinds = sorted(job.dag.groups[0].kind for job in jobs)
    return Case(tuple(jobs), network, f"{topology}: {', '.join(kinds)}")


def _network(topology: str) -> Network:
    if topology == "one-link":
        return topologies.build("single-switch", {"hosts": 2, "rate_bps": RATE_BPS})
    options = {"leaves": 2, "spines": 2, "hosts_per_leaf": 3, "rate_bps": RATE_BPS, "fabric_rate_bps": RATE_BPS}
    return topologies.build("leaf-spine", options)


def _bytes(rng: random.Random, network: Network) -> float:
    """What a group puts on one link."""
    lightest, heaviest = LOAD
    share: float = lightest * (heaviest / lightest) ** rng.random()
    return share * SPREAD_S * network.capacity_Bps[0]


def _staggered(rng: random.Random, index: int, network: Network) -> Job:
    """A pipeline's forward flows between two hosts: one every T as computed, wanted every T from the first on."""
    flows = rng.randint(2, 6)
    unit_s = rng.uniform(0.05, 0.3) * SPREAD_S
    size = max(round(_bytes(rng, network) / flows), 1)
    steps: list[Step] = []
    for m in range(flows):
        steps.append(Compute(f"p{m}", 0, unit_s, (f"p{m - 1}",) if m else ()))
        steps.append(Transfer(f"x{m}", 0, 1, size, f"x{m}", (f"p{m}",)))
    names = tuple(f"x{m}" for m in range(flows))
    group = Group("staggered", "staggered", names, staggered(flows, unit_s), _weight(rng))
    hosts = tuple(network.hosts[:2]) if len(network.hosts) == 2 else tuple(rng.sample(network.hosts, 2))
    return Job(f"g{index}", JobDag(2, tuple(steps), (group,)), hosts, start_s=rng.uniform(0, SPREAD_S))


def _coflow(rng: random.Random, index: int, network: Network) -> Job:
    """One to five flows released at once and wanted together."""
    ranks = len(network.hosts)
    flows = rng.randint(1, 5)
    steps: list[Step] = [Compute(f"p{r}", r, 0.0) for r in range(ranks)]
    volume = _bytes(rng, network)
    for i in range(flows):
        src, dst = rng.sample(range(ranks), 2) if ranks > 2 else (0, 1)
        size = max(round(volume / flows * rng.uniform(0.2, 2.0)), 1)
        steps.append(Transfer(f"x{i}", src, dst, size, "coflow", (f"p{src}",)))
    names = tuple(f"x{i}" for i in range(flows))
    group = Group("coflow", "coflow", names, (0.0,) * flows, _weight(rng))
    return Job(f"g{index}", JobDag(ranks, tuple(steps), (group,)), network.hosts, start_s=rng.uniform(0, SPREAD_S))


def _weight(rng: random.Random) -> float:
    return rng.choice([1.0, 1.0, 1.0, 2.0])

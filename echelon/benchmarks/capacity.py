"""What the testbed carries in valid runs, against raw iperf3 over the same network, switches and queues.

Every host sends to the next one round the ring. Raw is iperf3, on links that are faster than the machine and on
links of what was then carried, the better of the two. The controller has ended, and nothing is captured. The testbed: the rate
of links is a share of what iperf3 carried, and the highest share at which a run is valid counts
(`echelon.running.capacity_trials`). So the share that is kept pays for decisions, captures, records, and links that
carry what they declare. Processors' worth of CPU time are told for both, by what they worked for.
"""

from __future__ import annotations

import math
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._capacity_world import Measured, Order
from echelon.benchmarks._cpu_kinds import CpuSampler, cpu_shares
from echelon.running import capacity_trials
from echelon.running.capacity_trials import Trial
from echelonflow.child_process import module_argv
from echelonflow.errors import InputError, RunError
from echelonflow.model import units
from echelonflow.model.units import format_rate
from testbed import preflight, world

TOPOLOGY = "single-switch"
HOSTS = (2, 4, 8, 16)
RAW_RATE_BPS = 16e9
"""Of all hosts' links together, where the machine is to be the limit: more than two processors carry."""
RAW_S = 4.0
SHARES = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0)
"""Of what iperf3 carries: the rates that the testbed is tried at."""
FLOW_S = 5.0
EDGE_S = 0.5
"""At either end of a trial, left out of what the processors are said to work for."""
GOAL = 0.9
RAW_TAKES_S, TRIAL_TAKES_S = 9.0, 17.0
_KINDS = ("switch", "agents", "captures", "controller", "others", "softirq", "all", "stolen")

Attempt = Callable[[float], Trial]


@dataclass(frozen=True, slots=True)
class Kept:
    """One measurement with some number of hosts."""

    raw_bps: float
    carried_bps: float
    raw_cpu: dict[str, float]
    cpu: dict[str, float]

    @property
    def share(self) -> float:
        return self.carried_bps / self.raw_bps


def run(repeat: int, say: Say, only: Sequence[str] = ()) -> list[Figure]:
    """`repeat` measurements with each number of hosts, medians of them; `only` names numbers of hosts."""
    preflight.require()
    if shutil.which("iperf3") is None:
        raise InputError("there is no iperf3; run scripts/setup.sh, or install the package iperf3")
    chosen = [hosts for hosts in HOSTS if not only or str(hosts) in only]
    one_s = 2 * RAW_TAKES_S + (1 + math.log2(len(SHARES))) * TRIAL_TAKES_S
    say(f"{repeat} times {len(chosen)} numbers of hosts, some {repeat * len(chosen) * one_s / 60:.0f} min in all")
    found: dict[int, list[Kept]] = {hosts: [] for hosts in chosen}
    for number in range(repeat):
        for hosts in chosen:
            say(f"measurement {number + 1} of {repeat}, {hosts} hosts")
            found[hosts].append(_measured(hosts, say))
    return [figure for hosts, kept in found.items() for figure in figures(hosts, kept)]


def figures(hosts: int, kept: Sequence[Kept]) -> list[Figure]:
    """What is told of some number of hosts: share kept, and where the processors' time goes."""
    median = statistics.median
    raw_bps, carried_bps = median(one.raw_bps for one in kept), median(one.carried_bps for one in kept)
    shares = sorted(one.share for one in kept)
    spread = "" if len(kept) == 1 else f" ({shares[0]:.0%} to {shares[-1]:.0%}, n = {len(kept)})"
    share = Figure(
        f"{hosts} hosts: payload in valid runs, of raw iperf3's",
        f"{carried_bps / 1e6:,.0f} of {raw_bps / 1e6:,.0f} Mbit/s, {median(shares):.0%}{spread}",
        f"reported; goal {GOAL:.0%}",
        None,
    )
    raw_cpu = _cpu_figure(hosts, "raw iperf3", [one.raw_cpu for one in kept])
    return [share, raw_cpu, _cpu_figure(hosts, "the testbed", [one.cpu for one in kept])]


def _cpu_figure(hosts: int, what: str, taken: Sequence[dict[str, float]]) -> Figure:
    parts = {kind: statistics.median(one.get(kind, 0.0) for one in taken) for kind in _KINDS}
    told = ", ".join(f"{kind} {cores:.2f}" for kind, cores in parts.items() if cores >= 0.005)
    return Figure(f"{hosts} hosts: processors at work, {what}", told or "not sampled", "", None)


def highest_share(attempt: Attempt) -> Trial | None:
    """The trial at the highest of `SHARES` that is carried, by bisection from the top; None where none is."""
    low, high = 0, len(SHARES)  # all below `low` are taken to be carried, those from `high` on not
    best = None
    place = high - 1
    while low < high:
        trial = attempt(SHARES[place])
        if trial.carried:
            best, low = trial, place + 1
        else:
            high = place
        place = (low + high) // 2
    return best


def _measured(hosts: int, say: Say) -> Kept:
    raw, raw_cpu = _raw(hosts, RAW_RATE_BPS / hosts, say)
    # Where links are as fast as the machine, senders do not take the processors from the switch.
    second, second_cpu = _raw(hosts, _line_rate_bps(raw.payload_bps / hosts), say)
    if second.payload_bps > raw.payload_bps:
        raw, raw_cpu = second, second_cpu
    cpus: dict[Trial, dict[str, float]] = {}

    def attempt(share: float) -> Trial:
        rate_bps = _line_rate_bps(share * raw.payload_bps / hosts)
        with CpuSampler() as sampler:
            trial = capacity_trials.attempted(capacity_trials.build(TOPOLOGY, hosts, rate_bps), FLOW_S)
        if trial.begin_s is not None and trial.end_s is not None:
            cpus[trial] = cpu_shares(sampler.samples, trial.begin_s + EDGE_S, trial.end_s - EDGE_S)
        told = "carried" if trial.carried else trial.reason
        say(f"  {share:.0%} of it, links of {format_rate(rate_bps)}: {told}")
        return trial

    best = highest_share(attempt)
    if best is None:
        raise RunError(f"{hosts} hosts: not even {SHARES[0]:.0%} of what iperf3 carries came out valid")
    return Kept(raw.payload_bps, best.carried_bps, raw_cpu, cpus.get(best, {}))


def _line_rate_bps(payload_bps: float) -> float:
    return payload_bps / units.payload_share(capacity_trials.build(TOPOLOGY, 2, RAW_RATE_BPS).mtu_bytes)


def _raw(hosts: int, rate_bps: float, say: Say) -> tuple[Measured, dict[str, float]]:
    """What iperf3 carries over links of `rate_bps`, and what the processors work for meanwhile."""
    order = Order(TOPOLOGY, hosts, rate_bps, RAW_S)
    with tempfile.TemporaryDirectory(prefix="bench-") as name, world.machine_lock(), CpuSampler() as sampler:
        log = Path(name) / "world.log"
        argv = module_argv("echelon.benchmarks._capacity_world", name, msgspec.json.encode(order).decode())
        with world.spawn(argv, log) as inside:
            assert inside.stdout is not None
            output = inside.stdout.read()
            inside.wait()
        if inside.returncode != 0:
            raise RunError(f"iperf3 on {hosts} hosts failed: {log.read_text()[-500:].strip()}")
    found = msgspec.json.decode(output.splitlines()[-1], type=Measured)
    say(f"  raw iperf3 over links of {format_rate(rate_bps)}: {format_rate(found.payload_bps)} of payload in all")
    return found, cpu_shares(sampler.samples, found.begin_s, found.end_s)

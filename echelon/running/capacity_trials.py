"""How much this machine carries, found by trying.

A trial is an experiment like any other: every host sends to the next one round the ring, all at once, and the
verdict judges it. The highest host rate at which it is valid is remembered per topology and number of hosts.

A trial is long against the start of its programs, which is work for all processors and grows with the hosts. Hosts send
for `STARTS` times as long as the start took in the trial before. A rate that is not carried is tried once more, since a
neighbour on the machine may have been busy for a moment.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
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
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import read_outcome
from results.analysis.limits import Limits

Say = Callable[[str], None]

LEAST_FLOW_S = 4.0
"""For how long hosts send, at least."""
STARTS = 3.0
"""And so many times as long as agents and captures take to start: the steady part is what is judged."""
START_S = 1.0
START_OF_HOST_S = 0.1
"""What the start is taken to be before it was measured, and more for each host."""
AROUND_S = 6.0
AROUND_HOST_S = 0.3
"""What a trial takes besides: prediction, network, calibration, analysis; and more for each host."""
TRIES = 2
MOST_OFF = 0.05
"""A trial that takes longer than predicted by more than this is not carried, whatever the verdict says."""
FIRST_RATE_BPS = 25e6
MOST_RATE_BPS = 6.4e9
STEP = 4.0
"""Rates are this many times as high as the last one, until one is not carried."""
RESOLUTION = 1.25
"""The limit is known when the rate that is carried and the one that is not are this close."""
LIMITS = Limits(max_late_p99_s=0.05, max_late_share=1.0)
"""A trial computes next to nothing, once: it is the network that is tried, and what is late shows in how long it takes."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of a trial; times are CLOCK_MONOTONIC, and None where hosts never began to send."""

    reason: str
    """Why it was not carried; empty if it was."""
    carried_bps: float
    """Payload that all hosts together received, over the time from the first release to the last arrival."""
    start_s: float
    """What agents and captures took to start."""
    begin_s: float | None = None
    end_s: float | None = None

    @property
    def carried(self) -> bool:
        return not self.reason


@dataclass
class Search:
    """Looks for the highest rate that `hosts` hosts of a topology are carried at, telling `say` how it gets on."""

    topology: str
    hosts: int
    say: Say
    start_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.start_s = START_S + START_OF_HOST_S * self.hosts

    @property
    def flow_s(self) -> float:
        """For how long hosts send in the next trial."""
        return max(LEAST_FLOW_S, STARTS * self.start_s)

    @property
    def expected_s(self) -> float:
        """What a trial takes."""
        return self.start_s + self.flow_s + AROUND_S + AROUND_HOST_S * self.hosts

    @property
    def most_s(self) -> float:
        """What a search takes at most from its beginning, if no trial is made twice."""
        return trials_left(FIRST_RATE_BPS, 0.0, math.inf) * self.expected_s

    def find(self) -> Capacity:
        """Try rates, `STEP` times as high each, then between, until the limit is known to a quarter (rate 0: none)."""
        good_bps, bad_bps = 0.0, math.inf
        rate_bps: float | None = FIRST_RATE_BPS
        while rate_bps is not None:
            if self._carried(rate_bps, good_bps, bad_bps):
                good_bps = rate_bps
            else:
                bad_bps = rate_bps
            rate_bps = next_rate_bps(good_bps, bad_bps)
        return Capacity(self.topology, self.hosts, good_bps)

    def _carried(self, rate_bps: float, good_bps: float, bad_bps: float) -> bool:
        for attempt in range(TRIES):
            left = trials_left(rate_bps, good_bps, bad_bps)
            self.say(
                f"{self.topology}, {self.hosts} hosts at {format_rate(rate_bps)}: sending for {self.flow_s:.0f} s; "
                f"up to {left} trials of {self.expected_s:.0f} s, {left * self.expected_s:.0f} s in all"
            )
            found = attempted(build(self.topology, self.hosts, rate_bps), self.flow_s)
            self.start_s = max(found.start_s, START_S)
            if found.carried:
                self.say(f"  carried: {format_rate(found.carried_bps)} of payload in all")
                return True
            again = "; once more" if attempt + 1 < TRIES else ""
            self.say(f"  not carried: {found.reason}{again}")
        return False


def next_rate_bps(good_bps: float, bad_bps: float) -> float | None:
    """The rate to try next between one that is carried (0: none yet) and one that is not; None when that is enough."""
    if bad_bps <= max(good_bps, FIRST_RATE_BPS / STEP**2) * RESOLUTION:
        return None
    if math.isinf(bad_bps):
        return good_bps * STEP if good_bps < MOST_RATE_BPS else None
    return bad_bps / STEP if good_bps == 0 else math.sqrt(good_bps * bad_bps)


def trials_left(rate_bps: float, good_bps: float, bad_bps: float) -> int:
    """How many trials a search takes at most from `rate_bps` on, if each is decided at its first try."""
    between = math.ceil(math.log2(math.log(STEP) / math.log(RESOLUTION)))
    if math.isinf(bad_bps):
        return 1 + round(math.log(MOST_RATE_BPS / rate_bps, STEP)) + between
    if good_bps == 0:
        return 2 + between
    return max(math.ceil(math.log2(math.log(bad_bps / good_bps) / math.log(RESOLUTION))), 1)


def build(topology: str, hosts: int, rate_bps: float) -> Network:
    """A network of this topology with `hosts` hosts (InputError where that is impossible)."""
    if topology == "leaf-spine":
        if hosts % 4 != 0:
            raise InputError(f"leaf-spine is tried with four hosts to a leaf; {hosts} is not a multiple of 4")
        options = {"leaves": hosts // 4, "spines": 2, "hosts_per_leaf": 4, "rate_bps": rate_bps}
        return topologies.build(topology, options)
    if topology == "fat-tree":
        k = next((k for k in range(2, hosts + 1, 2) if k**3 >= 4 * hosts), 2)
        if k**3 != 4 * hosts:
            raise InputError(
                f"a fat-tree has k³/4 hosts for an even k, such as 2, 16, 54 or 128; {hosts} is no such number"
            )
        return topologies.build(topology, {"k": k, "rate_bps": rate_bps})
    return topologies.build(topology, {"hosts": hosts, "rate_bps": rate_bps})


def ring(network: Network, flow_s: float) -> Job:
    """Every host sends to the next at once, for `flow_s` of its link; then an instant of computation ends it."""
    hosts = network.hosts
    size_bytes = round(flow_s * min(network.capacity_Bps))
    steps: list[Compute | Transfer] = []
    for rank in range(len(hosts)):
        after = (rank + 1) % len(hosts)
        steps.append(Transfer(f"x{rank}", rank, after, size_bytes, "ring"))
        steps.append(Compute(f"c{after}", after, 0.05, (f"x{rank}",)))
    names = tuple(f"x{rank}" for rank in range(len(hosts)))
    dag = JobDag(len(hosts), tuple(steps), (Group("ring", "ring", names, (0.0,) * len(hosts)),))
    return Job("ring", dag, hosts)


def attempted(network: Network, flow_s: float) -> Trial:
    """Emulate one trial in which hosts send for `flow_s` (RunError if it is interrupted)."""
    job = ring(network, flow_s)
    experiment = Experiment(
        name="capacity", title="capacity", path=Path("capacity"), network=network, jobs=(job,),
        policies=("fair",), repeats=1, seed=0, emulation=EmulationSpec(), limits=LIMITS,
        time_unit_s=None, notes=(), source={},
    )  # fmt: skip
    asked_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="echelon-capacity-") as name:
        code, summary = runner.run(experiment, Path(name), "emulation", lambda _: None, pictures="none")
        if code == EXIT_INTERRUPTED:
            raise RunError("interrupted; nothing is remembered of it")
        run = next(iter(RunFolder(Path(name)).runs()), None)
        outcome = None if run is None or not run.outcome.exists() else read_outcome(run.outcome)
    off = summary.results[0].iteration_difference if summary.results else None
    reason = ""
    if code != EXIT_VALID:
        reason = summary.reasons[0] if summary.reasons else "the run failed"
    elif off is None or abs(off) > MOST_OFF:
        reason = "it has no iteration time" if off is None else f"{off:+.1%} off the prediction"
    if outcome is None or outcome.zero_monotonic_s is None:
        return Trial(reason or "hosts never began to send", 0.0, time.monotonic() - asked_s)
    begin_s = outcome.zero_monotonic_s
    took_s = flow_s * (1 + (off or 0.0))
    carried_bps = sum(transfer.size_bytes for transfer in job.dag.transfers) * 8 / took_s
    return Trial(reason, carried_bps, begin_s - outcome.clock[0].monotonic_s, begin_s, begin_s + took_s)

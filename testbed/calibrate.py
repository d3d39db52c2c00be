"""Does every link carry what it declares? Measured with real TCP before a run is trusted, many links at a time."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from echelonflow.errors import RunError
from echelonflow.model import addressing
from echelonflow.model.network import Link, Network
from echelonflow.records.calibration import LinkMeasurement
from testbed import timers
from testbed.openvswitch import SWITCH_NICENESS

if TYPE_CHECKING:
    # Choosing what to measure needs no Mininet.
    from testbed.mininet_network import EmulatedNetwork

MAX_ERROR = 0.03
PORT = 5000
"""Below the ports of runs (echelonflow.wire.declare.DATA_PORT)."""
START_S = 0.25
"""From the order to measure until a link is filled, at least; more where programs start slowly."""
WARM_UP_S = 0.25
WINDOW_S = 0.5
LEAST_SEGMENTS = 100
LEAST_BURSTS = 50
"""A window is as long as so many bursts: one burst more or less in it is then 2 % of what is measured."""
ATTEMPTS = 4
"""Each filled and measured for twice as long as the one before."""
PROBE_S = 1.0
"""For how long timers are watched: each core waits some 1,800 times."""
_ROUNDING = 1e-9
_PROBE = Path(__file__).with_name("probe.py")
_TIMERS = Path(timers.__file__)
_SWITCH_PRIORITY = ("nice", "-n", str(SWITCH_NICENESS))


@dataclass(frozen=True)
class Trial:
    """How one link is filled: pairs of hosts whose paths cross it, and what should get through in payload bytes/s."""

    link: Link
    pairs: tuple[tuple[str, str], ...]
    expected_Bps: float
    full: tuple[str, ...] = ()
    """Names of all links that are full meanwhile: `link`, and those of a single pair's path that carry no more."""


def trial_of(
    network: Network, link: Link, busy: AbstractSet[str] = frozenset(), left_Bps: Sequence[float] | None = None
) -> Trial | None:
    """Pairs of distinct hosts that fill `link` without meeting elsewhere; None where no path crosses it.

    Pairs are added until together they could send what the link carries, so that the link's rate is measured. Where the
    hosts cannot fill it, it is the hosts' own. Hosts that are `busy` take no part, and links have `left_Bps` to give.
    """
    left = list(network.capacity_Bps if left_Bps is None else left_Bps)
    capacity_Bps = network.capacity_Bps[link.index]
    if left[link.index] < capacity_Bps:
        return None
    pairs: list[tuple[str, str]] = []
    used: set[str] = set(busy)
    sent_Bps = 0.0
    for src, dst in _across(network, link):
        if sent_Bps >= capacity_Bps or src in used or dst in used:
            continue
        others = [index for index in network.path(src, dst) if index != link.index]
        share_Bps = min(left[index] for index in others)
        if share_Bps <= 0:
            continue
        for index in others:
            left[index] -= share_Bps
        pairs.append((src, dst))
        used |= {src, dst}
        sent_Bps += share_Bps
    if not pairs:
        return None
    expected_Bps = min(sent_Bps, capacity_Bps)
    path = network.path(*pairs[0]) if len(pairs) == 1 else ()
    full = {link.index, *(index for index in path if network.capacity_Bps[index] <= expected_Bps * (1 + _ROUNDING))}
    return Trial(link, tuple(pairs), expected_Bps, tuple(network.links[index].name for index in sorted(full)))


def _across(network: Network, link: Link) -> Iterator[tuple[str, str]]:
    """Pairs of hosts whose path crosses `link`, the neighbours of its ends first."""
    sources = [link.src] if link.src in network.edge_switch else network.hosts
    destinations = [link.dst] if link.dst in network.edge_switch else network.hosts
    for src in sources:
        for dst in destinations:
            if src != dst and link.index in network.path(src, dst):
                yield src, dst


def rounds(network: Network) -> list[list[Trial]]:
    """Trials that fill every link that can be filled, in rounds: those of one share neither hosts nor links.

    So half the hosts send at a time, and a switch with any number of hosts takes a few rounds.
    """
    missing = {link.index: link for link in network.links}
    found: list[list[Trial]] = []
    while missing:
        chosen: list[Trial] = []
        busy: set[str] = set()
        left = list(network.capacity_Bps)
        for link in list(missing.values()):
            if link.index not in missing:
                continue
            best, alone = trial_of(network, link, busy, left), trial_of(network, link)
            if alone is None:
                del missing[link.index]  # no path crosses it, so that no flow does
            elif best is not None and best.expected_Bps >= alone.expected_Bps * (1 - _ROUNDING):
                chosen.append(best)
                for index, at in _takes(network, best):
                    left[index] -= at
                busy |= {host for pair in best.pairs for host in pair}
                for name in best.full:
                    missing.pop(_index_of(network, name), None)
        if chosen:
            found.append(chosen)
    return found


def _takes(network: Network, trial: Trial) -> list[tuple[int, float]]:
    """What a trial takes of the links on its paths, so that no other is measured there at the same time."""
    return [(index, network.capacity_Bps[index]) for pair in trial.pairs for index in set(network.path(*pair))]


def _index_of(network: Network, name: str) -> int:
    return next(link.index for link in network.links if link.name == name)


def calibrate(net: EmulatedNetwork, max_error: float = MAX_ERROR) -> list[LinkMeasurement]:
    """Measure every link of a connected network.

    A link is measured up to four times, until it is within `max_error`. A neighbour on the machine that steals a core
    for a moment, or TCP that is still growing its window, is not the link's fault. So each further attempt has the
    machine for itself and fills the link for twice as long as the one before, and the least error is reported. Raises
    RunError where packets do not get through.
    """
    found = []
    start_up_s = _start_up_s(net)
    for trials in rounds(net.network):
        start_s = START_S + sum(_start_s(trial, start_up_s) - START_S for trial in trials)
        for trial, first in zip(trials, _measure(net, trials, start_s, lasting=1), strict=True):
            tries = [first]
            while len(tries) < ATTEMPTS and not abs(tries[-1].error) <= max_error:
                tries += _measure(net, [trial], _start_s(trial, start_up_s), lasting=2 ** len(tries))
            best = min(tries, key=lambda entry: abs(entry.error))
            found.append(msgspec.structs.replace(best, attempts=len(tries)))
    return found


def watch_timers(net: EmulatedNetwork) -> timers.Lateness | None:
    """How late timers fire while one link is filled, on the cores that packets are handled on.

    None where there is no link that two hosts could fill. Raises RunError where packets do not get through.
    """
    trial = next((trial for trials in rounds(net.network) for trial in trials), None)
    if trial is None:
        return None
    begin_s = time.monotonic() + _start_s(trial, _start_up_s(net)) + WARM_UP_S
    end_s = begin_s + PROBE_S
    with _filled_link(net, trial, begin_s, end_s) as ends:
        window = ["--begin", str(begin_s), "--end", str(end_s)]
        argv = [*_SWITCH_PRIORITY, sys.executable, "-I", "-S", str(_TIMERS), *window, "--core"]
        probes = [
            subprocess.Popen([*argv, str(core)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for core in timers.cores()
        ]
        try:
            outputs = [_output("a core", probe, end_s) for probe in probes]
        finally:
            for probe in probes:
                probe.kill()
                probe.communicate()
        for host, process in ends:
            _output(host, process, end_s)
    return timers.pooled(outputs)


def _start_up_s(net: EmulatedNetwork) -> float:
    """How long a measuring end takes from the order until it could begin."""
    begin_s = time.monotonic()
    _start(net, net.network.hosts[0], ["--help"]).communicate()
    return time.monotonic() - begin_s


def _start_s(trial: Trial, start_up_s: float) -> float:
    """How long all ends of a trial take: on an emulated processor the window must not open before they are there."""
    return max(START_S, 2 * start_up_s * 2 * len(trial.pairs))


def window_s(trial: Trial, mtu_bytes: int, burst_s: float) -> float:
    """For how long a link is measured at least, so that neither single segments nor bursts weigh much."""
    slowest_Bps = trial.expected_Bps / len(trial.pairs)
    return max(WINDOW_S, LEAST_SEGMENTS * mtu_bytes / slowest_Bps, LEAST_BURSTS * burst_s)


def _measure(net: EmulatedNetwork, trials: Sequence[Trial], start_s: float, lasting: float) -> list[LinkMeasurement]:
    """One measurement of each of `trials`, all at the same time, `lasting` times as long as it has to be."""
    begin_s = time.monotonic() + start_s + lasting * WARM_UP_S
    end_s = begin_s + lasting * max(window_s(trial, net.network.mtu_bytes, net.burst_s) for trial in trials)
    with ExitStack() as stack:
        filled = [stack.enter_context(_filled_link(net, trial, begin_s, end_s)) for trial in trials]
        found = []
        for trial, ends in zip(trials, filled, strict=True):
            results = [json.loads(_output(host, process, end_s)) for host, process in ends]
            found.append(_summary(trial, results[::2], results[1::2]))
    return found


@contextmanager
def _filled_link(
    net: EmulatedNetwork, trial: Trial, begin_s: float, end_s: float
) -> Iterator[list[tuple[str, subprocess.Popen[str]]]]:
    """The receiver and the sender of every pair in turn, with their hosts; ended when the block is left."""
    ends: list[tuple[str, subprocess.Popen[str]]] = []
    try:
        for src, dst in trial.pairs:
            address = addressing.ip_of(net.network, dst)
            window = ["--begin", str(begin_s), "--end", str(end_s)]
            ends.append((dst, _start(net, dst, ["receive", "--port", str(PORT), *window])))
            ends.append((src, _start(net, src, ["send", "--to", address, "--port", str(PORT), "--end", str(end_s)])))
        yield ends
    finally:
        for _, process in ends:
            process.kill()
            process.communicate()


def _start(net: EmulatedNetwork, host: str, arguments: Sequence[str]) -> subprocess.Popen[Any]:
    argv = [sys.executable, "-I", "-S", str(_PROBE), *arguments]
    return net.popen(host, argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _output(host: str, process: subprocess.Popen[str], end_s: float) -> str:
    try:
        output, errors = process.communicate(timeout=max(end_s - time.monotonic(), 0.0) + 10.0)
    except subprocess.TimeoutExpired:
        raise RunError(f"calibration: no packets get through to or from {host}") from None
    if process.returncode != 0:
        reason = errors.strip().splitlines()[-1:] or [f"exit {process.returncode}"]
        raise RunError(f"calibration: measuring on {host} failed: {reason[0]}")
    return output


def _summary(trial: Trial, received: Sequence[dict[str, float]], sent: Sequence[dict[str, float]]) -> LinkMeasurement:
    measured_Bps = math.fsum(r["received_bytes"] / r["span_s"] if r["span_s"] > 0 else 0.0 for r in received)
    return LinkMeasurement(
        kind=trial.link.kind,
        path=f"{trial.link.name} ({', '.join(f'{src} to {dst}' for src, dst in trial.pairs)})",
        declared_Bps=trial.expected_Bps,
        measured_Bps=measured_Bps,
        error=measured_Bps / trial.expected_Bps - 1,
        rtt_ms=max(s["rtt_s"] for s in sent) * 1e3,
        rtt_loaded_ms=max(s["rtt_loaded_s"] for s in sent) * 1e3,
        links=trial.full,
    )

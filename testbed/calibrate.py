"""Does every kind of link carry what it declares? Measured with real TCP before a run is trusted."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelonflow.errors import RunError
from echelonflow.model import addressing
from echelonflow.model.network import Link, Network

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
ATTEMPTS = 4
"""Each filled and measured for twice as long as the one before."""
_PROBE = Path(__file__).with_name("probe.py")


@dataclass(frozen=True)
class Trial:
    """How one link is filled: pairs of hosts whose paths cross it, and what should get through in payload bytes/s."""

    link: Link
    pairs: tuple[tuple[str, str], ...]
    expected_Bps: float


def trial_of(network: Network, link: Link) -> Trial | None:
    """Pairs of distinct hosts that fill `link` without meeting elsewhere; None where no path crosses it.

    Pairs are added until together they could send what the link carries, so that the link's rate is measured. Where the
    hosts cannot fill it, it is the hosts' own.
    """
    left = list(network.capacity_Bps)
    capacity_Bps = left[link.index]
    pairs: list[tuple[str, str]] = []
    used: set[str] = set()
    sent_Bps = 0.0
    for src in network.hosts:
        for dst in network.hosts:
            if src == dst or sent_Bps >= capacity_Bps or src in used or dst in used:
                continue
            path = network.path(src, dst)
            if link.index not in path:
                continue
            others = [index for index in path if index != link.index]
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
    return Trial(link, tuple(pairs), min(sent_Bps, capacity_Bps))


def trials(network: Network) -> list[Trial]:
    """One trial for each kind of link: of its links, that which can be filled best (the first among equals)."""
    best: dict[str, Trial] = {}
    for link in network.links:
        trial = trial_of(network, link)
        if trial is None:
            continue
        known = best.get(link.kind)
        if known is None or _filled(network, trial) > _filled(network, known) + 1e-9:
            best[link.kind] = trial
    return list(best.values())


def _filled(network: Network, trial: Trial) -> float:
    return trial.expected_Bps / network.capacity_Bps[trial.link.index]


def calibrate(net: EmulatedNetwork, max_error: float = MAX_ERROR) -> list[dict[str, Any]]:
    """Measure each kind of link of a connected network.

    Returns one dict a kind: "kind", "path" (the link and the pairs that filled it), "declared_Bps" and "measured_Bps"
    (payload), "error" (signed share of the declared). "rtt_ms" is idle, median, and "rtt_loaded_ms" with full queues;
    "attempts", "ok". A link is measured up to four times, until it is within
    `max_error`. A neighbour on the machine that steals a core for a moment, or TCP that is still growing its window, is
    not the link's fault. So each attempt fills the link for twice as long as the one before, and the least error is
    reported. Raises RunError where packets do not get through.
    """
    found = []
    start_up_s = _start_up_s(net)
    for trial in trials(net.network):
        # On an emulated processor a program takes seconds to start: the window must not open before it has.
        start_s = max(START_S, 2 * start_up_s * 2 * len(trial.pairs))
        tries: list[dict[str, Any]] = []
        while len(tries) < ATTEMPTS and not (tries and tries[-1]["ok"]):
            tries.append(_measure(net, trial, start_s, max_error, lasting=2 ** len(tries)))
        best = min(tries, key=lambda entry: abs(entry["error"]))
        found.append({**best, "attempts": len(tries)})
    return found


def _start_up_s(net: EmulatedNetwork) -> float:
    """How long a measuring end takes from the order until it could begin."""
    begin_s = time.monotonic()
    _start(net, net.network.hosts[0], ["--help"]).communicate()
    return time.monotonic() - begin_s


def _measure(net: EmulatedNetwork, trial: Trial, start_s: float, max_error: float, lasting: float) -> dict[str, Any]:
    """One measurement, `lasting` times as long as it has to be."""
    slowest_Bps = trial.expected_Bps / len(trial.pairs)
    segment = net.network.mtu_bytes
    window_s = lasting * max(WINDOW_S, LEAST_SEGMENTS * segment / slowest_Bps)
    begin_s = time.monotonic() + start_s + lasting * WARM_UP_S
    end_s = begin_s + window_s
    ends = []
    try:
        for src, dst in trial.pairs:
            address = addressing.ip_of(net.network, dst)
            window = ["--begin", str(begin_s), "--end", str(end_s)]
            ends.append((dst, _start(net, dst, ["receive", "--port", str(PORT), *window])))
            ends.append((src, _start(net, src, ["send", "--to", address, "--port", str(PORT), "--end", str(end_s)])))
        results = [_result(host, process, end_s) for host, process in ends]
    finally:
        for _, process in ends:
            process.kill()
            process.communicate()
    return _summary(trial, results[::2], results[1::2], max_error)


def _start(net: EmulatedNetwork, host: str, arguments: Sequence[str]) -> subprocess.Popen[Any]:
    argv = [sys.executable, "-I", "-S", str(_PROBE), *arguments]
    return net.popen(host, argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _result(host: str, process: subprocess.Popen[str], end_s: float) -> dict[str, float]:
    try:
        output, errors = process.communicate(timeout=max(end_s - time.monotonic(), 0.0) + 10.0)
    except subprocess.TimeoutExpired:
        raise RunError(f"calibration: no packets get through to or from {host}") from None
    if process.returncode != 0:
        reason = errors.strip().splitlines()[-1:] or [f"exit {process.returncode}"]
        raise RunError(f"calibration: measuring on {host} failed: {reason[0]}")
    result: dict[str, float] = json.loads(output)
    return result


def _summary(
    trial: Trial, received: Sequence[dict[str, float]], sent: Sequence[dict[str, float]], max_error: float
) -> dict[str, Any]:
    measured_Bps = math.fsum(r["received_bytes"] / r["span_s"] if r["span_s"] > 0 else 0.0 for r in received)
    error = measured_Bps / trial.expected_Bps - 1
    return {
        "kind": trial.link.kind,
        "path": f"{trial.link.name} ({', '.join(f'{src} to {dst}' for src, dst in trial.pairs)})",
        "declared_Bps": trial.expected_Bps,
        "measured_Bps": measured_Bps,
        "error": error,
        "rtt_ms": max(s["rtt_s"] for s in sent) * 1e3,
        "rtt_loaded_ms": max(s["rtt_loaded_s"] for s in sent) * 1e3,
        "ok": abs(error) <= max_error,
    }

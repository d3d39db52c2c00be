"""iperf3 on every host of an emulated network: `python -m echelon.benchmarks._capacity_world DIR ORDER`, in a private world.

ORDER is JSON of `Order`. Every host sends to the next one round the ring, over the network, switches, queues and marks of
any emulation. But the controller has ended once its rules for unknown flows are in the switches, and nothing is captured.
Prints one JSON object, `Measured`.
"""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from echelon.running import capacity_trials
from echelon.running.standing import standing
from echelonflow.errors import RunError
from echelonflow.model import addressing, units
from echelonflow.model.network import Network
from echelonflow.records.assignment import Assignment
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import Classes
from echelonflow.wire.classes import DEFAULT_CLASS
from echelonflow.wire.declare import DATA_PORT
from testbed import processes, queues, world
from testbed.mininet_network import EmulatedNetwork

START_LIMIT_S = 20.0
SETTLE_S = 1.0
"""From the last connection to the measurement: TCP's slow start is over by then."""
_LISTENING = "0A"


class Order(msgspec.Struct, frozen=True):
    """What to measure: a network as `capacity_trials.build` makes it, for `seconds`."""

    topology: str
    hosts: int
    rate_bps: float
    seconds: float


class Measured(msgspec.Struct, frozen=True):
    """Payload that came out of the cables to all hosts together, and in which time (CLOCK_MONOTONIC)."""

    payload_bps: float
    begin_s: float
    end_s: float


def main(folder: RunFolder, order: Order) -> None:
    """Print what was measured."""
    world.enter()
    folder.logs.mkdir()
    network = capacity_trials.build(order.topology, order.hosts, order.rate_bps)
    with standing(folder, Assignment(network=network, calibrate=False)) as parts:
        parts.kill_controller()
        found = _measured(parts.net, order.seconds)
    print(msgspec.json.encode(found).decode(), flush=True)


def _measured(net: EmulatedNetwork, seconds: float) -> Measured:
    with _iperf3(net, seconds + START_LIMIT_S) as programs:
        time.sleep(SETTLE_S)
        begin_s, before = _counted(net)
        time.sleep(seconds)
        end_s, after = _counted(net)
        for program in programs:
            if program.poll() is not None:
                raise RunError(f"iperf3 ended early (exit {program.returncode}); is another one using its port?")
    carried_bytes = sum(after[name][DEFAULT_CLASS].since(before[name][DEFAULT_CLASS]).bytes for name in before)
    payload_bytes = carried_bytes * units.payload_share(net.network.mtu_bytes)
    return Measured(payload_bytes * 8 / (end_s - begin_s), begin_s, end_s)


def _last_interfaces(network: Network) -> list[str]:
    """The egresses towards hosts: what they have sent has crossed the whole network."""
    return [addressing.interface_name(network, link) for link in network.links if link.dst in network.edge_switch]


def _counted(net: EmulatedNetwork) -> tuple[float, Classes]:
    """The counters of the last egresses, and when they were read."""
    at_s = time.monotonic()
    shell = world.run_script(queues.counter_script(iter(_last_interfaces(net.network))))
    found = queues.parse_counters(world.finish(shell, "reading class counters"))
    return (at_s + time.monotonic()) / 2, found


@contextlib.contextmanager
def _iperf3(net: EmulatedNetwork, limit_s: float) -> Iterator[list[subprocess.Popen[Any]]]:
    """A server on every host and a client to the next one's, connected; ended with the block."""
    hosts, port = net.network.hosts, str(DATA_PORT)
    with contextlib.ExitStack() as stack:
        programs: list[subprocess.Popen[Any]] = []

        def start(host: str, *arguments: str) -> None:
            quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
            programs.append(net.popen(host, ["iperf3", *arguments, "-p", port], **quiet))
            stack.callback(processes.end, programs[-1], START_LIMIT_S)

        for host in hosts:
            start(host, "-s")
        _wait_for(net, "to listen", lambda host: _sockets(net, host, listening=True) >= 1)
        for src, dst in zip(hosts, (*hosts[1:], hosts[0]), strict=True):
            start(src, "-c", addressing.ip_of(net.network, dst), "-t", str(math.ceil(limit_s)))
        # One connection for control, and one for data.
        _wait_for(net, "to be connected", lambda host: _sockets(net, host, listening=False) >= 2)
        yield programs


def _wait_for(net: EmulatedNetwork, what: str, reached: Callable[[str], bool]) -> None:
    deadline_s = time.monotonic() + START_LIMIT_S
    for host in net.network.hosts:
        while not reached(host):
            if time.monotonic() > deadline_s:
                raise RunError(f"waited {START_LIMIT_S:g} s in vain for iperf3 on {host} {what}")
            time.sleep(0.02)


def _sockets(net: EmulatedNetwork, host: str, *, listening: bool) -> int:
    """How many TCP sockets of `host` have the server's port, those that listen or the others."""
    found = 0
    for family in ("tcp", "tcp6"):
        table = Path(f"/proc/{net.namespace_pid(host)}/net/{family}")
        for line in table.read_text().splitlines()[1:] if table.exists() else []:
            _, local, _, state = line.split()[:4]
            found += int(local.rpartition(":")[2], 16) == DATA_PORT and (state == _LISTENING) == listening
    return found


if __name__ == "__main__":
    main(RunFolder(Path(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=Order))

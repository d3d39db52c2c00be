"""Starts the controller: `python -m controller.main --help`."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import logging
import resource
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

from controller import doors
from controller.app import Shell
from controller.coordinator import Coordinator
from controller.deadline import deadline
from controller.doors import Doors
from controller.fabric import Fabric, KnownFabric
from controller.framework import Framework, quiet_framework_logs
from controller.launch import FRAMEWORKS
from controller.learning import read_hosts, unknown_fabric
from controller.planner_process import PlannerProcess
from controller.rest import Rest
from controller.warm_up import warm_up
from echelonflow.errors import EchelonError, InputError
from echelonflow.records.events import StandingOrdered
from echelonflow.records.network_file import read_network
from echelonflow.scheduling import policies

DEFAULT_POLICY = "echelonflow"
MOST_DESCRIPTORS = 1 << 16

log = logging.getLogger("controller")


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code (0, 1 for what went wrong, 2 for bad input)."""
    options = _options(argv)
    try:
        fabric = _fabric(options)
        if options.log_file is not None and not options.log_file.parent.is_dir():
            raise InputError(f"--log-file {options.log_file}: there is no folder {options.log_file.parent}")
        doors.check(options)
        _raise_descriptor_limit()
        logging.raiseExceptions = False  # a disk that is full is no reason for a traceback for each line
        logging.basicConfig(
            filename=options.log_file, level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s"
        )
        quiet_framework_logs()
        framework = Framework(options.framework)
        with doors.opened(options) as open_doors:
            policy = options.policy or (None if options.network else DEFAULT_POLICY)
            coordinator = Coordinator(fabric, keep_rules=options.keep_rules)
            _serve(framework, coordinator, open_doors, policy=policy, confirm_rules=options.confirm_rules)
    except EchelonError as error:
        print(f"controller: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _fabric(options: argparse.Namespace) -> Fabric:
    if options.network is None:
        return unknown_fabric() if options.hosts is None else read_hosts(options.hosts)
    if options.learn or options.hosts is not None:
        raise InputError("--network describes everything: --learn and --hosts are for a network that is not described")
    return KnownFabric(read_network(options.network))


def _raise_descriptor_limit() -> None:
    """A descriptor for every client, switch and request, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_DESCRIPTORS)), hard))


def _serve(
    framework: Framework, coordinator: Coordinator, open_doors: Doors, *, policy: str | None, confirm_rules: bool
) -> None:
    """Serve switches, agents and REST until a signal; with `policy`, a standing run under it."""
    awake, woken = socket.socketpair()
    _stop_on_signals(woken)
    load = functools.partial(policies.load, wait=framework.wait)
    planner = PlannerProcess(framework.wait)
    shell = Shell(framework, coordinator, load, deadline, open_doors.gate, confirm_rules, planner)
    framework.serve_switches(open_doors.switches, shell, open_doors.gate.uids, open_doors.tls)
    warm_up(coordinator.network)
    application = Rest(coordinator, shell.order, load, deadline, framework.time_limit)
    if policy is not None:
        shell.order(StandingOrdered(policy), load(policy))
    framework.spawn(shell.clients.serve, open_doors.control)
    framework.spawn(framework.serve_http, open_doors.rest, application)
    if open_doors.rest_over_tcp is not None:
        listening, http_gate = open_doors.rest_over_tcp
        framework.spawn(framework.serve_http, listening, application.over_tcp(http_gate))
    # What start-up left behind need not be looked at again by a collection in mid-run.
    gc.collect()
    gc.freeze()
    log.info(
        "%s %s serves %s on %s:%d",
        framework.name,
        framework.version,
        coordinator.network.name,
        *open_doors.switches.getsockname(),
    )
    awake.recv(1)
    log.info("told to end")
    planner.close()
    shell.close()


def _stop_on_signals(woken: socket.socket) -> None:
    """Have SIGTERM and SIGINT make `woken`'s peer readable: the only wake-up that an event loop cannot miss."""
    woken.setblocking(False)

    # Other signals (the policy's alarm) would write to a wake-up descriptor too, so a handler writes instead.
    def stop(number: int, _frame: FrameType | None) -> None:
        woken.send(bytes([number]))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m controller.main",
        description="OpenFlow 1.3 controller and flow scheduler. Serves one network until SIGTERM: one that "
        "--network describes, or any other whose cables form no loop, which it learns.",
        epilog="Exit codes: 0 ended by a signal, 1 a port or socket could not be used, 2 bad input.",
    )
    parser.add_argument("--framework", choices=FRAMEWORKS, default=FRAMEWORKS[0], help="default: %(default)s")
    parser.add_argument("--network", type=Path, help="network.json, as written by Network.to_dict")
    parser.add_argument("--learn", action="store_true", help="learn the network (what happens without --network)")
    parser.add_argument(
        "--hosts",
        type=Path,
        help="hosts of a network that is learned, whose flows clients may declare: a JSON file such as "
        '{"rate": "100 Mbit/s", "hosts": {"h1": "10.0.0.1"}}',
    )
    parser.add_argument(
        "--policy",
        help="policy of flows that clients declare while no runner has begun a run "
        f"(default: none with --network, {DEFAULT_POLICY} without)",
    )
    doors.add_options(parser)
    parser.add_argument("--log-file", type=Path, help="where to log (default: standard error)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

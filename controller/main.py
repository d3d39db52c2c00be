"""Starts the controller: `python -m controller.main --help`."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from controller.app import Shell
from controller.coordinator import Coordinator
from controller.deadline import deadline
from controller.fabric import Fabric, KnownFabric
from controller.framework import Framework, quiet_framework_logs
from controller.gate import Gate
from controller.launch import FRAMEWORKS
from controller.learning import read_hosts, unknown_fabric
from controller.rest import Rest
from controller.sockets import EVERYBODY, OWNER_ONLY, listening_address, listening_socket
from controller.warm_up import warm_up
from echelonflow.errors import EchelonError, InputError
from echelonflow.model.addressing import CONTROLLER_PORT
from echelonflow.records.events import StandingOrdered
from echelonflow.records.network_file import read_network
from echelonflow.records.tokens_file import read_tokens
from echelonflow.scheduling import policies

DEFAULT_POLICY = "echelonflow"
MOST_DESCRIPTORS = 1 << 16

log = logging.getLogger("controller")


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code (0, 1 for what went wrong, 2 for bad input)."""
    options = _options(argv)
    try:
        fabric = _fabric(options)
        address, port = _address("--listen", options.listen)
        rest_address = None if options.rest_listen is None else _address("--rest-listen", options.rest_listen)
        if options.log_file is not None and not options.log_file.parent.is_dir():
            raise InputError(f"--log-file {options.log_file}: there is no folder {options.log_file.parent}")
        gate = _gate(options)
        _raise_descriptor_limit()
        logging.raiseExceptions = False  # a disk that is full is no reason for a traceback for each line
        logging.basicConfig(
            filename=options.log_file, level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s"
        )
        quiet_framework_logs()
        framework = Framework(options.framework)
        with contextlib.ExitStack() as stack:
            rest_path = options.rest_socket or options.socket.with_name("rest.sock")
            mode = EVERYBODY if options.allow_uid else OWNER_ONLY  # the gate then says who of everybody is heard
            control = stack.enter_context(listening_socket(options.socket, mode))
            rest = [stack.enter_context(listening_socket(rest_path))]
            if rest_address is not None:
                rest.append(stack.enter_context(listening_address(*rest_address, "cannot serve REST")))
            policy = options.policy or (None if options.network else DEFAULT_POLICY)
            coordinator = Coordinator(fabric, keep_rules=options.keep_rules)
            _serve(framework, coordinator, (address, port), control, rest, gate=gate, policy=policy)
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


def _gate(options: argparse.Namespace) -> Gate:
    masters = frozenset({0, os.geteuid()})
    tokens = None if options.tokens is None else read_tokens(options.tokens)
    return Gate(masters | frozenset(options.allow_uid), masters, tokens, options.shared_hosts)


def _raise_descriptor_limit() -> None:
    """A descriptor for every client, switch and request, as far as the system lets us."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MOST_DESCRIPTORS)), hard))


def _serve(
    framework: Framework,
    coordinator: Coordinator,
    switches_at: tuple[str, int],
    control: Any,
    rest: Sequence[Any],
    *,
    gate: Gate,
    policy: str | None,
) -> None:
    """Serve switches, agents and REST until a signal; with `policy`, a standing run under it."""
    awake, woken = socket.socketpair()
    _stop_on_signals(woken)
    load = functools.partial(policies.load, wait=framework.wait)
    shell = Shell(framework, coordinator, load, deadline, gate)
    # The address is taken before anything slow, so that a second controller learns at once that it is one too many.
    framework.listen_for_switches(*switches_at, shell)
    warm_up(coordinator.network)
    application = Rest(coordinator, shell.order, load, deadline, framework.time_limit)
    if policy is not None:
        shell.order(StandingOrdered(policy), load(policy))
    framework.spawn(shell.clients.serve, control)
    for listening in rest:
        asked_by_this_user = listening.family == socket.AF_UNIX
        served = application if asked_by_this_user else application.for_strangers
        framework.spawn(framework.serve_http, listening, served)
    # What start-up left behind need not be looked at again by a collection in mid-run.
    gc.collect()
    gc.freeze()
    log.info("%s %s serves %s on %s:%d", framework.name, framework.version, coordinator.network.name, *switches_at)
    awake.recv(1)
    log.info("told to end")
    shell.close()


def _stop_on_signals(woken: socket.socket) -> None:
    """Have SIGTERM and SIGINT make `woken`'s peer readable: the only wake-up that an event loop cannot miss."""
    woken.setblocking(False)

    # Other signals (the policy's alarm) would write to a wake-up descriptor too, so a handler writes instead.
    def stop(number: int, _frame: FrameType | None) -> None:
        woken.send(bytes([number]))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def _address(option: str, text: str) -> tuple[str, int]:
    address, colon, port = text.rpartition(":")
    if not (colon and address and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise InputError(f"{option} {text!r}: write ADDRESS:PORT, such as 127.0.0.1:{CONTROLLER_PORT}")
    return address, int(port)


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
    parser.add_argument(
        "--socket",
        type=Path,
        default=Path("control.sock"),
        help="Unix socket to make for agents, clients and the runner (default: %(default)s)",
    )
    parser.add_argument(
        "--tokens",
        type=Path,
        help="tokens of hosts (and of the runner), which clients must show: a file of mode 600, see docs/northbound.md "
        "(default: a client may speak for any host)",
    )
    parser.add_argument(
        "--allow-uid",
        type=int,
        action="append",
        default=[],
        metavar="UID",
        help="hear clients of this user too, besides root and the controller's own; may be given more than once",
    )
    parser.add_argument(
        "--shared-hosts",
        action="store_true",
        help="several clients may speak for one host at a time, such as the ranks of a training job (default: one)",
    )
    parser.add_argument("--rest-socket", type=Path, help="Unix socket to make for REST (default: rest.sock beside it)")
    parser.add_argument("--rest-listen", metavar="ADDRESS:PORT", help="serve REST there too, such as 127.0.0.1:8080")
    parser.add_argument(
        "--listen",
        default=f"127.0.0.1:{CONTROLLER_PORT}",
        metavar="ADDRESS:PORT",
        help="where switches connect (default: %(default)s)",
    )
    parser.add_argument(
        "--keep-rules",
        action="store_true",
        help="leave switches the rules that they have until the run that is in progress has ended: for a controller that "
        "follows one that was killed",
    )
    parser.add_argument("--log-file", type=Path, help="where to log (default: standard error)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

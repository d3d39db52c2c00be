"""Starts the controller: `python -m controller.main --help`."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import signal
import socket
import sys
from pathlib import Path
from types import FrameType

from controller.app import Shell, listening_socket
from controller.coordinator import Coordinator
from controller.deadline import deadline
from controller.framework import Framework, quiet_framework_logs
from controller.launch import FRAMEWORKS
from controller.warm_up import warm_up
from echelonflow.addressing import CONTROLLER_PORT
from echelonflow.errors import EchelonError, InputError
from echelonflow.network import Network

log = logging.getLogger("controller")


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code (0, 1 for what went wrong, 2 for bad input)."""
    options = _options(argv)
    try:
        network = read_network(options.network)
        address, port = _address(options.listen)
        if options.log_file is not None and not options.log_file.parent.is_dir():
            raise InputError(f"--log-file {options.log_file}: there is no folder {options.log_file.parent}")
        logging.basicConfig(
            filename=options.log_file, level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s"
        )
        quiet_framework_logs()
        framework = Framework(options.framework)
        _serve(framework, network, options.socket, address, port)
    except EchelonError as error:
        print(f"controller: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _serve(framework: Framework, network: Network, path: Path, address: str, port: int) -> None:
    awake, woken = socket.socketpair()
    _stop_on_signals(woken)
    warm_up(network)
    shell = Shell(framework, Coordinator(network, guard=deadline))
    with listening_socket(path) as listening:
        framework.listen_for_switches(address, port, shell)
        framework.spawn(shell.serve, listening)
        # What start-up left behind need not be looked at again by a collection in mid-run.
        gc.collect()
        gc.freeze()
        log.info(
            "%s %s serves %s on %s:%d and %s", framework.name, framework.version, network.name, address, port, path
        )
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


def read_network(path: Path) -> Network:
    """The network described in a JSON file (InputError naming the file if it is none)."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"network file {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"network file {path} is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise InputError(f"network file {path}: expected an object as written by Network.to_dict")
    try:
        return Network.from_dict(data)
    except InputError as error:
        raise InputError(f"network file {path}: {error}") from error


def _address(text: str) -> tuple[str, int]:
    address, colon, port = text.rpartition(":")
    if not (colon and address and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise InputError(f"--listen {text!r}: write ADDRESS:PORT, such as 127.0.0.1:{CONTROLLER_PORT}")
    return address, int(port)


def _options(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m controller.main",
        description="OpenFlow 1.3 controller and flow scheduler of one emulated network. Serves until SIGTERM.",
        epilog="Exit codes: 0 ended by a signal, 1 a port or socket could not be used, 2 bad input.",
    )
    parser.add_argument("--framework", choices=FRAMEWORKS, default=FRAMEWORKS[0], help="default: %(default)s")
    parser.add_argument("--network", type=Path, required=True, help="network.json, as written by Network.to_dict")
    parser.add_argument("--socket", type=Path, required=True, help="Unix socket to make for agents and the runner")
    parser.add_argument(
        "--listen",
        default=f"127.0.0.1:{CONTROLLER_PORT}",
        metavar="ADDRESS:PORT",
        help="where switches connect (default: %(default)s)",
    )
    parser.add_argument("--log-file", type=Path, help="where to log (default: standard error)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())

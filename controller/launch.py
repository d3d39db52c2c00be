"""How others start the controller: its command line, without importing a framework."""

from __future__ import annotations

from pathlib import Path

from echelonflow.model.addressing import CONTROLLER_PORT

FRAMEWORKS = ("ryu", "os-ken")


def controller_argv(
    framework: str, network: Path | None, socket: Path, log_file: Path | None = None, listen: str | None = None
) -> list[str]:
    """Arguments for a Python interpreter that start the controller (see `python -m controller.main --help`).

    `listen` is ADDRESS:PORT for switches; by default the loopback address and `CONTROLLER_PORT`. Without
    `network` the controller learns. REST is served on rest.sock beside `socket`.
    """
    argv = ["-m", "controller.main", "--framework", framework, "--socket", str(socket)]
    argv += ["--learn"] if network is None else ["--network", str(network)]
    argv += ["--listen", listen or f"127.0.0.1:{CONTROLLER_PORT}"]
    if log_file is not None:
        argv += ["--log-file", str(log_file)]
    return argv

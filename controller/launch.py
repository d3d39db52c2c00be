"""How others start the controller: its command line, without importing a framework."""

from __future__ import annotations

from pathlib import Path

from echelonflow.child_process import module_argv
from echelonflow.model.addressing import CONTROLLER_PORT

FRAMEWORKS = ("ryu", "os-ken")


def controller_argv(
    framework: str,
    network: Path | None,
    socket: Path,
    log_file: Path | None = None,
    listen: str | None = None,
    tokens: Path | None = None,
    *,
    keep_rules: bool = False,
    confirm_rules: bool = False,
) -> list[str]:
    """The command that starts the controller (see `echelon controller --help`). REST is served on rest.sock beside `socket`.

    `listen` is ADDRESS:PORT for switches; by default the loopback address and `CONTROLLER_PORT`. Without `network` the
    controller learns. `tokens` is a file of what clients must show (`echelonflow.records.tokens_file`). With `keep_rules`
    it follows one that was killed in a run: switches go on by that one's rules. With `confirm_rules` every run's rules.jsonl
    says when switches had what they were given.
    """
    options = ["--framework", framework, "--socket", str(socket)]
    options += ["--learn"] if network is None else ["--network", str(network)]
    options += ["--listen", listen or f"127.0.0.1:{CONTROLLER_PORT}"]
    if log_file is not None:
        options += ["--log-file", str(log_file)]
    if tokens is not None:
        options += ["--tokens", str(tokens)]
    if keep_rules:
        options.append("--keep-rules")
    if confirm_rules:
        options.append("--confirm-rules")
    return module_argv("controller.main", *options)

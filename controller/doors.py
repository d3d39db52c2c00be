"""The controller's four doors, as its command line says: sockets that listen, and who is let in at each.

docs/northbound.md describes them.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.gate import Gate
from controller.http_gate import HttpGate
from controller.openflow_server import tls_context
from controller.sockets import EVERYBODY, OWNER_ONLY, listening_address, listening_socket
from echelonflow.errors import InputError
from echelonflow.files import write_private
from echelonflow.model.addressing import CONTROLLER_PORT
from echelonflow.records.tokens_file import new_token, read_token, read_tokens

log = logging.getLogger("controller")


@dataclass(frozen=True)
class Doors:
    """Sockets that listen, and what is asked of those who come; `rest_over_tcp` and `tls` are None where not wanted."""

    control: Any
    gate: Gate
    rest: Any
    rest_over_tcp: tuple[Any, HttpGate] | None
    switches: Any
    tls: ssl.SSLContext | None


def check(options: argparse.Namespace) -> None:
    """Raise InputError for options that cannot work, before anything is done."""
    _address("--listen", options.listen)
    if options.rest_listen is not None:
        _address("--rest-listen", options.rest_listen)
    elif options.rest_token is not None:
        raise InputError("--rest-token is for --rest-listen: by the Unix socket no token is needed")
    if options.rest_token is not None:
        read_token(options.rest_token)
    _gate(options)


@contextlib.contextmanager
def opened(options: argparse.Namespace) -> Iterator[Doors]:
    """All doors open, until the block ends (RunError where one cannot be, InputError where a file is not right)."""
    tls = None if options.openflow_tls is None else tls_context(*options.openflow_tls)
    rest_path = options.rest_socket or options.socket.with_name("rest.sock")
    with contextlib.ExitStack() as stack:
        mode = EVERYBODY if options.allow_uid else OWNER_ONLY  # the gate then says who of everybody is heard
        control = stack.enter_context(listening_socket(options.socket, mode))
        rest = stack.enter_context(listening_socket(rest_path))
        over_tcp = None
        if options.rest_listen is not None:
            address = _address("--rest-listen", options.rest_listen)
            listening = stack.enter_context(listening_address(*address, "cannot serve REST"))
            over_tcp = listening, HttpGate(_rest_token(options, rest_path, stack), *address)
        address = _address("--listen", options.listen)
        remedy = "choose another port with --listen"
        # Taken before anything slow, so that a second controller learns at once that it is one too many.
        switches = stack.enter_context(listening_address(*address, "cannot listen for switches", remedy))
        yield Doors(control, _gate(options), rest, over_tcp, switches, tls)


def _gate(options: argparse.Namespace) -> Gate:
    masters = frozenset({0, os.geteuid()})
    tokens = None if options.tokens is None else read_tokens(options.tokens)
    return Gate(masters | frozenset(options.allow_uid), masters, tokens, options.shared_hosts)


def _rest_token(options: argparse.Namespace, rest_path: Path, stack: contextlib.ExitStack) -> str:
    """The token for REST over TCP: of the file that was named, or a new one in a file beside the REST socket."""
    if options.rest_token is not None:
        token = read_token(options.rest_token)
        log.info("REST at %s takes the token in %s", options.rest_listen, options.rest_token)
        return token
    path = rest_path.with_suffix(".token").resolve()
    token = new_token()
    stack.callback(path.unlink, missing_ok=True)
    write_private(path, f"{token}\n".encode())
    print(f"controller: REST at http://{options.rest_listen} takes the token in {path}", flush=True)
    log.info("REST at %s takes the token in %s", options.rest_listen, path)
    return token


def _address(option: str, text: str) -> tuple[str, int]:
    address, colon, port = text.rpartition(":")
    if not (colon and address and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise InputError(f"{option} {text!r}: write ADDRESS:PORT, such as 127.0.0.1:{CONTROLLER_PORT}")
    return address, int(port)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that are about doors to the command line."""
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
        "--rest-token",
        type=Path,
        metavar="FILE",
        help="file of mode 600 with the token that requests to --rest-listen must show (default: a new one in rest.token "
        "beside the REST socket)",
    )
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
    parser.add_argument(
        "--confirm-rules",
        action="store_true",
        help="have switches confirm every change of rules in a run, and write when to rules.jsonl beside its decisions",
    )
    parser.add_argument(
        "--openflow-tls",
        nargs=3,
        type=Path,
        metavar=("KEY", "CERTIFICATE", "AUTHORITY"),
        help="speak TLS with switches: PEM files of our key, of our certificate, and of the authority that has signed theirs",
    )

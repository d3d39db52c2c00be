"""Talks to a controller's REST interface over its Unix socket, from anywhere on the machine."""

from __future__ import annotations

import http.client
from pathlib import Path
from typing import TypeVar

from echelonflow.errors import InputError, RunError
from echelonflow.scheduling import user_file
from echelonflow.scheduling.own_policy.process import ANSWER, LONGEST_LOAD_S
from echelonflow.wire import unix_socket
from echelonflow.wire.rest import PolicyInForce, PolicyOrder, Refusal, Status, decoded, encoded

_Body = TypeVar("_Body")

TIMEOUT_S = LONGEST_LOAD_S + ANSWER.wall_s + 5.0
"""Longer than a policy file may take to be loaded and tried."""
_BAD_INPUT = (400, 422)


def status(socket_path: Path) -> Status:
    """What the controller at `socket_path` (a run's rest.sock) is doing; RunError if none answers there."""
    return request(socket_path, "GET", "/status", Status)


def policy_in_force(socket_path: Path) -> PolicyInForce:
    """The policy that the controller follows (RunError if none answers there)."""
    return request(socket_path, "GET", "/policy", PolicyInForce)


def set_policy(socket_path: Path, text: str, enforcer: str | None = None) -> PolicyInForce:
    """Have the controller follow the policy `text` from now on; returns policy and enforcer in force.

    A policy file's path is resolved here. Raises InputError where the policy cannot be used (the one in force
    then stays), RunError where no controller answers or no run is in progress.
    """
    return request(socket_path, "PUT", "/policy", PolicyInForce, PolicyOrder(user_file.absolute(text), enforcer))


def metrics(socket_path: Path, limit_s: float = TIMEOUT_S) -> str:
    """The controller's counters, as text for Prometheus (RunError if none answers there within `limit_s`)."""
    return _answer(socket_path, "GET", "/metrics", None, limit_s)[1].decode()


def request(
    socket_path: Path,
    method: str,
    path: str,
    kind: type[_Body],
    body: PolicyOrder | None = None,
    limit_s: float = TIMEOUT_S,
) -> _Body:
    """One request; its answer, of type `kind`. Raises InputError (400, 422) or RunError for every other error."""
    status, content = _answer(socket_path, method, path, body, limit_s)
    try:
        if status < http.HTTPStatus.BAD_REQUEST:
            return decoded(content, kind)
        refusal = decoded(content, Refusal)
    except InputError as error:
        raise RunError(f"what answers at {socket_path} is not a controller of ours: {error}") from None
    raise (InputError if status in _BAD_INPUT else RunError)(f"the controller refused: {refusal.error}")


def _answer(socket_path: Path, method: str, path: str, body: PolicyOrder | None, limit_s: float) -> tuple[int, bytes]:
    """The status and the body of the answer to one request."""
    connection = _UnixConnection(socket_path, limit_s)
    data = None if body is None else encoded(body)
    try:
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
    except TimeoutError:
        raise RunError(f"the controller at {socket_path} did not answer within {limit_s:g} s") from None
    except OSError as error:
        raise RunError(
            f"no controller answers at {socket_path}: {error.strerror or error}; "
            "name the rest.sock in the folder of a run in progress"
        ) from None
    except http.client.HTTPException as error:
        raise RunError(f"what answers at {socket_path} is not a controller of ours: {error!r}") from None
    finally:
        connection.close()
    return answer.status, content


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, however long its path."""

    def __init__(self, path: Path, limit_s: float) -> None:
        super().__init__("localhost", timeout=limit_s)
        self._path = path
        self._limit_s = limit_s

    def connect(self) -> None:
        self.sock = unix_socket.connect(self._path)
        self.sock.settimeout(self._limit_s)

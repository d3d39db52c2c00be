"""Talks to a controller's REST interface over its Unix socket, from anywhere on the machine; standard library only."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any

from echelonflow.errors import InputError, RunError
from echelonflow.scheduling import user_file
from echelonflow.wire import unix_socket

TIMEOUT_S = 15.0
"""Longer than a policy file may take to be loaded and tried."""
_BAD_INPUT = (400, 422)


def status(socket_path: Path) -> dict[str, Any]:
    """What the controller at `socket_path` (a run's rest.sock) is doing; RunError if none answers there."""
    found: dict[str, Any] = request(socket_path, "GET", "/status")
    return found


def set_policy(socket_path: Path, text: str, enforcer: str | None = None) -> dict[str, Any]:
    """Have the controller follow the policy `text` from now on; returns policy and enforcer in force.

    A policy file's path is resolved here. Raises InputError where the policy cannot be used (the one in force
    then stays), RunError where no controller answers or no run is in progress.
    """
    order = {"policy": user_file.absolute(text), **({} if enforcer is None else {"enforcer": enforcer})}
    found: dict[str, Any] = request(socket_path, "PUT", "/policy", order)
    return found


def request(socket_path: Path, method: str, path: str, body: Any = None) -> Any:
    """One request; the JSON of its answer. Raises InputError (400, 422) or RunError for every other error."""
    connection = _UnixConnection(socket_path)
    data = None if body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, data, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
    except TimeoutError:
        raise RunError(f"the controller at {socket_path} did not answer within {TIMEOUT_S:g} s") from None
    except OSError as error:
        raise RunError(
            f"no controller answers at {socket_path}: {error.strerror or error}; "
            "name the rest.sock in the folder of a run in progress"
        ) from None
    except (ValueError, http.client.HTTPException) as error:
        raise RunError(f"what answers at {socket_path} is not a controller of ours: {error!r}") from None
    finally:
        connection.close()
    if answer.status >= http.HTTPStatus.BAD_REQUEST:
        why = found.get("error") if isinstance(found, dict) else found
        raise (InputError if answer.status in _BAD_INPUT else RunError)(f"the controller refused: {why}")
    return found


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket, however long its path."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = unix_socket.connect(self._path)
        self.sock.settimeout(TIMEOUT_S)

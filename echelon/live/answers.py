"""What the live view answers: a request that was let in, and out comes a status, a type and a body. No sockets.

The page's own files are read once, when the view begins, and nothing else is ever opened: no path leads to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType

import msgspec

from controller.metrics import CONTENT_TYPE
from echelon.live.bodies import Option, PolicyShown
from echelon.live.controller_side import ControllerSide, FileRefusedError, link_metrics
from echelon.live.gate import JSON
from echelon.live.watched import Watched
from echelonflow.errors import InputError, RunError
from echelonflow.scheduling import policies
from echelonflow.wire.rest import PolicyOrder, Refusal, decoded

PAGE = "index.html"
TYPES: Mapping[str, str] = MappingProxyType(
    {
        PAGE: "text/html; charset=utf-8",
        "page.css": "text/css; charset=utf-8",
        "page.js": "text/javascript; charset=utf-8",
    }
)
"""The page's own files; nothing else is served as one."""


@dataclass(frozen=True)
class Answer:
    """What goes back."""

    status: HTTPStatus
    content_type: str
    body: bytes


class Answers:
    """Answers of one live view. `seen` is called when a browser has asked for the state."""

    def __init__(self, watched: Watched, controller: ControllerSide, seen: Callable[[], None]) -> None:
        self._watched = watched
        self._controller = controller
        self._seen = seen
        self._files = {name: (files("echelon.live") / "page" / name).read_bytes() for name in TYPES}
        self._policies = _json(_policies())

    def get(self, name: str) -> Answer:
        """The answer to a request for `name`."""
        if (name or PAGE) in self._files:
            return Answer(HTTPStatus.OK, TYPES[name or PAGE], self._files[name or PAGE])
        answer = {
            "state.json": self._state,
            "network.json": self._network,
            "policies.json": lambda: self._policies,
            "metrics": self._metrics,
        }.get(name)
        return refusal(HTTPStatus.NOT_FOUND, "there is no such page") if answer is None else answer()

    def _network(self) -> Answer:
        drawing = self._watched.drawing
        return refusal(HTTPStatus.NOT_FOUND, "no experiment has begun yet") if drawing is None else _json(drawing)

    def _state(self) -> Answer:
        ended = self._watched.ended
        live, silence = (None, "") if ended else self._controller.live()
        self._seen()
        return _json(self._watched.state(live, silence))

    def _metrics(self) -> Answer:
        try:
            text = self._controller.metrics()
        except RunError as error:
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        return Answer(HTTPStatus.OK, CONTENT_TYPE, (text + link_metrics(self._watched.carried())).encode())

    def put_policy(self, body: bytes) -> Answer:
        """The answer to an order for another policy."""
        try:
            order = decoded(body, PolicyOrder)
            return _json(self._controller.order(order.policy, order.enforcer))
        except InputError as error:
            return refusal(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        except FileRefusedError as error:
            return refusal(HTTPStatus.FORBIDDEN, str(error))
        except RunError as error:
            return refusal(HTTPStatus.CONFLICT, str(error))


def refusal(status: HTTPStatus, why: str) -> Answer:
    """An answer that says what is wrong, as the controller's do."""
    return Answer(status, JSON, msgspec.json.encode(Refusal(why)))


def _policies() -> list[PolicyShown]:
    """All policies that are shipped. They are loaded here: the controller has other things to do in mid-run."""
    return [
        PolicyShown(
            name,
            policies.load(name).summary,
            tuple(Option(option, values) for option, values in policies.options_of(name).items()),
        )
        for name in policies.names()
    ]


def _json(body: object) -> Answer:
    return Answer(HTTPStatus.OK, JSON, msgspec.json.encode(body))

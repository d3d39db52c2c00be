"""Who may look at the live view, and order policies: whoever has the address that was printed. Pure: headers in, words out.

Any user of the machine, and any page in a browser on it, can reach a port on loopback. The token in the address keeps out
both; `Host` keeps out pages whose name was made to lead here (DNS rebinding); and orders come from our own page alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from controller.http_gate import LOOPBACK_NAMES
from echelonflow.records.tokens_file import same

JSON = "application/json"
_OF_OUR_PAGE = ("same-origin", "none")
"""What a browser says (Sec-Fetch-Site) where our own page asks, or its user typed the address."""


@dataclass(frozen=True)
class Refused:
    """A request that is not let in: the status of its answer, and why."""

    status: HTTPStatus
    why: str


@dataclass(frozen=True)
class Gate:
    """Lets requests in that come to `port` of this machine with `token`, in their path or as Authorization says.

    Names of headers are written as they commonly are, such as Sec-Fetch-Site.
    """

    token: str
    port: int

    def entered(self, path: str, headers: Mapping[str, str]) -> str | Refused:
        """What is asked for, without the token and without a query: "" for the page. Or why that is refused."""
        if headers.get("Host", "").lower() not in self._names:
            why = f"the Host header must be one of {', '.join(self._names)}; through a tunnel, use the same port"
            return Refused(HTTPStatus.MISDIRECTED_REQUEST, why)
        plain = path.partition("?")[0]
        scheme, _, shown = headers.get("Authorization", "").strip().partition(" ")
        if scheme.lower() == "bearer" and same(self.token, shown.strip()):
            name = plain.removeprefix("/")
        else:
            given, slash, name = plain.removeprefix("/").partition("/")
            if not (slash and same(self.token, given)):
                why = "this needs the whole address that `echelon run --live` has printed, with the token in it"
                return Refused(HTTPStatus.FORBIDDEN, why)
        if name and headers.get("Sec-Fetch-Site", "none") not in _OF_OUR_PAGE:
            return Refused(HTTPStatus.FORBIDDEN, "only the live view's own page may ask for this in a browser")
        return name

    def order_refused(self, headers: Mapping[str, str]) -> Refused | None:
        """Why an order is refused that was let in; None where it is taken."""
        origin = headers.get("Origin")
        if origin is not None and origin.lower() not in {f"http://{name}" for name in self._names}:
            return Refused(HTTPStatus.FORBIDDEN, "orders of other pages are refused")
        if headers.get("Content-Type", "").partition(";")[0].strip().lower() != JSON:
            return Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"an order is {JSON}")
        return None

    @property
    def _names(self) -> list[str]:
        names = [f"{name}:{self.port}" for name in LOOPBACK_NAMES if not name.startswith("[")]
        return [*names, *(name.partition(":")[0] for name in names)] if self.port == 80 else names

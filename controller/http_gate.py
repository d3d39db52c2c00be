"""Who may ask over TCP: whoever shows the token, and no page in a browser. Pure: a request's headers in, an answer out.

Any user of the machine, and any page that one of them looks at, can reach a port on loopback. A token keeps out users.
`Host` and `Origin` keep out pages: one whose name was made to lead here (DNS rebinding) still sends its own name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller.northbound import Answer, error
from echelonflow.records.tokens_file import same

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_BROWSERS_SAY = ("HTTP_ORIGIN", "HTTP_SEC_FETCH_SITE")


@dataclass(frozen=True)
class HttpGate:
    """Lets requests in that come to `address`:`port` by that name, from no browser, with `token`."""

    token: str
    address: str
    port: int

    def refusal(self, environ: Mapping[str, str]) -> Answer | None:
        """The answer to a request that is not let in; None for one that is. `environ` as of WSGI."""
        for header in _BROWSERS_SAY:
            if header in environ:
                name = header.removeprefix("HTTP_").replace("_", "-").title()
                return error(403, f"requests of browsers are refused, and this one has the header {name}")
        if environ.get("HTTP_HOST", "").lower() not in self._names:
            return error(421, f"the Host header must be one of {', '.join(self._names)}")
        scheme, _, token = environ.get("HTTP_AUTHORIZATION", "").strip().partition(" ")
        if scheme.lower() != "bearer" or not same(self.token, token.strip()):
            why = "send the header 'Authorization: Bearer TOKEN'; the controller's log says in which file the token is"
            return error(401, why, {"WWW-Authenticate": "Bearer"})
        return None

    @property
    def _names(self) -> list[str]:
        hosts = dict.fromkeys((self.address, *LOOPBACK_NAMES))
        names = [f"{host}:{self.port}" for host in hosts]
        return [*names, *hosts] if self.port == 80 else names

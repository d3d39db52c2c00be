"""What a browser asks of the live view, without one: `python -m echelon.benchmarks._live_view_browser URL`, until nobody answers.

It is a process of its own, so that its time is not counted as the view's.
"""

from __future__ import annotations

import contextlib
import http.client
import sys
import time
from urllib.parse import urlsplit

POLL_S = 1.0
"""As the page does."""
ONCE = ("", "page.css", "page.js", "policies.json", "network.json")
LIMIT_S = 10.0


def main(url: str) -> None:
    """Load the page, then ask for the state once a second."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=LIMIT_S)
    with contextlib.suppress(OSError, http.client.HTTPException):
        for name in ONCE:
            _read(connection, parts.path + name)
        while True:
            _read(connection, parts.path + "state.json")
            time.sleep(POLL_S)


def _read(connection: http.client.HTTPConnection, path: str) -> None:
    connection.request("GET", path)
    connection.getresponse().read()


if __name__ == "__main__":
    main(sys.argv[1])

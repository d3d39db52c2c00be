"""The live view of `echelon run --live`: a server in threads of this process, outside the private worlds of the runs."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType

from echelon.experiment.schema import Experiment
from echelon.live.answers import Answers
from echelon.live.controller_side import ControllerSide
from echelon.live.gate import Gate
from echelon.live.server import ADDRESS, Server
from echelon.live.watched import Watched
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_INVALID, EXIT_VALID, EchelonError, RunError
from echelonflow.records.progress import LinksCarried, Progress, Report
from echelonflow.records.tokens_file import new_token

ANY_PORT = 0
LOOKING_S = 3.0
"""A browser that has asked within this time is looking."""
TELL_S = 2.0
"""For pages to hear of the end, each of which asks once a second; whoever pressed Ctrl-C waits so long, if anybody looks."""
STOP_S = 0.1
"""How often the server looks whether it is to stop."""
BACKLOG = 32
_ENDS: Mapping[int, str] = MappingProxyType(
    {
        EXIT_VALID: "The experiment has ended, and its runs are valid.",
        EXIT_INVALID: "The experiment has ended; not all of its runs are valid.",
        EXIT_FAILED: "The experiment has ended, and failed.",
        EXIT_INTERRUPTED: "The experiment was interrupted; what was finished is kept.",
    }
)


class Watching:
    """One experiment as it is watched: progress of it is told here, and how it ends."""

    def __init__(self, watched: Watched, report: Report) -> None:
        self._watched = watched
        self._report = report

    def __call__(self, progress: Progress) -> None:
        """Progress; what others also want to hear goes on to them."""
        self._watched.hear(progress)
        if not isinstance(progress, LinksCarried):
            self._report(progress)

    def end(self, code: int) -> None:
        """The experiment has ended with this exit code."""
        self._watched.end(_ENDS.get(code, _ENDS[EXIT_FAILED]))


class LiveView:
    """Serves while it is entered, at `url`; `port` 0 is any that is free. Without a `token` it makes one.

    Browsers that look are given `tell_s` to hear of the end. Raises RunError where the port cannot be had.
    """

    def __init__(self, port: int = ANY_PORT, token: str | None = None, tell_s: float = TELL_S) -> None:
        self._tell_s = tell_s
        self._token = token or new_token()
        self._watched = Watched()
        self._looked_s = -LOOKING_S
        self._listening = _listening(port)
        self.port: int = self._listening.getsockname()[1]
        answers = Answers(self._watched, ControllerSide(self._rest_socket), self._seen)
        self._server = Server(self._listening, Gate(self._token, self.port), answers)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(STOP_S,), name="live view", daemon=True
        )

    @property
    def url(self) -> str:
        """The address to open: who has it may look, and swap policies."""
        return f"http://{ADDRESS}:{self.port}/{self._token}/"

    def _rest_socket(self) -> Path | None:
        folder = self._watched.folder
        return None if folder is None else folder.rest_socket

    def _seen(self) -> None:
        self._looked_s = time.monotonic()

    @contextlib.contextmanager
    def watching(self, experiment: Experiment, root: Path, report: Report) -> Iterator[Watching]:
        """Show `experiment`, which runs in the folder `root`, until the block ends; its progress goes on to `report`."""
        self._watched.begin(experiment, root)
        watching = Watching(self._watched, report)
        try:
            yield watching
        except EchelonError as error:
            self._watched.end(f"The experiment has ended: {error}")
            raise
        except BaseException:
            watching.end(EXIT_INTERRUPTED)
            raise

    def __enter__(self) -> LiveView:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if self._watched.ended and time.monotonic() < self._looked_s + LOOKING_S:
                time.sleep(self._tell_s)
        finally:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


def _listening(port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # A port of a view that has just ended may be had again; one on which somebody listens may not.
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind((ADDRESS, port))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        words = f"--live {port}: cannot listen at {ADDRESS}:{port}: {error.strerror or error}"
        raise RunError(f"{words}; name another port, or none to have any that is free") from error
    return opened

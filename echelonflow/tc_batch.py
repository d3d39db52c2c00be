"""`tc -batch -`, kept running and told line by line: a process for each change would take milliseconds to start.

Nothing here blocks but `close`. After each batch tc is asked for something that it prints, so one can see when the batch
has been carried out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence

from echelonflow.errors import RunError

COMMAND = ("tc", "-batch", "-")
END_LIMIT_S = 2.0
PIPE_BYTES = 1 << 20
"""How much may wait for tc, which takes some 20 µs a line."""
_BARRIER = "qdisc show dev lo"
"""Prints one line, wherever loopback is up."""
_LONGEST_REASON = 600


class TcBatch:
    """One such process in this network namespace. Every method raises RunError, with what tc said, where it has failed."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        # Plain pipes and a nameless file: an event loop's sockets close their descriptors when it sees fit.
        heard, self._to = os.pipe()
        self._from, answers = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 open as long as the process lives
        try:
            self._process = subprocess.Popen(command, stdin=heard, stdout=answers, stderr=self._errors)
        except OSError as error:
            self._errors.close()
            os.close(self._to)
            os.close(self._from)
            raise RunError(f"{command[0]} cannot be started: {error.strerror or error}") from None
        finally:
            os.close(heard)
            os.close(answers)
        with contextlib.suppress(OSError):  # a pipe of the usual length does for small networks
            fcntl.fcntl(self._to, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        self._closed = False

    def fileno(self) -> int:
        """Can be read when a batch has been carried out, or when the process has ended."""
        return self._from

    def put(self, lines: Sequence[str]) -> None:
        """Have `lines` carried out, in their order; they are one batch."""
        data = "".join(f"{line}\n" for line in (*lines, _BARRIER)).encode()
        try:
            written = os.write(self._to, data)
        except BlockingIOError:
            written = 0
        except OSError:
            raise self._failure() from None
        if written < len(data):
            raise RunError("tc does not keep up with what it is told")

    def confirmed(self) -> int:
        """How many batches have been carried out since this was asked last."""
        try:
            found = os.read(self._from, 1 << 16)
        except BlockingIOError:
            return 0
        if not found:
            raise self._failure()
        return found.count(b"\n")

    def close(self) -> None:
        """End it when it has carried out everything; once."""
        if self._closed:
            return
        os.close(self._to)
        until_s = time.monotonic() + END_LIMIT_S
        try:
            while (code := self._process.poll()) is None and time.monotonic() < until_s:
                self._drain()
                time.sleep(0.002)
            if code is None:
                self._process.kill()
                self._process.wait()
                raise RunError(f"tc did not end within {END_LIMIT_S:g} s")
            if code != 0:
                raise self._failure()
        finally:
            self._closed = True
            os.close(self._from)
            self._errors.close()

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            os.read(self._from, 1 << 16)

    def _failure(self) -> RunError:
        until_s = time.monotonic() + END_LIMIT_S
        while self._process.poll() is None and time.monotonic() < until_s:
            time.sleep(0.002)
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip()
        return RunError(f"tc failed: {' / '.join(said.splitlines())[:_LONGEST_REASON] or 'it says nothing'}")

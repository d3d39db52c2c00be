"""Packet captures on host interfaces: one tcpdump for each host, and how many packets each saw and lost."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Protocol

from echelonflow.errors import RunError
from echelonflow.files import refusal
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import CaptureCounts

SNAP_BYTES = 96
USER = "nobody"
"""Who tcpdump becomes once it listens: what it reads comes from the network."""
BUFFER_KIB = 32_768
START_LIMIT_S = 30.0
DRAIN_LIMIT_S = 3.0
_STATISTICS = re.compile(
    r"(\d+) packets? captured[,\s]+(\d+) packets? received by filter[,\s]+(\d+) packets? dropped by kernel"
)
_LISTENING = re.compile(r"listening on.*\n")
_NEVER = re.compile(r"(?!)")


class Hosts(Protocol):
    """What a capture needs of an emulated network."""

    def popen(self, host: str, argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]: ...


class _Tcpdump:
    def __init__(self, net: Hosts, host: str, file: Path) -> None:
        self.host = host
        self.file = file
        self.text = ""
        argv = [
            "tcpdump", "-i", f"{host}-eth0", "-s", str(SNAP_BYTES), "-B", str(BUFFER_KIB), "-n", "-Z", USER,
            "--time-stamp-precision", "nano", "-w", "-", "tcp",
        ]  # fmt: skip
        # Opened here: it gives root up once it listens, and may not open files in the run's folder then.
        try:
            with file.open("wb") as output:
                self.process = net.popen(host, argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.PIPE)
        except OSError as error:
            raise RunError(f"the capture on {host} cannot begin: {refusal(error)}") from None
        assert self.process.stderr is not None
        self.errors: IO[bytes] = self.process.stderr
        os.set_blocking(self.errors.fileno(), False)

    def read_until(self, pattern: re.Pattern[str], limit_s: float) -> re.Match[str] | None:
        """Wait for `pattern` in what it says from here on; None at its end or after `limit_s`."""
        deadline_s = time.monotonic() + limit_s
        with selectors.DefaultSelector() as selector:
            selector.register(self.errors, selectors.EVENT_READ)
            while True:
                match = pattern.search(self.text)
                if match is not None:
                    self.text = self.text[match.end() :]
                    return match
                left_s = deadline_s - time.monotonic()
                if not selector.select(max(left_s, 0.0)):
                    return None
                data = self.errors.read()
                if data == b"":
                    return None
                self.text += (data or b"").decode(errors="replace")

    def wait_listening(self) -> None:
        """Wait until packets are captured (RunError if that never happens)."""
        if self.read_until(_LISTENING, START_LIMIT_S) is None:
            raise RunError(f"tcpdump on {self.host} does not listen: {self.text.strip()[-300:]}")

    def statistics(self, number: signal.Signals) -> tuple[int, int, int]:
        """Captured, received and dropped packets, as it tells them on a signal (RunError if it does not)."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        match = self.read_until(_STATISTICS, START_LIMIT_S)
        if match is None:
            raise RunError(self.epitaph())
        return int(match[1]), int(match[2]), int(match[3])

    def epitaph(self) -> str:
        """That it is of no more use, in words, with its last ones."""
        self.read_until(_NEVER, 0.0)
        how = "does not answer" if self.process.poll() is None else f"ended early (exit {self.process.returncode})"
        said = "; ".join(self.text.split("\n")).strip("; ")[-300:]
        return f"the capture on {self.host} {how}: {said or 'it says nothing'}"


class PacketCapture:
    """TCP packets of `hosts`, each in a file of `folder` (headers only, nanoseconds), until `stop`.

    Returns when every tcpdump listens; raises RunError if one does not start.
    """

    def __init__(self, net: Hosts, hosts: Sequence[str], folder: RunFolder, label: str) -> None:
        self._dumps: list[_Tcpdump] = []
        try:
            for host in hosts:
                self._dumps.append(_Tcpdump(net, host, folder.capture(label, host)))
            for dump in self._dumps:
                dump.wait_listening()
        except BaseException:
            self._kill()
            raise

    def check(self) -> None:
        """Raise RunError, saying which and why, if a capture has ended."""
        for dump in self._dumps:
            if dump.process.poll() is not None:
                raise RunError(dump.epitaph())

    def stop(self) -> tuple[dict[str, CaptureCounts], list[str]]:
        """End the captures once they have written all they received.

        Returns what each host's capture counted, and for those that had died before, or that do not tell, why.
        """
        deadline_s = time.monotonic() + DRAIN_LIMIT_S
        waiting = list(self._dumps)
        counts, faults = {}, []
        try:
            # The kernel hands packets over in blocks, up to a second late; to end before is to lose them.
            while waiting and time.monotonic() < deadline_s:
                waiting = [dump for dump in waiting if not _drained(dump)]
                if waiting:
                    time.sleep(0.05)
            for dump in self._dumps:
                try:
                    counts[dump.host] = _end(dump)
                except RunError as error:
                    faults.append(str(error))
        finally:
            self._kill()
        return counts, faults

    def _kill(self) -> None:
        for dump in self._dumps:
            if dump.process.poll() is None:
                dump.process.kill()
            dump.process.wait()
            dump.errors.close()


def _drained(dump: _Tcpdump) -> bool:
    try:
        captured, received, dropped = dump.statistics(signal.SIGUSR1)
    except RunError:  # there is nothing to wait for; its end says why
        return True
    return captured + dropped >= received


def _end(dump: _Tcpdump) -> CaptureCounts:
    captured, received, dropped = dump.statistics(signal.SIGINT)
    # It says its numbers first and writes the rest of the file afterwards.
    try:
        dump.process.wait(START_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise RunError(f"the capture on {dump.host} did not end within {START_LIMIT_S:g} s") from None
    # What it had received but never wrote is as lost as what the kernel dropped.
    return CaptureCounts(dump.file.name, received, max(dropped, received - captured))

"""Waiting for what a test is about to look at, and ending what it has started.

Every wait looks at the process it waits for: once that has ended, what it was to do will never come.
"""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from pathlib import Path

SAID_LIMIT_S = 0.5
"""For the rest of what an ended process said: children of it may hold its output open."""


def wait_until(condition, limit_s=30.0, what="condition", process=None, logs=()):
    """Poll until `condition()` is true and return its value.

    Fails after `limit_s`, or at once when `process` has ended before, with what it said (pipes and `logs`).
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        ended = process is not None and process.poll() is not None  # looked at first: its last act counts
        value = condition()
        if value:
            return value
        assert not ended, f"waiting for {what}: the process has ended{report(process, logs)}"
        assert time.monotonic() < deadline_s, f"waited {limit_s:g} s in vain for {what}{_texts(logs)}"
        time.sleep(0.02)


def lives(process, what="an answer", logs=()):
    """Fail, with what it said, if `process` has ended while somebody waits for `what`."""
    assert process.poll() is None, f"waiting for {what}: the process has ended{report(process, logs)}"


def line_of(process, limit_s=30.0, what="a line", logs=()):
    """The next line that `process` prints; fails after `limit_s`, or at once when it has closed its output."""
    told = []
    reader = threading.Thread(target=lambda: told.append(process.stdout.readline()), daemon=True)
    reader.start()
    reader.join(limit_s)
    if told and told[0]:
        return told[0]
    failure = "closed its output before" if told else f"waited {limit_s:g} s in vain for"
    process.kill()  # the reader ends with it
    process.wait()
    raise AssertionError(f"{failure} {what}{report(process, logs)}")


def end_of(process, limit_s=60.0, logs=()):
    """(exit code, standard output, standard error) of `process`, which must end within `limit_s`."""
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"still running after {limit_s:g} s{report(process, logs)}") from None
    return process.returncode, output, errors


@contextlib.contextmanager
def ending(process):
    """`process`, killed when the block is left, however that happens."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was never sent to a process that is gone
                    pipe.close()


def started(argv, **options):
    """A context manager of the process `argv`, killed when the block is left; `options` as for `subprocess.Popen`."""
    return ending(subprocess.Popen(argv, **options))


def report(process, logs=()):
    """What an ended (or ending) process said: its exit code, its pipes' rest, and the ends of `logs` (files or folders)."""
    texts = []
    for pipe in (process.stdout, process.stderr):
        rest = _rest(pipe)
        if rest:
            texts.append(rest.decode(errors="replace") if isinstance(rest, bytes) else rest)
    return f" (exit {process.poll()})\n" + "\n".join(texts) + _texts(logs)


def _rest(pipe):
    if pipe is None or pipe.closed:
        return ""
    told = []
    reader = threading.Thread(target=lambda: told.append(pipe.read()), daemon=True)
    reader.start()
    reader.join(SAID_LIMIT_S)
    return told[0] if told else "(its output is held open by a child)"


def _texts(logs):
    """The ends of files, or of all files in folders, that are there by now."""
    places = [sorted(Path(log).iterdir()) if Path(log).is_dir() else [Path(log)] for log in logs]
    found = [log for place in places for log in place if log.is_file()]
    return "".join(f"\n--- {log.name}\n{log.read_text(errors='replace')[-4000:]}" for log in found)

"""First process of a private world, and the guard outside it; run as a script, standard library only.

`init.py guard PID COMMAND...` becomes COMMAND, which dies with process PID. `init.py serve COMMAND...` is
process 1 of the world: it starts COMMAND, passes SIGINT and SIGTERM on to it, collects orphans, and ends
with it. It ends at once, and with it all of its world, when its standard input is closed. Whoever made the world holds
the other end of that pipe, so that not even a kill between two system calls leaves anything.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys

_PR_SET_PDEATHSIG = 1
PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def guard(parent_pid: int, argv: list[str]) -> None:
    """Become `argv`, to be killed when the parent dies; end at once if it already has."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent_pid:
        sys.exit("the process that asked for this world is gone")
    os.execvp(argv[0], argv)  # noqa: S606 -- becoming another program is the point


def _collect(main_pid: int) -> int | None:
    """Reap whatever has ended; the exit code of `main_pid` if it is among it."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == main_pid:
            code = os.waitstatus_to_exitcode(status)


def serve(argv: list[str]) -> int:
    """Run `argv` to its end as process 1; returns its exit code (128 + number if a signal ended it)."""
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    for number in (*PASSED_ON, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    # Kept, not only its pid: forgetting a program that has already ended would reap it, and its code, unseen.
    try:
        program = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    except OSError as error:  # no memory, no more processes
        sys.exit(f"the first program of this world cannot be started: {error.strerror}")
    main = program.pid
    lifeline = sys.stdin.fileno()
    while True:
        readable, _, _ = select.select([lifeline, wake_read], [], [])
        if lifeline in readable and not os.read(lifeline, 1):
            os._exit(128 + signal.SIGKILL)
        if wake_read in readable:
            for caught in os.read(wake_read, 256):
                if caught in PASSED_ON:
                    os.kill(main, caught)
            code = _collect(main)
            if code is not None:
                return code if code >= 0 else 128 - code


if __name__ == "__main__":
    if sys.argv[1] == "guard":
        guard(int(sys.argv[2]), sys.argv[3:])
    os._exit(serve(sys.argv[2:]))

"""One run, one private world: own network, mount and process namespaces, ended as a whole by the kernel.

Outside: `spawn` starts a program in a new world, `machine_lock` keeps emulations from disturbing each other.
Inside: `enter` prepares the world before anything else is started.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

from echelonflow.errors import InputError, RunError

NAMESPACES = ("net", "mnt", "pid")
_OUTER = "ECHELON_OUTER_NAMESPACES"
_INIT = Path(__file__).with_name("init.py")
_LOCK_NAME = "echelon-testbed"


def _namespaces() -> dict[str, int]:
    return {name: Path(f"/proc/self/ns/{name}").stat().st_ino for name in NAMESPACES}


def _script(*arguments: str) -> list[str]:
    # Isolated and without site-packages: it has to be there before anything can go wrong.
    return [sys.executable, "-I", "-S", str(_INIT), *arguments]


class World(subprocess.Popen[bytes]):
    """The `unshare` process that carries a world.

    It blocks SIGINT and SIGTERM itself, so these go to the world's first process, which passes them on;
    SIGKILL ends everything.
    """

    def send_signal(self, sig: int) -> None:
        first = None if sig == signal.SIGKILL else self._first_process()
        if first is None:
            super().send_signal(signal.SIGKILL if sig in (signal.SIGINT, signal.SIGTERM) else sig)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(first, sig)

    def _first_process(self) -> int | None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children():
                return child.pid
        return None


def spawn(argv: Sequence[str], log_path: Path) -> World:
    """Start `argv` in a new world; its standard output is a pipe, its errors go to `log_path`.

    The world dies with the calling process, however that ends: call it from a thread that lives as long
    as the world. It also ends when the returned object's `stdin` is closed (`communicate` does that).
    """
    unshare = ["unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc"]
    command = _script("guard", str(os.getpid()), *unshare, *_script("serve", *argv))
    outer = ",".join(str(inode) for inode in _namespaces().values())
    with log_path.open("ab") as log:
        # A session of its own: Ctrl-C at a terminal reaches the caller alone, who ends the world in order.
        return World(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env={**os.environ, _OUTER: outer},
            start_new_session=True,
        )


def is_inside() -> bool:
    """Whether this process runs in a world that `spawn` made, apart from the machine's own namespaces."""
    outer = os.environ.get(_OUTER)
    if outer is None:
        return False
    return all(int(a) != b for a, b in zip(outer.split(","), _namespaces().values(), strict=True))


def require_inside() -> None:
    """Raise RunError outside a world: what follows would change the machine's own network."""
    if not is_inside():
        raise RunError("this part runs only in a private world; start it with testbed.world.spawn")


SYSCTLS = {
    "net.ipv6.conf.all.disable_ipv6": "1",
    "net.ipv6.conf.default.disable_ipv6": "1",
    "net.ipv4.tcp_slow_start_after_idle": "0",
    "net.ipv4.tcp_no_metrics_save": "1",
    "net.ipv4.tcp_ecn": "0",
    # With them, packets that others overtake by new marks are taken for packets of an earlier connection (PAWS). The
    # receiver throws them away, and the flow stands still until a timeout of 200 ms.
    "net.ipv4.tcp_timestamps": "0",
    # Segments leave when the agent has written them, not when the ones before have left: no flow waits for another.
    "net.ipv4.tcp_autocorking": "0",
    # Otherwise the short round trip of an emulated link makes every segment as long as the device allows.
    "net.ipv4.tcp_tso_rtt_log": "0",
}
"""Settings of every network namespace; one that the kernel does not have is left out."""


def sysctl_script() -> str:
    """Shell lines that write `SYSCTLS` in the network namespace they run in."""
    lines = []
    for name, value in SYSCTLS.items():
        path = "/proc/sys/" + name.replace(".", "/")
        lines.append(f"if [ -e {path} ]; then echo {value} > {path}; fi")
    return "\n".join(lines) + "\n"


def run_script(script: str, pid: int | None = None) -> subprocess.Popen[str]:
    """Start a shell on `script`, in the network namespace of process `pid` where given; see `finish`."""
    enter_it = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
    process = subprocess.Popen(
        [*enter_it, "sh", "-e"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdin is not None
    process.stdin.write(script)
    process.stdin.close()
    process.stdin = None
    return process


def finish(process: subprocess.Popen[str], what: str) -> str:
    """Wait for a shell of `run_script` and return its output; RunError that says `what` if it failed."""
    output, _ = process.communicate()
    if process.returncode != 0:
        raise RunError(f"{what} failed (exit {process.returncode}): {output.strip()[-2000:]}")
    return output


def enter() -> None:
    """Prepare the world this process was spawned in: its own view of /sys, loopback up, kernel settings.

    Raises RunError outside a world, or where a step fails.
    """
    require_inside()
    script = "mount -t sysfs sysfs /sys\nip link set lo up\n" + sysctl_script()
    finish(run_script(script), "preparing the private world")


@contextlib.contextmanager
def machine_lock(name: str = _LOCK_NAME) -> Iterator[None]:
    """Hold the right to emulate on this machine; the kernel takes it back when the holder dies.

    Two emulations at a time would disturb each other's timing. Raises InputError, naming the holder's
    process, if it is taken. The lock is an abstract Unix socket: no file is left behind.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind("\0" + name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise InputError(
                f"process {_holder(name)} is emulating on this machine; two at a time would disturb each other: "
                "wait for it to end"
            ) from None
        lock.listen(16)
        yield


def _holder(name: str) -> str:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        try:
            caller.connect("\0" + name)
        except OSError:
            return "(just ending)"
        pid, _, _ = struct.unpack("3i", caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return str(pid)

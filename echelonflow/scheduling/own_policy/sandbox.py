"""What the process of a user's policy gives up before it runs a line of that file.

The network and other processes' shared memory go first (namespaces), then root (a user that nobody is) and every way
back. Then go most memory, files, processes and threads (limits), and at last the file system (Landlock).
Root is what is given up most carefully: where that fails, no file is run. Where the kernel lacks one of the others,
the rest must do; SECURITY.md says which is which.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import stat
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

from echelonflow.errors import InputError
from echelonflow.scheduling.own_policy import landlock

MEMORY_BYTES = 1 << 30
"""How much more memory than the interpreter and our libraries a policy may map."""
OUTPUT_BYTES = 1 << 20
"""How much a policy may print for one answer; there is no other file that it could write to."""
OPEN_FILES = 64
ENVIRONMENT = MappingProxyType(
    {
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        # Libraries that begin with threads of their own would complain of having none.
        **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }
)
"""All that a policy can know of the environment, but for its home, which is /."""
_FIRST_ID, _IDS = 61184, 4096
"""User ids that no package and no person is given (systemd's dynamic users are of this range too)."""

_NEW_MOUNTS, _NEW_IPC, _NEW_USERS, _NEW_NETWORK = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_SET_DEATH_SIGNAL, _NO_NEW_PRIVILEGES = 1, 38
_CAPABILITIES_VERSION = 0x20080522


def end_with_parent() -> None:
    """Have the kernel end this process when the one that started it has ended, however that ends."""
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def leave_network() -> None:
    """Have no network from now on, where the kernel lets this user choose so. Before there is a second thread."""
    if not sys.platform.startswith("linux"):
        return
    if os.geteuid() == 0:
        _unshare(_NEW_NETWORK | _NEW_IPC)
        return
    user, group = os.getuid(), os.getgid()
    if _unshare(_NEW_USERS | _NEW_NETWORK | _NEW_IPC):
        with contextlib.suppress(OSError):
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def confine(packages: Path) -> None:
    """Give up everything that is not needed to run Python code on what is read from the pipe.

    `packages` is where this project's core lies. InputError where this process is root's and cannot stop being so.
    """
    readable = _readable(packages)
    if os.geteuid() == 0:
        if sys.platform.startswith("linux"):
            _make_reachable(readable)
        _stop_being_root(readable)
    _prctl(_NO_NEW_PRIVILEGES, 1)
    end_with_parent()  # the kernel forgets it when the user changes
    _drop_capabilities()
    _limit()
    landlock.restrict(readable)
    os.environ.clear()
    os.environ.update(ENVIRONMENT, HOME="/")


def _readable(packages: Path) -> list[Path]:
    """What an interpreter reads: itself, its libraries and ours. No home, no results, nothing else of the machine."""
    beneath = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix, str(packages)]
    system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/dev/urandom", "/proc/self", "/sys/devices/system/cpu"]
    return [Path(path) for path in dict.fromkeys(beneath + system)]


def _make_reachable(wanted: Sequence[Path]) -> None:
    """Where folders above what is wanted are closed to others (root's home), show only what is wanted of them.

    In a mount namespace of this process's own: nobody else sees a difference.
    """
    closed: dict[Path, list[Path]] = {}
    for path in wanted:
        above = next((folder for folder in reversed(path.parents) if _is_closed(folder)), None)
        if above is not None and path.exists():
            closed.setdefault(above, []).append(path)
    if not closed or not _unshare(_NEW_MOUNTS) or not _mount("none", "/", None, _RECURSIVE | _PRIVATE):
        return
    for above, paths in closed.items():
        places = {path: os.open(path, os.O_PATH) for path in paths}
        if _mount("none", str(above), "tmpfs", 0, "mode=755,size=1m"):
            for path, place in places.items():
                path.mkdir(parents=True, exist_ok=True)
                _mount(f"/proc/self/fd/{place}", str(path), None, _BIND | _RECURSIVE)
        for place in places.values():
            os.close(place)


def _is_closed(folder: Path) -> bool:
    return not folder.stat().st_mode & stat.S_IXOTH


def _stop_being_root(readable: Sequence[Path]) -> None:
    number = _FIRST_ID + os.getpid() % _IDS
    # Asked while it can be: for who is not root, what lies in a closed folder is as good as not there.
    there = [path for path in readable if path.exists()]
    try:
        os.setgroups([])
        os.setgid(number)  # for root: the real, the effective and the saved one
        os.setuid(number)
    except OSError as error:
        raise InputError(
            f"policy files run as an unprivileged user, and this process cannot become one ({error.strerror}); "
            "start it with the capabilities SETUID and SETGID, or not as root"
        ) from None
    for path in there:
        if not os.access(path, os.R_OK):
            raise InputError(
                f"policy files run as an unprivileged user, who cannot read {path}; let others read it (chmod o+rX)"
            )


def _drop_capabilities() -> None:
    """Those that a namespace of users brought along; those of root went with it."""
    if sys.platform.startswith("linux"):
        header = struct.pack("=Ii", _CAPABILITIES_VERSION, 0)
        _libc().capset(header, bytes(24))


def _limit() -> None:
    """Bounds that the kernel keeps; what goes beyond them fails, as an error with a line number."""
    most = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: OUTPUT_BYTES,
        resource.RLIMIT_NOFILE: OPEN_FILES,
    }
    if sys.platform.startswith("linux"):
        most |= {resource.RLIMIT_NPROC: 0, resource.RLIMIT_AS: _mapped_bytes() + MEMORY_BYTES}
        with contextlib.suppress(OSError):  # if memory runs out all the same, this one goes first
            Path("/proc/self/oom_score_adj").write_text("1000")
    for which, limit in most.items():
        resource.setrlimit(which, (limit, limit))


def _mapped_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if sys.platform.startswith("linux"):
        _libc().prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _unshare(flags: int) -> bool:
    return int(_libc().unshare(flags)) == 0


def _mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> bool:
    words = [None if word is None else word.encode() for word in (source, target, kind, options)]
    return int(_libc().mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3])) == 0

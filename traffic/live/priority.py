"""When threads get the processor: one that goes before others of its process, and programs that take short turns."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import threading

NICE = -10
"""As the replay agent's: what it is told is to be done at once, while others compute."""


def go_first() -> None:
    """Have the calling thread go before the machine's other work, where that is allowed. Linux has priorities of threads."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)


_SET_ATTRIBUTES = {"x86_64": 314, "aarch64": 274}.get(platform.machine())
"""The number of the call `sched_setattr`, which Python has no name for."""
TURN_NS = 100_000
"""The shortest turn that Linux grants (since 6.12). By default it is 3 ms on two cores: for so long a program that wakes may wait for one that computes."""


class _Attributes(ctypes.Structure):
    """`struct sched_attr`, in its first version; policy 0 is that of all ordinary threads."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime_ns", ctypes.c_uint64),
        ("deadline_ns", ctypes.c_uint64),
        ("period_ns", ctypes.c_uint64),
    )


def take_short_turns() -> None:
    """Have the calling thread share its processor in short turns, where the kernel has that: who wakes waits for less."""
    if _SET_ATTRIBUTES is None:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    wanted = _Attributes(size=ctypes.sizeof(_Attributes), nice=nice, runtime_ns=TURN_NS)
    ctypes.CDLL(None).syscall(_SET_ATTRIBUTES, 0, ctypes.byref(wanted), 0)  # older kernels take no notice of it

"""When threads of programs get the processor."""

from __future__ import annotations

import ctypes
import os
import platform
import threading

import pytest

from traffic.live import priority

GET_ATTRIBUTES = {"x86_64": 315, "aarch64": 275}.get(platform.machine())


def attributes():
    """Those of the calling thread, as the kernel has them."""
    found = priority._Attributes()
    done = ctypes.CDLL(None).syscall(GET_ATTRIBUTES, 0, ctypes.byref(found), ctypes.sizeof(found), 0)
    assert done == 0
    return found


@pytest.mark.skipif(GET_ATTRIBUTES is None, reason="the number of the kernel's call is not known here")
def test_a_thread_takes_short_turns_and_stays_an_ordinary_one_of_its_priority():
    seen = []

    def look():
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 3)
        before = attributes()
        priority.take_short_turns()
        seen.extend([before, attributes()])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    before, after = seen
    assert (after.policy, after.nice) == (before.policy, before.nice) == (0, 3)
    if before.runtime_ns:  # kernels before 6.12 have no turns of a thread's own
        assert after.runtime_ns == priority.TURN_NS < before.runtime_ns

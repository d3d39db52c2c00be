"""Waiting for what a test is about to look at."""

from __future__ import annotations

import time


def wait_until(condition, limit_s=30.0, what="condition"):
    """Poll until `condition()` is true and return its value; fail after `limit_s`."""
    deadline = time.monotonic() + limit_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {limit_s} s in vain for {what}"
        time.sleep(0.02)

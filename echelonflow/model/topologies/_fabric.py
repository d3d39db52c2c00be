"""What topologies of several layers of switches share."""

from __future__ import annotations

import math

from echelonflow.errors import InputError

MOST_OVERSUBSCRIPTION = 1000.0


def checked_oversubscription(key: str, value: float | None) -> float:
    """How many times as much may come from below as cables upwards carry; 1 where it was not given (InputError)."""
    if value is None:
        return 1.0
    if not (math.isfinite(value) and 0 < value <= MOST_OVERSUBSCRIPTION):
        raise InputError(
            f"{key}: {value:g} is not a number above 0, {MOST_OVERSUBSCRIPTION:,.0f} at most; "
            "4 stands for 4:1, and 1 for a fabric that does not block"
        )
    return value

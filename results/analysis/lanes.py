"""Spans side by side: the least number of lanes in which no two spans overlap."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def lanes(spans: Sequence[tuple[float, float]]) -> list[int]:
    """The lane (from 0) of each (start, end) span; those in one lane do not overlap, and lanes are few."""
    found = [0] * len(spans)
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    used = 0
    for i in sorted(range(len(spans)), key=lambda i: spans[i]):
        start, end = spans[i]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            found[i] = heapq.heappop(free)
        else:
            found[i], used = used, used + 1
        heapq.heappush(busy, (end, found[i]))
    return found

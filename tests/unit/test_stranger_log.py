from __future__ import annotations

import logging

from controller.stranger_log import LINES_PER_S, MOST_LINES_AT_ONCE, Sparing


def test_a_flood_is_logged_in_few_lines_and_counted():
    now_s = [0.0]
    sparing = Sparing(lambda: now_s[0])

    def let_through(number):
        records = [
            logging.LogRecord("x", logging.WARNING, "f", 1, "line %d", (i,), (None, None, None)) for i in range(number)
        ]
        return [record for record in records if sparing.filter(record)]

    first = let_through(10_000)
    assert len(first) == MOST_LINES_AT_ONCE
    assert first[0].exc_info is None
    now_s[0] += 1.0
    later = let_through(10_000)
    assert len(later) == LINES_PER_S
    assert later[0].getMessage() == f"line 0 ({10_000 - MOST_LINES_AT_ONCE} more like it were not logged)"
    assert later[1].getMessage() == "line 1"

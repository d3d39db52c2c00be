"""What a process has started, however deep, and whether it still lives."""

from __future__ import annotations

import contextlib
import os
import time

from testbed.processes import alive, descendants, end_within
from tests.waiting import started, wait_until


def test_children_of_children_are_found_with_their_command_lines():
    with started(["sh", "-c", "sh -c 'sleep 61 & wait'; true"]) as process:
        wait_until(lambda: "sleep 61" in descendants(process.pid).values(), process=process)
        family = descendants(process.pid)
        assert len(family) == 2
        assert os.getpid() not in family
        assert all(alive(pid) for pid in family)
        for pid in family:
            os.kill(pid, 9)
        wait_until(lambda: not any(alive(pid) for pid in family))


def test_one_that_has_ended_is_not_alive_even_before_it_is_waited_for():
    with started(["true"]) as process:
        wait_until(lambda: not alive(process.pid))
        process.wait()
        assert not alive(process.pid)
        assert descendants(process.pid) == {}


def test_many_that_do_not_end_are_waited_for_together_not_one_after_the_other():
    with contextlib.ExitStack() as stack:
        quick = stack.enter_context(started(["sh", "-c", "exit 3"]))
        slow = [stack.enter_context(started(["sleep", "60"])) for _ in range(20)]
        begin_s = time.monotonic()
        end_within([quick, *slow], 1.0)
        assert 1.0 <= time.monotonic() - begin_s < 10
        assert [process.returncode for process in (quick, *slow)] == [3] + [-9] * 20

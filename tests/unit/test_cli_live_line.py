"""Time left in words, and the line that shows it, which a terminal that has gone does not harm."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import pytest
from rich.console import Console

from echelon.cli.live_line import LiveLine, left_in_words


@pytest.mark.parametrize(
    ("left_s", "words"),
    [
        (-1.0, ""),
        (0.0, ""),
        (0.2, "about 1 s left"),
        (99.0, "about 99 s left"),
        (100.0, "about 2 min left"),
        (5999.0, "about 100 min left"),
        (9000.0, "about 2.5 h left"),
    ],
)
def test_time_left_is_said_in_a_unit_that_suits_it(left_s, words):
    assert left_in_words(left_s) == words


class Gone(io.StringIO):
    """A terminal whose window was closed."""

    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


def test_work_goes_on_where_a_terminal_has_gone():
    with LiveLine("x", Console(file=Gone()), refreshes=False) as line:
        line._print("words")


def test_work_goes_on_and_ends_well_where_nobody_reads_what_is_said():
    program = (
        "import sys; from echelon.cli.standard_error import StandardError; from echelon.cli.live_line import LiveLine\n"
        "with LiveLine('x', StandardError(), refreshes=False) as line:\n"
        "    for _ in range(3): line._print('words')\n"
        "print('more', file=sys.stderr, flush=True)\n"
        "print('done')"
    )
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as unread:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=unread, timeout=60, check=False
        )
    assert (done.returncode, done.stdout) == (0, b"done\n")


def test_what_others_wrote_is_printed_as_it_is():
    said = io.StringIO()
    with LiveLine("x", Console(file=said, width=10), refreshes=False) as line:
        line._print("[bold]a long line stays one\x1b[31m")
    assert said.getvalue().startswith("[bold]a long line stays one")
    assert "\x1b" not in said.getvalue()

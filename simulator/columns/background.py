"""The process that looks ahead for a controller: `python -m simulator.columns.background IN OUT`.

IN and OUT are inherited pipes. All is loaded and compiled first. Then it answers where jobs are by what is best for them, until the
pipe ends. It is of the lowest priority: what it computes is for later, and the network is now.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import BinaryIO

from echelonflow.errors import EchelonError
from echelonflow.scheduling.own_policy.pipe import read_frame, write_frame
from echelonflow.scheduling.own_policy.sandbox import end_with_parent
from echelonflow.scheduling.planning import (
    AskPlan,
    KnowJob,
    KnowNetwork,
    PlannerReady,
    PlanningFailed,
    decode_request,
    frame,
)
from simulator.columns.twin import Twin, rehearse
from simulator.fluid import warm_up

LOWEST = 19


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer until the pipe ends; what fails is answered by why, and is the end."""
    warm_up()
    rehearse(time.monotonic)
    write_frame(answers, frame(PlannerReady()))
    twin: Twin | None = None
    while True:
        asked = decode_request(read_frame(requests))
        try:
            if isinstance(asked, KnowNetwork):
                twin = Twin(asked.network, time.monotonic)
            elif isinstance(asked, KnowJob) and twin is not None:
                twin.know(asked)
            elif isinstance(asked, AskPlan) and twin is not None:
                write_frame(answers, frame(twin.plan(asked)))
        except Exception as error:  # noqa: BLE001 a run does not end because nobody looks ahead for it
            words = str(error) if isinstance(error, EchelonError) else f"{type(error).__name__}: {error}"
            write_frame(answers, frame(PlanningFailed(words)))
            return


def main(incoming: int, outgoing: int) -> None:
    """Serve on inherited pipes until the one for requests ends."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(LOWEST)
    with (
        open(incoming, "rb") as requests,
        open(outgoing, "wb", buffering=0) as answers,
        contextlib.suppress(EOFError, OSError),  # whoever asked has no more use for it
    ):
        serve(requests, answers)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

"""Changes the weights of the switches' queues: one `tc` that stays, told of what differs, in the controller's own network.

Nobody waits for it. When it has carried out a change is noted, as soon as it says so. It ends with the controller.
"""

from __future__ import annotations

import contextlib
import functools
from collections import deque
from collections.abc import Callable, Mapping

from controller.framework import Framework
from controller.instructions import BeginWeighing, ChangeWeights, EndWeighing
from echelonflow.errors import RunError
from echelonflow.tc_batch import TcBatch
from echelonflow.wire.egress import Egress

Weighing = BeginWeighing | ChangeWeights | EndWeighing
Note = Callable[[int], None]
"""Is called with a number of lines when tc has carried them out."""
_LOOK_S = 3600.0


class Weigher:
    """The switches' egresses while they are weighed; `start` starts a tc, `failed` is told once why it has failed."""

    def __init__(
        self, framework: Framework, failed: Callable[[str], None], start: Callable[[], TcBatch] = TcBatch
    ) -> None:
        self._framework = framework
        self._failed = failed
        self._start = start
        self._tc: TcBatch | None = None
        self._egress: Mapping[str, Egress] = {}
        self._unconfirmed: deque[Callable[[], None]] = deque()

    def enact(self, instruction: Weighing, note: Note) -> None:
        """Begin, change or end; calls `note` when that has been carried out."""
        if isinstance(instruction, BeginWeighing):
            self._egress = dict(instruction.egress)
        lines = self._lines(instruction)
        try:
            if self._tc is None:
                if not isinstance(instruction, BeginWeighing):  # it has failed before, and that was told
                    return
                self._tc = self._start()
                self._framework.spawn(self._hear, self._tc)
            self._tc.put(lines)
        except RunError as error:
            self._give_up(str(error))
        else:
            self._unconfirmed.append(functools.partial(note, len(lines)))

    def _lines(self, instruction: Weighing) -> list[str]:
        match instruction:
            case BeginWeighing():
                return [line for egress in self._egress.values() for line in egress.equal()]
            case EndWeighing():
                return [line for egress in self._egress.values() for line in egress.in_order()]
            case ChangeWeights(of_links):
                return [
                    line
                    for link, shares in of_links
                    for line in self._egress[link].weighted({one.traffic_class: one.share for one in shares})
                ]

    def _hear(self, tc: TcBatch) -> None:
        """Note what tc has carried out, as it says so; why it has ended, if nobody knows yet."""
        try:
            while True:
                if not self._framework.wait(tc.fileno(), write=False, limit_s=_LOOK_S):
                    continue
                for _ in range(tc.confirmed()):
                    if self._tc is tc:
                        self._unconfirmed.popleft()()
        except RunError as error:
            if self._tc is tc:
                self._give_up(str(error))
        finally:
            with contextlib.suppress(RunError):  # it has ended, and why was told
                tc.close()

    def _give_up(self, reason: str) -> None:
        self._tc = None
        self._unconfirmed.clear()
        self._failed(f"weights of classes cannot be changed: {reason}")

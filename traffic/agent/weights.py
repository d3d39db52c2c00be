"""The weights of the classes at a host's own egress, which the coordinator says and the agent puts in force."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from echelonflow.errors import RunError
from echelonflow.tc_batch import TcBatch
from echelonflow.wire.egress import Egress
from echelonflow.wire.messages import Weigh


class HostWeights:
    """The egress of `host`; None where nothing is known of it. `start` starts a tc in the host's network.

    Every method but `drop` raises RunError where weights cannot be changed.
    """

    def __init__(self, host: str, egress: Egress | None, start: Callable[[], TcBatch] = TcBatch) -> None:
        self._host = host
        self._egress = egress
        self._start = start
        self._tc: TcBatch | None = None

    def weigh(self, message: Weigh) -> int | None:
        """Put weights in force; returns the descriptor to `hear` on from now on, where a tc was started for it."""
        egress, tc = self._egress, self._tc
        if egress is None:
            raise RunError(f"the coordinator weighs classes, and the plan says nothing of the queues of {self._host}")
        if message.shares is None:
            lines = egress.in_order()
        else:
            lines = egress.weighted({one.traffic_class: one.share for one in message.shares}) or egress.equal()
        with self._named():
            if tc is not None:
                tc.put(lines)
                return None
            self._tc = self._start()
            self._tc.put(lines)
        return self._tc.fileno()

    def hear(self) -> None:
        """Take what tc says: that it has carried something out, or that it has failed."""
        if self._tc is not None:
            with self._named():
                self._tc.confirmed()

    def end(self) -> None:
        """Have classes served in order again, if they are not, and wait for that."""
        if self._tc is None or self._egress is None:
            return
        with self._named():
            self._tc.put(self._egress.in_order())
            self._tc.close()

    def drop(self) -> None:
        """Give back what this holds; weights stay as they are."""
        if self._tc is not None:
            with contextlib.suppress(RunError):
                self._tc.close()

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except RunError as error:
            raise RunError(f"weights of classes at {self._host} cannot be changed: {error}") from None

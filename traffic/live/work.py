"""What torch waits for: the end of an operation, and whoever waited for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work

from traffic.live.observing import Observer, Operation

_NO_TIMEOUT = timedelta(0)


class LiveWork(Work):  # type: ignore[misc, unused-ignore]
    """An operation under way, which may consist of several exchanges. `result` is what torch hands on when all have ended."""

    def __init__(
        self,
        operation: Operation,
        observer: Observer,
        parts: int,
        result: Sequence[torch.Tensor],
        at_end: Callable[[], None],
        timeout: timedelta,
    ) -> None:
        super().__init__()
        self._operation, self._observer = operation, observer
        self._result, self._at_end, self._timeout = list(result), at_end, timeout
        self._parts = parts
        self._lock = threading.Lock()
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._over: Any = torch.futures.Future()
        if not parts:
            self._end()

    def part_done(self, error: Exception | None) -> None:
        """One exchange has ended; the first error counts. Called by whichever thread carried it out, and they may end at once."""
        with self._lock:
            if error is not None and self._error is None:
                self._error = error
            self._parts -= 1
            is_over = not self._parts
        if is_over:
            self._end()

    def _end(self) -> None:
        if self._error is None:
            try:
                self._at_end()
            except Exception as error:  # noqa: BLE001 whoever waits for it raises it
                self._error = error
        self._observer.ended(self._operation)
        self._ended.set()
        self._over.set_result(None)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end. Raises DistNetworkError where another rank has gone, and DistBackendError after `timeout`."""
        limit = self._timeout if timeout is None or timeout == _NO_TIMEOUT else timeout
        with self._observer.waiting_for(self._operation):
            if not self._ended.wait(limit.total_seconds()):
                raise dist.DistBackendError(f"{self._operation.name}: not over after {limit.total_seconds():g} s")
        if self._error is not None:
            raise self._in_words(self._error)
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self._ended.is_set()

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        return None if self._error is None else self._in_words(self._error)

    def result(self) -> list[torch.Tensor]:
        self.wait()
        return self._result

    def get_future(self) -> Any:
        """Who takes it may wait for it where we do not see that: at the end of a backward pass, as DDP does."""
        self._observer.future_taken(self._operation)
        return self._over.then(self._outcome)

    def _outcome(self, _: Any) -> list[torch.Tensor]:
        """What the future holds. It raises here, as torch's C++ takes what `set_exception` sets for a result, and crashes."""
        if self._error is not None:
            raise self._in_words(self._error)
        return self._result

    def source_rank(self) -> int:
        return self._operation.source_rank

    _source_rank = source_rank

    def _in_words(self, error: Exception) -> Exception:
        raised: Exception = dist.DistNetworkError(f"{self._operation.name}: {error}")
        return raised

"""What an agent did, as JSON lines: written as it happens, so that a killed run keeps what there was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from echelonflow.errors import InputError
from traffic.agent.receiver import ReceivedFlow
from traffic.agent.replay import Computed
from traffic.agent.sender import SentFlow


class RecordFile:
    """The file of one host; times are written in seconds since `zero_s`. InputError if it cannot be made."""

    def __init__(self, path: Path) -> None:
        self.zero_s = 0.0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w", encoding="utf-8", buffering=1)
        except OSError as error:
            raise InputError(f"records {path} cannot be written: {error.strerror}") from None

    def close(self) -> None:
        """Write what is left and close."""
        self._file.close()

    def computed(self, action: Computed) -> None:
        self._write(
            type="compute",
            job=action.job,
            iteration=action.iteration,
            step=action.step.name,
            kind=action.step.kind,
            rank=action.step.rank,
            start_s=self._since_zero(action.start_s),
            finish_s=self._since_zero(action.finish_s),
            late_s=round(action.finish_s - action.due_s, 9),
        )

    def sent(self, job: str, flow: str, sent: SentFlow, acked_s: float) -> None:
        assert sent.start_s is not None  # it has been acknowledged
        self._write(
            type="sent",
            job=job,
            iteration=sent.iteration,
            flow=flow,
            release_s=self._since_zero(sent.release_s),
            start_s=self._since_zero(sent.start_s),
            acked_s=self._since_zero(acked_s),
            sent_bytes=sent.written_bytes,
            retransmissions=sent.retransmissions,
            marks=[[self._since_zero(time_s), dscp, rate] for time_s, dscp, rate in sent.marks],
        )

    def received(self, job: str, flow: str, received: ReceivedFlow) -> None:
        self._write(
            type="received",
            job=job,
            iteration=received.iteration,
            flow=flow,
            first_s=self._since_zero(received.first_s),
            finish_s=self._since_zero(received.finish_s),
            received_bytes=received.received_bytes,
        )

    def _write(self, **record: Any) -> None:
        self._file.write(json.dumps(record) + "\n")

    def _since_zero(self, time_s: float) -> float:
        return round(time_s - self.zero_s, 9)

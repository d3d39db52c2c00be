"""The sending end of a flow: one TCP connection, marked and paced as the coordinator decides.

Sends zeros, unless it is given a payload. Iterations of a flow follow each other on the connection. The next one is sent only when the last has been
acknowledged to the end, so that a mark always belongs to one iteration.

How a decision acts at once: a small send buffer bounds what is in flight, which nobody can recall, and
TCP_NOTSENT_LOWAT what has not left yet. So there is little that drains after a pause. What does leave bears the new
mark, since the DSCP is written when a segment is sent. Equal small buffers are also what makes the flows of one host
share its link fairly (`traffic.agent.plan.send_buffer_bytes`). Rate 0 is a pause: nothing is written. Other rates are
kept here, by writing little at a time: what TCP has been given leaves whatever is decided then (`echelonflow.model.tcp.PIECE_S`).
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import select
import socket
import struct
import termios
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from echelonflow.errors import RunError
from echelonflow.model.tcp import PIECE_BYTES, PIECE_S
from echelonflow.wire.classes import DEFAULT_CLASS, dscp_of_class
from echelonflow.wire.messages import FlowDeclaration, Setting
from traffic.agent.acknowledgements import announce, send_last, take_announcements
from traffic.agent.connections import FlowLostError

PIECES_PER_WAKE = 4
"""A bound on what one flow writes before the others, and the clock, have their turn."""
LEAST_NOT_SENT_BYTES = 1 << 14
NOT_SENT_SHARE = 4
"""What has not left yet is a quarter of the send buffer, at least LEAST_NOT_SENT_BYTES: 1.4 ms of the fastest link."""
MOST_AHEAD = 4
"""Iterations of a flow for which decisions ahead of time are kept: the latest."""
SEGMENT_BYTES = 1460
LEAST_PIECE_BYTES = 2 * SEGMENT_BYTES
MOST_MISSED_S = 0.012
"""What this program was too late to write is made up for up to so much of a flow's time, as the scheduler may hold it up."""
ACK_POLL_S = 0.002
"""How often the end of a flow is looked for once its last byte is written, where the kernel does not announce it."""
ACK_ANNOUNCED_POLL_S = 0.02
"""The same where it does, should an announcement be lost."""

_PIECE = memoryview(bytes(PIECE_BYTES))
_TCP_NOTSENT_LOWAT = 25
_SO_MAX_PACING_RATE = 47
_SIOCOUTQNSD = 0x894B
_UNLIMITED_BPS = (1 << 64) - 1
_TOTAL_RETRANSMISSIONS = struct.Struct("=100xI")
"""tcpi_total_retrans within struct tcp_info."""


class Payload(Protocol):
    """What a flow sends; a payload may have nothing at the moment, and more later."""

    def ready_bytes(self, iteration: int) -> float:
        """How much there is at the moment that was not sent."""

    def piece(self, iteration: int, most_bytes: int) -> memoryview:
        """What comes next, at most so many bytes, maybe less than is ready; none where nothing is."""

    def sent(self, iteration: int, count: int) -> None:
        """TCP has taken the first `count` bytes of what comes next."""


class Zeros:
    """As many as are asked for."""

    def ready_bytes(self, iteration: int) -> float:
        return math.inf

    def piece(self, iteration: int, most_bytes: int) -> memoryview:
        return _PIECE[:most_bytes]

    def sent(self, iteration: int, count: int) -> None:
        """There is no end to them."""


@dataclass
class SentFlow:
    """One iteration of a flow as its sender sees it; times are those of the caller's clock."""

    iteration: int
    release_s: float
    setting: Setting | None = None
    by: int = 0
    """The decision, made before the release, that says how it is sent; 0 where there was none."""
    held: bool = False
    """Whether it was to wait by that decision."""
    ready_s: float | None = None
    """When it could have been released, where its job held it back; None where it did not."""
    decision: int = 0
    """The decision that made `setting`."""
    start_s: float | None = None
    written_bytes: int = 0
    retransmissions: int = 0
    marks: list[tuple[float, int, float | None]] = field(default_factory=list)
    """(time, DSCP, payload bytes/s or None) of every setting as it was put in force."""


class OutgoingFlow:
    """One outgoing transfer of a job: its connection and its iterations.

    `on_acknowledged(flow, now_s)` is called when the last byte of an iteration has been acknowledged.
    """

    def __init__(
        self,
        job: str,
        declaration: FlowDeclaration,
        connection: socket.socket,
        *,
        send_buffer_bytes: int,
        on_acknowledged: Callable[[OutgoingFlow, SentFlow, float], None],
        payload: Payload | None = None,
    ) -> None:
        self.job = job
        self._payload = Zeros() if payload is None else payload
        self.declaration = declaration
        self._connection = connection
        self._on_acknowledged = on_acknowledged
        self._queue: deque[SentFlow] = deque()
        self._finished = 0
        self._ahead: dict[int, Setting] = {}
        """By iteration: what was decided for those that are not released yet."""
        self._retransmissions_before = 0
        self._dscp: int | None = None
        self._rate_Bps: float | None = None
        self._kept_Bps: float | None = None
        """The rate that is kept by writing little at a time; None where TCP paces, or nothing does."""
        self._piece_bytes = LEAST_PIECE_BYTES
        """How much is written at a time at that rate."""
        self._due_s = 0.0
        """When the next piece is due at that rate."""
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        not_sent_bytes = max(LEAST_NOT_SENT_BYTES, send_buffer_bytes // NOT_SENT_SHARE)
        connection.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, not_sent_bytes)
        self._announced = announce(connection)

    def fileno(self) -> int:
        return self._connection.fileno()

    @property
    def active(self) -> SentFlow | None:
        """The iteration that is being sent or waits for its first setting."""
        return self._queue[0] if self._queue else None

    @property
    def wants_write(self) -> bool:
        """Whether bytes may be handed to TCP as soon as it takes them."""
        return self._kept_Bps is None and self._may_send

    @property
    def next_piece_s(self) -> float:
        """When to `write` next, where little at a time is written; else infinite."""
        return math.inf if self._kept_Bps is None or not self._may_send else self._due_s

    @property
    def _may_send(self) -> bool:
        flow = self.active
        return (
            flow is not None
            and flow.setting is not None
            and flow.setting.rate_Bps != 0
            and flow.written_bytes < self.declaration.size_bytes
            and self._has_payload(flow)
        )

    def _has_payload(self, flow: SentFlow) -> bool:
        return self._payload.ready_bytes(flow.iteration) > 0

    @property
    def awaits_acknowledgement(self) -> bool:
        """Whether only acknowledgements are missing: `poll` must be called every `poll_s`, and at every event."""
        flow = self.active
        return flow is not None and flow.written_bytes == self.declaration.size_bytes

    @property
    def poll_s(self) -> float:
        """How often to look for the acknowledgement of the last byte."""
        return ACK_ANNOUNCED_POLL_S if self._announced else ACK_POLL_S

    @property
    def wanted_events(self) -> int | None:
        """What to wait for at the descriptor, as epoll has it; 0 for errors alone, which announcements are. None: nothing."""
        if self.wants_write:
            return select.EPOLLOUT
        return 0 if self._announced and self.awaits_acknowledgement else None

    def take_announcements(self) -> None:
        """Empty the queue of what the kernel has announced; `poll` finds out what it was."""
        take_announcements(self._connection)

    def release(self, iteration: int, now_s: float, ready_s: float | None = None) -> int:
        """Iteration `iteration` may be sent, at once if it was decided on ahead, or else when it has a setting.

        Its job held it back since `ready_s`; None where it did not. Returns the number of the decision that was made
        ahead, 0 where there is none. It may say that the flow waits.
        """
        flow = SentFlow(iteration, now_s, ready_s=ready_s)
        self._queue.append(flow)
        known = self._ahead.pop(iteration, None)
        if known is None:
            return 0
        flow.by = flow.decision = known.number
        flow.held = known.rate_Bps == 0
        if not flow.held:
            flow.setting = known
            if flow is self._queue[0]:
                self._enforce(flow, now_s)
        return flow.by

    def has_ended(self, iteration: int) -> bool:
        """Whether all of an iteration has been acknowledged."""
        return iteration < self._finished

    def has_left(self, iteration: int) -> bool:
        """Whether TCP has sent all of an iteration: nothing of it will ask for the link any more, unless it is lost."""
        if self.has_ended(iteration):
            return True
        flow = self.active
        return (
            flow is not None
            and flow.iteration == iteration
            and flow.written_bytes == self.declaration.size_bytes
            and not self._unsent_bytes()
        )

    def apply(self, setting: Setting, now_s: float) -> None:
        """Put a setting in force: in mid-flow, before the flow has begun, or at its release, which is still to come.

        One for an iteration that is over is void, as it crossed the end on its way; so is one that was decided before
        what is in force. RunError for an iteration that was not released, if the setting is not of a numbered decision.
        """
        for flow in self._queue:
            if flow.iteration == setting.iteration:
                self._apply(flow, setting, now_s)
                return
        if setting.iteration < self._finished:
            return
        if not setting.number:
            raise RunError(
                f"the coordinator sent a setting for flow {setting.flow!r} of job {setting.job!r}, "
                f"iteration {setting.iteration}, which has not been released"
            )
        known = self._ahead.get(setting.iteration)
        if known is None or known.number < setting.number:
            self._ahead[setting.iteration] = setting
            while len(self._ahead) > MOST_AHEAD:
                del self._ahead[min(self._ahead)]

    def _apply(self, flow: SentFlow, setting: Setting, now_s: float) -> None:
        known = flow.setting
        if setting.number < flow.decision:
            return
        flow.decision = setting.number
        if known is not None and (known.dscp, known.rate_Bps) == (setting.dscp, setting.rate_Bps):  # told again
            return
        flow.setting = setting
        if flow is self._queue[0]:
            self._enforce(flow, now_s)

    def forget_decisions(self) -> None:
        """The coordinator that made them is gone: what it decided ahead counts no more, and the next one counts anew."""
        self._ahead.clear()
        for flow in self._queue:
            flow.decision = 0

    def go_on_alone(self, now_s: float) -> None:
        """There is no coordinator: what waits or is paced goes on, unpaced, by the mark that this flow had last.

        One that never had any takes the class in which switches put what they know nothing of.
        """
        dscp = dscp_of_class(DEFAULT_CLASS) if self._dscp is None else self._dscp
        for flow in self._queue:
            known = flow.setting
            if known is not None and known.rate_Bps is None:
                continue
            mark = dscp if known is None else known.dscp
            flow.setting = Setting(self.job, self.declaration.flow, flow.iteration, mark, None)
            if flow is self._queue[0]:
                self._enforce(flow, now_s)

    def state_of(self, iteration: int) -> tuple[int, int | None]:
        """Acknowledged bytes of an iteration that was released, and the mark that it has (None: it waits, or is over)."""
        for flow in self._queue:
            if flow.iteration == iteration:
                sent = self.acknowledged_bytes() if flow is self._queue[0] else 0
                return sent, None if flow.setting is None else flow.setting.dscp
        return self.declaration.size_bytes, None

    def write(self, now_s: float) -> None:
        """Hand TCP what it takes now (RunError if the receiver is gone)."""
        flow = self.active
        if flow is None or not self._may_send:
            return
        if self._kept_Bps is not None:
            self._write_paced(flow, self._kept_Bps, now_s)
            return
        for _ in range(PIECES_PER_WAKE):
            if self._hand_over(flow, PIECE_BYTES, now_s) < PIECE_BYTES:  # the socket is full, or this was the end
                return

    def _write_paced(self, flow: SentFlow, rate_Bps: float, now_s: float) -> None:
        """Hand TCP what is due by now.

        A piece is written when the flow at its rate would be through with it, but for two segments. So the flow is ahead of
        its rate by these two at most, and ends when it should.
        """
        piece_s = self._piece_bytes / rate_Bps
        self._due_s = max(self._due_s, now_s - max(piece_s, MOST_MISSED_S))
        while self._due_s <= now_s and self._may_send:
            piece_bytes = self._piece_bytes if flow.written_bytes else LEAST_PIECE_BYTES
            asked_bytes = min(piece_bytes, self.declaration.size_bytes - flow.written_bytes)
            sent_bytes = self._hand_over(flow, piece_bytes, now_s)
            if not sent_bytes:
                self._due_s = now_s + piece_s
                return
            left_bytes = self.declaration.size_bytes - flow.written_bytes
            self._due_s += min(self._piece_bytes, left_bytes) / rate_Bps
            if not self._has_payload(flow):  # the rest of the piece is due as soon as it is there
                self._due_s -= (asked_bytes - sent_bytes) / rate_Bps

    def _hand_over(self, flow: SentFlow, most_bytes: int, now_s: float) -> int:
        """Hand TCP the next bytes of a flow; returns how many it took (RunError if the receiver is gone)."""
        taken = 0
        while taken < most_bytes:
            left = self.declaration.size_bytes - flow.written_bytes
            piece = self._payload.piece(flow.iteration, min(left, most_bytes - taken))
            if not piece:
                break
            try:
                if len(piece) == left:
                    sent = send_last(self._connection, piece)
                else:
                    # More follows: without this hint every write ends in a short segment. TCP keeps as many segments of
                    # each flow in the host's queue, so a flow with short ones gets less than its share. But where nothing
                    # is ready to follow, it would keep the last segment back for 200 ms.
                    follows = self._payload.ready_bytes(flow.iteration) > len(piece)
                    more = socket.MSG_MORE if most_bytes == PIECE_BYTES and follows else 0
                    sent = self._connection.send(piece, more)
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise self._lost(error) from None
            if flow.start_s is None:
                flow.start_s = now_s
            flow.written_bytes += sent
            self._payload.sent(flow.iteration, sent)
            taken += sent
            if sent < len(piece):
                break
        return taken

    def acknowledged_bytes(self) -> int:
        """Bytes of the active iteration that the receiver's TCP has acknowledged (0 if there is none)."""
        flow = self.active
        if flow is None:
            return 0
        unacknowledged: int = struct.unpack("i", fcntl.ioctl(self._connection, termios.TIOCOUTQ, b"\0\0\0\0"))[0]
        return max(flow.written_bytes - unacknowledged, 0)

    def poll(self, now_s: float) -> None:
        """Look whether the active iteration is acknowledged to the end, and go on to the next if so."""
        flow = self.active
        if flow is None or flow.start_s is None:
            return
        error = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise self._lost(OSError(error, "connection lost"))
        if self.acknowledged_bytes() < self.declaration.size_bytes:
            return
        self._queue.popleft()
        self._finished = flow.iteration + 1
        flow.retransmissions = self._total_retransmissions() - self._retransmissions_before
        self._retransmissions_before += flow.retransmissions
        following = self.active
        if following is not None and following.setting is not None:
            self._enforce(following, now_s)
        self._on_acknowledged(self, flow, now_s)

    def abort(self) -> None:
        """Close the connection at once, and forget what is on its way."""
        with contextlib.suppress(OSError):
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self._connection.close()

    def _enforce(self, flow: SentFlow, now_s: float) -> None:
        setting = flow.setting
        assert setting is not None
        if setting.dscp != self._dscp:
            # The two low bits belong to ECN; the kernel keeps its own there.
            self._connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, setting.dscp << 2)
            self._dscp = setting.dscp
        rate = setting.rate_Bps
        if rate and rate * PIECE_S <= PIECE_BYTES:
            segments = math.ceil(rate * PIECE_S / SEGMENT_BYTES)
            self._piece_bytes = max(min(segments * SEGMENT_BYTES, PIECE_BYTES), LEAST_PIECE_BYTES)
            if self._kept_Bps is None:  # what waits in the socket leaves first, and counts
                self._due_s = now_s + self._unsent_bytes() / rate
            else:
                self._due_s = min(self._due_s, now_s + self._piece_bytes / rate)
            self._kept_Bps = rate
            flow.marks.append((now_s, setting.dscp, rate))
            return
        self._kept_Bps = None
        if rate not in (0, self._rate_Bps):
            pace = _UNLIMITED_BPS if rate is None or math.isinf(rate) else max(round(rate), 1)
            self._connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("@Q", pace))
            self._rate_Bps = rate
        flow.marks.append((now_s, setting.dscp, rate))

    def _unsent_bytes(self) -> int:
        """Bytes that TCP has taken and not sent yet."""
        return int(struct.unpack("i", fcntl.ioctl(self._connection, _SIOCOUTQNSD, b"\0\0\0\0"))[0])

    def _total_retransmissions(self) -> int:
        info = self._connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TOTAL_RETRANSMISSIONS.size)
        return int(_TOTAL_RETRANSMISSIONS.unpack(info)[0])

    def _lost(self, error: OSError) -> RunError:
        return FlowLostError(
            self.job,
            self.declaration.flow,
            f"flow {self.declaration.flow!r} of job {self.job!r} to {self.declaration.dst_host}: "
            f"connection lost ({error.strerror}); see that host's log",
        )

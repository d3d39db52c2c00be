"""Who may be a client of the coordinator, and how much one may say: checked before a message counts.

Three questions. Which user is at the other end (the kernel says so)? Which host does the client speak for (its token says
so)? Does another one speak for that host already? Pure but for the clock, which is an argument.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from echelonflow.errors import InputError
from echelonflow.records.tokens_file import RUNNER, same
from echelonflow.wire.messages import Hello, Message

MOST_CLIENTS = 2048
MOST_UNKNOWN = 64
"""Clients that have not said Hello; beyond that, who has waited longest gives way."""
HELLO_LIMIT_S = 10.0
"""A client must have said who it is by then."""
LONGEST_HELLO_BYTES = 4096
LONGEST_LINE_BYTES = 64 << 20
"""A message beyond this is not one of ours (a group of 100,000 flows takes some 20 MB)."""
MOST_UNSENT_BYTES = 64 << 20
"""A client that leaves so much unread is cut off."""
MESSAGES_PER_S, MOST_MESSAGES_AT_ONCE = 20_000, 100_000
BYTES_PER_S, MOST_BYTES_AT_ONCE = 32 << 20, 256 << 20
"""What one client may send; who sends faster is read more slowly, and waits in its own `send`."""


@dataclass(frozen=True)
class Gate:
    """Lets clients in: users by `uids`, hosts by `tokens` (None: any such user may speak for any host).

    `masters` are the users of `uids` that may be the runner, whose policies are code and whose logs go where it says.
    With `shared`, several clients may speak for one host.
    """

    uids: frozenset[int]
    masters: frozenset[int]
    tokens: Mapping[str, str] | None = None
    shared: bool = False

    def refusal(self, uid: int) -> str | None:
        """Why a user is not heard at all; None for one that is."""
        if uid in self.uids:
            return None
        return f"user {uid} may not connect here; the controller was started without --allow-uid {uid}"

    def admit(self, message: Message, uid: int, holder: str | None) -> Hello:
        """The `Hello` of a client that may be who it says, less its token (InputError for any other message).

        `holder` is the name of a living client that speaks for its host already, None if there is none.
        """
        if not isinstance(message, Hello):
            raise InputError(f"say Hello before {type(message).__name__}")
        who = f"host {message.host!r}" if message.host else "the runner"
        if message.host == RUNNER and uid not in self.masters:
            raise InputError(f"user {uid} may not be the runner: only root and the controller's own user may")
        if self.tokens is not None:
            expected = self.tokens.get(message.host)
            # Compared also where there is none, so that the time says nothing about which hosts there are.
            if not same(expected or "", message.token) or expected is None:
                raise InputError(f"the token of {who} is missing or wrong; each client is given its own")
        if holder is not None and not (self.shared and message.host != RUNNER):
            words = "another runner is connected; one network serves one runner"
            raise InputError(f"{who} is spoken for by {holder!r} already" if message.host else words)
        return Hello(message.client, message.host, message.version)


OWN_USER = Gate(uids=frozenset({0, os.geteuid()}), masters=frozenset({0, os.geteuid()}))
"""Root and the user who runs the controller, each client for any host."""


@dataclass
class Allowance:
    """How fast one client is read: messages and bytes each fill a bucket that runs empty at a steady rate."""

    _messages: float = 0.0
    _bytes: float = 0.0
    _seen_s: float = field(default=0.0)

    def pause_s(self, messages: int, received_bytes: int, now_s: float) -> float:
        """How long not to read a client that has just sent so much; 0 while it keeps to its rates."""
        elapsed_s = max(now_s - self._seen_s, 0.0)
        self._seen_s = now_s
        self._messages = max(self._messages - elapsed_s * MESSAGES_PER_S, 0.0) + messages
        self._bytes = max(self._bytes - elapsed_s * BYTES_PER_S, 0.0) + received_bytes
        return max(
            (self._messages - MOST_MESSAGES_AT_ONCE) / MESSAGES_PER_S,
            (self._bytes - MOST_BYTES_AT_ONCE) / BYTES_PER_S,
            0.0,
        )

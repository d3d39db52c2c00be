"""A switch that speaks just enough OpenFlow 1.3 to be one: it says who it is, and remembers the rules that it is given."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, FEATURES_REQUEST, FEATURES_REPLY = 0, 1, 2, 3, 5, 6
SET_CONFIG, FLOW_MOD, MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 9, 14, 18, 19, 20, 21
VERSION = 4
_HEADER = struct.Struct("!BBHI")


class SpeakingSwitch:
    """Connects to `port` and answers until the controller hangs up; `secure` makes TLS of the connection."""

    def __init__(self, port: int, datapath_id: int, secure=lambda connection: connection) -> None:
        self.datapath_id = datapath_id
        self.flow_mods = 0
        self.ended = threading.Event()
        self.ready = threading.Event()
        """All rules are in place: the barrier after them was answered."""
        self.why = ""
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self._thread = threading.Thread(target=self._serve, args=(secure,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self.socket.close()

    def _serve(self, secure) -> None:
        try:
            self.socket = secure(self.socket)
            self._say(HELLO, 1)
            while True:
                _, kind, length, xid = _HEADER.unpack(self._read(_HEADER.size))
                self._answer(kind, xid, self._read(length - _HEADER.size))
        except (OSError, EOFError) as error:
            self.why = repr(error)
        finally:
            self.ended.set()

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise EOFError("the controller hung up")
            data += piece
        return data

    def _say(self, kind: int, xid: int, body: bytes = b"") -> None:
        self.socket.sendall(_HEADER.pack(VERSION, kind, _HEADER.size + len(body), xid) + body)

    def _answer(self, kind: int, xid: int, body: bytes) -> None:
        if kind == FEATURES_REQUEST:
            self._say(FEATURES_REPLY, xid, struct.pack("!QIBB2xII", self.datapath_id, 256, 254, 0, 0x4F, 0))
        elif kind == ECHO_REQUEST:
            self._say(ECHO_REPLY, xid, body)
        elif kind == MULTIPART_REQUEST:
            self._say(MULTIPART_REPLY, xid, body[:2] + bytes(6))
        elif kind == FLOW_MOD:
            self.flow_mods += 1
        elif kind == BARRIER_REQUEST:
            self._say(BARRIER_REPLY, xid)
            self.ready.set()

"""The only file that knows Ryu and os-ken, and but for `controller.http_server` eventlet: switches as handles, events as calls, green threads.

Both frameworks run on eventlet's hub, so that timeouts and failures behave the same. Neither's manager is
used: ours starts exactly two apps, the framework's OpenFlow handshake and the one below that translates
its events into calls of a `SwitchListener`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import logging
import os
import socket
import ssl
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from controller import http_server
from controller.launch import FRAMEWORKS
from controller.openflow_server import OpenFlowServer
from controller.rules import TO_CONTROLLER, Match, Rule
from controller.sockets import hung_up
from controller.stranger_log import Sparing
from echelonflow.errors import InputError

_PACKAGES = dict(zip(FRAMEWORKS, ("ryu", "os_ken"), strict=True))
_APP_CLASS = {"ryu": "RyuApp", "os-ken": "OSKenApp"}

SHOWN_BYTES = 64


class SwitchListener(Protocol):
    """What is told of switches; called on the hub's thread, must not block."""

    def connected(self, switch: SwitchHandle) -> bool:
        """A switch has said who it is; False for one that is not wanted: it is closed, and not heard of again."""

    def confirmed(self, datapath_id: int, xid: int) -> None:
        """The switch has carried out everything up to the barrier `xid`."""

    def lost(self, switch: SwitchHandle) -> None: ...
    def error(self, datapath_id: int, reason: str) -> None: ...
    def seen(self, datapath_id: int, port: int, source_mac: str) -> None:
        """A switch has shown the controller a packet that came in by `port`."""


@dataclass(frozen=True)
class SwitchHandle:
    """A connected switch; every method queues bytes for it and returns at once."""

    datapath: Any

    @property
    def datapath_id(self) -> int:
        return int(self.datapath.id)

    @property
    def address(self) -> str:
        """Where the switch has connected from."""
        host, port = self.datapath.address[:2]
        return f"{host}:{port}"

    @property
    def alive(self) -> bool:
        """Whether its connection has not ended yet."""
        return self.datapath.is_active and not hung_up(self.datapath.socket)

    def close(self) -> None:
        """End the connection."""
        self.datapath.close()
        with contextlib.suppress(OSError):
            self.datapath.socket.shutdown(socket.SHUT_RDWR)

    def install(self, add: Sequence[Rule], remove: Sequence[Rule] = ()) -> None:
        """Remove rules, then add rules, as one write."""
        self._send(self._changes(add, remove))

    def install_confirmed(self, add: Sequence[Rule], remove: Sequence[Rule] = ()) -> int:
        """The same; returns the xid of the barrier that follows them."""
        return self._confirmed(self._changes(add, remove))

    def _changes(self, add: Sequence[Rule], remove: Sequence[Rule]) -> list[Any]:
        return [*(delete(self.datapath, rule) for rule in remove), *(flow_mod(self.datapath, rule) for rule in add)]

    def reset(self, rules: Sequence[Rule]) -> int:
        """Leave the switch with exactly `rules`; returns the xid of the barrier that follows them."""
        ofproto, parser = self.datapath.ofproto, self.datapath.ofproto_parser
        clear = parser.OFPFlowMod(
            self.datapath,
            table_id=ofproto.OFPTT_ALL,
            command=ofproto.OFPFC_DELETE,
            out_port=ofproto.OFPP_ANY,
            out_group=ofproto.OFPG_ANY,
        )
        return self._confirmed([clear, *(flow_mod(self.datapath, rule) for rule in rules)])

    def complete(self, rules: Sequence[Rule]) -> int:
        """Leave the switch with `rules` and all others that it has; returns the xid of the barrier that follows them."""
        return self._confirmed([flow_mod(self.datapath, rule) for rule in rules])

    def _confirmed(self, messages: Sequence[Any]) -> int:
        barrier = self.datapath.ofproto_parser.OFPBarrierRequest(self.datapath)
        self._send([*messages, barrier])
        return int(barrier.xid)

    def _send(self, messages: Sequence[Any]) -> None:
        buffer = bytearray()
        for message in messages:
            self.datapath.set_xid(message)
            message.serialize()
            buffer += message.buf
        if buffer:
            self.datapath.send(bytes(buffer))


def flow_mod(datapath: Any, rule: Rule) -> Any:
    """The message that adds `rule`, or replaces one with its match and priority."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    actions = []
    if rule.set_dscp is not None:
        actions.append(parser.OFPActionSetField(ip_dscp=rule.set_dscp))
    if rule.output is not None:
        # Of what the controller is shown, the Ethernet header is all that it reads.
        limit = {"max_len": SHOWN_BYTES} if rule.output == TO_CONTROLLER else {}
        actions.append(parser.OFPActionOutput(rule.output, **limit))
    instructions = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)] if actions else []
    if rule.goto_table is not None:
        instructions.append(parser.OFPInstructionGotoTable(rule.goto_table))
    return parser.OFPFlowMod(
        datapath,
        table_id=rule.table,
        priority=rule.priority,
        match=parser.OFPMatch(**match_fields(rule.match)),
        instructions=instructions,
    )


def delete(datapath: Any, rule: Rule) -> Any:
    """The message that removes exactly the rule with `rule`'s table, match and priority."""
    ofproto, parser = datapath.ofproto, datapath.ofproto_parser
    return parser.OFPFlowMod(
        datapath,
        table_id=rule.table,
        command=ofproto.OFPFC_DELETE_STRICT,
        priority=rule.priority,
        out_port=ofproto.OFPP_ANY,
        out_group=ofproto.OFPG_ANY,
        match=parser.OFPMatch(**match_fields(rule.match)),
    )


def match_fields(match: Match) -> dict[str, Any]:
    """OXM fields of a match, as keywords of OFPMatch."""
    fields = {
        "in_port": match.in_port,
        "eth_type": match.eth_type,
        "eth_dst": match.eth_dst,
        "eth_src": match.eth_src,
        "ip_proto": match.ip_proto,
        "ipv4_src": match.ipv4_src,
        "ipv4_dst": match.ipv4_dst,
        "tcp_src": match.tcp_src if match.tcp_src_mask is None else (match.tcp_src, match.tcp_src_mask),
        "tcp_dst": match.tcp_dst,
    }
    return {name: value for name, value in fields.items() if value is not None}


class Framework:
    """Ryu or os-ken, imported and on eventlet's hub; at most one in a process.

    Raises InputError if `name` is unknown or not installed. Replaces blocking functions of the standard
    library by eventlet's, so it must be made before sockets are.
    """

    def __init__(self, name: str) -> None:
        if name not in _PACKAGES:
            raise InputError(f"unknown controller framework {name!r}; there is: {', '.join(FRAMEWORKS)}")
        self.name = name
        self._package = _PACKAGES[name]
        # os-ken's own hub of native threads loses exceptions and timeouts; eventlet's is the one both share.
        os.environ["OSKEN_HUB_TYPE"] = "eventlet"
        try:
            eventlet = _quiet_import("eventlet")
            # Ryu 4.34 imports this name, which eventlet dropped; only websocket handlers would use it.
            wsgi = importlib.import_module("eventlet.wsgi")
            if not hasattr(wsgi, "ALREADY_HANDLED"):
                wsgi.ALREADY_HANDLED = object()  # type: ignore[attr-defined]
            self.version = importlib.metadata.version(name)
            self._hub = self._import("lib.hub")
        except (ImportError, importlib.metadata.PackageNotFoundError) as error:
            extra = "emulation" if name == "ryu" else name
            raise InputError(
                f"controller framework {name} cannot be imported ({error}); install this project with [{extra}]"
            ) from error
        eventlet.monkey_patch(thread=False)

    def _import(self, module: str) -> Any:
        return _quiet_import(f"{self._package}.{module}")

    def spawn(self, function: Callable[..., None], *args: Any) -> Any:
        """Run `function` in a green thread, after all that are ready now; an exception in it is logged."""
        return self._hub.spawn(function, *args)

    def spawn_after(self, delay_s: float, function: Callable[..., None]) -> Any:
        """Run `function` in a green thread after `delay_s`; the result has `cancel()`."""
        return importlib.import_module("eventlet").spawn_after(delay_s, function)

    def sleep(self, delay_s: float) -> None:
        """Let other green threads run, for `delay_s` at least (0: once each)."""
        self._hub.sleep(delay_s)

    def queue(self, limit: int) -> Any:
        """A queue between green threads; `put_nowait` raises `queue.Full` beyond `limit` entries."""
        return self._hub.Queue(limit)

    def wait(self, descriptor: int, *, write: bool, limit_s: float) -> bool:
        """Wait for a descriptor while other green threads run (echelonflow.scheduling.own_policy.process.Wait)."""
        hubs = importlib.import_module("eventlet.hubs")
        timeout = importlib.import_module("eventlet").Timeout
        try:
            hubs.trampoline(descriptor, read=not write, write=write, timeout=max(limit_s, 1e-3), timeout_exc=timeout)
        except timeout:
            return False
        return True

    def time_limit(self, limit_s: float) -> Any:
        """A context that raises TimeoutError in this green thread after `limit_s`."""
        return importlib.import_module("eventlet").Timeout(limit_s, TimeoutError)

    def serve_http(self, listening: Any, application: Callable[..., Any]) -> None:
        """Serve a WSGI application on a listening socket for ever, one request per connection."""
        http_server.serve(listening, application)

    def serve_switches(
        self, listening: Any, listener: SwitchListener, uids: frozenset[int], tls: ssl.SSLContext | None = None
    ) -> None:
        """Hear switches that connect to a listening socket, from now on, as `controller.openflow_server` lets them in."""
        handshake, controller = self._import("controller.ofp_handler"), self._import("controller.controller")
        main = self._import("controller.handler").MAIN_DISPATCHER
        base = getattr(self._import("base.app_manager"), _APP_CLASS[self.name])
        manager = self._import("base.app_manager").AppManager.get_instance()
        translator = manager.instantiate(self._translator(), listener=listener)
        translator.set_main_thread(translator.start())
        base.start(manager.instantiate(handshake.OFPHandler))  # without the server that its own start would add

        class Talk:
            def __init__(self, connection: Any, address: Any) -> None:
                self._datapath = controller.Datapath(connection, address)

            def run(self) -> None:
                with contextlib.closing(self._datapath):
                    self._datapath.serve()

            @property
            def known(self) -> bool:
                return bool(self._datapath.state == main)

        self.spawn(OpenFlowServer(self, Talk, uids, tls).serve, listening)

    def _translator(self) -> type:
        """The app class: each handler only translates one event."""
        base = getattr(self._import("base.app_manager"), _APP_CLASS[self.name])
        events, handler = self._import("controller.ofp_event"), self._import("controller.handler")
        ofproto = self._import("ofproto.ofproto_v1_3")
        on, main, dead = handler.set_ev_cls, handler.MAIN_DISPATCHER, handler.DEAD_DISPATCHER

        class Translator(base):  # type: ignore[misc, valid-type]
            OFP_VERSIONS = [ofproto.OFP_VERSION]  # noqa: RUF012 the framework's own convention

            def __init__(self, *args: Any, listener: SwitchListener, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.listener = listener
                self.accepted: set[Any] = set()
                """Datapaths of the switches that are the listener's; nothing that others say counts."""

            @on(events.EventOFPStateChange, [main, dead])  # type: ignore[untyped-decorator]
            def state_changed(self, event: Any) -> None:
                handle = SwitchHandle(event.datapath)
                if event.state == main:
                    if self.listener.connected(handle):
                        self.accepted.add(event.datapath)
                    else:
                        handle.close()
                elif event.datapath in self.accepted:
                    self.accepted.discard(event.datapath)
                    self.listener.lost(handle)

            @on(events.EventOFPBarrierReply, main)  # type: ignore[untyped-decorator]
            def barrier_replied(self, event: Any) -> None:
                message = event.msg
                if message.datapath in self.accepted:
                    self.listener.confirmed(message.datapath.id, message.xid)

            @on(events.EventOFPPacketIn, main)  # type: ignore[untyped-decorator]
            def packet_shown(self, event: Any) -> None:
                message = event.msg
                if message.datapath in self.accepted:
                    self.listener.seen(message.datapath.id, message.match["in_port"], message.data[6:12].hex(":"))

            @on(events.EventOFPErrorMsg, main)  # type: ignore[untyped-decorator]
            def error_reported(self, event: Any) -> None:
                message = event.msg
                if message.datapath in self.accepted:
                    self.listener.error(message.datapath.id, f"OpenFlow error type {message.type} code {message.code}")

        return Translator


def _quiet_import(module: str) -> Any:
    """Import without warnings: eventlet advises new projects against itself, and some of Ryu's code is old."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(module)


def quiet_framework_logs() -> None:
    """The frameworks narrate every app and handshake at INFO; warnings are enough."""
    for package in _PACKAGES.values():
        logging.getLogger(package).setLevel(logging.WARNING)
        # A traceback for each message that is none would fill the disk at the pace of whoever sends them.
        logging.getLogger(f"{package}.ofproto.ofproto_parser").addFilter(Sparing())

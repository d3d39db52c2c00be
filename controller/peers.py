"""Who is connected to the coordinator: clients, one of them maybe the runner, and switches."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from controller.fabric import Fabric
from controller.instructions import Instruction, SendTo
from echelonflow.errors import InputError
from echelonflow.records import events
from echelonflow.wire.messages import PROTOCOL_VERSION, Event, Hello
from echelonflow.wire.rest import Switches


class Peers:
    """Clients by number and switches by name; what they do in a run is in `controller.session`."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric
        self._clients: dict[int, Hello] = {}
        self._runner: int | None = None
        self._connected: set[str] = set()
        self._ready: set[str] = set()

    # Clients

    def welcome(self, hello: Hello, client: int) -> None:
        """A client has said who it is; InputError for one that does not belong here."""
        network = self._fabric.network
        if hello.version != PROTOCOL_VERSION:
            raise InputError(f"protocol version {hello.version} is not {PROTOCOL_VERSION}")
        if client in self._clients:
            raise InputError("Hello was said already")
        if hello.host and hello.host not in network.edge_switch:
            known = ", ".join(network.hosts[:8]) or "none; the controller was given no --hosts"
            raise InputError(f"host {hello.host!r} is not in network {network.name} (it has: {known})")
        if not hello.host:
            if self._runner is not None:
                raise InputError("another runner is connected; one network serves one runner")
            self._runner = client
        self._clients[client] = hello

    def forget(self, client: int) -> Hello | None:
        """A client has gone; returns who it was, None if it never said so."""
        if client == self._runner:
            self._runner = None
        return self._clients.pop(client, None)

    def is_runner(self, client: int) -> bool:
        return client == self._runner

    def host_of(self, client: int) -> str | None:
        """The host where a client's flows begin and end, "" for a runner; None for one that has not said Hello."""
        hello = self._clients.get(client)
        return None if hello is None else hello.host

    def on_hosts(self, host: str | None = None) -> list[int]:
        """The clients that have a host, or those on `host`."""
        return [n for n, hello in self._clients.items() if hello.host and host in (None, hello.host)]

    def name(self, client: int) -> str:
        """A client in words."""
        hello = self._clients.get(client)
        return f"client {client}" if hello is None else f"{hello.client} on {hello.host or 'no host'}"

    @property
    def clients(self) -> int:
        """How many have said who they are."""
        return len(self._clients)

    def tell_runner(self, what: str, detail: str = "") -> list[Instruction]:
        """Tell the runner what has happened, if there is one."""
        return [] if self._runner is None else [SendTo(self._runner, Event(what, detail))]

    # Switches

    def connect_switch(self, switch: str) -> None:
        """A switch has connected; it has its rules once it says so."""
        self._ready.discard(switch)
        self._connected.add(switch)

    def note_ready(self, switch: str) -> None:
        """A switch has confirmed that its rules are in place."""
        self._ready.add(switch)

    def forget_switch(self, switch: str) -> None:
        """The connection to a switch has ended."""
        self._ready.discard(switch)
        self._connected.discard(switch)

    @property
    def connected(self) -> AbstractSet[str]:
        """Names of the connected switches; the set changes as they come and go."""
        return self._connected

    @property
    def switches_complete(self) -> bool:
        """Whether every switch that a run needs has its rules."""
        return self._fabric.complete(self._ready)

    @property
    def switches(self) -> Switches:
        """The switches for people and programs that ask."""
        return Switches(tuple(sorted(self._connected)), tuple(sorted(self._ready)))

    def tell_switches(self) -> list[Instruction]:
        """Tell the runner that all switches are ready, if they are."""
        return self.tell_runner("switches", str(len(self._ready))) if self.switches_complete else []

    def preamble(self) -> list[events.Event]:
        """Events by which a fresh coordinator comes to know the same switches and clients."""
        connected = [events.SwitchConnected(self._fabric.datapath_id(switch)) for switch in sorted(self._connected)]
        ready = [events.SwitchReady(switch) for switch in sorted(self._ready)]
        return [*connected, *ready, *(events.ClientSaid(client, hello) for client, hello in self._clients.items())]

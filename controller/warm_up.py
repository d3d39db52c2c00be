"""Makes the first real decision as fast as the others: every policy and enforcer decides once at start-up."""

from __future__ import annotations

import itertools

from controller.asking import ask
from controller.coordinator import Coordinator
from controller.enforcers import ENFORCERS
from controller.fabric import KnownFabric
from controller.instructions import AskPolicy, SendTo
from echelonflow.model.network import Network
from echelonflow.records.events import ClientSaid, RoundOver, SwitchReady
from echelonflow.scheduling import kernels, policies
from echelonflow.wire.declare import DATA_PORT, FIRST_SOURCE_PORT
from echelonflow.wire.messages import Begin, Declare, FlowDeclaration, Hello, Message, Queues, Ready, Release, encode

QUEUES = Queues(1, 0.0)
"""Of what size queues are makes no difference here."""


def warm_up(network: Network) -> None:
    """Run a whole decision cycle on two flows per policy and enforcer; nothing of it remains.

    A policy that fails here fails again, and is reported, in the run that asks for it.
    """
    kernels.warm_up()
    sources = network.hosts[:2]
    if len(sources) < 2 or not network.path(sources[0], sources[1]):
        return
    flows = tuple(
        FlowDeclaration(f"f{i}", i, f"f{i}", src, dst, 10**6, float(i), FIRST_SOURCE_PORT + i, DATA_PORT)
        for i, (src, dst) in enumerate(itertools.permutations(sources))
    )
    for policy, enforcer in itertools.product(policies.deciding_alone(), ENFORCERS):
        coordinator = Coordinator(KnownFabric(network))
        messages: list[tuple[int, Message]] = [
            (0, Hello("runner", "")),
            (0, Begin("", policy, enforcer, 0, "", queues=QUEUES)),
        ]
        messages += [(client, Hello("agent", host)) for client, host in enumerate(sources, start=1)]
        messages += [(1, Declare("job", "group", "kind", 1.0, flows)), (1, Ready())]
        for switch in network.switches:
            coordinator.handle(SwitchReady(switch), 0.0)
        for client, message in messages:
            coordinator.handle(ClientSaid(client, message), 0.0)
        for client, flow in enumerate(flows, start=1):
            coordinator.handle(ClientSaid(client, Release("job", flow.flow, 0, 1.0)), 1.0)
        for asked in coordinator.handle(RoundOver(), 1.0):
            if isinstance(asked, AskPolicy):
                for instruction in coordinator.handle(ask(asked.question), 1.0):
                    if isinstance(instruction, SendTo):
                        encode(instruction.message)

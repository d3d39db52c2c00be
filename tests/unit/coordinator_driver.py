"""Drives a coordinator as its shell does, without a shell: events in, policies asked in place, instructions out."""

from __future__ import annotations

from controller.asking import ask
from controller.instructions import AskPolicy
from echelonflow.model.addressing import dpid
from echelonflow.records.events import ClientGone, ClientSaid, PolicyOrdered, RoundOver, SwitchConnected, SwitchReady


def say(coordinator, *messages, now_s):
    """What messages, as (client, message), lead to."""
    return [i for client, message in messages for i in coordinator.handle(ClientSaid(client, message), now_s)]


def decide(coordinator, now_s):
    """What the end of a round leads to, with the answer of a policy in this process."""
    out = coordinator.handle(RoundOver(), now_s)
    if len(out) == 1 and isinstance(out[0], AskPolicy) and not out[0].question.policy.isolated:
        return coordinator.handle(ask(out[0].question), now_s)
    return out


def connect_switches(coordinator, network, now_s):
    out = []
    for switch in network.switches:
        out += coordinator.handle(SwitchConnected(dpid(network, switch)), now_s)
        out += coordinator.handle(SwitchReady(switch), now_s)
    return out


def swap(coordinator, policy, enforcer, now_s):
    """What the order of a policy that is loaded leads to."""
    return coordinator.handle(PolicyOrdered(policy.name, enforcer), now_s, policy)


def leave(coordinator, client, now_s):
    return coordinator.handle(ClientGone(client), now_s)

"""Drives a coordinator through what a simulation did, with spare time after each decision: what was decided ahead?"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from controller.asking import ask
from controller.coordinator import START_DELAY_S, Coordinator
from controller.fabric import KnownFabric
from controller.instructions import AskPolicy, InstallRules, LogDecision, SendTo
from echelonflow.records.events import RoundOver, SpareTime, SwitchReady
from echelonflow.wire.declare import declarations
from echelonflow.wire.messages import Begin, Decide, Fault, Finish, Hello, Ready, Release
from tests.unit.coordinator_driver import say

RUNNER = 1
FIRST_AGENT = 10


@dataclass
class DecidedAhead:
    """What came of it, by iteration where that matters."""

    flows: Counter = field(default_factory=Counter)
    ahead: Counter = field(default_factory=Counter)
    """Flows that had a setting when they were released."""
    corrected: list = field(default_factory=list)
    decisions: int = 0
    questions: int = 0
    """That policies were asked ahead."""
    spare: int = 0
    """Pieces of spare time."""
    told: int = 0
    """Settings that were sent ahead."""
    messages: int = 0
    rules: int = 0

    def share(self, first=0):
        """Of flows decided ahead, from an iteration on."""
        flows = sum(n for k, n in self.flows.items() if k >= first)
        return sum(n for k, n in self.ahead.items() if k >= first) / flows


class Agents:
    """What agents know: settings by flow, and the highest number of each."""

    def __init__(self):
        self.settings = {}

    def hear(self, setting):
        key = (setting.job, setting.iteration, setting.flow)
        known = self.settings.get(key)
        if setting.after is not None:
            return
        if known is None or known.number <= setting.number:
            self.settings[key] = setting

    def release(self, key):
        known = self.settings.get(key)
        return 0 if known is None else known.number


class Driven:
    """A coordinator in mid-run, and agents that do what it says."""

    def __init__(self, jobs, network, policy, enforcer, decisions):
        self.coordinator, self.found = Coordinator(KnownFabric(network)), DecidedAhead()
        self._agents = Agents()
        self._clients = {host: number for number, host in enumerate(network.hosts, start=FIRST_AGENT)}
        for switch in network.switches:
            self.coordinator.handle(SwitchReady(switch), -1.0)
        groups, clients = declarations(jobs), self._clients.values()
        self._declared = {(group.job, flow.flow): flow for group in groups for flow in group.flows}
        begin = Begin("r", policy, enforcer, len(self._clients), "/d", decisions=decisions)
        first = -START_DELAY_S
        self._say(RUNNER, Hello("runner", ""), first)
        self._say(RUNNER, begin, first)
        for host, client in self._clients.items():
            self._say(client, Hello("agent", host), first)
        for group in groups:
            self._say(self._clients[group.flows[0].src_host], group, first)
        for client in clients:
            self._say(client, Ready(), first)
        self.use_spare_time(first)

    def _say(self, client, message, now_s):
        self._enact(say(self.coordinator, (client, message), now_s=now_s), now_s, ahead=False)

    def _enact(self, instructions, now_s, *, ahead):
        found = self.found
        for each in instructions:
            if isinstance(each, AskPolicy):
                found.questions += ahead
                self._enact(self.coordinator.handle(ask(each.question), now_s), now_s, ahead=ahead)
            elif isinstance(each, SendTo) and isinstance(each.message, Decide):
                found.messages += ahead
                found.told += ahead * len(each.message.settings)
                for setting in each.message.settings:
                    self._agents.hear(setting)
            elif isinstance(each, InstallRules):
                found.rules += ahead * len(each.add)
            elif isinstance(each, LogDecision) and not each.record.ahead:
                found.decisions += 1
                found.corrected += each.record.corrected
            assert not (isinstance(each, SendTo) and isinstance(each.message, Fault)), each.message

    def use_spare_time(self, now_s):
        while self.coordinator.has_spare_work:
            self.found.spare += 1
            self._enact(self.coordinator.handle(SpareTime(), now_s), now_s, ahead=True)

    def end_round(self, now_s):
        self._enact(self.coordinator.handle(RoundOver(), now_s), now_s, ahead=False)

    def release(self, key, now_s):
        job, iteration, name = key
        by = self._agents.release(key)
        self.found.flows[iteration] += 1
        self.found.ahead[iteration] += by != 0
        self._say(self._clients[self._declared[job, name].src_host], Release(job, name, iteration, now_s, by), now_s)

    def finish(self, key, now_s):
        job, iteration, name = key
        self._say(self._clients[self._declared[job, name].dst_host], Finish(job, name, iteration, now_s), now_s)


def drive(jobs, network, policy, enforcer, flows, decisions="ahead"):
    """A coordinator under `policy` hears of `flows` (records of a run) as they were released and ended."""
    driven = Driven(jobs, network, policy, enforcer, decisions)
    keys = [(flow.job, flow.iteration, flow.flow) for flow in flows]
    releases = [(flow.release_s, driven.release, key) for flow, key in zip(flows, keys, strict=True)]
    finishes = [(flow.finish_s, driven.finish, key) for flow, key in zip(flows, keys, strict=True)]
    # An end goes before what it leads to.
    events = sorted([*finishes, *releases], key=lambda event: event[0])
    for now_s, at_once in itertools.groupby(events, key=lambda event: event[0]):
        for _, happen, key in at_once:
            happen(key, now_s)
        driven.end_round(now_s)
        driven.use_spare_time(now_s)
    return driven.found

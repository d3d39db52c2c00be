"""The rules of flows: which mark is in force for each, which path it is kept on, and what switches have to know of both.

Pure. Switches that are not connected are told nothing: they get `RuleBook.on` when they come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet

from controller.fabric import Fabric
from controller.instructions import InstallRules
from controller.rules import Rule
from echelonflow.wire.messages import FlowDeclaration

Flow = tuple[str, str]
"""A flow's job and name."""


class RuleBook:
    """Marks of flows, of all their iterations; `connected` are the switches that are connected now, by name."""

    def __init__(
        self, fabric: Fabric, connected: AbstractSet[str], declaration: Callable[[str, str], FlowDeclaration]
    ) -> None:
        self._fabric = fabric
        self._connected = connected
        self._declaration = declaration
        self._marks: dict[Flow, int] = {}
        self._pinned: dict[Flow, None] = {}
        """Flows whose paths some switch has to know, in the order of their declaration."""

    def pin(self, flows: Iterable[Flow]) -> list[InstallRules]:
        """Flows have been declared: the rules that keep them on their paths, before they send anything."""
        add: dict[str, list[Rule]] = {}
        for flow in flows:
            if self._collect_paths(flow, self._connected, add):
                self._pinned[flow] = None
        return [InstallRules(switch, add=tuple(rules)) for switch, rules in add.items()]

    def note(self, flow: Flow, dscp: int) -> None:
        """Switches have a rule already that gives `flow` this mark."""
        self._marks[flow] = dscp

    def change(self, marks: Mapping[Flow, int]) -> list[InstallRules]:
        """Flows are marked so from now on: the rules of those whose mark changes."""
        add: dict[str, list[Rule]] = {}
        for flow, dscp in marks.items():
            if self._marks.get(flow) != dscp:
                self._marks[flow] = dscp
                self._collect(flow, self._connected, add)
        return [InstallRules(switch, add=tuple(rules)) for switch, rules in add.items()]

    def on(self, switch: str) -> list[Rule]:
        """The flow rules that `switch` must have now: for one that comes back."""
        rules: dict[str, list[Rule]] = {}
        for flow in self._pinned:
            self._collect_paths(flow, {switch}, rules)
        for flow in self._marks:
            self._collect(flow, {switch}, rules)
        return rules.get(switch, [])

    def take_back_all(self) -> list[InstallRules]:
        """Take back every rule."""
        return self._take_back(list(self._marks), list(self._pinned))

    def take_back(self, jobs: AbstractSet[str]) -> list[InstallRules]:
        """Take back the rules of these jobs' flows."""
        marked, pinned = ([flow for flow in flows if flow[0] in jobs] for flows in (self._marks, self._pinned))
        return self._take_back(marked, pinned)

    def _take_back(self, marked: Iterable[Flow], pinned: Iterable[Flow]) -> list[InstallRules]:
        remove: dict[str, list[Rule]] = {}
        for flow in marked:
            self._collect(flow, self._connected, remove)
            del self._marks[flow]
        for flow in pinned:
            self._collect_paths(flow, self._connected, remove)
            del self._pinned[flow]
        return [InstallRules(switch, remove=tuple(rules)) for switch, rules in remove.items()]

    def _collect(self, flow: Flow, connected: AbstractSet[str], rules: dict[str, list[Rule]]) -> None:
        for switch, rule in self._fabric.flow_rules(self._declaration(*flow), self._marks[flow], connected):
            rules.setdefault(switch, []).append(rule)

    def _collect_paths(self, flow: Flow, connected: AbstractSet[str], rules: dict[str, list[Rule]]) -> bool:
        """Add what `connected` switches have to know of a flow's path; returns whether any switch has."""
        found = self._fabric.path_rules(self._declaration(*flow))
        for switch, rule in found:
            if switch in connected:
                rules.setdefault(switch, []).append(rule)
        return bool(found)

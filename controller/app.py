"""The shell around the coordinator: sockets, switches, policies and a run's logs; it decides nothing.

Everything that happens becomes an event, is recorded while a run is on, and is handed to the coordinator at once.
What arrives in one round of the event loop is decided on once, in the next round. Rules are queued for the
switches before the settings that go with them are queued for the agents, and both leave in that order.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.asking import Guard, ask, unbounded
from controller.clients import Client, Clients, check_order
from controller.coordinator import Coordinator
from controller.framework import Framework, SwitchHandle
from controller.gate import OWN_USER, Gate
from controller.instructions import (
    AskPlanner,
    AskPolicy,
    CloseLog,
    ClosePolicy,
    InstallRules,
    Instruction,
    LogDecision,
    OpenLog,
    PreparePlanner,
    Question,
    ResetSwitch,
    SendTo,
)
from controller.planner_process import PlannerError, PlannerProcess
from controller.run_logs import RunLogs
from controller.stranger_log import log as strangers
from controller.weigher import Weigher, Weighing
from echelonflow.errors import EchelonError, InputError
from echelonflow.records import events
from echelonflow.scheduling import policies
from echelonflow.scheduling.policies import Policy
from echelonflow.tc_batch import TcBatch
from echelonflow.wire.messages import Begin, Message, decode, shortened

log = logging.getLogger("controller")
SPARE_S = 0.001
"""After so long without anything to do there is spare time: what belongs to one moment has arrived by then."""


@dataclass
class Shell:
    """Carries what happens to the coordinator, and its instructions out.

    `load` makes policies, a user's in a process of its own, while everything else goes on. `guard` wraps each call of a
    policy in this process. `gate` says who may be a client. With `confirm_rules` switches confirm what they are given in
    a run, and its logs say when.
    """

    framework: Framework
    coordinator: Coordinator
    load: Callable[[str], Policy] = policies.load
    guard: Guard = unbounded
    gate: Gate = OWN_USER
    confirm_rules: bool = False
    planner: PlannerProcess | None = None
    """Who looks ahead, in the background; None: nobody."""
    start_tc: Callable[[], TcBatch] = TcBatch
    """Starts what changes weights of the switches' queues."""
    clients: Clients = field(init=False)
    _switches: dict[str, SwitchHandle] = field(default_factory=dict)
    _barriers: dict[tuple[int, int], str] = field(default_factory=dict)
    """(datapath id, xid) of a barrier under way, to the switch that it confirms."""
    _given: dict[tuple[int, int], Callable[[float], None]] = field(default_factory=dict)
    """The same of barriers that follow rules of a run, to what writes down when they were confirmed."""
    _logs: RunLogs | None = None
    _deciding: bool = False
    _to_plan: AskPlanner | PreparePlanner | None = None
    """What the planner was told last, until it has done it."""
    _planning: bool = False
    _weigher: Weigher = field(init=False)
    _alarm: Any = None
    _spare: Any = None
    """What will use spare time."""

    def __post_init__(self) -> None:
        self.clients = Clients(self.framework, self.gate, self)
        self._weigher = Weigher(self.framework, self._weighing_failed, self.start_tc)

    # What a `SwitchListener` of the framework is told.

    def connected(self, switch: SwitchHandle) -> bool:
        """A switch has connected. One that is there already is not replaced: who comes second may be anybody."""
        name = self.coordinator.fabric.switch_name(switch.datapath_id)
        reason = None
        if name is None:
            reason = "the network has no switch of this id"
        elif name in self._switches and self._switches[name].alive:
            reason = f"switch {name} is connected already, from {self._switches[name].address}"
        if name is None or reason is not None:
            reason = f"from {switch.address}: {reason}"
            strangers.warning("a switch of datapath id %d is refused, %s", switch.datapath_id, reason)
            self.handle(events.SwitchTurnedAway(switch.datapath_id, reason))
            return False
        log.info("switch %s (datapath id %d) connected", name, switch.datapath_id)
        if name in self._switches:
            self.lost(self._switches[name])
        self._switches[name] = switch
        self.handle(events.SwitchConnected(switch.datapath_id))
        return True

    def confirmed(self, datapath_id: int, xid: int) -> None:
        note = self._given.pop((datapath_id, xid), None)
        if note is not None:
            with self._fail_without_logs():
                note(time.monotonic())
        switch = self._barriers.pop((datapath_id, xid), None)
        if switch is not None:
            log.info("switch %s has its rules", switch)
            self.handle(events.SwitchReady(switch))

    def lost(self, switch: SwitchHandle) -> None:
        name = next((n for n, handle in self._switches.items() if handle.datapath is switch.datapath), None)
        if name is None:  # it has reconnected already
            return
        log.warning("switch %s disconnected", name)
        del self._switches[name]
        self.handle(events.SwitchLost(switch.datapath_id))

    def error(self, datapath_id: int, reason: str) -> None:
        name = self.coordinator.fabric.switch_name(datapath_id) or f"datapath {datapath_id}"
        log.error("switch %s: %s", name, reason)
        self.handle(events.SwitchRefused(name, reason))

    def seen(self, datapath_id: int, port: int, source_mac: str) -> None:
        self.handle(events.PacketShown(datapath_id, port, source_mac))

    # What `Clients` tells.

    def heard(self, client: Client, line: bytes) -> None:
        """Have the coordinator handle what a client says. What is no message of its kind costs it the connection."""
        try:
            message = self._message(client, line)
        except InputError as error:
            self.refused(client, str(error))
            return
        loaded = None
        if isinstance(message, Begin):
            try:
                loaded = self.load(message.policy)
            except EchelonError as error:
                self.handle(events.LineRefused(client.number, shortened(str(error))))
                return
        self.handle(events.ClientSaid(client.number, message), loaded)

    def _message(self, client: Client, line: bytes) -> Message:
        message = decode(line)
        if client.host is None:
            return self.clients.admit(client, message)
        if isinstance(message, Begin):
            check_order(client, "Begin")
        return message

    def refused(self, client: Client, reason: str) -> None:
        strangers.warning("client %d is refused: %s", client.number, shortened(reason))
        self.handle(events.LineRefused(client.number, shortened(reason)))
        self.clients.end(client)

    def gone(self, client: Client) -> None:
        self.handle(events.ClientGone(client.number))

    # Events and instructions

    def handle(self, event: events.Event, loaded: Policy | None = None, *, follows: bool = False) -> None:
        """Have the coordinator handle an event. A fault of ours must end the run, not only a green thread.

        An event that `follows` from those before is not recorded: a replay finds it out again.
        """
        now_s = time.monotonic()
        try:
            if not follows:
                self._record(event, now_s)
            self.enact(self.coordinator.handle(event, now_s, loaded))
        except Exception as error:
            log.exception("the coordinator failed")
            self._fail(f"the controller failed: {type(error).__name__}: {error}")

    def order(self, event: events.Event, loaded: Policy | None = None) -> None:
        """The same for an order, which may be refused: raises what `Coordinator.handle` raises."""
        now_s = time.monotonic()
        self._record(event, now_s)
        self.enact(self.coordinator.handle(event, now_s, loaded))

    def _fail(self, reason: str) -> None:
        event, now_s = events.ControllerFailed(reason), time.monotonic()
        self._record(event, now_s)
        self.enact(self.coordinator.handle(event, now_s))

    def _record(self, event: events.Event, now_s: float) -> None:
        if self._logs is not None:
            with self._fail_without_logs():
                self._logs.event(event, now_s)

    def _decide(self) -> None:
        self._deciding = False
        self.handle(events.RoundOver())

    def _use_spare_time(self) -> None:
        """Decide ahead of time, unless something has come that goes first: after that there may be time again."""
        self._spare = None
        if not self._deciding and self.coordinator.has_spare_work and not self.coordinator.due(time.monotonic()):
            self.handle(events.SpareTime())

    def _ask(self, question: Question) -> None:
        """Ask a policy; one in another process is waited for in a green thread of its own."""
        answer = ask(question, self.guard)
        if isinstance(answer, events.PolicyFailed):
            log.warning("%s", answer.reason)
        self.handle(answer, follows=not question.policy.isolated and isinstance(answer, events.PolicyAnswered))

    def _ask_planner(self, asked: AskPlanner | PreparePlanner) -> None:
        """Have the planner load or look ahead; where it is busy with an earlier question, as soon as it is free."""
        self._to_plan = asked
        if not self._planning:
            self._planning = True
            self.framework.spawn(self._plan)

    def _plan(self) -> None:
        try:
            while (asked := self._to_plan) is not None:
                told = self._planned(asked)
                if asked is self._to_plan:  # what was found to an earlier question is dropped
                    self._to_plan = None
                    self.handle(told)
        except PlannerError as error:
            self._to_plan = None
            log.warning("%s; the order in force stays so for the rest of this run", error)
            self.handle(events.PlannerFailed(shortened(str(error))))
        finally:
            self._planning = False

    def _planned(self, asked: AskPlanner | PreparePlanner) -> events.Event:
        """What the planner has done, once it has done it (PlannerError if it cannot)."""
        if self.planner is None:
            raise PlannerError("this controller has no planner")
        if isinstance(asked, PreparePlanner):
            self.planner.prepare()
            return events.PlannerPrepared()
        return events.Planned(self.planner.ask(asked.asked, asked.jobs, asked.network))

    def enact(self, instructions: Sequence[Instruction]) -> None:
        """Carry out what the coordinator asks for, in order."""
        for instruction in instructions:
            if isinstance(instruction, SendTo):
                self._send(instruction.client, instruction.message)
            elif isinstance(instruction, AskPolicy):
                if instruction.question.policy.isolated:
                    self.framework.spawn(self._ask, instruction.question)
                else:
                    self._ask(instruction.question)
            elif isinstance(instruction, AskPlanner | PreparePlanner):
                self._ask_planner(instruction)
            elif isinstance(instruction, ClosePolicy):
                instruction.policy.close()
            elif isinstance(instruction, Weighing):
                self._weigh(instruction)
            elif isinstance(instruction, InstallRules):
                self._install(instruction)
            elif isinstance(instruction, ResetSwitch):
                switch = self._switches[instruction.switch]
                give = switch.complete if instruction.keep else switch.reset
                self._barriers[switch.datapath_id, give(instruction.rules)] = instruction.switch
            else:
                self._write_log(instruction)
        self._schedule()

    def _install(self, rules: InstallRules) -> None:
        switch = self._switches.get(rules.switch)
        if switch is None:
            return
        if self._logs is None or not self.confirm_rules:
            switch.install(rules.add, rules.remove)
            return
        note = self._logs.given(rules.switch, len(rules.add) + len(rules.remove), time.monotonic())
        self._given[switch.datapath_id, switch.install_confirmed(rules.add, rules.remove)] = note

    def _weigh(self, instruction: Weighing) -> None:
        written = None if self._logs is None else self._logs.weighed(time.monotonic())

        def note(classes: int) -> None:
            if written is not None:
                with self._fail_without_logs():
                    written(classes, time.monotonic())

        self._weigher.enact(instruction, note)

    def _weighing_failed(self, reason: str) -> None:
        log.error("%s", reason)
        self.handle(events.WeighingFailed(shortened(reason)))

    def _schedule(self) -> None:
        """Have a decision made: in the next round if one is due, or when it will be."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        now_s, wake_s = time.monotonic(), self.coordinator.wake_s
        if self._spare is None and self.coordinator.has_spare_work:
            self._spare = self.framework.spawn_after(SPARE_S, self._use_spare_time)
        if self._deciding:
            return
        if self.coordinator.due(now_s):
            self._deciding = True
            self.framework.spawn(self._decide)
        elif wake_s < math.inf:
            self._alarm = self.framework.spawn_after(wake_s - now_s, self._schedule)

    def _send(self, number: int, message: Message) -> None:
        client = self.clients.by_number.get(number)
        if client is not None:
            self.clients.send(client, message)

    def _write_log(self, instruction: OpenLog | LogDecision | CloseLog) -> None:
        with self._fail_without_logs():
            if isinstance(instruction, OpenLog):
                self._logs = self._open_logs(instruction)
                # A collection takes milliseconds, and a run is short; those of a controller that stands are not held up.
                gc.disable()
            elif self._logs is not None and isinstance(instruction, LogDecision):
                self._logs.decision(instruction.record)
            elif self._logs is not None:
                self.close()

    def _open_logs(self, instruction: OpenLog) -> RunLogs:
        fabric = self.coordinator.fabric
        addresses = None if fabric.addresses is None else dict(fabric.addresses)
        opening = events.Opening(fabric.network, addresses, self.coordinator.questions_asked)
        return RunLogs(Path(instruction.path), opening, instruction.preamble, confirm_rules=self.confirm_rules)

    @contextlib.contextmanager
    def _fail_without_logs(self) -> Iterator[None]:
        """A run whose logs cannot be written fails, and says so once."""
        try:
            yield
        except OSError as error:
            self._logs = None
            log.error("logs of the run: %s", error)  # noqa: TRY400 the text says all
            self._fail(f"cannot write the run's logs: {error}")

    def close(self) -> None:
        """Close the logs of a run."""
        logs, self._logs = self._logs, None
        gc.enable()
        if logs is not None:
            logs.close()

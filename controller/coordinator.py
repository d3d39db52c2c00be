"""The coordinator: messages and switch events in, instructions out; no input or output, no framework.

A run goes: the runner's `Begin`; agents say `Hello`, `Declare`, `Ready`; when all have and every switch has
its rules, `Start` goes out; then releases and finishes lead to decisions, until every agent is `Done` and
the runner says `End`. A client with a host must say `Done` before it leaves, or the run has lost it.

A run may be standing instead: made by the controller itself for clients that come and go without a runner.

The shell calls `handle` (or a switch method) for each event, and `decide` once after all events of one
wake-up: what arrives together is decided together. A policy in another process is asked by the shell, and
`answered` goes on from there; meanwhile everything else is heard.

Events to the runner:
  switches  every switch has its rules                      detail: how many
  begun     the run's state is set up                       detail: the run
  ready     Start has been sent                             detail: zero, seconds of the monotonic clock
  done      every agent is done
  lost      an agent or a switch went away in mid-run       detail: which
  fault     a message was refused, or the policy failed     detail: why
  policy    another policy was swapped in, or one gave way  detail: which, and why
  ended     the run's state and rules are dropped           detail: the run
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable
from typing import Any

from controller.enforcers import ENFORCERS
from controller.fabric import Fabric
from controller.instructions import (
    AskPolicy,
    CloseLog,
    ClosePolicy,
    InstallRules,
    Instruction,
    LogDecision,
    OpenLog,
    Question,
    ResetSwitch,
    SendTo,
)
from controller.metrics import Counters
from controller.run import Guard, Run
from echelonflow.errors import EchelonError, InputError, RunError
from echelonflow.scheduling import policies
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.wire.messages import (
    PROTOCOL_VERSION,
    Begin,
    Declare,
    Done,
    End,
    Event,
    Fault,
    Finish,
    Hello,
    Message,
    Progress,
    Ready,
    Release,
    Start,
)

START_DELAY_S = 0.3
"""Between the decision to start and the run's zero: time for every agent to hear of it."""
LAST_RESORT = "fair"
"""The policy that takes over when one has failed and there is none to go back to."""
STANDING = "standing"
"""Name of a run that the controller keeps by itself."""


def _unbounded(_policy: str) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


class Coordinator:
    """State machine for one network; `now_s` is always the monotonic clock that agents share.

    `load_policy` turns a policy's text into a Policy, `clock` (seconds) measures how long decisions take,
    `guard` wraps each call of the policy.
    """

    def __init__(
        self,
        fabric: Fabric,
        load_policy: Callable[[str], Policy] = policies.load,
        clock: Callable[[], float] = time.perf_counter,
        guard: Guard = _unbounded,
    ) -> None:
        self.fabric = fabric
        self.network = fabric.network
        self.counters = Counters()
        self._load_policy = load_policy
        self._clock = clock
        self._guard = guard
        self._clients: dict[int, Hello] = {}
        self._runner: int | None = None
        self._run: Run | None = None
        self._run_name = ""
        self._standing: Policy | None = None
        self._connected: set[str] = set()
        self._switches_ready: set[str] = set()

    # Switches

    def switch_connected(self, datapath_id: int) -> list[Instruction]:
        """A switch has connected: give it its rules, whatever it had; those of flows in force too."""
        switch = self.fabric.switch_name(datapath_id)
        if switch is None:
            return self._tell("fault", f"a switch with datapath id {datapath_id} connected; the network has none such")
        self._switches_ready.discard(switch)
        self._connected.add(switch)
        flow_rules = [] if self._run is None else self._run.rules_on(switch)
        return [ResetSwitch(switch, (*self.fabric.base_rules(switch), *flow_rules))]

    def switch_ready(self, switch: str, now_s: float) -> list[Instruction]:
        """The switch has confirmed that its rules are in place."""
        self._switches_ready.add(switch)
        return [*self._tell_switches(), *self._start_if_ready(now_s)]

    def switch_lost(self, datapath_id: int) -> list[Instruction]:
        """The connection to a switch has ended."""
        switch = self.fabric.switch_name(datapath_id)
        if switch is None:
            return []
        self._switches_ready.discard(switch)
        self._connected.discard(switch)
        return self._tell("lost", f"switch {switch}") if self._run is not None else []

    def switch_error(self, switch: str, reason: str) -> list[Instruction]:
        """A switch has refused what it was told."""
        return self._tell("fault", f"switch {switch}: {reason}")

    def switch_saw(self, datapath_id: int, port: int, source_mac: str, now_s: float) -> list[Instruction]:
        """A switch has shown a packet whose source it does not know."""
        switch = self.fabric.switch_name(datapath_id)
        return [] if switch is None else self.fabric.seen(switch, port, source_mac, now_s)

    # Clients

    def handle(self, message: Message, client: int, now_s: float) -> list[Instruction]:
        """One message from `client`; what it leads to at once. Ask `decide` afterwards."""
        self.counters.messages += 1
        try:
            return self._dispatch(message, client, now_s)
        except InputError as error:
            return self.refuse(client, str(error))

    def refuse(self, client: int, reason: str) -> list[Instruction]:
        """Tell a client that its message was refused, and the runner that this happened."""
        self.counters.refused += 1
        told_runner = [] if client == self._runner else self._tell("fault", f"{self._name(client)}: {reason}")
        return [SendTo(client, Fault(reason)), *told_runner]

    def disconnected(self, client: int) -> list[Instruction]:
        """A client has gone. With the runner goes the run; an agent that was not done is lost."""
        hello = self._clients.pop(client, None)
        if client == self._runner:
            instructions = self._drop_run()
            self._runner = None
            self._stand()
            return instructions
        run = self._run
        if hello is None or run is None or client not in run.members:
            return []
        if run.standing:
            run.members.discard(client)
            run.ready.discard(client)
            run.done.discard(client)
            return self._removable(run.withdraw(client))
        return [] if client in run.done else self._tell("lost", hello.host)

    def _dispatch(self, message: Message, client: int, now_s: float) -> list[Instruction]:
        if isinstance(message, Hello):
            return self._hello(message, client, now_s)
        if client not in self._clients:
            raise InputError(f"say Hello before {type(message).__name__}")
        if isinstance(message, Begin | End):
            if client != self._runner:
                raise InputError(f"{type(message).__name__} is for the runner to say, not for {self._name(client)}")
            return self._begin(message, now_s) if isinstance(message, Begin) else self._end(now_s)
        if isinstance(message, Declare | Release | Progress | Finish | Ready | Done):
            return self._of_client(message, client, now_s)
        raise InputError(f"{type(message).__name__} is for the coordinator to say")

    def _hello(self, hello: Hello, client: int, now_s: float) -> list[Instruction]:
        if hello.version != PROTOCOL_VERSION:
            raise InputError(f"protocol version {hello.version} is not {PROTOCOL_VERSION}")
        if client in self._clients:
            raise InputError("Hello was said already")
        if hello.host and hello.host not in self.network.edge_switch:
            known = ", ".join(self.network.hosts[:8]) or "none; the controller was given no --hosts"
            raise InputError(f"host {hello.host!r} is not in network {self.network.name} (it has: {known})")
        if not hello.host:
            if self._runner is not None:
                raise InputError("another runner is connected; one network serves one runner")
            self._runner = client
            self._clients[client] = hello
            return self._tell_switches()
        self._clients[client] = hello
        if self._run is not None:
            self._run.members.add(client)
        return self._start_if_ready(now_s)

    def _of_client(
        self, message: Declare | Release | Progress | Finish | Ready | Done, client: int, now_s: float
    ) -> list[Instruction]:
        run, host = self._run, self._clients[client].host
        if run is None:
            raise InputError(f"{type(message).__name__} outside a run: the runner has not said Begin")
        if not host:
            raise InputError(f"{type(message).__name__} comes from a client without a host")
        run.members.add(client)
        if isinstance(message, Declare):
            run.declare(message, client)
        elif isinstance(message, Release):
            run.release(message, client, host, now_s)
        elif isinstance(message, Progress):
            run.progress(message, host, now_s)
        elif isinstance(message, Finish):
            run.finish(message, host, now_s)
        elif isinstance(message, Ready):
            return self._ready(run, client, now_s)
        else:
            return self._done(run, client)
        return []

    # A run from Begin to End

    def _begin(self, begin: Begin, now_s: float) -> list[Instruction]:
        if begin.enforcer not in ENFORCERS:
            raise InputError(f"unknown enforcer {begin.enforcer!r}; there is: {', '.join(ENFORCERS)}")
        if begin.agents < 0:
            raise InputError(f"Begin expects {begin.agents} agents")
        policy = self._load_policy(begin.policy)
        dropped = self._drop_run()
        self._run = Run(
            self.fabric, self._connected, policy, begin.enforcer, begin.agents, clock=self._clock, guard=self._guard
        )
        self._run_name = begin.run
        begun = [OpenLog(begin.decisions_path), *self._tell("begun", begin.run)]
        return [*dropped, *begun, *self._start_if_ready(now_s)]

    def _ready(self, run: Run, client: int, now_s: float) -> list[Instruction]:
        run.ready.add(client)
        if run.zero_s is not None:
            return [SendTo(client, Start(run.zero_s))]
        return self._start_if_ready(now_s)

    def _start_if_ready(self, now_s: float) -> list[Instruction]:
        run = self._run
        if run is None or run.zero_s is not None or len(run.ready) < run.agents or not self._all_switches_ready:
            return []
        run.zero_s = now_s + START_DELAY_S
        starts = [SendTo(client, Start(run.zero_s)) for client in sorted(run.ready)]
        return [*starts, *self._tell("ready", repr(run.zero_s))]

    def _done(self, run: Run, client: int) -> list[Instruction]:
        run.done.add(client)
        if run.reported_done or len(run.done) < run.agents or not run.ready <= run.done:
            return []
        run.reported_done = True
        return self._tell("done")

    def _end(self, now_s: float) -> list[Instruction]:
        ended = [*self._drop_run(), *self._tell("ended", self._run_name)]
        self._run_name = ""
        self._stand()
        return [*ended, *self._start_if_ready(now_s)]

    def stand(self, policy: Policy, now_s: float) -> list[Instruction]:
        """Keep a run under `policy` whenever no runner has begun one."""
        self._standing = policy
        self._stand()
        return self._start_if_ready(now_s)

    def _stand(self) -> None:
        if self._standing is None or self._run is not None:
            return
        policy, self._run_name = self._standing, STANDING
        self._run = Run(
            self.fabric,
            self._connected,
            policy,
            policy.enforcer,
            agents=0,
            clock=self._clock,
            guard=self._guard,
            standing=True,
        )

    def _drop_run(self) -> list[Instruction]:
        run, self._run = self._run, None
        if run is None:
            return []
        used = [run.policy, *([] if run.previous is None else [run.previous[0]])]
        return [*self._removable(run.remove_rules()), CloseLog(), *self._close(used)]

    def _close(self, used: Iterable[Policy]) -> list[Instruction]:
        """Only those with a process of their own hold anything; that of the standing run is used again."""
        return [ClosePolicy(policy) for policy in used if policy.apart and policy is not self._standing]

    def _removable(self, instructions: Iterable[Instruction]) -> list[Instruction]:
        """A switch that is not connected has lost our rules from its books: it is reset when it comes back."""
        return [i for i in instructions if not isinstance(i, InstallRules) or i.switch in self._connected]

    # Decisions

    def decide(self, now_s: float) -> list[Instruction]:
        """The decision that is due, if any; nothing otherwise."""
        run = self._run
        if run is None or not self.due(now_s):
            return []
        question = run.question(now_s)
        if question is None:
            return []
        if question.policy.apart:
            run.asked = question
            return [AskPolicy(question)]
        try:
            allocation = run.ask(question)
        except EchelonError as error:
            return self._policy_failed(run, error)
        return self._decided(run, question, allocation)

    def answered(self, question: Question, answer: Allocation | EchelonError) -> list[Instruction]:
        """A policy in another process has answered, or failed; of no account if it was swapped meanwhile."""
        run = self._run
        if run is None or run.asked is not question:
            return []
        run.asked = None
        if isinstance(answer, EchelonError):
            return self._policy_failed(run, answer)
        return self._decided(run, question, answer)

    def _decided(self, run: Run, question: Question, allocation: Allocation) -> list[Instruction]:
        instructions = run.answer(question, allocation)
        for instruction in instructions:
            if isinstance(instruction, LogDecision):
                self.counters.decision(instruction.record)
            elif isinstance(instruction, InstallRules):
                self.counters.rules += len(instruction.add)
        return instructions

    def _policy_failed(self, run: Run, error: EchelonError) -> list[Instruction]:
        """The end of the run where its own policy fails; one that was swapped in gives way to the one before."""
        failed = run.fall_back(policies.load(LAST_RESORT)) if run.lives_on else None
        if failed is None:
            return self.fail(str(error))
        self.counters.fallbacks += 1
        return [*self._close([failed]), *self._tell("policy", f"fell back to {run.policy.name}: {error}")]

    # The policy in force

    def trial(self, now_s: float) -> Snapshot | None:
        """What a policy would be asked now; None where no flow is in flight. Raises RunError outside a run."""
        run = self._swappable()
        return run.trial(now_s)

    def swap(self, policy: Policy, enforcer: str | None) -> list[Instruction]:
        """Follow `policy` from now on, by its own enforcer unless one is named.

        It applies to flows in flight. Raises RunError where no run is in progress, InputError for an
        enforcer that there is not.
        """
        run = self._swappable()
        if enforcer is not None and enforcer not in ENFORCERS:
            raise InputError(f"unknown enforcer {enforcer!r}; there is: {', '.join(ENFORCERS)}")
        unused = run.swap(policy, enforcer or policy.enforcer)
        self.counters.swaps += 1
        return [*self._close(unused), *self._tell("policy", f"swapped to {policy.name}")]

    def _swappable(self) -> Run:
        if self._run is None or self._run.failed:
            raise RunError("no run is in progress, so there is no policy to swap")
        return self._run

    def fail(self, reason: str) -> list[Instruction]:
        """Stop deciding in this run, and tell the runner why: it ends the run."""
        if self._run is not None:
            self._run.failed = True
        return self._tell("fault", reason)

    def due(self, now_s: float) -> bool:
        """Whether `decide` has something to decide."""
        run = self._run
        return run is not None and not run.failed and run.due(now_s)

    @property
    def wake_s(self) -> float:
        """When to call `decide` though nothing happens (monotonic clock); infinite if never."""
        run = self._run
        return math.inf if run is None or run.failed else run.wake_s

    # Words

    def status(self, now_s: float) -> dict[str, Any]:
        """What is going on, in plain data; `run` is None between runs."""
        run = self._run
        elapsed_s = None if run is None or run.zero_s is None else round(now_s - run.zero_s, 3)
        described = None if run is None else {"name": self._run_name, "elapsed_s": elapsed_s, **run.describe()}
        return {
            "network": self.network.name,
            "hosts": len(self.network.hosts),
            "switches": {"connected": sorted(self._connected), "ready": sorted(self._switches_ready)},
            "clients": len(self._clients),
            "run": described,
        }

    def groups(self) -> list[dict[str, Any]]:
        """Every declared group of the run, with its flows in flight."""
        return [] if self._run is None else self._run.describe_groups()

    @property
    def _all_switches_ready(self) -> bool:
        return self.fabric.complete(self._switches_ready)

    def _tell_switches(self) -> list[Instruction]:
        return self._tell("switches", str(len(self._switches_ready))) if self._all_switches_ready else []

    def _tell(self, what: str, detail: str = "") -> list[Instruction]:
        return [] if self._runner is None else [SendTo(self._runner, Event(what, detail))]

    def _name(self, client: int) -> str:
        hello = self._clients.get(client)
        return f"client {client}" if hello is None else f"{hello.client} on {hello.host or 'no host'}"

"""The coordinator: messages and switch events in, instructions out; no input or output, no framework.

A run begins with the runner's `Begin`. Agents say `Hello`, `Declare`, `Ready`; when all have and every switch has its
rules, `Start` goes out. Then releases and finishes lead to decisions, until every agent is `Done` and the runner says
`End`. A client with a host must say `Done` before it leaves, or the run has lost it.

A run may be standing instead: made by the controller itself for clients that come and go without a runner.

Everything that happens is an event (`echelonflow.records.events`), and `handle` is the one entry for all of them. The
shell says `RoundOver` once after all events of one wake-up: what arrives together is decided together. Policies
are asked by the shell, and `PolicyAnswered` goes on from there; meanwhile everything else is heard. When nothing else
is to be done it says `SpareTime`, which is used to decide for flows before they are released. So the same events lead
to the same instructions, durations in decision records excepted.

What the runner is told:
  switches  every switch has its rules                      detail: how many
  begun     the run's state is set up                       detail: the run
  ready     Start has been sent                             detail: zero, seconds of the monotonic clock
  done      every agent is done
  lost      an agent or a switch went away in mid-run       detail: which
  fault     a message was refused, or the policy failed     detail: why
  refused   a switch that has no place here was refused     detail: which, and why
  policy    another policy was swapped in, or one gave way  detail: which, and why
  ended     the run's state and rules are dropped           detail: the run
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from controller.decision_cycle import DecisionCycle
from controller.fabric import Fabric
from controller.flow_books import FlowBooks
from controller.instructions import (
    AskPolicy,
    CloseLog,
    ClosePolicy,
    InstallRules,
    Instruction,
    LogDecision,
    OpenLog,
    PreparePlanner,
    ResetSwitch,
    SendTo,
)
from controller.metrics import Counters
from controller.peers import Peers
from controller.planning import Planning
from controller.run import OfFlows, Run
from controller.session import Session, check_enforcer, is_weighted
from controller.weight_book import WeightBook
from echelonflow.errors import InputError, RunError
from echelonflow.records import events
from echelonflow.scheduling import policies
from echelonflow.scheduling.planning import PlanMade
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.wire.live import Live
from echelonflow.wire.messages import (
    Begin,
    Done,
    End,
    Fault,
    Hello,
    HostDown,
    Message,
    Queues,
    Ready,
    Start,
    shortened,
)
from echelonflow.wire.rest import GroupStatus, Status

START_DELAY_S = 0.3
"""Between the decision to start and the run's zero: time for every agent to hear of it."""
LAST_RESORT = "fair"
"""The policy that takes over when one has failed and there is none to go back to."""
STANDING = "standing"
"""Name of a run that the controller keeps by itself."""


class Coordinator:
    """State machine for one network; `now_s` is always the monotonic clock that agents share.

    `load_policy` turns a policy's text into a Policy for events that come without one. `clock` (seconds) measures how
    long decisions take. A coordinator that goes on where a log of events begins has asked `questions_asked` questions
    before. One that follows another in mid-run is to `keep_rules`: switches lose none until that run has ended.
    """

    def __init__(
        self,
        fabric: Fabric,
        load_policy: Callable[[str], Policy] = policies.load,
        clock: Callable[[], float] = time.perf_counter,
        questions_asked: int = 0,
        *,
        keep_rules: bool = False,
    ) -> None:
        self.fabric = fabric
        self.network = fabric.network
        self.counters = Counters()
        self._load_policy = load_policy
        self._clock = clock
        self._questions_asked = questions_asked
        self._keep_rules = keep_rules
        self._peers = Peers(fabric)
        self._run: Run | None = None
        self._standing: Policy | None = None

    def handle(self, event: events.Event, now_s: float, loaded: Policy | None = None) -> list[Instruction]:
        """What an event leads to, decisions included. `loaded` is the policy that the event names.

        A user's policy takes a process and time to load, so it is loaded before. Of ours, a text is enough.

        Orders that cannot be obeyed change nothing and raise: RunError where no run is in progress, InputError for a
        policy or an enforcer that there is not. All else that is wrong with an event is told to those concerned.
        """
        match event:
            case events.ClientSaid(client, message):
                return self._said(message, client, now_s, loaded)
            case events.RoundOver():
                return self._ask(now_s)
            case events.SpareTime():
                return self._decide_ahead(now_s)
            case events.PolicyAnswered():
                return self._answered(event)
            case events.PolicyFailed(question, reason):
                return self._policy_failed(question, reason)
            case events.Planned(made):
                return self._planned(made, now_s)
            case events.PlannerPrepared():
                return self._stop_awaiting_planner(now_s)
            case events.PlannerFailed():
                given_up = [] if self._run is None else self._run.planning.give_up()
                return [*given_up, *self._stop_awaiting_planner(now_s)]
            case events.LineRefused(client, reason):
                return self._refuse(client, reason)
            case events.ClientGone(client):
                return self._gone(client)
            case events.PolicyOrdered(text, enforcer):
                return self._swap(text, enforcer, loaded)
            case events.StandingOrdered(text):
                return self._keep_standing(loaded or self._load_policy(text), now_s)
            case events.ControllerFailed(reason) | events.WeighingFailed(reason):
                return self._fail(reason)
            case _:
                return self._of_switch(event, now_s)

    # Switches

    def _of_switch(self, event: events.Event, now_s: float) -> list[Instruction]:
        match event:
            case events.SwitchConnected(datapath_id):
                return self._switch_connected(datapath_id)
            case events.SwitchReady(switch):
                self._peers.note_ready(switch)
                return [*self._peers.tell_switches(), *self._start_if_ready(now_s)]
            case events.SwitchLost(datapath_id):
                return self._switch_lost(datapath_id)
            case events.SwitchTurnedAway(datapath_id, reason):
                return self._tell("refused", f"a switch of datapath id {datapath_id}, {reason}")
            case events.SwitchRefused(switch, reason):
                return self._tell("fault", f"switch {switch}: {reason}")
            case events.PacketShown(datapath_id, port, source_mac):
                name = self.fabric.switch_name(datapath_id)
                return [] if name is None else self.fabric.seen(name, port, source_mac, now_s)
            case _:
                raise TypeError(f"{type(event).__name__} is not an event")

    def _switch_connected(self, datapath_id: int) -> list[Instruction]:
        """Give a switch its rules, whatever it had; those of flows in force too."""
        switch = self.fabric.switch_name(datapath_id)
        if switch is None:
            return self._tell("fault", f"a switch with datapath id {datapath_id} connected; the network has none such")
        self._peers.connect_switch(switch)
        flow_rules = [] if self._run is None else self._run.books.rules.on(switch)
        return [ResetSwitch(switch, (*self.fabric.base_rules(switch), *flow_rules), keep=self._keep_rules)]

    def _switch_lost(self, datapath_id: int) -> list[Instruction]:
        switch = self.fabric.switch_name(datapath_id)
        if switch is None:
            return []
        self._peers.forget_switch(switch)
        return self._tell("lost", f"switch {switch}") if self._run is not None else []

    # Clients

    def _said(self, message: Message, client: int, now_s: float, loaded: Policy | None) -> list[Instruction]:
        self.counters.messages += 1
        try:
            return self._dispatch(message, client, now_s, loaded)
        except InputError as error:
            return [*self._refuse(client, str(error)), *self._close([] if loaded is None else [loaded])]

    def _refuse(self, client: int, reason: str) -> list[Instruction]:
        """Tell a client that its message was refused, and the runner if it was one of its run's: a stranger costs nothing."""
        self.counters.refused += 1
        known = self._peers.host_of(client) is not None and not self._peers.is_runner(client)
        told_runner = self._tell("fault", f"{self._peers.name(client)}: {reason}") if known else []
        return [SendTo(client, Fault(shortened(reason))), *told_runner]

    def _gone(self, client: int) -> list[Instruction]:
        """With the runner goes the run; an agent that was not done is lost."""
        was_runner = self._peers.is_runner(client)
        hello = self._peers.forget(client)
        if was_runner:
            instructions = self._drop_run()
            self._stand()
            return instructions
        run = self._run
        if hello is None or run is None or not run.session.has_member(client):
            return []
        if run.session.standing:
            run.session.leave(client)
            return self._removable(run.books.withdraw(client))
        return [] if run.session.is_done(client) else self._tell("lost", hello.host)

    def _dispatch(self, message: Message, client: int, now_s: float, loaded: Policy | None) -> list[Instruction]:
        if isinstance(message, Hello):
            return self._hello(message, client, now_s)
        if self._peers.host_of(client) is None:
            raise InputError(f"say Hello before {type(message).__name__}")
        if isinstance(message, Begin | HostDown | End):
            if not self._peers.is_runner(client):
                name = self._peers.name(client)
                raise InputError(f"{type(message).__name__} is for the runner to say, not for {name}")
            if isinstance(message, HostDown):
                return self._host_down(message)
            return self._begin(message, client, now_s, loaded) if isinstance(message, Begin) else self._end(now_s)
        if isinstance(message, OfFlows | Ready | Done):
            return self._of_client(message, client, now_s)
        raise InputError(f"{type(message).__name__} is for the coordinator to say")

    def _hello(self, hello: Hello, client: int, now_s: float) -> list[Instruction]:
        self._peers.welcome(hello, client)
        if self._peers.is_runner(client):
            return self._peers.tell_switches()
        if self._run is not None:
            self._run.session.join(client)
        return [*self._go_on([client]), *self._start_if_ready(now_s)]

    def _go_on(self, clients: Iterable[int]) -> list[Instruction]:
        """Where the run is one that goes on, tell clients so: they wait for it."""
        run, clients = self._run, list(clients)
        if run is None or not run.session.resumed or run.session.zero_s is None:
            return []
        starts = [SendTo(client, Start(run.session.zero_s)) for client in clients]
        return [*run.books.weights.greet(clients), *starts]

    def _of_client(self, message: OfFlows | Ready | Done, client: int, now_s: float) -> list[Instruction]:
        run, host = self._run, self._peers.host_of(client)
        if run is None:
            raise InputError(f"{type(message).__name__} outside a run: the runner has not said Begin")
        if not host:
            raise InputError(f"{type(message).__name__} comes from a client without a host")
        run.session.join(client)
        match message:
            case Ready():
                return self._ready(run.session, client, now_s)
            case Done():
                return self._tell("done") if run.session.note_done(client) else []
            case _:
                return self._counted(run.heard(message, client, host, now_s))

    # A run from Begin to End

    def _begin(self, begin: Begin, client: int, now_s: float, loaded: Policy | None) -> list[Instruction]:
        check_enforcer(begin.enforcer)
        if is_weighted(begin.enforcer):
            self._weights(begin.queues).check()
        if begin.agents < 0:
            raise InputError(f"Begin expects {begin.agents} agents")
        if begin.zero_s is not None and not 0 <= begin.zero_s <= now_s + START_DELAY_S:
            raise InputError(f"Begin says that the run's zero is {begin.zero_s}, which is no moment of the past")
        policy = loaded or self._load_policy(begin.policy)
        # A fresh coordinator that is given these is where this one is now.
        ahead = [*self._peers.preamble(), events.ClientSaid(client, begin)]
        preamble = tuple(events.Handled(now_s, event) for event in ahead)
        dropped = self._drop_run()
        session = Session(
            begin.run, begin.agents, policy, begin.enforcer, zero_s=begin.zero_s, decisions=begin.decisions
        )
        run = self._run = self._new_run(session, begin.queues)
        begun = [OpenLog(begin.decisions_path, preamble), *_prepared(policy), *self._weigh_as_asked(run)]
        if session.awaits_planner:
            return [*dropped, *begun]
        goes_on = self._go_on(self._peers.on_hosts())
        return [*dropped, *begun, *self._tell("begun", begin.run), *goes_on, *self._start_if_ready(now_s)]

    def _stop_awaiting_planner(self, now_s: float) -> list[Instruction]:
        """Say that the run has begun, if it was the planner that it waited for."""
        run = self._run
        if run is None or not run.session.awaits_planner:
            return []
        run.session.note_planner()
        return [*self._tell("begun", run.session.name), *self._start_if_ready(now_s)]

    def _new_run(self, session: Session, queues: Queues | None = None) -> Run:
        peers, from_the_start = self._peers, not session.resumed and not session.standing
        books = FlowBooks(
            self.fabric,
            peers.connected,
            self._clock,
            self._number,
            peers.on_hosts,
            from_the_start=from_the_start,
            queues=queues,
        )
        return Run(session, books, DecisionCycle(books, self._clock, self._number), Planning(books, self._number))

    def _ready(self, session: Session, client: int, now_s: float) -> list[Instruction]:
        session.note_ready(client)
        if session.zero_s is not None:
            return [SendTo(client, Start(session.zero_s))]
        return self._start_if_ready(now_s)

    def _start_if_ready(self, now_s: float) -> list[Instruction]:
        run = self._run
        if run is None or not run.session.may_start or not self._peers.switches_complete:
            return []
        zero_s = now_s + START_DELAY_S
        clients = run.session.start(zero_s)
        starts = [SendTo(client, Start(zero_s)) for client in clients]
        return [*run.books.weights.greet(clients), *starts, *self._tell("ready", repr(zero_s))]

    def _host_down(self, message: HostDown) -> list[Instruction]:
        """A host dies as planned: it is not lost, and what its jobs have in flight is nobody's any more."""
        if self._run is None:
            raise InputError("HostDown outside a run")
        self._run.session.end_jobs(message.jobs, self._peers.on_hosts(message.host))
        return self._removable(self._run.books.withdraw_jobs(frozenset(message.jobs)))

    def _end(self, now_s: float) -> list[Instruction]:
        name = "" if self._run is None else self._run.session.name
        ended = [*self._drop_run(), *self._forget_kept_rules(), *self._tell("ended", name)]
        self._stand()
        return [*ended, *self._start_if_ready(now_s)]

    def _forget_kept_rules(self) -> list[Instruction]:
        """The run is over whose rules switches were to keep: those that were never decided here are in no book."""
        if not self._keep_rules:
            return []
        self._keep_rules = False
        return [ResetSwitch(name, tuple(self.fabric.base_rules(name))) for name in sorted(self._peers.connected)]

    def _keep_standing(self, policy: Policy, now_s: float) -> list[Instruction]:
        if is_weighted(policy.enforcer):
            self._weights(None).check()
        self._standing = policy
        self._stand()
        return self._start_if_ready(now_s)

    def _stand(self) -> None:
        policy = self._standing
        if policy is not None and self._run is None:
            self._run = self._new_run(Session(STANDING, 0, policy, policy.enforcer, standing=True))

    def _drop_run(self) -> list[Instruction]:
        run, self._run = self._run, None
        if run is None:
            return []
        weighed = run.books.weights.end()
        return [
            *weighed,
            *self._removable(run.books.rules.take_back_all()),
            CloseLog(),
            *self._close(run.session.policies),
        ]

    def _close(self, used: Iterable[Policy]) -> list[Instruction]:
        """Only those with a process of their own hold anything; that of the standing run is used again."""
        return [ClosePolicy(policy) for policy in used if policy.isolated and policy is not self._standing]

    def _removable(self, instructions: Iterable[Instruction]) -> list[Instruction]:
        """A switch that is not connected has lost our rules from its books: it is reset when it comes back."""
        return [i for i in instructions if not isinstance(i, InstallRules) or i.switch in self._peers.connected]

    # Decisions

    def _ask(self, now_s: float) -> list[Instruction]:
        """Ask about the decision that is due, if any."""
        run = self._run
        if run is None or not self.due(now_s):
            return []
        session, since_zero_s = run.session, run.session.since_zero_s(now_s)
        run.planning.follow(session.policy)
        held = run.decisions.hold_back(session.policy)
        told = [] if held is None else [SendTo(client, held) for client in self._peers.on_hosts()]
        question = run.decisions.ask(session.policy, since_zero_s)
        asked = [] if question is None else [AskPolicy(question)]
        return [*told, *asked, *run.planning.ask(session.enforcer, since_zero_s)]

    def _planned(self, made: PlanMade, now_s: float) -> list[Instruction]:
        """Put in force what the planner found, and decide by it on the flows that there are."""
        run = self._run
        if run is None or not run.planning.adopt(made, run.session.since_zero_s(now_s)):
            return []
        self.counters.plans += 1
        return run.decisions.ask_again("plan")

    def _decide_ahead(self, now_s: float) -> list[Instruction]:
        """Use spare time, unless there is none."""
        run = self._run
        if run is None or not self.has_spare_work or self.due(now_s):
            return []
        return self._counted(run.decisions.decide_ahead(run.session.policy, run.session.since_zero_s(now_s)))

    def _answered(self, answer: events.PolicyAnswered) -> list[Instruction]:
        """The decision; none where the question was overtaken, such as by another policy."""
        run = self._run
        question = None if run is None else run.decisions.close_question(answer.question)
        if run is None or question is None:
            return []
        decide = run.decisions.answer if question.ahead is None else run.decisions.answer_ahead
        return self._counted(decide(question, answer.allocation(), run.session.enforcer))

    def _counted(self, instructions: list[Instruction]) -> list[Instruction]:
        """The same, and counted."""
        for instruction in instructions:
            if isinstance(instruction, LogDecision):
                self.counters.decision(instruction.record)
            elif isinstance(instruction, InstallRules):
                self.counters.rules += len(instruction.add)
        return instructions

    def _policy_failed(self, question: int, reason: str) -> list[Instruction]:
        """The end of the run where its own policy fails; one that was swapped in gives way to the one before."""
        run = self._run
        if run is None or run.decisions.close_question(question) is None:
            return []
        session = run.session
        given_up = session.fall_back(policies.load(LAST_RESORT)) if session.survives_policy_failure else None
        if given_up is None:
            return self._fail(reason)
        taken_back = run.decisions.ask_again("fallback")
        self.counters.fallbacks += 1
        return [
            *taken_back,
            *self._weigh_as_asked(run),
            *self._close([given_up]),
            *self._tell("policy", f"fell back to {session.policy.name}: {reason}"),
        ]

    # The policy in force

    def trial(self, now_s: float) -> Snapshot | None:
        """What a policy would be asked now; None where no flow is in flight. Raises RunError outside a run."""
        run = self._swappable()
        return run.decisions.trial(run.session.since_zero_s(now_s))

    def _swap(self, text: str, enforcer: str | None, loaded: Policy | None) -> list[Instruction]:
        """Follow another policy from now on, flows in flight included, by its own enforcer unless one is named."""
        run = self._swappable()
        policy = loaded or self._load_policy(text)
        check_enforcer(enforcer or policy.enforcer)
        if is_weighted(enforcer or policy.enforcer):
            run.books.weights.check()
        unused = run.session.swap(policy, enforcer or policy.enforcer)
        taken_back = run.decisions.ask_again("policy")
        self.counters.swaps += 1
        said = self._tell("policy", f"swapped to {policy.name}")
        return [*taken_back, *self._weigh_as_asked(run), *self._close(unused), *_prepared(policy), *said]

    def _weigh_as_asked(self, run: Run) -> list[Instruction]:
        """Have classes share by weights where the enforcer in force wants it, and be served in order where it does not."""
        weights, clients = run.books.weights, self._peers.on_hosts()
        if is_weighted(run.session.enforcer) == weights.active:
            return []
        return weights.end(clients) if weights.active else [*weights.begin(), *weights.greet(clients)]

    def _weights(self, queues: Queues | None) -> WeightBook:
        return WeightBook(self.network, queues, self._peers.on_hosts)

    def _swappable(self) -> Run:
        if self._run is None or self._run.session.failed:
            raise RunError("no run is in progress, so there is no policy to swap")
        return self._run

    def _fail(self, reason: str) -> list[Instruction]:
        """Stop deciding in this run, and tell the runner why: it ends the run."""
        if self._run is not None:
            self._run.session.fail()
        return self._tell("fault", reason)

    # What the shell and people ask

    @property
    def questions_asked(self) -> int:
        """How many questions policies were asked so far, over all runs."""
        return self._questions_asked

    def due(self, now_s: float) -> bool:
        """Whether a `RoundOver` now has something to decide."""
        run = self._run
        return run is not None and not run.session.failed and run.decisions.due(run.session.since_zero_s(now_s))

    @property
    def has_spare_work(self) -> bool:
        """Whether a `SpareTime` has something to decide ahead, as long as nothing is due."""
        run = self._run
        return run is not None and run.session.decides_ahead and run.books.ahead.has_work

    @property
    def wake_s(self) -> float:
        """When to say `RoundOver` though nothing happens (monotonic clock); infinite if never."""
        run = self._run
        if run is None or run.session.failed or run.session.zero_s is None:
            return math.inf
        return run.session.zero_s + run.decisions.wake_s

    def status(self, now_s: float) -> Status:
        """What is going on."""
        run, counters = self._run, self.counters
        return Status(
            network=self.network.name,
            hosts=len(self.network.hosts),
            switches=self._peers.switches,
            clients=self._peers.clients,
            run=None if run is None else run.session.status(now_s, *run.books.counts),
            decisions=counters.decisions,
            swaps=counters.swaps,
            fallbacks=counters.fallbacks,
        )

    def groups(self) -> list[GroupStatus]:
        """Every declared group of the run, with its flows in flight."""
        return [] if self._run is None else self._run.books.describe_groups()

    def live(self, now_s: float) -> Live:
        """The run for who watches it: jobs, what is late, the last decision."""
        run, counters = self._run, self.counters
        if run is None:
            return Live(decisions=counters.decisions, swaps=counters.swaps, fallbacks=counters.fallbacks)
        return Live(
            run=run.session.status(now_s, *run.books.counts),
            decisions=counters.decisions,
            swaps=counters.swaps,
            fallbacks=counters.fallbacks,
            jobs=run.books.describe_jobs(run.session.since_zero_s(now_s)),
            jobs_in_all=len(run.books.jobs),
            decision=run.decisions.last.last(run.books.flows),
            recent=run.decisions.last.before,
        )

    def _number(self) -> int:
        self._questions_asked += 1
        return self._questions_asked

    def _tell(self, what: str, detail: str = "") -> list[Instruction]:
        return self._peers.tell_runner(what, detail)


def _prepared(policy: Policy) -> list[Instruction]:
    """Where somebody has to look ahead for a policy, that is to be possible soon."""
    return [PreparePlanner()] if policy.promises.plans else []

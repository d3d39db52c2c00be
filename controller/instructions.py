"""What the coordinator asks its shell to do: plain data, so that tests compare lists of it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from controller.rules import Rule
from echelonflow.model.flow_key import FlowKey
from echelonflow.model.network import Network
from echelonflow.records.events import Handled
from echelonflow.records.run_record import DecisionRecord
from echelonflow.scheduling.planning import AskPlan, KnowJob
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.wire.egress import Egress
from echelonflow.wire.messages import ClassShare, Message


@dataclass(frozen=True, slots=True, eq=False)
class Ahead:
    """Flows that a question supposes to be released, and what its answer is remembered by."""

    flows: tuple[FlowKey, ...]
    by: Hashable
    ended: frozenset[FlowKey] = frozenset()
    """Flows in flight that it supposes to have ended."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a policy is asked: `keys` are the flows of the snapshot's rows, `number` is counted over all runs.

    `time_s` is since the run's zero; `began_s` (the first of the events that ask for it) and `asked_s` are
    readings of the clock that measures decisions. A question `ahead` supposes something that has not happened.
    """

    number: int
    policy: Policy
    snapshot: Snapshot
    keys: tuple[FlowKey, ...]
    time_s: float
    trigger: str
    began_s: float
    asked_s: float
    ahead: Ahead | None = None


@dataclass(frozen=True, slots=True)
class AskPolicy:
    """Ask a policy, and report what it answers (`PolicyAnswered`, or `PolicyFailed`).

    A policy that is isolated takes its time; what happens meanwhile is to be handled.
    """

    question: Question


@dataclass(frozen=True, slots=True)
class ClosePolicy:
    """A policy is of no more use: give back what it holds."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class SendTo:
    """Send a message to a client (nothing happens if it has gone)."""

    client: int
    message: Message


@dataclass(frozen=True, slots=True)
class ResetSwitch:
    """Give a switch these rules, and report when it has them (`SwitchReady`).

    They are the only ones that it then has, unless it is to `keep` those that it finds itself with.
    """

    switch: str
    rules: tuple[Rule, ...]
    keep: bool = False


@dataclass(frozen=True, slots=True)
class InstallRules:
    """Remove rules, then add others; one that is added replaces one with the same match and priority."""

    switch: str
    add: tuple[Rule, ...] = ()
    remove: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class BeginWeighing:
    """Have the data classes of these egresses, by name of the link, share it by weights, equal ones at first.

    If that fails, or anything after it, `WeighingFailed` follows.
    """

    egress: tuple[tuple[str, Egress], ...]


@dataclass(frozen=True, slots=True)
class ChangeWeights:
    """Give classes other weights, by name of the link; those that are not named keep theirs."""

    shares: tuple[tuple[str, tuple[ClassShare, ...]], ...]


@dataclass(frozen=True, slots=True)
class EndWeighing:
    """Have all classes served in strict order again."""


@dataclass(frozen=True, slots=True)
class OpenLog:
    """Start a run's decision log at `path`, and its log of events beside it.

    `preamble` are the events that bring a fresh coordinator to where this one is now.
    """

    path: str
    preamble: tuple[Handled, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDecision:
    """Append a record to the open decision log."""

    record: DecisionRecord


@dataclass(frozen=True, slots=True)
class CloseLog:
    """Flush and close both logs."""


@dataclass(frozen=True, slots=True)
class PreparePlanner:
    """There will be questions to the planner: have it load, and report when it has (`PlannerPrepared`, or `PlannerFailed`)."""


@dataclass(frozen=True, slots=True, eq=False)
class AskPlanner:
    """Ask the planner, in the background, and report what it finds (`Planned`, or `PlannerFailed`).

    The latest question counts: what is found to an earlier one is dropped. `jobs` are those that it asks about.
    """

    asked: AskPlan
    jobs: tuple[KnowJob, ...]
    network: Network


Instruction = (
    SendTo
    | ResetSwitch
    | InstallRules
    | AskPolicy
    | ClosePolicy
    | BeginWeighing
    | ChangeWeights
    | EndWeighing
    | OpenLog
    | LogDecision
    | CloseLog
    | PreparePlanner
    | AskPlanner
)

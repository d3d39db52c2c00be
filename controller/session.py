"""One run's session: who takes part and how far they are, its zero, and which policy is in force.

What flows there are is in `controller.flow_books`, and what is decided on them in `controller.decision_cycle`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from controller import enforcers
from echelonflow.errors import InputError
from echelonflow.scheduling.policies import Policy
from echelonflow.wire.messages import Decisions
from echelonflow.wire.rest import Agents, RunStatus

OLDEST_EVENT_S = 60.0
"""An event that claims to be older was not timed on the clock that all share."""


class Session:
    """State between `Begin` and `End`. `now_s` is always the monotonic clock that agents share.

    `agents` is how many must be ready before the run starts. A `standing` session was begun by nobody and will be
    ended by nobody: it outlives its clients, and no policy may fail it. One that goes on has its `zero_s`.
    """

    def __init__(
        self,
        name: str,
        agents: int,
        policy: Policy,
        enforcer: str,
        *,
        standing: bool = False,
        zero_s: float | None = None,
        decisions: Decisions = "ahead",
    ) -> None:
        self.name = name
        self.standing = standing
        self.resumed = zero_s is not None
        """Whether another coordinator began it, which is gone."""
        self._ended_jobs: set[str] = set()
        self._agents = agents
        self._policy = policy
        self._enforcer = enforcer
        self._previous: tuple[Policy, str] | None = None
        """Policy and enforcer that were in force before this policy was swapped in, to go back to."""
        self._fell_back = False
        self._zero_s = zero_s
        self._members: set[int] = set()
        """Clients that have said anything in this run: losing one of them is losing the run."""
        self._ready: set[int] = set()
        self._done: set[int] = set()
        self._reported_done = False
        self._failed = False
        self._awaits_planner = policy.promises.plans and not standing and zero_s is None
        self._decisions = decisions

    # Who takes part

    def join(self, client: int) -> None:
        """A client takes part from now on."""
        self._members.add(client)

    def leave(self, client: int) -> None:
        """A client has gone, and nothing is expected of it any more."""
        for clients in (self._members, self._ready, self._done):
            clients.discard(client)

    def end_jobs(self, jobs: Iterable[str], clients: Iterable[int]) -> None:
        """These jobs end as planned, and these clients are about to die."""
        self._ended_jobs.update(jobs)
        for client in clients:
            self.leave(client)
            self._agents -= 1

    def has_ended(self, job: str) -> bool:
        """Whether a job has ended as planned: what agents still say of it is of no account."""
        return job in self._ended_jobs

    def has_member(self, client: int) -> bool:
        return client in self._members

    def is_done(self, client: int) -> bool:
        return client in self._done

    def note_ready(self, client: int) -> None:
        """A client has opened its connections and waits for the start."""
        self._ready.add(client)

    def note_done(self, client: int) -> bool:
        """A client has done its part; True once, when with it all have."""
        self._done.add(client)
        if self._reported_done or len(self._done) < self._agents or not self._ready <= self._done:
            return False
        self._reported_done = True
        return True

    # Time

    @property
    def zero_s(self) -> float | None:
        """The run's zero on the monotonic clock; None before the start."""
        return self._zero_s

    @property
    def awaits_planner(self) -> bool:
        """Whether its policy looks ahead, and whoever does that has still to load: it would start without plans."""
        return self._awaits_planner

    def note_planner(self) -> None:
        """Nobody waits for the planner any more: it is ready, or there will be none."""
        self._awaits_planner = False

    @property
    def may_start(self) -> bool:
        """Whether it has not started, and every agent and the planner are ready."""
        return self._zero_s is None and not self._awaits_planner and len(self._ready) >= self._agents

    def start(self, zero_s: float) -> list[int]:
        """Begin at `zero_s`; returns the clients that wait to be told."""
        self._zero_s = zero_s
        return sorted(self._ready)

    def since_zero_s(self, now_s: float) -> float:
        """`now_s` as time since the zero; minus infinity before the start."""
        return -math.inf if self._zero_s is None else now_s - self._zero_s

    def event_s(self, time_s: float, now_s: float) -> float:
        """An agent's clock reading, which cannot be later than its arrival, as time since zero.

        Raises InputError before the start, and for what is no reading of the clock that all share.
        """
        if self._zero_s is None:
            raise InputError("the run has not started: wait for Start")
        if not math.isfinite(time_s) or time_s < now_s - OLDEST_EVENT_S:
            raise InputError(f"time_s is {time_s}, not a reading of the monotonic clock (now {now_s:.3f})")
        return min(time_s, now_s) - self._zero_s

    def past_s(self, time_s: float, now_s: float) -> float:
        """The same of what is told again, which may be as old as the run."""
        if self._zero_s is None or not math.isfinite(time_s):
            raise InputError(f"time_s is {time_s}, not a reading of the monotonic clock in a run that has started")
        return min(max(time_s, self._zero_s), now_s) - self._zero_s

    # The policy in force

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def enforcer(self) -> str:
        return self._enforcer

    @property
    def policies(self) -> list[Policy]:
        """The policy in force, and the one to go back to, if there is one."""
        return [self._policy, *([] if self._previous is None else [self._previous[0]])]

    def swap(self, policy: Policy, enforcer: str) -> list[Policy]:
        """Follow `policy` from now on; returns the policies of no more use. InputError for an unknown enforcer."""
        check_enforcer(enforcer)
        unused = [] if self._previous is None else [self._previous[0]]
        self._previous = self._policy, self._enforcer
        self._policy, self._enforcer = policy, enforcer
        return unused

    @property
    def survives_policy_failure(self) -> bool:
        """Whether a policy that fails is replaced: it was swapped in live, or the run stands by itself."""
        return self.standing or self._previous is not None or self._fell_back

    def fall_back(self, last_resort: Policy) -> Policy | None:
        """Go back to the policy before, or to `last_resort`; returns the one given up, None if it was the last."""
        given_up = self._policy
        if self._previous is None and given_up.name == last_resort.name:
            return None
        self._policy, self._enforcer = self._previous or (last_resort, last_resort.enforcer)
        self._previous = None
        self._fell_back = True
        return given_up

    @property
    def decides_ahead(self) -> bool:
        """Whether spare time is used; a user's policy is not asked ahead, as its process would be busy when it counts."""
        return (
            self._decisions == "ahead" and not self._policy.isolated and self._zero_s is not None and not self._failed
        )

    @property
    def failed(self) -> bool:
        """Whether nothing is decided any more: the run waits for its end."""
        return self._failed

    def fail(self) -> None:
        self._failed = True

    def status(self, now_s: float, groups: int, flows_in_flight: int) -> RunStatus:
        """The session for people and programs that ask, with the counts of the books beside it."""
        return RunStatus(
            name=self.name,
            elapsed_s=None if self._zero_s is None else round(now_s - self._zero_s, 3),
            policy=self._policy.name,
            enforcer=self._enforcer,
            started=self._zero_s is not None,
            failed=self._failed,
            agents=Agents(self._agents, len(self._ready), len(self._done)),
            groups=groups,
            flows_in_flight=flows_in_flight,
        )


def is_weighted(enforcer: str) -> bool:
    """Whether this enforcer has classes share by weights."""
    return enforcers.name_of(enforcer) == enforcers.WEIGHTED


def check_enforcer(name: str) -> None:
    """Raise InputError for an enforcer that there is not."""
    enforcers.load(name)

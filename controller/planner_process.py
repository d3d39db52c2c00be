"""The process that looks ahead: started when it is first needed, told of jobs once, asked, and killed if it does not answer.

One call at a time, in a green thread of its own: everything else goes on meanwhile.
"""

from __future__ import annotations

import contextlib
import math
from typing import TypeVar

from echelonflow.errors import RunError
from echelonflow.model.network import Network
from echelonflow.scheduling.own_policy.child import Child, Patience, TimeLimit, Wait
from echelonflow.scheduling.own_policy.pipe import HEADER, answer_length
from echelonflow.scheduling.planning import (
    PLANNER,
    AskPlan,
    KnowJob,
    KnowNetwork,
    PlanMade,
    PlannerReady,
    PlanningFailed,
    decode_answer,
    frame,
)

START = TimeLimit(math.inf, 240.0)
"""For Python, numpy and our compiled loops. Compiling them, once after installation, takes a minute, longer beside others."""
BEYOND_BUDGET_S = 30.0
"""A roll-out that has begun is not interrupted, and others keep the machine busy. After so long it hangs."""


Kind = TypeVar("Kind", PlannerReady, PlanMade)


class PlannerError(RunError):
    """There is no planner any more, and why."""


class PlannerProcess:
    """At most one process of `module`; `wait` waits for its pipes."""

    def __init__(self, wait: Wait, module: str = PLANNER) -> None:
        self._wait = wait
        self._module = module
        self._child: Child | None = None
        self._ready = False
        self._network: Network | None = None
        self._jobs: dict[str, KnowJob] = {}

    def prepare(self) -> None:
        """Start it, unless it is there; for a new run, which brings its own jobs."""
        self._network = None
        if self._child is None:
            self._child, self._ready = Child(self._module), False

    def ask(self, asked: AskPlan, jobs: tuple[KnowJob, ...], network: Network) -> PlanMade:
        """What it finds. Raises PlannerError where it has ended, or does not answer in time: then it is no more."""
        if self._child is None:
            self.prepare()
        child = self._child
        assert child is not None
        try:
            if not self._ready:
                self._expect(child, PlannerReady, START)
                self._ready = True
            limit = TimeLimit(math.inf, asked.budget_s + BEYOND_BUDGET_S)
            ready = Patience(child, self._wait, limit)
            if self._network is not network:
                child.write(frame(KnowNetwork(network)), ready)
                self._network, self._jobs = network, {}
            for job in jobs:
                if self._jobs.get(job.graph.job) != job:
                    child.write(frame(job), ready)
                    self._jobs[job.graph.job] = job
            child.write(frame(asked), ready)
            return self._expect(child, PlanMade, limit)
        except PlannerError:
            self.close()
            raise
        except TimeoutError:
            self.close()
            raise PlannerError(f"the planner did not answer within {asked.budget_s + BEYOND_BUDGET_S:g} s") from None
        except (EOFError, OSError, ValueError) as error:
            how = child.how_it_ended()
            self.close()
            raise PlannerError(f"the planner ended before it answered ({how}; {error})") from None

    def _expect(self, child: Child, kind: type[Kind], limit: TimeLimit) -> Kind:
        ready = Patience(child, self._wait, limit)
        answer = decode_answer(child.read(answer_length(child.read(HEADER.size, ready)), ready))
        child.output.show()
        if isinstance(answer, PlanningFailed):
            raise PlannerError(f"the planner gave up: {answer.reason}")
        if not isinstance(answer, kind):
            raise PlannerError(f"the planner said {type(answer).__name__}; {kind.__name__} was expected")
        return answer

    def kill(self) -> None:
        """End it, whatever it is doing: who waits for it gets a PlannerError."""
        if self._child is not None:
            self._child.process.kill()

    def close(self) -> None:
        """End it and give back what it holds; nobody may be waiting for it."""
        if self._child is not None:
            with contextlib.suppress(OSError):
                self._child.end()
            self._child = None

"""The process that looks ahead: started when it is first needed, told of jobs once, asked, and killed if it does not answer.

One call at a time, in a green thread of its own: everything else goes on meanwhile.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
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
        """Have it loaded, for a new run, which brings its own jobs. Raises PlannerError where it does not load: then it is no more."""
        self._network = None
        with self._ended_if_it_fails(START):
            self._loaded()

    def ask(self, asked: AskPlan, jobs: tuple[KnowJob, ...], network: Network) -> PlanMade:
        """What it finds. Raises PlannerError where it has ended, or does not answer in time: then it is no more."""
        limit = TimeLimit(math.inf, asked.budget_s + BEYOND_BUDGET_S)
        with self._ended_if_it_fails(limit):
            child = self._loaded()
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

    def _loaded(self) -> Child:
        """The process, started if need be, once it has said that it is ready."""
        if self._child is None:
            self._child, self._ready = Child(self._module), False
        if not self._ready:
            self._expect(self._child, PlannerReady, START)
            self._ready = True
        return self._child

    @contextlib.contextmanager
    def _ended_if_it_fails(self, limit: TimeLimit) -> Iterator[None]:
        """Have whatever goes wrong within end the process, and be a PlannerError."""
        try:
            yield
        except PlannerError:
            self.close()
            raise
        except TimeoutError:
            self.close()
            raise PlannerError(f"the planner did not answer within {limit.wall_s:g} s") from None
        except (EOFError, OSError, ValueError) as error:
            how = "not started" if self._child is None else self._child.how_it_ended()
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

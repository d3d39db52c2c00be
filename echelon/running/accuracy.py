"""What accuracy this machine can give an experiment now: a model of what pauses of the machine add to iteration times.

Of each simulated run the critical path is followed back from its last step. What adds to the path is late whenever
something on it waits for a process to wake: once for each computation, and `WAKES_OF_A_FLOW` times for each flow. Each
wake ends at a moment of its own, so that it is late as `testbed.moment` says, independently of the others. So with n
wakes the path gets longer by n times the mean lateness, give or take twice the square root of n times its mean square.
Beside that, flows on the path take longer by what a link carries less. That is what the link of the probe lacked, or
what is lost in pauses that are longer than any burst makes up for. The sum over the length of the path is predicted as the relative error
of iteration times.

Held against 22 runs of a pipeline of 3.3 s, on two cores that were taken away at random, one by one:

- 10 ms of every 100: predicted 0.4 to 0.6 %, measured 0.0 to 0.5 %.
- 20 ms of every 100: predicted 1.3 to 1.9 %, measured -0.3 to 1.6 %.
- 30 ms of every 200: predicted 4.3 %, measured 0.6 to 3.3 %.

Simplifications: what is not on the path costs nothing, decisions cost what simulation says, and the machine stays as it is.
With time stretched k times the path is k times as long, and has as many wakes: their part of the error is k times less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from echelonflow.model.dag import Job, Transfer, iteration_times_without_network
from echelonflow.model.draws import drawn
from echelonflow.records.run_record import RunRecord
from results.analysis.effects import least_exposed
from results.analysis.limits import Limits

if TYPE_CHECKING:
    # What looks at machines is not there where only simulations are made.
    from testbed.moment import Moment

WAKES_OF_A_FLOW = 4
"""The sender's agent, the controller, the agent again for the decision, and the receiver's agent at the end."""
MOST_STRETCH = 20.0
"""More is not proposed: an experiment of minutes would take hours."""
_STEPS_OF_STRETCH = 0.5


@dataclass(frozen=True)
class Course:
    """The critical path of a job in one run: its computations and flows, and for how long it is in either."""

    computes: int
    flows: int
    flow_s: float
    length_s: float
    asked: float
    """What of its length it may be off by, so that the run counts."""

    @property
    def wakes(self) -> int:
        """How often something on the path waits for a process to wake."""
        return self.computes + WAKES_OF_A_FLOW * self.flows


def courses(predictions: Mapping[str, RunRecord], jobs: Sequence[Job], limits: Limits) -> list[Course]:
    """The critical path of every job under every policy; jobs of which nothing took time are left out."""
    found = [course(record, job, limits) for record in predictions.values() for job in jobs]
    return [each for each in found if each.length_s > 0]


def course(record: RunRecord, job: Job, limits: Limits) -> Course:
    """The critical path of `job` in a simulated run, followed back from its last step.

    What it may be off by is the lesser of two `limits`: what machines may move iterations by, and exposed communication.
    """
    spans = {(c.iteration, c.step): (c.start_s, c.finish_s) for c in record.computes if c.job == job.name}
    flows = {(f.iteration, f.flow): (f.release_s, f.finish_s) for f in record.flows if f.job == job.name}
    spans |= flows
    if not spans:
        return Course(0, 0, 0.0, 0.0, limits.max_moved_iteration)
    last = max(spans, key=lambda key: spans[key][1])
    end_s, computes, sent, flow_s = spans[last][1], 0, 0, 0.0
    begin_s = end_s
    for at in _path(last, job, spans):
        begin_s = spans[at][0]
        computes += at not in flows
        sent += at in flows
        flow_s += spans[at][1] - begin_s if at in flows else 0.0
    length_s = end_s - begin_s
    alone_s = math.fsum(iteration_times_without_network(job.dag, job.iterations, drawn(job, record.repeat)))
    exposed_s = least_exposed(length_s - alone_s, length_s, limits.max_moved_exposed)
    asked_s = min(limits.max_moved_iteration * length_s, limits.max_moved_exposed * exposed_s)
    return Course(computes, sent, flow_s, length_s, asked_s / length_s if length_s > 0 else limits.max_moved_iteration)


def _path(
    last: tuple[int, str], job: Job, spans: Mapping[tuple[int, str], tuple[float, float]]
) -> Iterator[tuple[int, str]]:
    """Steps of the critical path that have a record, from its end to its begin."""
    at: tuple[int, str] | None = last
    while at is not None:
        if at in spans:
            yield at
        at = _before(at, job, spans)


def _before(
    at: tuple[int, str], job: Job, spans: Mapping[tuple[int, str], tuple[float, float]]
) -> tuple[int, str] | None:
    """What a step waited for last; transfers within a host, which take no time and have no record, are looked through."""
    iteration, name = at
    keys = [(iteration, before) for before in job.dag.by_name[name].after]
    if iteration:
        keys += [(iteration - 1, before) for before in job.dag.previous.get(name, ())]
    known = [key for key in keys if key in spans]
    local = [key for key in keys if key not in spans and isinstance(job.dag.by_name[key[1]], Transfer)]
    if known:
        return max(known, key=lambda key: spans[key][1])
    return local[0] if local else None


def predicted_error(moment: Moment, course: Course, stretch: float = 1.0) -> float:
    """The relative error of the iteration time of a job with this critical path, `stretch` times as long as it is."""
    late_s = course.wakes * moment.late_mean_s + 2 * math.sqrt(course.wakes * moment.late_square_s2)
    return late_s / (course.length_s * stretch) + _link_share(moment, course)


def _link_share(moment: Moment, course: Course) -> float:
    return max(abs(moment.link_error or 0.0), moment.lost_share) * course.flow_s / course.length_s


def enough(moment: Moment, paths: Sequence[Course], stretch: float = 1.0) -> bool:
    """Whether no path is predicted to be off by more than it may be."""
    return all(predicted_error(moment, path, stretch) <= path.asked for path in paths)


def worst(moment: Moment, paths: Sequence[Course]) -> tuple[float, float]:
    """The predicted error of the path that is farthest beyond what it may be off by, and that bound; there must be one."""
    found = [(predicted_error(moment, path), path.asked) for path in paths]
    return max(found, key=lambda each: each[0] / each[1] if each[1] > 0 else math.inf)


def stretch_for(moment: Moment, paths: Sequence[Course]) -> float | None:
    """The least factor, in steps of a half, by which time must be stretched for all errors to be within their bounds.

    None where no factor up to `MOST_STRETCH` is enough: links that carry too little do so however long it takes.
    """
    steps = range(3, round(MOST_STRETCH / _STEPS_OF_STRETCH) + 1)
    return next((f for step in steps if enough(moment, paths, f := step * _STEPS_OF_STRETCH)), None)


def said(moment: Moment, paths: Sequence[Course]) -> str:
    """In a line, that this machine is not as accurate now as is asked for."""
    error, asked = worst(moment, paths)
    return f"this machine can tell iteration times to {error:.1%} now, and {asked:.1%} is asked for ({moment.words()})"


def remedies(moment: Moment, paths: Sequence[Course]) -> str:
    """In words, what helps against that, with options to copy."""
    factor = stretch_for(moment, paths)
    stretch = "" if factor is None else f", or stretch time by --stretch {factor:g}"
    return f"wait for a quieter spell by --patience 10m{stretch}; runs that do not count are made again in any case"

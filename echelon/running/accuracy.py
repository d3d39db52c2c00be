"""What accuracy this machine can give an experiment now: a model of what pauses of the machine add to iteration times.

Of each simulated run the critical path is followed back from its last computation. What adds to the path is late whenever
something on it waits for a process to wake: once for each computation, and `WAKES_OF_A_FLOW` times for each flow. Each
wake ends at a moment of its own, so that it is late as `testbed.moment` says, independently of the others. So with n
wakes the path gets longer by n times the mean lateness, give or take twice the square root of n times its mean square.
Beside that, flows on the path take longer by as much as a link carries less. The sum over the length of the path is
predicted as the relative error of iteration times.

Simplifications: what is not on the path costs nothing, decisions cost what simulation says, and the machine stays as it is.
With time stretched k times the path is k times as long, and has as many wakes: their part of the error is k times less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from echelonflow.model.dag import Job, Transfer
from echelonflow.records.run_record import RunRecord

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

    @property
    def wakes(self) -> int:
        """How often something on the path waits for a process to wake."""
        return self.computes + WAKES_OF_A_FLOW * self.flows


def courses(predictions: Mapping[str, RunRecord], jobs: Sequence[Job]) -> list[Course]:
    """The critical path of every job under every policy; jobs of which nothing took time are left out."""
    found = [course(record, job) for record in predictions.values() for job in jobs]
    return [each for each in found if each.length_s > 0]


def course(record: RunRecord, job: Job) -> Course:
    """The critical path of `job` in a simulated run, followed back from its last computation (or flow)."""
    spans = {(c.iteration, c.step): (c.start_s, c.finish_s) for c in record.computes if c.job == job.name}
    flows = {(f.iteration, f.flow): (f.release_s, f.finish_s) for f in record.flows if f.job == job.name}
    spans |= flows
    if not spans:
        return Course(0, 0, 0.0, 0.0)
    last = max(spans, key=lambda key: spans[key][1])
    end_s, computes, sent, flow_s = spans[last][1], 0, 0, 0.0
    begin_s = end_s
    for at in _path(last, job, spans):
        begin_s = spans[at][0]
        computes += at not in flows
        sent += at in flows
        flow_s += spans[at][1] - begin_s if at in flows else 0.0
    return Course(computes, sent, flow_s, end_s - begin_s)


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
    return abs(moment.link_error or 0.0) * course.flow_s / course.length_s


def worst_error(moment: Moment, paths: Sequence[Course], stretch: float = 1.0) -> float:
    """The largest error of any of `paths`; 0 where there is none."""
    return max((predicted_error(moment, path, stretch) for path in paths), default=0.0)


def stretch_for(moment: Moment, paths: Sequence[Course], asked: float) -> float | None:
    """The least factor, in steps of a half, by which time must be stretched for all errors to be within `asked`.

    None where no factor up to `MOST_STRETCH` is enough: links that carry too little do so however long it takes.
    """
    steps = range(3, round(MOST_STRETCH / _STEPS_OF_STRETCH) + 1)
    factors = (step * _STEPS_OF_STRETCH for step in steps)
    return next((factor for factor in factors if worst_error(moment, paths, factor) <= asked), None)


def said(moment: Moment, paths: Sequence[Course], asked: float) -> str:
    """In a line, that this machine is not as accurate now as is asked for."""
    return (
        f"this machine can tell iteration times to {worst_error(moment, paths):.1%} now, and {asked:.1%} is asked for "
        f"({moment.words()})"
    )


def remedies(moment: Moment, paths: Sequence[Course], asked: float) -> str:
    """In words, what helps against that, with options to copy."""
    factor = stretch_for(moment, paths, asked)
    stretch = "" if factor is None else f", or stretch time by --stretch {factor:g}"
    return f"wait for a quieter spell by --patience 10m{stretch}; runs that do not count are made again in any case"

"""The columns that simulations of training jobs run on: what is asked, and what is under way.

Columns of one table are rows of a matrix, so that compiled loops are handed few arrays: what they are called is said by
the constants beside it. An *instance* is a step in an iteration. A job's lie side by side, an iteration after the other.
So do its runs (groups in an iteration), the parts of runs, and its Coflows in an iteration.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from echelonflow.model.arrays import Floats, Ints

Numbers = npt.NDArray[np.int32]
FIRST_ROWS = 64

# What is asked. Rows that say where something begins have one entry more, where the last one's ends.

STEP_KIND, STEP_FLOW, NEEDS, NEEDS_PREVIOUS, AFTER_START, NEXT_START = range(6)
"""Of a step: kind; its declared flow. How many steps of its iteration, and of the one before, it waits for. Where those that
wait for it begin in `edges`, of the same iteration and of the next."""
LOCAL, COMPUTE, FLOW = range(3)
"""Kinds of steps: a transfer within a host, which takes no time; a computation; a transfer over the network."""
(
    ITERATIONS, JOB_PLACE, MOST_CELLS, ALL_CELLS, FIRST_STEP, FIRST_GROUP, FIRST_PART, FIRST_COFLOW, FIRST_INSTANCE,
    FIRST_RUN, FIRST_PART_RUN, FIRST_COFLOW_RUN, READY_START, FIRST_ITERATION,
) = range(14)  # fmt: skip
"""Of a job: place among those with flows in order of names. Length of the largest piece of the pool that one of its groups
borrows, and of all together. Where what it has begins."""
GROUP_JOB, GROUP_FIRST_INDEX, GROUP_FLOWS, GROUP_FIRST_PART, GROUP_FIRST_CELL = range(5)
WEIGHT, HEAD_OFFSET_S, SPAN_S, ALONE_S = range(4)
LEAD_S, REST_S, TAIL_S, TO_END_S, LAYER = range(5)
PART_COFLOW, PART_INDEX, PART_GROUP = range(3)
"""A *part* is what a group has of a Coflow."""
FLOW_SIZE_BYTES, FLOW_INDEX, FLOW_GROUP, FLOW_PART, FLOW_PATH_START = range(5)


class Plan(NamedTuple):
    """All that is asked; nothing of it changes while a simulation runs."""

    steps: Ints
    duration_s: Floats
    edges: Ints
    jobs: Ints
    job_floats: Floats
    """Computation, time alone."""
    ready: Ints
    """Steps that wait for nothing in an iteration; and whether they wait for one of the iteration before."""
    groups: Ints
    group_floats: Floats
    parts: Ints
    cells: Ints
    """Links that a group uses, and the bytes it brings to each."""
    flows: Ints
    """Declared flows, those of a group side by side."""
    offset_s: Floats
    clock: Floats
    """Lead, rest, tail, way to the end and layer of declared flows; of none where the policy does not go by clocks."""
    hops: Ints
    """Links of paths; and which cell of its group each is."""
    drawn_s: Floats
    """What each instance of a step takes, where any draws that; empty where each takes `duration_s`."""


# What is under way.

(ID, ACTIVE, LISTED, ENDED, ROW, KIND, OPEN, INDEX, UNRELEASED, PENDING, ORDER, COMING, FREE) = range(13)
"""Of a run or Coflow that has begun, which keeps its slot until it has ended. Stable id; flows in flight; whether it is
listed; whether it has ended but is listed still. Row of the snapshot; its group, or the part that began it. Flows
unfinished, or parts begun; which it is. Of a run also: flows unreleased, and where its pending bytes begin. The last
three rows are lists of slots: in order of ids, to be put in order, free."""
ENTRY_NUMBERS = 13
HEAD_S, EARLIEST_S, WORST_S = range(3)
"""Times of a run: earliest release less offset among head flows, among all flows, latest finish less offset."""
ARRIVAL_S, FINISHED_BYTES = range(2)
"""Of a Coflow: release of its first flow, bytes of those that have ended."""

FLOW_ID, DECLARED, INSTANCE, JOB, RUN, COFLOW, HANDLE, PLACE = range(8)
"""Of a flow in flight. A handle is larger for flows released later. Its place is that in the last order, -1 before the
first one."""
FLOW_NUMBERS = 8
SIZE_BYTES, LEFT_BYTES, RATE_BPS, START_S, RELEASE_S, SENT_BYTES = range(6)
FLOW_FLOATS = 6

NUMBER, WHAT, OF_JOB = range(3)
"""In the calendar, a heap by time and then number: instances, or -1 where a job begins."""
END_S, BEGIN_S = range(2)

SHARED, OWN = range(2)
"""Paces."""

NOW_S, MOVED_S, EMPTY_S, EXPIRES_S, IDLE_BYTES = range(5)
"""Now; the moment for which bytes are right; when the first flow runs empty; when the policy's answer expires. Bytes in
flight when decisions began to follow each other for nothing but expiry."""
TIMES = 5
(
    PHASE, FLOWS, COME, ENDING, CURSOR, CALENDAR, SEQUENCE, HANDLES, EVENTS, DECISIONS, FLOWS_ENDED, COMPUTES_ENDED,
    CHANGED, IDLE, WANTED, WANTED_CELLS, POOL_END, GROUPS_SEEN, COFLOWS_SEEN, JOBS_SEEN, HOPS_SEEN, OTHERS, RUN_COUNTS,
) = range(23)  # fmt: skip
"""Counts: where in an event the loop is; rows in use, and so on. `OTHERS`: whether other jobs may be under way than paces are
for."""
LISTS, COMES, FREES = range(3)
"""How long the lists of slots are, from `RUN_COUNTS` and from `COFLOW_COUNTS` on."""
COFLOW_COUNTS = RUN_COUNTS + 3
COUNTS = COFLOW_COUNTS + 3

NEXT, ENDS, DUE, DECIDE = range(4)
"""Phases of an event: find it, let flows end, let what is due end, have the policy decide."""


class Tables(NamedTuple):
    """What changes while a simulation runs."""

    times: Floats
    counts: Ints
    waits: Numbers
    """By instance: how many steps it waits for."""
    run_of: Numbers
    """By run: its slot, -1 where it is not under way."""
    coflow_of: Numbers
    """The same by Coflow."""
    begun: npt.NDArray[np.int8]
    """By part of a run, whether one of its flows was released."""
    unfinished: Ints
    """By job: steps of all iterations that have not ended."""
    flows_left: Ints
    """The same of flows over the network."""
    iteration_left: Ints
    """By job and iteration: flows over the network that have not ended."""
    iteration_end_s: Floats
    """The same: when it ends, as far as is known."""
    last_ended: Ints
    """By job: the last iteration that has ended; -1 before."""
    last_end_s: Floats
    """By job: when that was. Before, when the first one began; infinity before that."""
    pace_s: Floats
    """By job: the iteration time that it can keep up together with the others under way; and its own, alone."""
    runs: Ints
    run_floats: Floats
    coflows: Ints
    coflow_floats: Floats
    rows: Ints
    """Flows in flight, in order of ids: a row of a snapshot each."""
    row_floats: Floats
    come: Ints
    """Flows released now."""
    ended: Ints
    """Flows that end now, in order of handles."""
    calendar: Ints
    calendar_s: Floats
    pool: Ints
    """Pieces, one for each run under way: the bytes that each cell of its group waits for."""
    pool_free: Ints
    """By power of two, where the first free piece of that length begins, -1 if there is none. Its first number says where
    the next one does."""
    flow_records: Ints
    """Flows that have ended, in order: job and instance."""
    flow_records_s: Floats
    """Release, start and finish."""
    compute_records: Ints
    compute_records_s: Floats
    """Start and finish."""


class Seen(NamedTuple):
    """What a policy sees beside `Tables`."""

    flow_ints: Ints
    """Rows of its group and of its Coflow."""
    flow_floats: Floats
    """Bytes left, bytes sent, ideal finish."""
    path_start: Ints
    path_link: Ints
    group_ints: Ints
    """Id, row of its job."""
    group_floats: Floats
    """Weight, reference time, incurred tardiness, span, time alone."""
    coflow_ids: Ints
    coflow_floats: Floats
    """Weight, arrival, bytes sent."""
    job_ids: Ints
    job_floats: Floats
    """Computation, time alone."""
    pending_start: Ints
    pending_link: Ints
    pending_bytes: Floats

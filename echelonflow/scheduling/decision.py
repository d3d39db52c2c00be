"""One decision as one compiled call: what a policy's form says, for whoever decides again and again.

A policy is a few dozen steps of numpy, each of which takes microseconds however few flows there are. Its form
(`echelonflow.scheduling.forms`) is decided by one compiled function (`decision_loops`), with the same answer bit for bit.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from echelonflow.model.arrays import Ints
from echelonflow.scheduling import kernels
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.forms import CLOCKS, GIVEN, Form, Key
from echelonflow.scheduling.measures import coflow_due, drawn, intensity, layer
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot


class Decision:
    """Decides as `policy` does, quicker where kernels are compiled and the policy has a form; else by asking it.

    The compiled answer is not checked against the network: tests hold forms to their policies. Nothing of a snapshot is
    kept or copied, so its arrays may be columns that go on changing. Raises what the policy does.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._form = None if policy.isolated else policy.form()
        self._loops: Any = None

    def __call__(self, snapshot: Snapshot) -> Allocation:
        """The answer to `snapshot`."""
        form = self._form
        if form is None or not snapshot.flows or not kernels.of_this_process().are_compiled:
            return self._policy(snapshot)
        if form.counts_pending and len(snapshot.groups.pending_bytes):
            return self._policy(snapshot)
        if self._loops is None:
            self._loops = importlib.import_module("echelonflow.scheduling.decision_loops")  # loads the compiler
        return self.decide(self._loops, form, snapshot)

    @staticmethod
    def decide(loops: Any, form: Form, snapshot: Snapshot) -> Allocation:
        """The same by the module `loops`."""
        groups, coflows, jobs = snapshot.groups, snapshot.coflows, snapshot.jobs
        rates, rank, until_s = loops.decide(
            loops.asked(form),
            given_keys(form, snapshot),
            float(snapshot.now_s),
            snapshot.capacity_Bps,
            loops.Flows(
                snapshot.flow_id, snapshot.remaining_bytes, snapshot.release_s, snapshot.ideal_finish_s,
                snapshot.group, snapshot.coflow, snapshot.path_start, snapshot.path_link,
            ),
            loops.Groups(
                groups.id, groups.weight, groups.reference_s, groups.incurred_tardiness_s, groups.job, groups.span_s,
                groups.alone_s,
            ),
            loops.Coflows(coflows.id, coflows.weight, coflows.arrival_s, coflows.sent_bytes),
            loops.Jobs(jobs.id, jobs.alone_s),
        )  # fmt: skip
        return Allocation(rates, rank, float(until_s))


def given_keys(form: Form, snapshot: Snapshot) -> Ints:
    """Keys that are quicker made here, in numpy: a row of n for each that the form has."""
    rows = [_given(key, snapshot) for key in form.keys if key.measure in GIVEN]
    return np.stack(rows) if rows else np.zeros((0, 0), np.int64)


def _given(key: Key, snapshot: Snapshot) -> Ints:
    job = snapshot.groups.job[snapshot.group]
    if key.measure == "intensity":
        return -intensity(snapshot.jobs)[job]
    if key.measure in CLOCKS:
        by_own_pace, of_own_iteration = key.measure.startswith("own_"), key.measure.endswith("end_clock_s")
        return coflow_due(snapshot, by_own_pace=by_own_pace, of_own_iteration=of_own_iteration)[snapshot.coflow]
    if key.measure == "layer":
        return layer(snapshot)
    if key.of == "flow":
        return drawn(snapshot.flow_id, key.seed)
    if key.of == "coflow":
        return drawn(snapshot.coflows.id[snapshot.coflow], key.seed)
    return drawn(snapshot.jobs.id[job] if key.of == "job" else snapshot.groups.id[snapshot.group], key.seed)

"""What jobs send from host to host in an iteration, for policies that go by it: counted beside the compiled loops."""

from __future__ import annotations

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.snapshot import ConnectionTable
from echelonflow.scheduling.state import stable_id
from simulator.columns import tables as t
from simulator.columns.plan import Asked


class Connections:
    """Of one simulation from its beginning on: it counts the flows that have ended by the simulation's records."""

    def __init__(self, asked: Asked) -> None:
        plan = asked.plan
        pairs: dict[tuple[str, str, str], int] = {}
        self._pair: Ints = np.array(
            [pairs.setdefault((group.job, flow.src_host, flow.dst_host), len(pairs)) for group, flow in asked.declared],
            np.int64,
        )
        """By declared flow: which of the pairs of hosts, of its job, it goes between."""
        flows = plan.flows[:, : len(self._pair)]
        self._first_index: Ints = np.full(len(pairs), np.iinfo(np.int64).max)
        np.minimum.at(self._first_index, self._pair, flows[t.FLOW_INDEX])
        self._size_bytes: Floats = np.zeros(len(pairs))
        np.add.at(self._size_bytes, self._pair, flows[t.FLOW_SIZE_BYTES])
        job = np.zeros(len(pairs), np.int64)
        job[self._pair] = plan.groups[t.GROUP_JOB, flows[t.FLOW_GROUP]]
        iterations = plan.jobs[t.ITERATIONS, job]
        self._first: Ints = np.cumsum(iterations) - iterations
        """By pair: where its iterations begin among those of all."""
        self._finished_bytes: Floats = np.zeros(int(iterations.sum()))
        self._plan = plan
        self._counted = 0

    def table(self, tables: t.Tables, sent_bytes: Floats) -> ConnectionTable:
        """What the flows in flight, of which so much is sent, are part of."""
        self._count(tables)
        declared, instance, job = tables.rows[[t.DECLARED, t.INSTANCE, t.JOB], : tables.counts[t.FLOWS]]
        iteration, _ = self._places(job, instance)
        pair = self._pair[declared]
        ids = stable_ids(self._plan.jobs[t.JOB_PLACE, job], iteration, self._first_index[pair])
        found, first, of_flow = np.unique(ids, return_index=True, return_inverse=True)
        rows = pair[first]
        in_flight_bytes = np.bincount(of_flow, weights=sent_bytes, minlength=len(found))
        return ConnectionTable(
            id=found,
            sent_bytes=self._finished_bytes[self._first[rows] + iteration[first]] + in_flight_bytes,
            size_bytes=self._size_bytes[rows],
            of_flow=of_flow.astype(np.int64),
        )

    def _count(self, tables: t.Tables) -> None:
        """Flows that have ended since the last time."""
        ended = int(tables.counts[t.FLOWS_ENDED])
        job, instance = tables.flow_records[:, self._counted : ended]
        iteration, step = self._places(job, instance)
        flow = self._plan.steps[t.STEP_FLOW, step]
        at = self._first[self._pair[flow]] + iteration
        np.add.at(self._finished_bytes, at, self._plan.flows[t.FLOW_SIZE_BYTES, flow])
        self._counted = ended

    def _places(self, job: Ints, instance: Ints) -> tuple[Ints, Ints]:
        """Iteration and step of instances."""
        jobs = self._plan.jobs
        first = jobs[t.FIRST_STEP, job]
        iteration, place = np.divmod(instance - jobs[t.FIRST_INSTANCE, job], jobs[t.FIRST_STEP, job + 1] - first)
        return iteration, first + place


def stable_ids(job_place: Ints, iteration: Ints, index: Ints) -> Ints:
    """`echelonflow.scheduling.state.stable_id` of many."""
    found: Ints = np.asarray(stable_id(job_place, iteration, index))  # type: ignore[arg-type]  # shifts go by element
    return found

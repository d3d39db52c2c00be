"""Exact event-driven simulation of training jobs: flows are fluids, rates are what the policy allocates.

There is no time step (`simulator.engine`). Unless told otherwise (`simulator.realism`), decisions are made at once
and take no time; a rate is in force the moment it is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from echelonflow.model.dag import Job
from echelonflow.model.faults import Fault
from echelonflow.model.measured import Measured
from echelonflow.model.network import Network
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling.policies import Policy
from simulator.ahead import DecidedAhead
from simulator.engine import Engine, Replayed
from simulator.faults import FaultsInForce, with_classes
from simulator.realism import EXACT, Realism
from simulator.training import TrainingJobs


def simulate(
    jobs: Sequence[Job],
    network: Network,
    policy: Policy,
    repeat: int = 0,
    on_progress: Callable[[float], None] | None = None,
    *,
    realism: Realism = EXACT,
    faults: Sequence[Fault] = (),
    measured: Measured | None = None,
) -> RunRecord:
    """Run all iterations of `jobs` on `network` under `policy`; times in seconds from the run's zero.

    Raises PolicyError if the policy fails or allocates too much, RunError if the run cannot go on (flows
    in flight, none of them moving, and nothing else to wait for). `on_progress` is told the simulated time.
    `faults` are what is planned to go wrong (`simulator.faults`). `measured` is what a run was found to be late by: the
    simulation is of that run, as far as the causes in it go.
    """
    record = RunRecord(policy.name, repeat)
    realism, is_ahead = with_classes(realism, faults), realism.undecided == "ahead" and not policy.isolated
    source = TrainingJobs(jobs, network, record, realism.late_s, faults, measured, ahead=is_ahead)
    ahead = DecidedAhead(source, policy, realism.classes_for(policy.enforcer)) if is_ahead else None
    carried_Bps = None if measured is None else measured.carried_Bps
    in_force = FaultsInForce(faults, network, source, carried_Bps) if faults else None
    replayed = None if measured is None or measured.obeys_at_once else Replayed(source.in_force_s, carried_Bps)
    Engine(source, policy, realism, in_force, replayed, ahead).run(on_progress)
    source.check_done()
    record.counters.update(policy.counters())
    return record

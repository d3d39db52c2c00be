"""Exact event-driven simulation of training jobs: flows are fluids, rates are what the policy allocates.

There is no time step (`simulator.engine`). Unless told otherwise (`simulator.realism`), decisions are made at once
and take no time; a rate is in force the moment it is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from echelonflow.errors import InputError
from echelonflow.model.dag import Group, Job, JobDag, Transfer
from echelonflow.model.faults import Fault
from echelonflow.model.measured import Measured
from echelonflow.model.network import Cable, Network
from echelonflow.records.rates import RateLog
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import kernels, policies
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.policies.lookahead import Adopted
from echelonflow.scheduling.state import ITERATION_BITS
from echelonflow.scheduling.trace_kernels.jit import is_ready
from simulator.acknowledgements import Acknowledgements
from simulator.admission import Queue
from simulator.ahead import DecidedAhead
from simulator.engine import Engine, Replayed
from simulator.faults import FaultsInForce, with_classes
from simulator.realism import EXACT, Realism
from simulator.training import TrainingJobs

PATIENCE_STEPS = 10_000
"""Steps of all iterations that the plain event loop gets through in about two seconds. Loading the compiled one takes half
a second."""
COMPILING_STEPS = 1_000_000
"""The same in a minute, about which it takes to compile it, once after installation."""


class _Patience:
    """How long this process goes on with the plain event loop; nothing but speed depends on it."""

    steps = 0
    """That it has had to simulate so far."""


def warm_up() -> None:
    """Simulate in columns from now on where that can be, however small a simulation is; nothing without numba.

    All is compiled, or loaded, now: no simulation waits for it.
    """
    if kernels.warm_up() == "numba":
        _Patience.steps += COMPILING_STEPS
        host = Cable("h1", "s1", 1e9), Cable("h2", "s1", 1e9)
        dag = JobDag(2, (Transfer("t", 0, 1, 1, "t"),), (Group("g", "", ("t",), (0.0,)),))
        simulate(
            [Job("j", dag, ("h1", "h2"))], Network("two hosts", ("h1", "h2"), ("s1",), host), policies.load("fair")
        )


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
    profiles: Sequence[Job] | None = None,
    rates: RateLog | None = None,
    queue: Queue | None = None,
) -> RunRecord:
    """Run all iterations of `jobs` on `network` under `policy`; times in seconds from the run's zero.

    A policy that looks ahead plans by itself where nothing departs from the ideal. Elsewhere in force is what it plans there, each at its
    time, unless it follows what was planned in a run. Raises InputError where it cannot look ahead. Raises PolicyError if it fails or
    allocates too much, RunError if the run cannot go on (flows in flight, none of them moving, and nothing else to wait for). `on_progress` is told the simulated time.
    `faults` are what is planned to go wrong (`simulator.faults`). `measured` is what a run was found to be late by: the
    simulation is of that run, as far as the causes in it go. `profiles` are the jobs as they are declared, where somebody
    profiled them wrongly: the same in all but how long computations take and how much transfers carry. In `rates` is noted
    how fast every flow goes. Jobs without a placement wait in the `queue` for GPUs.
    """
    record = RunRecord(policy.name, repeat)
    if _in_columns(jobs, network, policy, realism, faults, measured) and _have_sizes_of(jobs, profiles or jobs):
        from simulator.columns import engine  # which loads the compiler

        kernels.warm_up()
        engine.run(jobs, network, policy, record, on_progress, profiles, rates)
        record.counters.update(policy.counters())
        return record
    if policy.promises.plans and policy.memory.script is None:
        policy.memory.follow(_planned(jobs, network, policy.name))
    realism, is_ahead = with_classes(realism, faults), realism.undecided == "ahead" and not policy.isolated
    source = TrainingJobs(
        jobs,
        network,
        record,
        realism.late_s,
        faults,
        measured,
        profiles,
        ahead=is_ahead,
        clocks=policy.promises.reads_clock,
        connections=policy.promises.reads_connections,
        slots=policy.slots,
        queue=queue,
        disturbance=realism.disturbance,
    )
    ahead = DecidedAhead(source, policy, realism) if is_ahead else None
    carried_Bps = None if measured is None else measured.carried_Bps
    in_force = FaultsInForce(faults, network, source, carried_Bps) if faults else None
    replayed = None
    if measured is not None and not measured.obeys_at_once:
        share = measured.acknowledgement_share
        acknowledgements = Acknowledgements(share, network, source.ends) if share > 0 else None
        replayed = Replayed(source.in_force_s, source.decided, carried_Bps, acknowledgements)
    Engine(source, policy, realism, in_force, replayed, ahead, rates).run(on_progress)
    source.check_done()
    if rates is not None:
        rates.end(source.handles_ended)
    record.counters.update({**policy.counters(), **source.counters()})
    return record


def _have_sizes_of(jobs: Sequence[Job], profiles: Sequence[Job]) -> bool:
    """Whether transfers are declared as large as they are: columns know one size of each."""
    return all(
        one is other
        or all(a.size_bytes == b.size_bytes for a, b in zip(one.dag.transfers, other.dag.transfers, strict=True))
        for one, other in zip(jobs, profiles, strict=True)
    )


def _in_columns(
    jobs: Sequence[Job],
    network: Network,
    policy: Policy,
    realism: Realism,
    faults: Sequence[Fault],
    measured: Measured | None,
) -> bool:
    """Whether a simulation runs in columns (`simulator.columns`), with the same result to the bit.

    It does where kernels are compiled, nothing departs from the ideal, and there is enough to do. What is asked must
    also make sense: the plain event loop says what does not.
    """
    if not kernels.can_compile() or faults or measured is not None or not jobs or policy.promises.holds_back:
        return False
    ideal = Realism(
        undecided=realism.undecided, enforcer=realism.enforcer, classes=realism.classes, folding=realism.folding
    )
    if realism != ideal or realism.undecided == "ahead" or realism.folds(policy.enforcer):
        return False
    if any(job.discipline is not None or job.after is not None or job.iterations > 1 << ITERATION_BITS for job in jobs):
        return False
    hosts = {host for job in jobs for host in job.placement}
    are_placed = all(job.is_placed for job in jobs) and hosts <= network.edge_switch.keys()
    if len({job.name for job in jobs}) < len(jobs) or not are_placed:
        return False
    if policy.promises.plans:
        return policy.memory.script is None
    _Patience.steps += sum(len(job.dag.steps) * job.iterations for job in jobs)
    return _Patience.steps >= COMPILING_STEPS or (_Patience.steps >= PATIENCE_STEPS and _are_ready())


def _planned(jobs: Sequence[Job], network: Network, name: str) -> Sequence[Adopted]:
    """What a policy that looks ahead puts in force where nothing departs from the ideal."""
    ideal = policies.load(name)
    if not _in_columns(jobs, network, ideal, EXACT, (), None):
        raise InputError(
            f"policy {name}: looks ahead by compiled loops (numba), for jobs that are placed, come after no other and do not hold "
            "back flows by themselves; choose another policy, such as clock"
        )
    simulate(jobs, network, ideal)
    history: Sequence[Adopted] = ideal.memory.history
    return history


def _are_ready() -> bool:
    """Whether the compiled loops were compiled before."""
    from simulator.columns import loops  # which loads the compiler

    return is_ready(loops.events)

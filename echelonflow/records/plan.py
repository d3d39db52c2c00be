"""The plan of one run: everything that the agents of all hosts need to know (plan.json).

It holds what the run declares, ports included: who reads the run later need not know how ports were dealt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from echelonflow.codec import Document, builtins
from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from echelonflow.model.faults import Fault
from echelonflow.model.tcp import LEAST_SEND_BUFFER_BYTES
from echelonflow.records.placed_job import PlacedJob
from echelonflow.wire.declare import declarations
from echelonflow.wire.egress import Egress
from echelonflow.wire.messages import Declare


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs placed on hosts, their groups as declared, every host's IPv4 address, and what tells this run from others."""

    run_index: int
    repeat: int = 0
    """Of the run among those of its policy: what computations draw depends on it."""
    progress_interval_s: float
    send_buffer_bytes: int = LEAST_SEND_BUFFER_BYTES
    """SO_SNDBUF of every flow."""
    addresses: dict[str, str]
    placed: tuple[PlacedJob, ...]
    groups: tuple[Declare, ...]
    faults: tuple[Fault, ...] = ()
    """Planned to happen in the run."""
    egress: dict[str, Egress] = {}
    """By host: the interface on which its agent may be told to weigh classes; empty where that is not to be."""

    @property
    def jobs(self) -> tuple[Job, ...]:
        """The jobs, made anew each time."""
        return tuple(placed.job() for placed in self.placed)


def write_plan(path: Path, plan: Plan) -> None:
    """Write `plan` to `path` (InputError for one that agents could not carry out)."""
    _check(plan)
    _DOCUMENT.write(path, plan)


def read_plan(path: Path) -> Plan:
    """The plan in the file at `path`; InputError naming the file if it is none."""
    plan = _DOCUMENT.read(path)
    try:
        _check(plan)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return plan


def _check(plan: Plan) -> None:
    if plan.run_index < 0:
        raise InputError(f"run_index is {plan.run_index}; runs count from 0")
    if not plan.progress_interval_s > 0:
        raise InputError(f"progress_interval_s is {plan.progress_interval_s}; an interval must be positive")
    names = [job.name for job in plan.placed]
    if len(set(names)) != len(names):
        raise InputError("two jobs of the plan have the same name")
    for job in plan.placed:
        unknown = sorted(set(job.placement) - set(plan.addresses))
        if unknown:
            raise InputError(f"job {job.name} is placed on host {unknown[0]!r}, for which there is no address")


def _with_declarations(data: Any, _: Path) -> Any:
    """Version 0 held no declarations: agents and analysis dealt the ports anew, as `declarations` does still."""
    placed = [msgspec.convert(job, PlacedJob) for job in data.pop("jobs")]
    groups = declarations([job.job() for job in placed], data["run_index"])
    return {**data, "placed": builtins(placed), "groups": builtins(groups)}


_DOCUMENT = Document("echelon-plan", 1, Plan, {0: _with_declarations})

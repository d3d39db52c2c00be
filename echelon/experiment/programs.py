"""Jobs of an experiment file that are training programs: which, where they run, and the file with what was learned in their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelon.experiment.fault_lines import LineOf, no_line, refusal
from echelon.experiment.networks import build_network
from echelon.experiment.wording import structure
from echelonflow.errors import InputError, about
from echelonflow.model.network import Network
from echelonflow.model.units import parse_duration_s
from echelonflow.records.phases import Phase
from echelonflow.spelling import unknown
from traffic.workloads import job_schedulers

MEASURED = "measured"
REDUCED_BY = "ring"
"""How gradients of programs are all-reduced."""
_KEYS = ("arguments", "compute", "name", "placement", "program", "ranks", "scheduler", "start", "weight")
_DROPPED = ("arguments", "compute", "program", "ranks", "scheduler")


@dataclass(frozen=True)
class Program:
    """One job that is a program; `place` is its place among the file's jobs."""

    place: int
    name: str
    path: Path
    arguments: tuple[str, ...]
    placement: tuple[str, ...]
    profiled: str | None
    """How long the busiest rank computes in an iteration, as written; None: as long as it takes here."""
    scheduler: str | None
    """The job scheduler that takes the place of DDP's buckets and of its barrier; None: DDP does as it does."""


def programs_of(data: Mapping[str, Any], path: Path, line_of: LineOf = no_line) -> tuple[Network, tuple[Program, ...]]:
    """The network and the programs of an experiment file's `data`, whose structure is checked (InputError, one line per fault)."""
    checked = structure(dict(data))
    if checked.spec is None or checked.faults:
        raise refusal(path, checked.faults, line_of)
    jobs: list[dict[str, Any]] = data["jobs"]
    if not any("program" in job for job in jobs):
        raise InputError(f"{path}: has no job with a `program`; `echelon run` runs it")
    spec = checked.spec.network
    network = about(f"{path}: network", lambda: build_network(spec, path.parent))
    taken = [host for job in jobs for host in _listed(job)]
    found: list[Program] = []
    for place, job in enumerate(jobs):
        if "program" in job:
            found.append(about(f"{path}: jobs.{place}", lambda: _program(place, job, path.parent, network, taken)))  # noqa: B023 called at once
    hosts = [host for program in found for host in program.placement]
    others = [host for job in jobs if "program" not in job for host in _listed(job)]
    twice = next((host for host in hosts if hosts.count(host) > 1 or host in others), None)
    if twice is not None:
        raise InputError(f"{path}: jobs: host {twice} has two ranks; a program has each of its hosts for itself")
    return network, tuple(found)


def learned_data(
    data: Mapping[str, Any],
    programs: Sequence[Program],
    learned: Mapping[str, Path],
    phases: Mapping[str, Sequence[Phase]],
) -> dict[str, Any]:
    """The same file with what was learned in the place of the programs: an experiment that `echelon run` replays and simulates.

    By the name of each: the folder of what was learned, and the phases that count. Each is a job, and comes after the one before.
    """
    jobs: list[list[dict[str, Any]]] = [[job] for job in data["jobs"]]
    for program in programs:
        (written,) = jobs[program.place]
        kept = {key: value for key, value in written.items() if key not in _DROPPED}
        entry: dict[str, Any] = {"format": "live", "files": [f"{learned[program.name]}/rank*.json"]}
        if program.profiled is not None:
            entry["compute"] = program.profiled
        of_program, found = phases[program.name], []
        for number, phase in enumerate(of_program):
            taken = {"phase": number + 1} if len(of_program) > 1 else {}
            if number:
                kept = {key: value for key, value in kept.items() if key != "start"}
                kept |= {"name": phase.job, "after": of_program[number - 1].job}
            found.append(
                {
                    **kept,
                    "import": {**entry, **taken},
                    "placement": list(program.placement),
                    "iterations": phase.iterations,
                }
            )
        jobs[program.place] = found
    return {**data, "jobs": [job for each in jobs for job in each]}


def _program(place: int, job: Mapping[str, Any], folder: Path, network: Network, taken: list[str]) -> Program:
    other = next((key for key in job if key not in _KEYS), None)
    if other is not None:
        raise InputError(f"{other}: there is no such key of a job with a program{unknown(other, _KEYS)}")
    program, arguments = job["program"], job.get("arguments", [])
    path = folder / str(program)
    if not path.is_file():
        raise InputError(f"program: {str(program)!r} is no file; names are relative to the experiment file")
    if not isinstance(arguments, list):
        raise InputError(f"arguments: {arguments!r} is not a list, such as [--steps, 20]")
    return Program(
        place,
        job["name"],
        path.resolve(),
        tuple(map(str, arguments)),
        _placement(job, network, taken),
        _profiled(job.get("compute")),
        _scheduler(job.get("scheduler")),
    )


def _listed(job: Mapping[str, Any]) -> list[str]:
    """The hosts that a job lists."""
    placement = job.get("placement")
    return placement if isinstance(placement, list) else []


def _placement(job: Mapping[str, Any], network: Network, taken: list[str]) -> tuple[str, ...]:
    ranks, placement = job.get("ranks"), job.get("placement")
    if isinstance(placement, list):
        wrong = next((host for host in placement if host not in network.hosts), None)
        if wrong is not None:
            raise InputError(f"placement: there is no host {wrong!r}{unknown(str(wrong), network.hosts)}")
        if ranks is not None and ranks != len(placement):
            raise InputError(f"ranks: is {ranks}, and {len(placement)} hosts are listed")
        return tuple(placement)
    if placement is not None:
        raise InputError(f"placement: {placement!r} is not a list of hosts, one for each rank")
    if not isinstance(ranks, int) or isinstance(ranks, bool) or ranks < 1:
        raise InputError(f"ranks: {ranks!r} is not a whole number from 1 on, and no hosts are listed by `placement`")
    free = [host for host in network.hosts if host not in taken]
    if len(free) < ranks:
        raise InputError(f"ranks: {ranks} ranks need as many hosts, and {len(free)} are free")
    taken.extend(free[:ranks])
    return tuple(free[:ranks])


def _scheduler(text: Any) -> str | None:
    if text is None:
        return None
    scheduler = about("scheduler", lambda: job_schedulers.load(str(text)))
    if REDUCED_BY not in scheduler.architectures:
        raise InputError(f"scheduler: {text} does not go with all-reduce, by which DDP's gradients are reduced")
    return str(text)


def _profiled(compute: Any) -> str | None:
    if compute is None or compute == MEASURED:
        return None
    if isinstance(compute, dict) and set(compute) == {"profiled"}:
        about("compute.profiled", lambda: parse_duration_s(str(compute["profiled"])))
        return str(compute["profiled"])
    raise InputError(f"compute: {compute!r} is neither `measured` nor such as {{profiled: 400 ms}}")

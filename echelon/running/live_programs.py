"""Training programs in the private world: one process on each host, to be seen once, or in the place of a replay."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from echelon.running.standing import Standing
from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from echelonflow.model.addressing import ip_of
from echelonflow.records.assignment import LiveProgram
from echelonflow.records.folder import RunFiles
from echelonflow.records.live_part import PART_VARIABLE, LivePart, write_part
from echelonflow.records.tokens_file import with_token
from testbed.processes import end_within

END_LIMIT_S = 60.0
"""For programs to end that have had all their iterations: they may still write what they have learned."""
LESSON_LIMIT_S = 1800.0
_LOOK_S = 0.1


def learn(parts: Standing) -> None:
    """Let all programs run to their ends over a network that nobody schedules, and note what they do (RunError)."""
    folder = parts.folder
    stores = _stores(parts)
    found = {}
    for program in parts.assignment.programs:
        learned = folder.learned(program.job)
        learned.mkdir(parents=True, exist_ok=True)
        for rank, host in enumerate(program.placement):
            part = _part(parts, program, rank, stores[program.job])
            observed = str(learned / f"rank{rank}.json")
            output = learned / f"rank{rank}.txt"
            found[host] = msgspec.structs.replace(part, observed=observed), output
    processes = start(parts, found)
    deadline_s = time.monotonic() + LESSON_LIMIT_S
    try:
        while True:
            codes = {host: process.poll() for host, process in processes.items()}
            failed = {host: code for host, code in codes.items() if code}
            if failed:
                host = min(failed, key=lambda host: failed[host])  # one that was killed is the cause
                raise RunError(ended(*found[host], failed[host], folder.root))
            if None not in codes.values():
                return
            parts.check()
            if time.monotonic() > deadline_s:
                raise RunError(f"the programs had not ended after {LESSON_LIMIT_S:.0f} s; let them make fewer steps")
            time.sleep(_LOOK_S)
    finally:
        end_within(processes.values(), 0.0)


def run_parts(parts: Standing, files: RunFiles) -> dict[str, tuple[LivePart, Path]]:
    """What the processes of a run are to do, by host, and where what they print goes."""
    stores = _stores(parts)
    found = {}
    for program in parts.assignment.programs:
        for rank, host in enumerate(program.placement):
            part = msgspec.structs.replace(
                _part(parts, program, rank, stores[program.job]),
                plan=str(files.plan),
                lesson=str(parts.folder.lesson().learned(program.job) / f"rank{rank}.json"),
                socket=str(parts.folder.control_socket),
                records=str(files.agent(host)),
                outcome=str(files.live(host)),
                phases=program.phases,
                profiled=program.profiled,
            )
            found[host] = part, files.output(program.job, rank)
    return found


def start(parts: Standing, wanted: Mapping[str, tuple[LivePart, Path]]) -> dict[str, subprocess.Popen[bytes]]:
    """Start a process on each host, which prints into its file."""
    found = {}
    for host, (part, output) in wanted.items():
        output.parent.mkdir(parents=True, exist_ok=True)
        path = output.with_name(f"part-{output.stem}.json")
        write_part(path, part)
        environment = {**with_token(parts.tokens[host]), PART_VARIABLE: str(path), "OMP_NUM_THREADS": "1"}
        environment["PYTHONUNBUFFERED"] = "1"
        with output.open("wb") as log:
            found[host] = parts.net.popen(
                host, module_argv("traffic.live"), stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment
            )
    return found


def _stores(parts: Standing) -> dict[str, str]:
    """A file for each job by which its processes find each other, which is not there yet."""
    folder = Path(tempfile.mkdtemp(prefix="live-", dir=parts.folder.logs))
    return {program.job: str(folder / f"store-{number}") for number, program in enumerate(parts.assignment.programs)}


def _part(parts: Standing, program: LiveProgram, rank: int, store: str) -> LivePart:
    host = program.placement[rank]
    return LivePart(
        job=program.job,
        rank=rank,
        ranks=len(program.placement),
        host=host,
        address=ip_of(parts.assignment.network, host),
        store=store,
        program=program.program,
        arguments=program.arguments,
        scheduler=program.scheduler,
    )


def ended(part: LivePart, output: Path, code: int, root: Path) -> str:
    """That a program's process has ended too early with an exit code, and what it said last; files are named as of the folder `root`."""
    shown = output.relative_to(root) if output.is_relative_to(root) else output
    return f"rank {part.rank} of {part.job!r} on {part.host} died (exit {code}); see {shown}: {_last_line(output)}"


def _last_line(path: Path) -> str:
    """What a program said last."""
    try:
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    except OSError:
        return "nothing"
    return lines[-1][:300] if lines else "nothing"

"""Disks that are full from a random moment on: one line says so, what was finished is kept, and --resume completes it."""

from __future__ import annotations

import random
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._experiments import Kept, ended, finished_runs, going_on, said_wrong
from echelon.benchmarks._small_disks import PAGE_BYTES, ROOMY, disk, filling, mount, private_mounts
from echelonflow.errors import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_INVALID, EXIT_VALID, RunError
from testbed import preflight

LEAST_BYTES = PAGE_BYTES
NOT_COMPARED = ("manifest.json", "report.html", "seal.json")
"""They say when an experiment was begun, and when it went on, or have a digest of what does."""
TRACE = "4 4\n1 0 1 0 1 1:4\n2 100 1 0 1 2:1.5\n3 200 2 0 1 1 2:8\n4 250 1 2 2 1:2 3:3\n"
_PIPELINE = "{name: p, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 50 ms, activation: 100 ms of link}"
REPEATS = 2
"""Of the experiment that is emulated."""
EXPERIMENTS = {
    "jobs, simulated": f"""
name: jobs
network: {{topology: single-switch, hosts: 2, rate: 50 Mbit/s}}
jobs: [{_PIPELINE}]
policies: [fair, fifo, coflow, echelonflow]
""",
    "Coflows, simulated": """
name: coflows
network: {topology: big-switch, ports: 4, rate: 50 Mbit/s}
jobs: [{name: t, trace: {format: coflow-benchmark, file: trace.txt}}]
policies: [fair, fifo, coflow]
""",
    "jobs, emulated": f"""
name: emulated
network: {{topology: single-switch, hosts: 2, rate: 50 Mbit/s}}
jobs: [{_PIPELINE}]
policies: [fair, echelonflow]
repeats: {REPEATS}
emulation: {{limits: {{max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}}}
""",
}
EMULATED = "jobs, emulated"


def run(repeat: int, say: Say) -> list[Figure]:
    """`repeat` moments of each kind: a disk too small, and one that fills up, for each experiment; 5 are 25 in all."""
    private_mounts()
    preflight.require()
    rng = random.Random(repeat)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="echelon-full-disk-") as name:
        folder = Path(name)
        (folder / "trace.txt").write_text(TRACE)
        for what, text in EXPERIMENTS.items():
            file = folder / f"{what.split(',', maxsplit=1)[0]}-{len(figures)}.yaml"
            file.write_text(text)
            subject = Subject(what, file, folder / "disk")
            subject.measure()
            say(f"{what}: {subject.length_s:.1f} s, {subject.size_bytes / 1e3:.0f} kB")
            # An emulation looks at its disk before it starts, and refuses one that is too small.
            ways = ["filled up"] if what == EMULATED else ["filled up", "too small"]
            for way in ways:
                faults = [fault for _ in range(repeat) if (fault := subject.moment(way, rng)) is not None]
                for fault in faults:
                    say(f"{what}, {way}: {fault}")
                good = repeat - len(faults)
                figures.append(Figure(f"{what}, disk {way}", f"{good} of {repeat}", "all", good == repeat))
    return figures


@dataclass
class Subject:
    """An experiment on a disk of its own, mounted at `disk`; what it leaves there when nothing is wrong."""

    what: str
    file: Path
    disk: Path
    length_s: float = 0.0
    size_bytes: int = 0
    whole: dict[str, bytes] | None = None

    @property
    def out(self) -> Path:
        return self.disk / "out"

    def _going_on(self) -> subprocess.Popen[str]:
        """The command that begins it, or goes on with it; no run is made in the place of another."""
        if self.what == EMULATED:
            return going_on(self.file, self.out, attempts=REPEATS)
        return going_on(self.file, self.out, "--backend", "fluid")

    def measure(self) -> None:
        """Carry it out undisturbed: how long it takes, and what it leaves. RunError where that fails."""
        with disk(self.disk, ROOMY):
            started_s = time.monotonic()
            code, said = ended(self._going_on())
            if code not in (EXIT_VALID, EXIT_INVALID):
                raise RunError(f"{self.what}: exit code {code} on a disk with room: {said.strip()}")
            self.length_s = time.monotonic() - started_s
            self.whole = _contents(self.out)
            self.size_bytes = sum(map(len, self.whole.values()))

    def moment(self, way: str, rng: random.Random) -> str | None:
        """Carry it out on a disk that has no room from a random moment on, then go on with room; what was wrong."""
        if way == "too small":
            size = rng.randrange(LEAST_BYTES, self.size_bytes + LEAST_BYTES)
            with disk(self.disk, str(size)):
                code, said = ended(self._going_on())
                return self._wrong(code, said) or self._go_on()
        with disk(self.disk, ROOMY):
            process = self._going_on()
            with filling(self.disk / "filler", rng.uniform(0.0, self.length_s)):
                code, said = ended(process)
            return self._wrong(code, said) or self._go_on()

    def _wrong(self, code: int, said: str) -> str | None:
        """What was wrong with how a command ended that found no room."""
        if code not in (EXIT_VALID, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INVALID):
            return f"exit code {code}: {said.strip()[-500:]}"
        if code in (EXIT_FAILED, EXIT_BAD_INPUT) and not said.strip():
            return f"exit code {code} without a word"
        logs = [path.read_text(errors="replace") for path in (self.out / "logs").glob("*")]
        return next(filter(None, map(said_wrong, [said, *logs])), None)

    def _go_on(self) -> str | None:
        """Make room, and go on; what was wrong with that, or with what was there in the end."""
        (self.disk / "filler").unlink(missing_ok=True)
        mount("-o", f"remount,size={ROOMY}", str(self.disk))
        before = Kept.of(self.out)
        code, said = ended(self._going_on())
        if code not in (EXIT_VALID, EXIT_INVALID):
            return f"with room again, exit code {code}: {said.strip()[-500:]}"
        if self.what == EMULATED:
            runs = len(finished_runs(self.out))
            return before.difference(self.out) or (None if runs == 4 else f"{runs} of 4 runs are finished")
        return _difference(self.whole or {}, _contents(self.out))


def _contents(root: Path) -> dict[str, bytes]:
    """Every file below `root` by its path in there."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _difference(whole: dict[str, bytes], found: dict[str, bytes]) -> str | None:
    for name in sorted({*whole, *found} - set(NOT_COMPARED)):
        if whole.get(name) != found.get(name):
            return f"{name} is not what it is on a disk with room"
    return None

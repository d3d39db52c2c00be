"""Where things lie in a run folder (ARCHITECTURE.md, "One emulated run")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


def slug(text: str) -> str:
    """`text` as part of a file name: "coflow(grouping=group)" becomes "coflow-grouping-group"."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-").lower()


def label(policy: str, repeat: int) -> str:
    """Name of one run: policy and repeat."""
    return f"{slug(policy)}-r{repeat}"


@dataclass(frozen=True)
class RunFiles:
    """Paths of the raw records of one emulated run."""

    root: Path

    @property
    def plan(self) -> Path:
        return self.root / "plan.json"

    @property
    def outcome(self) -> Path:
        """What the emulator says of the run when it has ended."""
        return self.root / "run.json"

    @property
    def agents(self) -> Path:
        return self.root / "agents"

    def agent(self, host: str) -> Path:
        """The log of the agent on `host`."""
        return self.agents / f"{host}.jsonl"

    @property
    def decisions(self) -> Path:
        return self.root / "decisions.jsonl"

    @property
    def events(self) -> Path:
        """Everything that happened to the coordinator, in order."""
        return self.root / "events.jsonl"


@dataclass(frozen=True)
class RunFolder:
    """Paths in the folder of one `echelon run`."""

    root: Path

    @property
    def manifest(self) -> Path:
        return self.root / "manifest.json"

    @property
    def assignment(self) -> Path:
        """What the emulator has to do: written by the runner, read inside the private world."""
        return self.root / "assignment.json"

    @property
    def failure(self) -> Path:
        """Why the experiment failed; absent where it did not."""
        return self.root / "failure.txt"

    @property
    def network(self) -> Path:
        return self.root / "network.json"

    @property
    def calibration(self) -> Path:
        return self.root / "calibration.json"

    @property
    def prediction(self) -> Path:
        """The fluid simulation of every policy."""
        return self.root / "prediction.json"

    @property
    def simulated_runs(self) -> Path:
        """The runs of an experiment that was simulated."""
        return self.root / "runs.json"

    @property
    def coflow_runs(self) -> Path:
        """The simulated runs of a trace of Coflows."""
        return self.root / "coflow-runs.json"

    @property
    def control_socket(self) -> Path:
        return self.root / "control.sock"

    @property
    def rest_socket(self) -> Path:
        return self.root / "rest.sock"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def pcap(self) -> Path:
        return self.root / "pcap"

    def capture(self, run_label: str, host: str) -> Path:
        """What was captured at `host` in one run."""
        return self.pcap / f"{run_label}-{host}.pcap"

    @property
    def raw(self) -> Path:
        """Folder of all runs' raw records."""
        return self.root / "raw"

    def run(self, run_label: str) -> RunFiles:
        """One run's raw records."""
        return RunFiles(self.raw / run_label)

    def runs(self) -> list[RunFiles]:
        """The raw records of every run that has said how it ended."""
        found = (RunFiles(path.parent) for path in self.raw.glob("*/run.json") if path.stat().st_size > 0)
        return sorted(found, key=lambda run: run.root.name)

"""Where things lie in a run folder (ARCHITECTURE.md, "One emulated run")."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LESSON = "lesson"
"""Of a live experiment, the folder of the runs from which programs were learned; beside it are those that count."""
GLOO = "gloo"
"""The folder, beside that, of what programs printed that trained with Gloo."""
_MOST_BYTES = 80
"""Of a policy in the name of a file, which a repeat and a host are added to; file systems take 255."""
_DIGITS = 8


def policy_labels(policies: Sequence[str]) -> dict[str, str]:
    """What each of `policies` is called in names of files: "coflow(grouping=group)" is "coflow-grouping-group".

    No two share a name: those that would, and those that had to be cut, end in a hash of their text.
    """
    slugs = {policy: _slug(policy) for policy in policies}
    cut = {policy: slug.encode()[:_MOST_BYTES].decode(errors="ignore") for policy, slug in slugs.items()}
    shared = Counter(slugs.values())
    return {
        policy: slug
        if slug and slug == cut[policy] and shared[slug] == 1
        else f"{cut[policy]}-{_digest(policy)}".lstrip("-")
        for policy, slug in slugs.items()
    }


def run_label(policy_label: str, repeat: int) -> str:
    """Name of one run: policy, as `policy_labels` has it, and repeat."""
    return f"{policy_label}-r{repeat}"


def _slug(text: str) -> str:
    """Letters and digits of any script, in small letters, and a hyphen for all between them."""
    composed = unicodedata.normalize("NFC", text.encode(errors="replace").decode())
    return re.sub(r"[\W_]+", "-", composed).strip("-").lower()


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]


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

    def live(self, host: str) -> Path:
        """What the process of a training program on `host` found."""
        return self.root / "live" / f"{host}.json"

    def output(self, job: str, rank: int) -> Path:
        """What a rank of a training program printed."""
        return self.root / "live" / f"{job}-rank{rank}.txt"

    def outputs(self, job: str) -> list[Path]:
        """What all ranks of it printed."""
        name = re.compile(rf"{re.escape(job)}-rank\d+\.txt")
        return sorted(path for path in (self.root / "live").glob("*.txt") if name.fullmatch(path.name))

    @property
    def decisions(self) -> Path:
        return self.root / "decisions.jsonl"

    @property
    def events(self) -> Path:
        """Everything that happened to the coordinator, in order."""
        return self.root / "events.jsonl"

    @property
    def rules(self) -> Path:
        """When switches were given rules and confirmed them; only where that was asked for."""
        return self.root / "rules.jsonl"

    @property
    def weights(self) -> Path:
        """When switches' queues were given other weights and had them; only under the enforcer `weighted`."""
        return self.root / "weights.jsonl"

    def restart(self, number: int) -> RunFiles:
        """Where the coordinator writes that was started anew in mid-run, for the `number`th time (from 1)."""
        return RunFiles(self.root / f"restart-{number}")

    def restarts(self) -> list[RunFiles]:
        """Those that there are, in order."""
        found = [path for path in self.root.glob("restart-*") if path.name.removeprefix("restart-").isdecimal()]
        return [RunFiles(path) for path in sorted(found, key=lambda path: int(path.name.removeprefix("restart-")))]


@dataclass(frozen=True)
class RunFolder:
    """Paths in the folder of one `echelon run`."""

    root: Path

    def lesson(self) -> RunFolder:
        """The folder beside this one in which training programs ran first, and were learned."""
        return RunFolder(self.root.parent / LESSON)

    def with_gloo(self, job: str) -> Path:
        """Beside this folder, what all ranks of a training program printed when it trained with Gloo."""
        return self.root.parent / GLOO / f"{job}.txt"

    def learned(self, job: str) -> Path:
        """The folder of what was seen of a training program."""
        return self.root / "learned" / job

    def certainty(self, job: str) -> Path:
        """How far that repeats itself (`echelonflow.records.certainty`)."""
        return self.learned(job) / "certainty.json"

    @property
    def manifest(self) -> Path:
        return self.root / "manifest.json"

    @property
    def experiment(self) -> Path:
        """The experiment as it was run, for `echelon run`: derived from its file and the command line, no record."""
        return self.root / "experiment.yaml"

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
    def budget(self) -> Path:
        """Each run simulated again with what it measured."""
        return self.root / "budget.json"

    @property
    def yardsticks(self) -> Path:
        """Each job alone, and what no scheduler can beat."""
        return self.root / "yardsticks.json"

    @property
    def simulated_runs(self) -> Path:
        """The runs of an experiment that was simulated."""
        return self.root / "runs.json"

    @property
    def coflow_runs(self) -> Path:
        """The simulated runs of a trace of Coflows."""
        return self.root / "coflow-runs.json"

    @property
    def seal(self) -> Path:
        """What every raw file was when the experiment ended."""
        return self.root / "seal.json"

    @property
    def control_socket(self) -> Path:
        return self.root / "control.sock"

    @property
    def tokens(self) -> Path:
        """What clients of the control socket must show, while runs go on; for the owner alone."""
        return self.root / "tokens.json"

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
        """The raw records of every run that has said how it ended, also by failing."""
        found = (RunFiles(path.parent) for path in self.raw.glob("*/run.json"))
        return sorted(found, key=lambda run: run.root.name)

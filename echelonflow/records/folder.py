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
class RunFolder:
    """Paths in the folder of one `echelon run`."""

    root: Path

    @property
    def manifest(self) -> Path:
        return self.root / "manifest.json"

    @property
    def orders(self) -> Path:
        """What the inside of the world has to do: written by the runner, read by `echelon.running.emulator`."""
        return self.root / "orders.json"

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

    def raw(self, run_label: str) -> Path:
        """Folder of one run's raw records."""
        return self.root / "raw" / run_label

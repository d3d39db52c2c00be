"""Where the repository keeps what is not code."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXPERIMENTS = ROOT / "experiments"
"""The experiment files that ship."""
EXAMPLES = ROOT / "examples"
"""Notebooks and scripts that show how it is used."""
DOCS = ROOT / "docs"
SHARED_DATA = ROOT.parent / "shared" / "data"
"""Traces of other projects, for tests and benchmarks; not part of the repository."""

"""The benchmark that importers lose nothing: which files make a trace, and that a loss is missed by nobody."""

from __future__ import annotations

import pytest

from echelon.benchmarks import _traces, conservation
from echelonflow.errors import RunError
from tests.unit.format_files import ASTRA, SIMAI, chakra_ring, write
from traffic.workloads.formats._account import Account


@pytest.fixture
def data(tmp_path, monkeypatch):
    for folder in ("aicb", "astra-sim", "chakra/ring"):
        (tmp_path / folder).mkdir(parents=True)
    write(tmp_path / "aicb", "w.txt", SIMAI)
    write(tmp_path / "aicb", "broken.txt", SIMAI.replace("attention", "attention more"))
    write(tmp_path / "astra-sim", "w.txt", ASTRA)
    write(tmp_path / "astra-sim", "README.md", "no trace")
    chakra_ring(tmp_path / "chakra" / "ring")
    monkeypatch.setenv(_traces.VARIABLE, str(tmp_path))
    return tmp_path


def test_files_of_ranks_are_one_trace(data):
    ((name, files),) = conservation.traces_in(data / "chakra")
    assert (name, [path.name for path in files]) == ("ring/t.*.et", ["t.0.et", "t.1.et"])
    assert [name for name, _ in conservation.traces_in(data / "astra-sim")] == ["w.txt"]


def test_every_format_at_hand_has_a_figure_and_what_is_refused_is_said(data):
    said: list[str] = []
    figures = conservation.run(1, said.append)
    assert [figure.what for figure in figures] == [
        "simai: 1 jobs of 1 files, 1 traces refused",
        "astra-sim: 1 jobs of 1 files, 0 traces refused",
        "chakra: 1 jobs of 2 files, 0 traces refused",
    ]
    assert all(figure.ok for figure in figures)
    assert any(line.startswith("aicb: broken.txt: refused: broken.txt: line 3: ") for line in said)
    assert any("each of" not in line and line.endswith("without a cause") for line in said)
    assert any(line.startswith("pipedream left out") for line in said)


def test_a_loss_misses_the_figure(data, monkeypatch):
    def loses(*_):
        raise RunError("w.txt: the job has -5 bytes")

    monkeypatch.setattr(Account, "balance", loses)
    said: list[str] = []
    figures = conservation.run(1, said.append)
    assert [figure.ok for figure in figures] == [False, False, False]
    assert "astra-sim: w.txt: w.txt: the job has -5 bytes" in said

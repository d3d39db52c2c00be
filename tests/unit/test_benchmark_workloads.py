"""The benchmark of workloads: what it builds and reads is what it says, and a figure is missed when it is."""

from __future__ import annotations

import pytest

from echelon.benchmarks import _own_process, _traces, workloads
from echelon.experiment.jobs import find_profile
from echelonflow.errors import RunError
from traffic.workloads import formats, profile
from traffic.workloads.paradigms import hybrid

pytestmark = pytest.mark.slow  # every measurement starts a process


def half_a_second_and_words(words: str) -> tuple[float, str]:
    return 0.5, words


@pytest.mark.parametrize(
    ("limit_s", "most_GB", "must", "ok"),
    [
        (1.0, None, "under 1 s", True),
        (0.4, None, "under 0.4 s", False),
        (1.0, 1e-6, "under 1 s and 1e-06 GB", False),
        (None, None, "reported", None),
    ],
)
def test_a_figure_is_held_to_its_limits(limit_s, most_GB, must, ok):
    said: list[str] = []
    figure = _own_process.timed_in_own_process(
        "it", limit_s, 1, said.append, half_a_second_and_words, "42 flows", most_GB=most_GB
    )
    assert (figure.must, figure.ok) == (must, ok)
    assert figure.measured.startswith("0.50 s")
    assert "42 flows" in said[0]


def test_memory_is_that_of_the_process_alone():
    ballast = bytearray(400_000_000)
    said: list[str] = []
    figure = _own_process.timed_in_own_process("it", None, 1, said.append, half_a_second_and_words, "")
    assert len(ballast) > float(figure.measured.split(", ")[1].removesuffix(" GB")) * 1e9


def test_a_process_that_dies_is_said(monkeypatch):
    with pytest.raises(RunError, match="died"):
        _own_process.timed_in_own_process("it", 1.0, 1, print, _kill_self, "")


def _kill_self(_: str) -> tuple[float, str]:
    import os
    import signal

    os.kill(os.getpid(), signal.SIGKILL)
    return 0.0, ""


def test_the_three_d_job_has_every_rank_busy(monkeypatch):
    monkeypatch.setattr(workloads, "THREE_D", {"tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 2})
    time_s, words = workloads.build_three_d()
    dag = hybrid.from_profile(profile.read(find_profile(workloads.PROFILE)), **workloads.THREE_D)
    assert time_s > 0
    assert words.startswith(f"{len(dag.transfers):,} flows")
    assert {step.rank for step in dag.computes} == set(range(8))


def test_a_job_of_ours_is_read_back_whole(tmp_path):
    dag = hybrid.from_profile(
        profile.read(find_profile(workloads.PROFILE)), tensor=1, pipeline=2, data=1, micro_batches=2
    )
    files = [str(path) for path in formats.write_chakra(dag, tmp_path / "job")]
    assert (
        workloads.read_job("chakra", files, {})[1]
        == f"{len(dag.transfers):,} flows, {len(dag.computes):,} computations"
    )


def test_traces_that_are_missing_are_left_out_and_said(tmp_path, monkeypatch):
    measured: list[str] = []

    def noted(what, *_, **__):
        measured.append(what)
        return what

    monkeypatch.setattr(workloads, "timed_in_own_process", noted)
    monkeypatch.setattr(workloads, "EXPORTED", {"tensor": 1, "pipeline": 2, "data": 1, "micro_batches": 2})
    monkeypatch.setenv(_traces.VARIABLE, str(tmp_path))
    said: list[str] = []
    workloads.run(1, said.append)
    assert [words.split()[0] for words in said if "left out" in words] == [_traces.FACEBOOK, workloads.KINETO]
    assert not any("FB2010" in what for what in measured)
    assert any("2 ranks" in what for what in measured)

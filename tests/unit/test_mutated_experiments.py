"""A few experiment files of the benchmark's many: whatever is in them, there are jobs or one message in our own words."""

from __future__ import annotations

import os

import pytest

from echelon.benchmarks import _in_children
from echelon.benchmarks import mutated_experiments as benchmark
from echelon.benchmarks._in_children import Tally
from echelon.benchmarks.mutated_experiments import KINDS, Seeds, figures_of, measured, read_case
from echelon.cases import mutations

CASES = 60


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    return Seeds(tmp_path_factory.mktemp("seeds"))


@pytest.mark.parametrize("kind", KINDS)
def test_mutants_are_read_or_refused_in_one_message(seeds, kind, monkeypatch):
    for name, value in seeds.variables.items():
        monkeypatch.setenv(name, value)
    path = seeds.folder / "case.yaml"
    found = [read_case(path, seeds.case(kind, seed)) for seed in range(CASES)]
    assert [(seed, each.words) for seed, each in enumerate(found) if each.fault] == []
    assert any(each.good for each in found)
    assert not all(each.good for each in found)


def test_what_is_mutated_is_right_before(seeds, monkeypatch):
    for name, value in seeds.variables.items():
        monkeypatch.setenv(name, value)
    path = seeds.folder / "case.yaml"
    for text, tree in zip(seeds.texts, seeds.trees, strict=True):
        for content in (text, mutations.written(tree).encode()):
            assert read_case(path, content).good, content.decode()


def test_a_mutant_is_made_again_by_its_seed(seeds):
    for kind in KINDS:
        assert seeds.case(kind, 7) == seeds.case(kind, 7) != seeds.case(kind, 8)


def test_a_reader_that_raises_hangs_fills_memory_or_dies_is_found_out(seeds, monkeypatch):
    """Children inherit the reader that stands in here. The one that hangs has less time, so that this ends soon; others end by themselves."""
    for reader, kind in ((_raises, "traceback"), (_fills, "memory"), (_dies, "memory"), (_hangs, "time")):
        if reader is _hangs:
            monkeypatch.setattr(_in_children, "MOST_S", 0.2)
            monkeypatch.setattr(_in_children, "GRACE_S", 0.1)
        monkeypatch.setattr(benchmark.schema, "load", reader)
        tally = measured(seeds, "structured", 2, lambda _: None)
        assert (tally.cases, dict(tally.faults)) == (2, {kind: 2})
        assert [figure.ok for figure in figures_of("structured", tally)].count(False) == 1


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("{path}:3: repeats: 0 is too few", ""),
        ("{path}: 2 faults\n  {path}:1: a: b\n  {path}:2: c: d", ""),
        ("{path}:3: Input should be a valid dictionary", "words"),
        ("{path}: '<class 'int'>' is no name", "words"),
        ("repeats: 0 is too few", "form"),
        ("{path}: a\nb", "form"),
        ("{path}: \x1b[31mred", "form"),
    ],
)
def test_a_message_in_others_words_or_without_a_place_is_found_out(tmp_path, monkeypatch, words, fault):
    path = tmp_path / "case.yaml"

    def refuses(_):
        raise benchmark.InputError(words.replace("{path}", str(path)))

    monkeypatch.setattr(benchmark.schema, "load", refuses)
    assert read_case(path, b"").fault == fault


def test_figures_demand_what_they_say():
    good = Tally(cases=10, good=4)
    assert all(figure.ok for figure in figures_of("byte-level", good))
    assert [figure.measured for figure in figures_of("byte-level", good)] == ["0", "0.0 s", "0 MB", "0"]


def _raises(_):
    raise KeyError("x")


def _hangs(_):
    while True:
        pass


def _fills(_):
    return bytearray(1 << 31)


def _dies(_):
    os.kill(os.getpid(), 9)

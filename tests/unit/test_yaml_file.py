"""Experiment files of strangers: plain data within bounds, or one line that says what is wrong and where."""

from __future__ import annotations

import pytest

from echelon.experiment import yaml_file
from echelonflow.errors import InputError

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [" + ", ".join([f"*{before}"] * 10) + "]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty or not a mapping"),
        ("- a", "is empty or not a mapping"),
        ("a: [", "is not YAML"),
        ("title: 2020-99-99", "is not YAML: month must be in"),
        ("title: 2020-09-09", "title: a date is no value of an experiment; put it in quotes"),
        ("title: !!binary aGVsbG8=", "title: a bytes is no value"),
        ("title: !!set {a}", "title: a set is no value"),
        ("1: a", "file: the key 1 is not text"),
        ("jobs: [{2: a}]", r"jobs\.0: the key 2 is not text"),
        ("seed: " + "9" * 30, "seed: is a number beyond 63 bits"),
        ("seed: " + "9" * 5000, "is not YAML|beyond 63 bits"),
        ("a: " + "[" * 40 + "]" * 40, "is nested too deeply; an experiment file is at most 32 deep"),
        ("a: " + "[" * 20_000, "is nested too deeply"),
        ("a: &a [*a]", r"a(\.0)+: is nested too deeply"),
        (BOMB, "holds more than 100,000 values, aliases counted"),
        ("a: " + "x" * (1 << 20), "is longer than 256 KiB"),
    ],
    ids=lambda text: text[:16],
)
def test_what_is_no_experiment_is_refused_in_one_line_or_by_the_parser(tmp_path, text, words):
    path = tmp_path / "e.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as refused:
        yaml_file.read_mapping(path)
    assert str(refused.value).startswith(f"{path}: ")


def test_bytes_that_are_no_text_and_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "e.yaml").write_bytes(b"name: \xff\xfe\x00")
    for path, words in (
        (tmp_path / "e.yaml", "is not YAML"),
        (tmp_path, "cannot be read"),
        (tmp_path / "no", "cannot"),
    ):
        with pytest.raises(InputError, match=words):
            yaml_file.read_mapping(path)


def test_aliases_that_are_few_stay(tmp_path):
    path = tmp_path / "e.yaml"
    path.write_text("a: &a {x: 1}\nb: [*a, *a]\n")
    assert yaml_file.read_mapping(path) == {"a": {"x": 1}, "b": [{"x": 1}, {"x": 1}]}

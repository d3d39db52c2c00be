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
        ("", ": is empty; an experiment has name, network, jobs and policies"),
        ("- a", ": is not a mapping; an experiment has name, network, jobs and policies"),
        ("a: [", ":1: is not YAML: "),
        ("a: " + "[" * 20_000, ": is nested too deeply; an experiment file is at most 32 deep"),
        ("a: " + "[" * 40 + "]" * 40, "is nested too deeply; an experiment file is at most 32 deep"),
        ("b: 1\na: &a [*a]", r":2: a(\.0)+: is nested too deeply"),
        (BOMB, "holds more than 100,000 values, aliases counted"),
        ("a: " + "x" * (1 << 20), "is longer than 256 KiB"),
        ("a: 1\n\tb: 2", r":2: is not YAML: a tab "),
        ("a: 1\nb: [x, y\nc: 2", r":3: is not YAML: a list that began with \[ is not closed.*on line 2"),
        ("a: {x: 1\nc: 2", "is not YAML: a mapping that began with { is not closed"),
        ("a: b: c", ":1: is not YAML: a colon stands where none can"),
        ("a: 1\nb", ":2: is not YAML: a key without its colon"),
        ("a:\n  - b\n c: 1", ":3: is not YAML: the indentation does not fit"),
        ("a: 'x\nb: 1\n", "is not YAML: text that began with a quote is not closed"),
        ("a: *b", ":1: is not YAML: a text that begins with [*] is an alias"),
        ("a: 1\n---\nb: 2", "is not YAML: a second document begins"),
        ("a: \x01", "holds a character that no text has"),
    ],
    ids=lambda text: text[:16],
)
def test_what_is_no_experiment_is_refused_in_one_line(tmp_path, text, words):
    path = tmp_path / "e.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as refused:
        yaml_file.read(path)
    assert str(refused.value).startswith(f"{path}:")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("title: 2020-99-99", "title: a date is no value of an experiment; put it in quotes"),
        ("title: 2020-09-09", "title: a date is no value of an experiment; put it in quotes"),
        ("title: !!binary aGVsbG8=", "title: a binary is no value of an experiment; put it in quotes"),
        ("title: !!set {a}", "title: a set is no value of an experiment"),
        ("1: a", "file: the key 1 is not text; put it in quotes"),
        ("jobs: [{2: a}]", "jobs.0: the key 2 is not text; put it in quotes"),
        ("seed: " + "9" * 30, f"seed: is a number beyond 63 bits: '{'9' * 30}'"),
        ("seed: " + "9" * 5000, f"seed: '{'9' * 60}...' is no value that can be read; put it in quotes"),
        ("a: 1\nb: 2\na: 3", "a: stands twice, on line 1 and on line 3; remove one"),
        ("j:\n- {x: 1, x: 2}", "j.0.x: stands twice, on line 2 and on line 2; remove one"),
        ("a: &a 1\nb: {<<: *a}", "b: << takes a mapping by its alias, such as `<<: *common`"),
    ],
    ids=lambda text: text[:16],
)
def test_a_part_that_is_no_plain_data_is_named_and_hides_no_other(tmp_path, text, fault):
    path = tmp_path / "e.yaml"
    path.write_text(text)
    assert yaml_file.read(path).faults == (fault,)


def test_bytes_that_are_no_text_and_files_that_are_none_are_refused(tmp_path):
    (tmp_path / "e.yaml").write_bytes(b"name: a\ntitle: \xff\xfe\x00")
    for path, words in (
        (tmp_path / "e.yaml", ":2: is not text: byte 0xff"),
        (tmp_path, "is a folder; name an experiment in it, such as .*e.yaml"),
        (tmp_path / "no", "cannot be read: No such file"),
        (tmp_path / "f.yaml", "No such file or directory; did you mean 'e.yaml'"),
    ):
        with pytest.raises(InputError, match=words):
            yaml_file.read(path)


def test_aliases_that_are_few_stay_and_merged_keys_count_less_than_own_ones(tmp_path):
    path = tmp_path / "e.yaml"
    path.write_text("a: &a {x: 1, y: 1}\nb: [*a, *a]\nc:\n  x: 2\n  <<: *a\nd: {<<: [*a, {z: 1, x: 3}]}\n")
    common = {"x": 1, "y": 1}
    file = yaml_file.read(path)
    assert file.data == {"a": common, "b": [common, common], "c": {"x": 2, "y": 1}, "d": {"x": 1, "y": 1, "z": 1}}
    assert file.faults == ()


def test_every_part_has_its_line_and_what_is_not_there_that_of_what_is_around_it(tmp_path):
    path = tmp_path / "e.yaml"
    path.write_text("# a comment\nname: x\njobs:\n  - name: a\n    stages: 2\n  - {name: b,\n     stages: 3}\n")
    line_of = yaml_file.read(path).line_of
    wanted = {
        "name": 2,
        "jobs": 3,
        "jobs.0.stages": 5,
        "jobs.1": 6,
        "jobs.1.stages": 7,
        "jobs.0.no.such": 4,
        "no": None,
    }
    assert {where: line_of(where) for where in wanted} == wanted

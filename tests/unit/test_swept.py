"""What a sweep varies: axes as texts and in files, grids and lists of points, and what is refused."""

from __future__ import annotations

import pytest

from echelon.experiment.swept import MOST_VALUES, Swept, of_file, parse
from echelonflow.errors import InputError


@pytest.mark.parametrize(
    ("text", "path", "values"),
    [
        ("network.rate=10 Mbit/s,20 Mbit/s", "network.rate", ["10 Mbit/s", "20 Mbit/s"]),
        ("jobs.0.iterations=1, 2,3", "jobs.0.iterations", [1, 2, 3]),
        ("seed=0..3", "seed", [0, 1, 2, 3]),
        ("seed=0..20..10,25", "seed", [0, 10, 20, 25]),
        ("seeds=4", "seed", [4]),
        ("policy=fair,coflow(grouping=group)", "policies", ["fair", "coflow(grouping=group)"]),
        (
            "jobs.a.scheduler=bytescheduler(partition=4 MB, credit=8 MB),fifo",
            "jobs.a.scheduler",
            ["bytescheduler(partition=4 MB, credit=8 MB)", "fifo"],
        ),
        ("jobs.a.placement=[h1, h2],[h3, h4]", "jobs.a.placement", [["h1", "h2"], ["h3", "h4"]]),
        ("network.note='a, b',c", "network.note", ["a, b", "c"]),
        ("emulation.tso=true,false,null", "emulation.tso", [True, False, None]),
    ],
)
def test_an_axis_is_a_path_and_its_values(text, path, values):
    assert parse([text]) == {path: values}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("network.rate", "must be written PATH=VALUE,VALUE"),
        ("network.rate=1,,2", "has no value"),
        ("network.rate=1,2,1", "1 stands twice"),
        ("seed=5..1", "5..1 is no range"),
        ("seed=-3..1", "seeds are whole numbers from 0 on"),
        ("seed=a", "seeds are whole numbers from 0 on"),
        ("policies=1", "policies are texts"),
        ("repeats=1,2", "cannot be swept: the runs of a point are its seeds"),
        ("name=a,b", "cannot be swept"),
        (f"seed=0..{MOST_VALUES}", "an axis has 10,000 at most"),
    ],
)
def test_what_is_no_axis_is_refused_in_one_line(text, words):
    with pytest.raises(InputError) as refused:
        parse([text])
    assert words in str(refused.value)
    assert str(refused.value).startswith("--over ")
    assert "\n" not in str(refused.value)


def test_an_axis_is_named_once():
    with pytest.raises(InputError, match="policies is named twice"):
        parse(["policy=fair", "policies=fifo"])


def test_a_file_lists_values_and_ranges():
    found = of_file({"over": {"network.rate": ["1 Mbit/s"], "seed": "0..2", "jobs.0.iterations": ["1..2", 5]}})
    assert found.over == {"network.rate": ["1 Mbit/s"], "seed": [0, 1, 2], "jobs.0.iterations": [1, 2, 5]}
    assert found.seeds == [0, 1, 2]
    assert found.axes == {"network.rate": ["1 Mbit/s"], "jobs.0.iterations": [1, 2, 5]}


def test_all_faults_of_a_file_are_told_at_once():
    written = {"over": {"network.rate": "fast", "repeats": [1]}, "points": [{"seed": 1}, {"name": "x"}]}
    with pytest.raises(InputError) as refused:
        of_file(written)
    told = str(refused.value).split("\n")
    assert [line.partition(": ")[0] for line in told] == ["over.network.rate", "over.repeats", "points.0", "points.1"]


def test_a_sweep_of_nothing_is_refused():
    with pytest.raises(InputError, match="neither `over` nor `points` names anything"):
        of_file({"over": {}, "points": []})


def test_points_are_every_listed_one_with_every_combination():
    found = Swept({"a": [1, 2], "seed": [7], "b": [3, 4]}, [{"x": 0}, {"x": 1, "a": 9}])
    points = list(found.points())
    assert found.number_of_points() == len(points) == 8
    assert points[0] == {"x": 0, "a": 1, "b": 3}
    assert points[1] == {"x": 0, "a": 1, "b": 4}
    assert points[-1] == {"x": 1, "a": 2, "b": 4}
    assert list(Swept().points()) == [{}]


def test_axes_of_the_command_line_replace_those_of_the_file():
    found = Swept({"a": [1], "b": [2]}, [{"x": 0}]).replaced_by({"b": [3], "c": [4]})
    assert found.over == {"a": [1], "b": [3], "c": [4]}
    assert found.listed == [{"x": 0}]

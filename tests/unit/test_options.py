"""One binding of options: what a user wrote, in a file or as text, to typed keyword arguments."""

from __future__ import annotations

import math
from typing import Literal

import pytest

from echelonflow.errors import InputError
from echelonflow.options import REQUIRED, bind, bind_text, check_names, options_of, pairs


def builder(
    *,
    ranks: int,
    forward_s: float | list[float],
    parameter_bytes: int | list[int] = 0,
    rate_bps: float = 1e6,
    share: float = 0.5,
    schedule: Literal["gpipe", "1f1b"] = "1f1b",
    stage: Literal[1, 2] = 2,
    serial: bool = False,
    step: str | None = None,
):
    """Has an option of every kind."""


def faults(written, **how):
    with pytest.raises(InputError) as caught:
        bind(builder, written, **how)
    return str(caught.value).split("\n")


def test_names_without_their_unit_take_values_with_one():
    written = {
        "ranks": 4, "forward": ["1 s", "20 ms"], "parameter": "2 s of link", "rate": "8 Mbit/s", "share": 1,
        "schedule": "gpipe", "stage": 1, "serial": True, "step": None,
    }  # fmt: skip
    assert bind(builder, written, link_Bps=100.0) == {
        "ranks": 4, "forward_s": [1.0, 0.02], "parameter_bytes": 200, "rate_bps": 8e6, "share": 1.0,
        "schedule": "gpipe", "stage": 1, "serial": True, "step": None,
    }  # fmt: skip
    assert bind(builder, {"ranks": 1, "forward": "1 s"}) == {"ranks": 1, "forward_s": 1.0}


def test_every_fault_is_named_at_once_with_what_would_be_right():
    assert faults({"colour": "red", "forward": "1 furlong", "stage": 3, "serial": 1}) == [
        "colour: unknown key; there is: ranks, forward, parameter, rate, share, schedule, stage, serial, step",
        "ranks: missing (a whole number)",
        "forward: '1 furlong': unknown unit 'furlong'; write a duration such as '1 s'",
        "stage: 3 is not one of 1, 2",
        "serial: 1 is not true or false",
    ]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("ranks", 0, "0 is not a whole number of at least 1"),
        ("ranks", True, "true is not a whole number of at least 1"),
        ("ranks", "4", "'4' is not a whole number of at least 1; write it without quotes"),
        ("ranks", 10**7, "10,000,000 is too many; the bound is 1,000,000"),
        ("share", math.inf, "inf is not a number"),
        ("share", "0.5", "'0.5' is not a number"),
        ("stage", True, "true is not one of 1, 2"),
        ("forward", [], "[] is not a list; write [..., ...]"),
        ("parameter", "0 B", "'0 B' must be greater than 0"),
        ("parameter", "2 s of link", "'2 s of link': unknown unit 's'; write a size such as '25 MB'"),
        ("step", 5, "5 is not text"),
    ],
)
def test_a_value_of_another_kind_is_refused(key, value, words):
    if key == "parameter" and "link" in value:  # nobody said how fast the link is
        words = words.partition(":")[0]
    (fault,) = faults({"ranks": 1, "forward": "1 s", key: value})
    assert fault.startswith(f"{key}: ")
    assert words in fault


def test_text_becomes_what_the_types_ask_for():
    texts = {"ranks": "4", "forward": "[1 s, 2 s]", "share": "1e-3", "stage": "1", "serial": "true", "step": "5"}
    assert bind_text(builder, texts) == {
        "ranks": 4, "forward_s": [1.0, 2.0], "share": 1e-3, "stage": 1, "serial": True, "step": "5",
    }  # fmt: skip
    with pytest.raises(InputError, match="ranks: 'four' is not a whole number of at least 1\nserial: 'yes' is not"):
        bind_text(builder, {"forward": "1 s", "ranks": "four", "serial": "yes"})


def test_without_units_names_are_whole_and_the_function_judges_numbers():
    def allocate(snapshot, *, first_bytes: float = 1.0, seed: int = 0, memory=None):
        """A policy."""

    given = ("snapshot", "memory")
    assert bind_text(allocate, {"first_bytes": "inf", "seed": "-1"}, given=given, units=False) == {
        "first_bytes": math.inf,
        "seed": -1,
    }
    with pytest.raises(InputError, match="memory: unknown key; there is: first_bytes, seed"):
        bind_text(allocate, {"memory": "1"}, given=given, units=False)


def test_values_made_by_code_are_checked_by_name():
    check_names(builder, {"ranks": 4, "forward_s": 1.0})
    with pytest.raises(
        InputError, match=r"forward: unknown key; did you mean 'forward_s'\? there is: ranks.*\nranks: missing"
    ):
        check_names(builder, {"forward_s": 1.0, "forward": 1.0})


def test_options_say_what_may_be_written():
    words = {option.key: option.in_words() for option in options_of(builder)}
    assert words["forward"] == "a duration such as 20 ms or a list of such"
    assert words["schedule"] == "one of gpipe, 1f1b"
    assert words["step"] == "text"
    assert [option.key for option in options_of(builder) if option.required] == ["ranks", "forward"]
    assert options_of(builder)[0].default is REQUIRED


@pytest.mark.parametrize(
    ("parts", "words"), [(["a"], "'a' must be written key=value"), (["a=1", "a=2"], "'a' is given twice")]
)
def test_pairs_that_are_none_are_refused(parts, words):
    assert pairs(["a = 1", "", "b=x=y"], "--set") == {"a": "1", "b": "x=y"}
    with pytest.raises(InputError, match=f"--set: option {words}"):
        pairs(parts, "--set")


def test_only_the_types_of_options_need_to_be_known():
    """A policy may import the snapshot's type for type checkers alone."""

    def allocate(snapshot: Nowhere, *, pace: Literal["slow", "fast"] = "slow", gain: float = 1.0) -> Nowhere:  # noqa: F821
        """A policy."""

    bound = bind_text(allocate, {"pace": "fast", "gain": "2"}, given=("snapshot",), units=False)
    assert bound == {"pace": "fast", "gain": 2.0}

    def unclear(*, pace: Nowhere = "slow"):  # noqa: F821
        """Has an option of an unknown type."""

    with pytest.raises(InputError, match="pace: the type of this option is not known: name 'Nowhere'"):
        bind_text(unclear, {})

"""The benchmark of strangers, small and with a fixed seed: its clients are broken as they say, and its verdicts hold."""

from __future__ import annotations

import random

import pytest

from echelon.benchmarks import strangers
from echelon.cases.broken_messages import Broken
from echelonflow.errors import InputError
from echelonflow.wire.messages import decode


def broken(seed):
    return Broken(random.Random(seed), "h3", ("h3", "h4"), "job-h3", "job")


def test_lines_come_again_by_their_seed_and_are_of_all_kinds():
    lines = [broken(1).line() for _ in range(2)]
    assert lines[0].kind == lines[1].kind
    one = broken(2)
    kinds = {one.line().kind for _ in range(300)}
    assert kinds == {"raw", "binary", "cut", "extreme", "fields", "unknown", "wrong", "fitting"}


@pytest.mark.parametrize("kind", ["raw", "binary", "cut", "fields"])
def test_what_is_no_message_is_told_apart_without_a_controller(kind):
    one = broken(3)
    for _ in range(300):
        line = getattr(one, kind)()
        assert line.bad
        assert b"\n" not in line.data
        with pytest.raises(InputError):
            decode(line.data)


@pytest.mark.slow
def test_broken_messages_are_refused_and_others_never_disturbed():
    figure = strangers.messages(400, lambda _: None, seed=7)
    assert figure.ok, figure.measured


@pytest.mark.slow
def test_a_bad_message_that_is_not_answered_is_found(monkeypatch):
    """The verdict itself: a client that should have been refused and was not fails the figure."""
    monkeypatch.setattr(strangers.Broken, "line", strangers.Broken.fitting)
    with strangers.serving() as controller:
        client = strangers.BrokenClient(controller, "h3", random.Random(1))
        client._bad.append("made up")
        tally = strangers.Tally()
        client.end(tally)
    assert tally.unanswered == {"made up": 1}


@pytest.mark.slow
@pytest.mark.parametrize("with_token", [False, True])
def test_requests_of_schemathesis_find_nothing(with_token, monkeypatch):
    pytest.importorskip("schemathesis")
    monkeypatch.setattr(strangers, "PHASES", "examples,fuzzing")
    figure = strangers.requests(20, lambda _: None, with_token=with_token)
    assert figure.ok, figure.measured

"""What is noted of a training program: where its iterations end, what it calls, and when it waits without saying so."""

from __future__ import annotations

import pytest
import torch

from traffic.live import observing
from traffic.live.observing import Called, Observer, Operation, Waited


@pytest.fixture
def observer():
    found = Observer()
    found.watch_optimizers()
    yield found
    found._hook.remove()


@pytest.fixture
def iterations(observer):
    ended = []
    observer.on_iteration = ended.append
    return ended


def optimizer():
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    return torch.optim.SGD([weight], lr=0.1)


def operation(kind="all-reduce"):
    return Operation(kind, (0, 1), ())


def test_an_iteration_ends_with_a_step_of_the_first_optimizer_that_makes_one(observer, iterations):
    first, other = optimizer(), optimizer()
    observer.called(operation("broadcast"))
    first.step()
    observer.called(operation())
    other.step()
    observer.called(operation())
    first.step()
    assert [[event.operation.kind for event in each.events] for each in iterations] == [
        ["broadcast"],
        ["all-reduce", "all-reduce"],
    ]
    assert iterations[0].end_s <= iterations[1].start_s <= iterations[1].end_s


def test_a_wait_is_noted_with_what_was_waited_for_and_pacing_comes_before_it(observer, iterations):
    paced, resumed = [], []
    observer.pace, observer.resumed = paced.append, lambda *times_s: resumed.append(times_s)
    one, step = operation(), optimizer()
    observer.called(one)
    with observer.waiting_for(one):
        observer.ended(one)
    step.step()
    called, waited = iterations[0].events
    assert isinstance(called, Called)
    assert isinstance(waited, Waited)
    assert waited.operations == (one,)
    assert waited.time_s <= one.ended_s <= waited.until_s
    assert resumed == [(one.ended_s, waited.until_s)]
    assert paced == [0, 1, None]  # before the call, before the wait, and at the end of the iteration


def test_what_ended_after_the_backward_pass_was_waited_for_there(observer, iterations):
    """So does DDP: it takes futures in the pass, and waits for them behind its last computation."""
    early, late, weight = operation(), operation("reduce-scatter"), torch.ones(2, requires_grad=True)
    step = optimizer()

    def in_the_pass(gradient):
        for each in (early, late):
            observer.called(each)
            observer.future_taken(each)
        return gradient

    weight.register_hook(in_the_pass)
    (weight * 2).sum().backward()
    observer.ended(early)
    observer.ended(late)
    step.step()
    kinds = [type(event) for event in iterations[0].events]
    assert kinds == [Called, Called, Waited]
    waited = iterations[0].events[-1]
    assert waited.operations == (early, late)
    assert waited.until_s == max(early.ended_s, late.ended_s)


def test_what_somebody_was_seen_to_wait_for_is_not_counted_twice(observer, iterations):
    one, weight, step = operation(), torch.ones(2, requires_grad=True), optimizer()

    def in_the_pass(gradient):
        observer.called(one)
        observer.future_taken(one)
        return gradient

    weight.register_hook(in_the_pass)
    (weight * 2).sum().backward()
    with observer.waiting_for(one):
        observer.ended(one)
    step.step()
    assert [type(event) for event in iterations[0].events] == [Called, Waited]


def test_a_program_that_makes_no_step_fills_no_memory(observer, iterations, monkeypatch):
    monkeypatch.setattr(observing, "MOST_EVENTS", 3)
    for _ in range(10):
        observer.called(operation())
    assert len(observer.current.events) == 3
    step = optimizer()
    step.step()
    observer.called(operation())
    assert len(iterations[0].events) == 3
    assert len(observer.current.events) == 1

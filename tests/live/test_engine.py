"""Links between two ranks, each with its engine, in one process: what is early, what does not fit, and who has gone."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import contextmanager

import pytest
import torch

from echelonflow.errors import RunError
from traffic.live import early as early_module
from traffic.live.direct import Direct
from traffic.live.early import Early, MismatchError, Taker
from traffic.live.engine import Engine
from traffic.live.exchange import Key
from traffic.live.link import TCP_USER_TIMEOUT, Link
from traffic.live.mailbox import Mailbox
from traffic.live.running import Running

LIMIT_S = 20.0


def pair():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        one = socket.create_connection(listener.getsockname())
        return one, listener.accept()[0]


@contextmanager
def engines(ranks, mortal=None):
    """An engine for each rank, connected with all others; for rank `mortal` its bare connections."""
    ends = [{} for _ in range(ranks)]
    for a in range(ranks):
        for b in range(a):
            ends[a][b], ends[b][a] = pair()
    made = []
    for rank, connections in enumerate(ends):
        if rank == mortal:
            made.append(list(connections.values()))
            continue
        early = Early()
        links = {other: Link(each, other, early) for other, each in connections.items()}
        made.append(Engine(links, {other: f"rank {other} at h{other}" for other in links}, early, f"rank {rank}"))
    try:
        yield made
    finally:
        for rank, engine in enumerate(made):
            if rank != mortal:
                engine.close()


class Ended:
    """Waits for the end of an exchange."""

    def __init__(self):
        self._event = threading.Event()

    def __call__(self, error):
        self.error = error
        self._event.set()

    def wait(self):
        assert self._event.wait(LIMIT_S), "it did not end"
        return self.error


def send(engine, rank, number, elements, group=1):
    ended = Ended()
    engine.submit(Key(group, 0, number), Direct({rank: torch.full((elements,), float(number))}, {}), ended)
    return ended


def receive(engine, rank, number, elements, group=1):
    ended = Ended()
    ended.buffer = torch.zeros(elements)
    engine.submit(Key(group, 0, number), Direct({}, {rank: ended.buffer}), ended)
    return ended


def test_what_comes_early_waits_and_no_more_is_read_than_may_wait(monkeypatch):
    monkeypatch.setattr(early_module, "MOST_EARLY_BYTES", 1 << 20)
    elements, times = 1 << 20, 24  # 4 MB each: more than sockets hold
    with engines(2) as (ours, theirs):
        sent = [send(ours, 1, number, elements) for number in range(1, times + 1)]
        sent[0].wait()
        # What is asked for now is not what came first, and there is too much before it.
        last = receive(theirs, 0, times, elements)
        assert last.wait() is None
        assert torch.all(last.buffer == times)
        for number in range(1, times):
            found = receive(theirs, 0, number, elements)
            assert found.wait() is None
            assert torch.all(found.buffer == number)
        assert [each.wait() for each in sent] == [None] * times


def test_where_nobody_waits_a_sender_is_kept_waiting(monkeypatch):
    monkeypatch.setattr(early_module, "MOST_EARLY_BYTES", 1 << 20)
    with engines(2) as (ours, theirs):
        sent = send(ours, 1, 1, 1 << 26)
        unread = threading.Event()
        while not unread.wait(0.01):
            if theirs.early.is_enough(0):
                break
        connection = ours._links[1]._connection
        while connection.getsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT):  # or it would give up after that time
            assert not unread.wait(0.01)
        assert sum(map(len, (come.data for come in theirs.early._waiting.values()))) < 1 << 24
        found = receive(theirs, 0, 1, 1 << 26)
        assert found.wait() is None
        assert sent.wait() is None


@pytest.mark.parametrize("first", ["sender", "receiver"])
def test_sizes_that_differ_are_said_to_both(first):
    with engines(2) as (ours, theirs):
        begin = [lambda: send(ours, 1, 1, 20), lambda: receive(theirs, 0, 1, 10)]
        one, other = (each() for each in (begin if first == "sender" else reversed(begin)))
        receiver = other if first == "sender" else one
        assert "rank 1: rank 0 sends 80 bytes of an operation of which 40 are expected" in str(receiver.wait())
        later = send(ours, 1, 2, 10)
        while later.wait() is None:  # until the sender has heard of it
            later = send(ours, 1, 2, 10)
        assert "rank 0 sends 80 bytes of an operation of which 40 are expected" in str(later.error)


def test_what_nobody_expects_is_an_error():
    with engines(2) as (ours, theirs):
        nothing = Ended()
        theirs.submit(Key(1, 0, 1), Direct({}, {}), nothing)
        assert nothing.wait() is None
        send(ours, 1, 1, 10)
        asked = receive(theirs, 0, 2, 10)
        assert "rank 0 sends 40 bytes of an operation of which 0 are expected" in str(asked.wait())


def test_who_has_died_is_told_by_whoever_ends_for_that_reason():
    with engines(4, mortal=1) as (first, dies, third, last):
        asked = [receive(first, 2, 1, 10), receive(third, 0, 2, 10), receive(last, 0, 3, 10)]
        dies[0].close()  # only the first is told so
        assert [str(each.wait()) for each in asked] == ["lost rank 1 at h1: connection closed"] * 3
        first.close()
        assert "lost rank 1 at h1" in str(receive(third, 0, 4, 10).wait())
        for connection in dies:
            connection.close()


def test_a_rank_that_cannot_go_on_says_why():
    with engines(3) as (first, second, third):
        asked = [receive(second, 2, 1, 10), receive(third, 1, 2, 10)]
        first.fail("its disk is full")
        assert {str(each.wait()) for each in asked} == {"rank 0: its disk is full"}


def test_a_proper_end_is_no_failure_for_who_expects_nothing_of_it():
    with engines(3) as (first, second, third):
        first.close()
        sent, found = send(second, 2, 1, 10), receive(third, 1, 1, 10)
        assert (sent.wait(), found.wait()) == (None, None)
        assert "rank 0 at h0 ended before an operation" in str(receive(second, 0, 2, 10).wait())


def test_whoever_ends_does_not_take_the_ends_of_others_for_deaths():
    elements = 1 << 24
    with engines(3) as (first, second, third):
        send(first, 2, 1, elements)
        first.close()  # the second hears of it at once, and closes its end while there is still much to send to the third
        found, sent = receive(third, 0, 1, elements), send(second, 2, 2, 10)
        assert (found.wait(), sent.wait()) == (None, None)
        assert receive(third, 1, 2, 10).wait() is None


def test_another_thread_gets_what_has_come_and_what_comes():
    with engines(2) as (ours, theirs):
        send(ours, 1, 1, 10).wait()
        came, got = threading.Event(), []

        def give(rank, total_bytes, data):
            got.append((rank, total_bytes, bytes(data)))
            came.set()

        buffer = torch.zeros(10)
        running = Running(Direct({}, {0: buffer}), lambda *_: None, lambda _: None)
        for number in (1, 2):
            key = Key(1, 0, number)
            come = theirs.early.begin(key, running.inlets, Taker(running.inlets, give))
            got += [(rank, each.total_bytes, bytes(each.data)) for rank, each in come.items()]
            if number == 2 or not come:
                if number == 2:
                    send(ours, 1, 2, 10)
                assert came.wait(LIMIT_S)
            theirs.early.over(key)
        assert [(rank, total) for rank, total, _ in got] == [(0, 40), (0, 40)]
        with pytest.raises(MismatchError, match="0 are expected"):
            theirs.early.add(0, Key(1, 0, 2), 40, b"x")


def test_a_mailbox_closes_its_bell_and_late_actions_are_carried_out_by_who_brings_them():
    mailbox, done = Mailbox(), []
    descriptor = mailbox.fileno()
    mailbox.put(lambda: done.append(1))
    mailbox.close()
    assert done == [1]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    mailbox.put(lambda: done.append(2))
    assert done == [1, 2]


def test_an_engine_that_has_ended_begins_nothing():
    with engines(2) as (ours, _):
        ours.close()
        error = send(ours, 1, 1, 10).wait()
        assert isinstance(error, RunError)

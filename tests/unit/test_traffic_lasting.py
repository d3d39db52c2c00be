"""The agent's line to a coordinator that may go and come back, or be told only part of what is said."""

from __future__ import annotations

import socket

import pytest

from echelonflow.errors import RunError
from echelonflow.model.faults import ControllerStop, Fault, LostMessages
from echelonflow.wire.line import CoordinatorGoneError, LineBuffer
from echelonflow.wire.messages import Decide as DecideMessage
from echelonflow.wire.messages import (
    Declare,
    Done,
    Finish,
    FinishAgain,
    FlowDeclaration,
    Hello,
    Message,
    Progress,
    Release,
    ReleaseAgain,
    Setting,
    Start,
    decode,
    encode,
)
from traffic.agent.lasting import RETELL_S, Callbacks, LastingClient

ZERO = 50.0
STOP = (ControllerStop(at_s=1.0, for_s=1.0),)
GROUP = Declare("job", "g", "pp", 1.0, (FlowDeclaration("x", 0, "x", "h1", "h2", 1000, 0.0, 10_000, 5001),))


class Place:
    """Where a client connects to: keeps the coordinator's end of every connection, or refuses."""

    def __init__(self, faults: tuple[Fault, ...] = ()):
        self.now_s = ZERO
        self.open = True
        self.ends: list[socket.socket] = []
        self.told: list[object] = []
        self.state: dict = {}
        callbacks = Callbacks(
            self.told.append,
            self.told.append,
            lambda _: self.told.append("gone"),
            lambda: self.told.append("back"),
            lambda key: self.state.get(key, (0, None)),
            self.told.append,
            self.told.append,
        )
        self.client = LastingClient(self.connect, "h1", faults, callbacks, lambda: self.now_s)

    def connect(self) -> socket.socket:
        if not self.open:
            raise ConnectionRefusedError
        ours, theirs = socket.socketpair()
        self.ends.append(theirs)
        return ours

    def say(self, *messages: Message) -> None:
        for message in messages:
            self.ends[-1].sendall(encode(message))
        self.client.on_readable()

    def heard(self) -> list[Message]:
        """What has arrived at the newest connection since the last look."""
        self.client.flush()
        self.ends[-1].setblocking(False)
        try:
            return [decode(line) for line in LineBuffer().feed(self.ends[-1].recv(1 << 20))]
        except BlockingIOError:
            return []

    def die(self) -> None:
        self.ends[-1].close()
        self.client.on_readable()

    def at(self, now_s: float) -> None:
        self.now_s = ZERO + now_s
        self.client.tick(self.now_s)


@pytest.fixture
def place(request):
    found = Place(*getattr(request, "param", (STOP,)))
    found.client.declare(GROUP)
    found.heard()
    found.say(Start(ZERO))
    yield found
    found.client.close()
    for end in found.ends:
        end.close()


class TestAnOutage:
    def test_it_is_noticed_and_what_is_said_meanwhile_is_told_when_it_is_over(self, place):
        place.client.release("job", "x", 0, ZERO + 0.5)
        place.client.finish("job", "y", 0, ZERO + 0.9)
        assert [type(m) for m in place.heard()] == [Release, Finish]
        place.open = False
        place.die()
        assert place.told == [ZERO, "gone"]
        assert not place.client.attended
        place.client.release("job", "x", 1, ZERO + 1.5)
        place.client.progress("job", "x", 1, 10)
        place.at(1.6)
        place.open = True
        place.at(2.5)
        assert place.told[-1] == "back"
        assert [type(m) for m in place.heard()] == [Hello]
        assert not place.client.attended  # it may not know of the run yet
        place.state = {("job", 0, "x"): (1000, None), ("job", 1, "x"): (300, 48)}
        place.say(Start(ZERO))
        assert place.client.attended
        assert place.heard() == [
            GROUP,
            ReleaseAgain("job", "x", 0, ZERO + 0.5, 1000, None),
            ReleaseAgain("job", "x", 1, ZERO + 1.5, 300, 48),
            FinishAgain("job", "y", 0, ZERO + 0.9),
        ]
        place.client.progress("job", "x", 1, 400)
        assert place.heard() == [Progress("job", "x", 1, 400)]

    def test_an_agent_that_ends_before_it_is_over_says_nothing_to_one_that_knows_of_no_run(self, place):
        place.die()
        place.client.done()
        place.at(2.5)
        assert [type(m) for m in place.heard()] == [Hello]
        place.client.done()
        assert place.heard() == []
        place.say(Start(ZERO))
        place.heard()
        place.client.done()
        assert place.heard() == [Done()]

    def test_what_others_declare_is_told_to_one_that_follows(self, place):
        """An all-reduce has flows from every host, and one of these declares it: it may be the last to be heard."""
        flows = (*GROUP.flows, FlowDeclaration("y", 1, "x", "h2", "h1", 1000, 0.0, 10_000, 5001))
        shared = Declare("job", "all-reduce", "dp", 1.0, flows)
        place.client.declare(shared, is_ours=False)
        assert place.heard() == []
        place.die()
        place.at(2.5)
        place.heard()
        place.say(Start(ZERO))
        assert place.heard() == [GROUP, shared]

    def test_it_knocks_more_and_more_seldom(self, place):
        place.open = False
        place.die()
        pauses = []
        for _ in range(8):
            due_s = place.client.next_due_s
            pauses.append(round(due_s - place.now_s, 3))
            place.at(due_s - ZERO)
        assert pauses == [0.02, 0.04, 0.08, 0.16, 0.2, 0.2, 0.2, 0.2]

    def test_another_run_is_not_joined(self, place):
        place.die()
        place.at(5.0)
        with pytest.raises(RunError, match="began at 51"):
            place.say(Start(ZERO + 1))

    @pytest.mark.parametrize("place", [((),)], indirect=True)
    def test_where_none_is_planned_a_coordinator_that_goes_ends_the_agent(self, place):
        with pytest.raises(CoordinatorGoneError):
            place.die()
        with pytest.raises(RunError, match="second Start"):
            Place.say(_started(), Start(ZERO))

    def test_old_iterations_are_forgotten(self, place):
        for iteration in range(2000):
            place.client.release("job", "x", iteration, ZERO + iteration)
        place.heard()
        place.die()
        place.at(3000.0)
        place.heard()
        place.say(Start(ZERO))
        told = [m.iteration for m in place.heard() if isinstance(m, ReleaseAgain)]
        assert told[-4:] == [1996, 1997, 1998, 1999]
        assert len(told) < 300


def _started() -> Place:
    place = Place()
    place.say(Start(ZERO))
    return place


class TestLostMessages:
    faults = (LostMessages(at_s=1.0, for_s=2.0, host="h1", share=0.5),)

    @pytest.mark.parametrize("place", [(faults,)], indirect=True)
    def test_a_share_is_lost_while_that_is_planned(self, place):
        def lost_of(count: int) -> int:
            for i in range(count):
                place.client.progress("job", "x", 0, i)
            return count - len(place.heard())

        assert lost_of(200) == 0
        place.at(1.0)
        assert 60 < lost_of(200) < 140
        before = len(place.told)
        place.say(DecideMessage(tuple(Setting("job", "x", i, 48, None) for i in range(200))))
        assert 60 < len(place.told) - before < 140
        place.at(3.0)
        assert lost_of(200) == 0
        assert place.client.lost > 120

    @pytest.mark.parametrize("place", [(faults,)], indirect=True)
    def test_what_was_lost_is_told_again_until_it_is_heard(self, place):
        place.at(1.0)
        heard: list[Message] = []
        now_s = 1.0
        for i in range(20):
            place.client.release("job", f"x{i}", 0, ZERO + now_s)
        heard += place.heard()
        missed = 20 - len(heard)
        assert missed > 0
        while now_s < 3.0:
            now_s = place.client.next_due_s - ZERO
            place.at(now_s)
            heard += place.heard()
        assert now_s == pytest.approx(3.0)
        assert {m.flow for m in heard} == {f"x{i}" for i in range(20)}
        assert len([m for m in heard if isinstance(m, ReleaseAgain)]) < 20 * (2 / RETELL_S + 2)

    @pytest.mark.parametrize("place", [((LostMessages(at_s=1.0, host="h2", share=0.5),),)], indirect=True)
    def test_other_hosts_lose_nothing(self, place):
        place.at(2.0)
        for i in range(200):
            place.client.progress("job", "x", 0, i)
        assert len(place.heard()) == 200

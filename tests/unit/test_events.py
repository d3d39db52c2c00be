"""Logs of events: what is written is read again as it was, and what is no such log is refused by name."""

from __future__ import annotations

import math
import time

import msgspec
import numpy as np
import pytest

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.records import events
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.planning import Foreseen, Moves, PlanMade
from echelonflow.scheduling.state import stable_id
from echelonflow.wire.messages import Begin, Declare, FlowDeclaration, Hello, Progress

FLOW = FlowDeclaration("f", 0, "c", "h1", "h2", 10**6, 0.1, 10_000, 5001)
EXAMPLES = [
    events.ClientSaid(1, Hello("runner", "")),
    events.ClientSaid(1, Begin("run", "echelonflow", "priority", 2, "/d")),
    events.ClientSaid(2, Declare("job", "g", "pp", 1.0, (FLOW,), 0.25)),
    events.LineRefused(2, 'not JSON: \x00 " ü'),
    events.ClientGone(2),
    events.SwitchConnected(1 << 63),
    events.SwitchReady("s1"),
    events.SwitchLost(3),
    events.SwitchTurnedAway(7, "from 127.0.0.1:1: the network has no switch of this id"),
    events.SwitchRefused("s1", "OpenFlow error type 5 code 1"),
    events.PacketShown(1, 2, "02:00:00:00:00:01"),
    events.RoundOver(),
    events.SpareTime(),
    events.PolicyFailed(7, "too slow"),
    events.PlannerPrepared(),
    events.PlannerFailed("it died"),
    events.PolicyOrdered("./mine.py(a=b)", "rate"),
    events.StandingOrdered("fair"),
    events.WeighingFailed("tc failed"),
    events.ControllerFailed("KeyError: 'x'"),
]
NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e6})
OPENING = events.Opening(NETWORK, {"h1": "10.0.0.1"}, questions_asked=4)


def write(path, logged):
    log = events.EventLog(path, OPENING)
    for now_s, event in logged:
        log.append(now_s, event)
    log.close()


def test_every_kind_of_event_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "events.jsonl"
    clock = [1234.000000001 + i / 3 for i in range(len(EXAMPLES))]
    write(path, zip(clock, EXAMPLES, strict=True))
    opening, found = events.read(path)
    assert opening == OPENING
    assert [(logged.now_s, logged.event) for logged in found] == list(zip(clock, EXAMPLES, strict=True))
    kinds = {type(event) for event in EXAMPLES} | {events.PolicyAnswered, events.Planned}
    assert kinds == set(events.Event.__args__)


def test_a_plan_keeps_every_bit_and_is_found_among_the_events(tmp_path):
    moves = Moves(("a", "b"), np.array([0, 1]), np.array([3, 0]), np.array([1 / 3, -1e-300]))
    made = PlanMade(
        7, "clock", moves, (Foreseen("a", 4, np.array([0.1 + 0.2])),), 12.5, 90, 14, 0.75, was_remembered=True
    )
    write(tmp_path / "log", [(1.0, events.RoundOver()), (2.0, events.Planned(made))])
    faults = []
    ((at_s, found),) = events.plans(tmp_path / "log", faults)
    assert (at_s, faults, found.chosen, found.until_s) == (2.0, [], "clock", 12.5)
    assert found.moves.earlier_s.tobytes() == moves.earlier_s.tobytes()
    assert found.foreseen[0].ends_s.tolist() == [0.1 + 0.2]
    template, earlier_s = found.moves.templates({"b": 0})
    assert (template.tolist(), earlier_s.tolist()) == ([stable_id(0, 0, 0)], [-1e-300])


def test_moves_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="of 1 jobs name job 1"):
        Moves(("a",), np.array([1]), np.array([0]), np.array([0.1])).templates({"a": 0})
    with pytest.raises(InputError, match="columns of different lengths"):
        Moves(("a",), np.array([0]), np.array([0, 1]), np.array([0.1])).templates({"a": 0})


@pytest.mark.parametrize("valid_until_s", [math.inf, 0.1 + 0.2])
def test_a_policys_answer_keeps_every_bit(tmp_path, valid_until_s):
    rates, rank = np.array([1 / 3, 1e-300, 0.0, 1e12]), np.array([2, 0, 1, 1 << 40])
    answer = events.PolicyAnswered.of(3, Allocation(rates, rank, valid_until_s))
    write(tmp_path / "log", [(1.0, answer)])
    (logged,) = events.read(tmp_path / "log")[1]
    found = logged.event.allocation()
    assert logged.event.question == 3
    assert found.rates_Bps.tobytes() == rates.tobytes()
    assert found.rank.tobytes() == rank.tobytes()
    assert (found.rates_Bps.dtype, found.rank.dtype, found.valid_until_s) == (rates.dtype, rank.dtype, valid_until_s)


OPENED = '{"schema":"echelon-events","version":1}\n' + msgspec.json.encode(OPENING).decode() + "\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is echelon-events of version 0"),
        ('{"schema":"echelon-events","version":1}\n', "does not begin with an opening"),
        ("nonsense\n", "is echelon-events of version 0"),
        ('{"schema":"echelon-plan","version":1}\n', "is 'echelon-plan'; 'echelon-events' was expected"),
        ('{"schema":"echelon-events","version":99}\n', "is echelon-events of version 99"),
        ('{"schema":"echelon-events","version":1}\n{"type":"opening"}\n', "line 2: missing field network"),
        (OPENED + OPENED.splitlines()[1] + "\n", "one opening, not two"),
        (OPENED + '{"type":"handled","now_s":1,"event":{"type":"dance"}}\n', "line 3: event.*dance"),
        (OPENED + '{"type":"handled","now_s":1,"event":{"type":"client_gone"}}\n', "line 3: event: missing field client"),
        (OPENED + '{"type":"handled","now_s":1,"event":{"type":"client_said","client":1,"message":{"type":"hello"}}}\n', "line 3: event.message: missing field client"),
        (OPENED + '{"type":"handled","now_s":1,"event":{"type":"policy_answered","question":1,"rates_Bps":"?","rank":"","valid_until_s":null}}\n', "line 3: event.rates_Bps"),
    ],
)  # fmt: skip
def test_what_is_no_log_of_ours_is_refused_in_one_line(tmp_path, text, words):
    path = tmp_path / "events.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as refused:
        list(events.read(path)[1])
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_log_that_ends_in_mid_line_is_read_up_to_there(tmp_path):
    """A controller that is killed leaves such."""
    path = tmp_path / "log"
    write(path, [(1.0, EXAMPLES[0]), (2.0, EXAMPLES[1])])
    path.write_bytes(path.read_bytes()[:-5])
    assert [handled.event for handled in events.read(path)[1]] == [EXAMPLES[0]]


def test_an_event_costs_microseconds(tmp_path):
    """Some hundred events come between two decisions of a millisecond; a log of them must not be felt."""
    event = events.ClientSaid(3, Progress("job", "flow-12", 5, 123_456_789))
    log = events.EventLog(tmp_path / "log", OPENING)
    rounds = []
    for _ in range(20):
        began_s = time.perf_counter()
        for _ in range(500):
            log.append(12345.678, event)
        rounds.append((time.perf_counter() - began_s) / 500)
    log.close()
    assert min(rounds) < 100e-6

"""Who is named when parts of an emulation die: the one that was killed, whoever is seen to have ended first."""

from __future__ import annotations

import itertools
import signal
from types import SimpleNamespace

import pytest

from echelon.running import emulator
from echelonflow.errors import RunError
from echelonflow.records.assignment import Assignment
from echelonflow.records.folder import RunFolder
from tests.unit.synthetic_run import paper_network

KILLED = -signal.SIGKILL


class Process:
    """A process that is seen to have ended with the next of `codes` at every look; the last one stays."""

    def __init__(self, *codes: int | None) -> None:
        self._codes = itertools.chain(codes, itertools.repeat(codes[-1]))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        self.returncode = next(self._codes)
        return self.returncode


def emulation(tmp_path, controller, switches, **agents) -> emulator.Emulation:
    alive = SimpleNamespace(alive=lambda: switches.poll() is None)
    return emulator.Emulation(
        RunFolder(tmp_path), Assignment(network=paper_network()), (), alive, None, controller, None, agents
    )


@pytest.mark.parametrize(
    ("controller", "switches", "agents", "named"),
    [
        (Process(None, None, None, KILLED), Process(None), {"h1": Process(1), "h2": Process(1)}, "the controller died"),
        (Process(None), Process(None, None, KILLED), {"h1": Process(1)}, "Open vSwitch died"),
        (Process(None), Process(None), {"h1": Process(1), "h2": Process(None, None, KILLED)}, "the agent on h2 died"),
        (Process(None), Process(None), {"h1": Process(None), "h2": Process(KILLED)}, "the agent on h2 died"),
    ],
    ids=["controller, seen late", "switches, seen late", "another agent, seen late", "seen at once"],
)
def test_the_part_that_was_killed_is_named_not_those_that_lost_it(tmp_path, controller, switches, agents, named):
    with pytest.raises(RunError, match=named):
        emulation(tmp_path, controller, switches, **agents).check()


def test_an_agent_that_fails_by_itself_is_named_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(emulator, "CAUSE_SEEN_S", 0.05)
    with pytest.raises(RunError, match=r"the agent on h1 died \(exit 1\); see logs/agent-h1.log"):
        emulation(tmp_path, Process(None), Process(None), h1=Process(1), h2=Process(0)).check()


def test_nothing_is_wrong_while_all_live_or_have_ended_well(tmp_path):
    emulation(tmp_path, Process(None), Process(None), h1=Process(None), h2=Process(0)).check()

"""What a person sees while a sweep goes on, and how much time is said to be left."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from echelon.cli import sweep_display
from echelon.cli.sweep_display import SweepDisplay
from echelon.sweeps import carrying
from echelon.sweeps.carrying import State
from echelonflow.records.cells import Cell
from echelonflow.records.progress import Predicting, Warned
from tests.unit.sweep_cases import sweep_of, written


class Clock:
    """A clock that stands until a test moves it."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(carrying.time, "monotonic", made)
    monkeypatch.setattr(sweep_display.time, "monotonic", made)
    return made


@pytest.fixture
def state(tmp_path, clock):
    """Of a sweep of twenty cells, of which four were there before."""
    sweep = sweep_of(written(tmp_path), "seed=0..9")
    begun = carrying.begin(sweep, tmp_path / "out")
    end(begun, 4)
    return State(begun.record, begun.found, kept=4, begun_s=clock.now_s)


def end(state, count, **changes):
    """Have so many more cells end."""
    left = [cell for cell in state.record.cells if cell.name not in state.found][:count]
    for cell in left:
        made = {"backend": "fluid", "policy": cell.policy, "seed": cell.seed, "settings": {}, **changes}
        state.found[cell.name] = Cell(name=cell.name, **made)


def test_time_left_follows_the_pace_of_what_was_made_now(state, clock):
    assert state.left_s() is None, "nothing is known yet: those that were there took no time"
    clock.now_s += 10
    end(state, 4)
    assert state.left_s() == pytest.approx(30.0), "twelve are left, at 2.5 s each"
    clock.now_s += 30
    end(state, 12)
    assert state.left_s() == 0.0


def told(state, clock, steps, *, terminal=False, width=120):
    """What is printed when cells end in `steps`: seconds later, and how many."""
    text = io.StringIO()
    display = SweepDisplay("swept", Console(file=text, force_terminal=terminal, width=width))
    with display:
        display.plan(state)
        for later_s, count in steps:
            clock.now_s += later_s
            end(state, count)
            display(state)
    return text.getvalue()


def test_without_a_terminal_a_line_is_said_now_and_then_and_at_the_end(state, clock):
    lines = told(state, clock, [(1, 1), (5, 1), (5, 2), (1, 1), (1, 11)]).splitlines()
    assert lines == [
        "swept: 1 point x 2 policies x 10 seeds = 20 cells, of which 4 are there already",
        "swept: 8 of 20 cells, about 33 s left",
        "swept: 20 of 20 cells",
    ]


def test_cells_that_failed_are_counted(state, clock):
    end(state, 3, reasons=("no",), failed=True)
    assert "swept: 20 of 20 cells, 3 failed" in told(state, clock, [(1, 13)])


def test_damaged_cells_are_told(state, clock):
    state.damaged = 2
    assert "4 are there already; 2 are damaged, and made anew" in told(state, clock, [])


def test_on_a_terminal_one_line_says_how_far_it_is(state, clock):
    shown = told(state, clock, [(10, 4)], terminal=True)
    assert "swept: 8 of 20 cells" in shown
    assert "about 30 s left" in shown


def test_only_what_went_wrong_is_said_of_a_cell_under_way():
    text = io.StringIO()
    display = SweepDisplay("swept", Console(file=text, width=120))
    display.report(Predicting())
    display.report(Warned("no worker is left"))
    assert text.getvalue() == "swept: no worker is left\n"

"""Figures of the grid of job schedulers: against fifo, against the bound, by bandwidth. Pure; the cells are given."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from echelon.benchmarks import Figure
from echelon.benchmarks._job_scheduler_cells import (
    BYTESCHEDULER,
    DDP,
    FIFO,
    GBIT,
    LATENCY_S,
    PASS_THROUGH,
    PASS_THROUGH_TUNED,
    TUNED,
    TUNED_FAITHFUL,
    Cell,
)

LOW, HIGH = 0.2, 2.0
"""Communication as a share of computation, between which job schedulers have to bring something."""
GAIN = 1.005
"""A speed-up from here on is a gain: what is less nobody would notice."""
BEST_WITHIN = 0.05
ROUNDING = 1e-6
"""Shares of a ring are whole bytes, and what ends within a nanosecond ends at once."""
MOST_S, CORES = 600.0, 2


def figures(cells: Sequence[Cell]) -> list[Figure]:
    """All figures of what has been simulated."""
    ideal = [cell for cell in cells if not cell.latency_s]
    if not ideal:
        return [_took(cells)]
    return [
        *_never_slower(ideal),
        *_gains(ideal),
        _bound_holds(cells),
        _best_case(ideal),
        *_by_bandwidth(ideal),
        *_pass_through(cells),
        _took(cells),
    ]


def ratios(cells: Sequence[Cell], scheduler: str, over: str) -> list[float]:
    """How many times as fast one job scheduler is as another, cell by cell, where both have a result."""
    return [found for cell in cells if (found := cell.speed_up(scheduler, over)) is not None]


def spread(values: Sequence[float]) -> str:
    """Median and range of speed-ups."""
    if not values:
        return "none"
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def communicating(cells: Sequence[Cell]) -> list[Cell]:
    """The cells in which something is sent at all."""
    return [cell for cell in cells if cell.communication_s > 0]


def between(cells: Sequence[Cell]) -> list[Cell]:
    """The cells whose communication takes 20 to 200 % of their computation."""
    return [cell for cell in cells if LOW <= cell.intensity <= HIGH]


def best(cells: Sequence[Cell]) -> Cell:
    """The cell in which the tuned job scheduler brings most over fifo."""
    return max(cells, key=lambda cell: cell.speed_up(TUNED) or 0.0)


def _never_slower(cells: Sequence[Cell]) -> list[Figure]:
    found = []
    for name, mine in _grouped(cells, lambda cell: f"{cell.model}, {cell.architecture}").items():
        values = ratios(mine, TUNED, FIFO)
        what = f"{name}: speed-up over fifo, tuned, {len(values)} settings"
        off = sum(cell.left_off for cell in mine)
        shown = f"{spread(values)}, least {min(values):.4f}, left off in {off}"
        found.append(Figure(what, shown, "never below 1.00", min(values) >= 1.0))
    return found


def _gains(cells: Sequence[Cell]) -> list[Figure]:
    """Where something could be gained: ideal overlap itself brings nothing where all bytes hide behind computation anyway."""
    found = []
    for model, mine in _grouped(between(cells), lambda cell: cell.model).items():
        could = [cell for cell in mine if cell.ideal_speed_up >= GAIN]
        values = ratios(could, TUNED, FIFO)
        gained = sum(value >= GAIN for value in values)
        what = f"{model}: gains where communication is 20 to 200 % of computation"
        shown = f"{gained} of {len(could)}; {spread(values)}; in {len(mine) - len(could)} more the bound allows none"
        found.append(Figure(what, shown, "all where the bound allows any", gained == len(could)))
    return found


def _bound_holds(cells: Sequence[Cell]) -> Figure:
    above = [result.iteration_s / cell.least_s for cell in cells for result in cell.results]
    measured = f"{min(above):.6f} at least, of {len(above)} results"
    return Figure("iteration over the ideal overlap bound", measured, "never below 1", min(above) >= 1 - ROUNDING)


def _best_case(cells: Sequence[Cell]) -> Figure:
    most = best(cells)
    tuned_s = most.iteration_s(TUNED)
    assert tuned_s is not None  # it goes with every architecture
    off = tuned_s / most.least_s - 1
    measured = f"{off:+.1%} ({most.key.name}, {most.speed_up(TUNED):.2f} times as fast as fifo)"
    return Figure("the best case against the ideal overlap bound", measured, "within 5 %", off <= BEST_WITHIN)


def _by_bandwidth(cells: Sequence[Cell]) -> list[Figure]:
    """Tuned against untuned, faithful against fixed, and the rest that is reported for each bandwidth."""
    told: tuple[tuple[str, str, str], ...] = (
        ("tuned over untuned", TUNED, BYTESCHEDULER),
        ("fixed over faithful, both tuned", TUNED, TUNED_FAITHFUL),
        ("tuned over ddp", TUNED, DDP),
    )
    found = []
    for gbit in GBIT:
        mine = [cell for cell in communicating(cells) if cell.gbit == gbit]
        if not mine:
            continue
        for what, fast, slow in told:
            found.append(Figure(f"{gbit:g} Gbit/s: {what}", spread(ratios(mine, fast, slow)), "reported", None))
        gap = [cell.efficiency(scheduler) or 0.0 for scheduler in (FIFO, TUNED) for cell in mine]
        half = len(gap) // 2
        shares = f"{statistics.median(gap[:half]):.0%} by fifo, {statistics.median(gap[half:]):.0%} tuned"
        found.append(Figure(f"{gbit:g} Gbit/s: share of linear scaling, median", shares, "reported", None))
    return found


def _pass_through(cells: Sequence[Cell]) -> list[Figure]:
    """How much longer partitions and credit make iterations when nothing is reordered."""
    found = []
    for latency_s in (0.0, LATENCY_S):
        mine = communicating([cell for cell in cells if cell.latency_s == latency_s])
        for what, through in (("untuned", PASS_THROUGH), ("tuned", PASS_THROUGH_TUNED)):
            slower = [1 / value - 1 for value in ratios(mine, through, FIFO)]
            if slower:
                shown = f"{statistics.median(slower):+.1%} ({min(slower):+.1%} to {max(slower):+.1%})"
                label = f"partitions and credit alone, {what}, {latency_s * 1e6:.0f} us a transfer: against fifo"
                found.append(Figure(label, shown, "reported", None))
    return found


def _took(cells: Sequence[Cell]) -> Figure:
    took_s = sum(cell.took_s for cell in cells) / CORES
    measured = f"{took_s:.0f} s for {len(cells)} settings, {sum(len(cell.results) for cell in cells)} results"
    return Figure(f"all of the fluid grid, on {CORES} cores", measured, "under 10 minutes", took_s < MOST_S)


def _grouped(cells: Sequence[Cell], by: Callable[[Cell], str]) -> dict[str, list[Cell]]:
    """Cells by what `by` says of them, in the order in which that comes first."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(by(cell), []).append(cell)
    return found

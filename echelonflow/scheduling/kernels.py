"""Loops over flows and links that numpy has no words for: compiled where numba is installed, else interpreted.

Each kernel is one plain function over indexable sequences. It runs on lists as it stands, because Python indexes
them faster than arrays. With numba (extra `fast`) it can also be compiled for arrays and kept on disk. Both do the
same operations in the same order on the same 64-bit numbers: results are equal bit for bit. (Hence no `min` and
`max`, which differ in what is not a number.)

Loading the compiler takes about a second, which is more than a small simulation needs in all. So a process begins
with plain loops, and loads the compiled ones when plain loops have cost it as much. `warm_up` loads them at once.
With ECHELON_PLAIN=1 in the environment nothing is ever compiled.

Arguments in common: stage i (a set of flows served together) is `rows[start[i]:start[i + 1]]`; the path of row r is
`path_link[path_start[r]:path_start[r + 1]]`; `spent_Bps` is what counts as nothing left on a link. Scratch
is zero when a kernel is called and when it returns, unless it says otherwise.
"""

# ruff: noqa: PLR1730, FURB136

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

PLAIN_VARIABLE = "ECHELON_PLAIN"

Loop = Callable[..., None]
FloatRow = Sequence[float]
IntRow = Sequence[int]
Written = Any
"""A sequence whose elements are set."""

_STALE = 1 / 64
"""A sum that has shrunk to this share by subtraction is added up anew: what is left of it may be rounding."""


PATIENCE_ELEMENTS = 5_000_000
"""Elements of arguments that plain loops get through in about the second that loading the compiled ones takes."""


@dataclass(frozen=True)
class Kernel:
    """A loop and its arguments, one letter each: i, f are arrays that are read, I, F arrays that are written."""

    loop: Loop
    arguments: str

    def __call__(self, *arrays: Any) -> None:
        of_this_process().run(self, arrays)


class Runners:
    """Runs kernels in their plain form at first, and compiled once the plain form has cost as much as loading.

    Nothing but speed depends on what was run before.
    """

    def __init__(self, patience_elements: float) -> None:
        self._patience_elements = patience_elements
        self._make = interpreted
        self._runners: dict[Kernel, Loop] = {}

    @property
    def are_compiled(self) -> bool:
        return self._make is compiled

    def run(self, kernel: Kernel, arrays: Sequence[Any]) -> None:
        """Call `kernel` with `arrays`."""
        if not self.are_compiled:
            self._patience_elements -= sum(map(len, arrays))
            if self._patience_elements < 0:
                self.compile()
        runner = self._runners.get(kernel)
        if runner is None:
            runner = self._runners[kernel] = self._make(kernel)
        runner(*arrays)

    def compile(self) -> None:
        """Have every kernel compiled from now on."""
        self._make = compiled
        self._runners = {kernel: compiled(kernel) for kernel in KERNELS}


@functools.cache
def of_this_process() -> Runners:
    """The runners that all of this process's decisions share."""
    return Runners(PATIENCE_ELEMENTS if can_compile() else math.inf)


def warm_up() -> str:
    """Have every kernel ready, so that no decision waits for a compiler; says what runs them.

    Takes a few seconds the first time after installation, and about one second from then on.
    """
    if not can_compile():
        return "plain"
    runners = of_this_process()
    if not runners.are_compiled:
        runners.compile()
    return "numba"


@functools.cache
def can_compile() -> bool:
    """Whether numba is installed and wanted; does not load it."""
    return not os.environ.get(PLAIN_VARIABLE) and importlib.util.find_spec("numba") is not None


def compiled(kernel: Kernel) -> Loop:
    """The kernel as machine code (ImportError without numba)."""
    from numba import types

    element = {"i": types.int64, "f": types.float64}
    signature = types.void(
        *(types.Array(element[a.lower()], 1, "C", readonly=a.islower()) for a in kernel.arguments)
    )  # fmt: skip
    return cast("Loop", kept_on_disk(kernel.loop, signature))


def kept_on_disk(function: Callable[..., Any], *signature: Any) -> Any:
    """The function compiled by numba, for `signature` now or at its first call, and kept for the next process.

    It is kept beside its source, or in the user's cache folder where that may not be written (an installation for all
    users, a clone that root has run). Where neither may be written it is compiled for this process alone.
    """
    from numba import njit

    with contextlib.suppress(RuntimeError):  # neither the package's folder nor the user's cache can be written
        return njit(*signature, cache=True)(function)
    return njit(*signature)(function)


def interpreted(kernel: Kernel) -> Loop:
    """The kernel as it stands."""

    def run(*arrays: Any) -> None:
        lists = [array.tolist() for array in arrays]
        kernel.loop(*lists)
        for kind, array, values in zip(kernel.arguments, arrays, lists, strict=True):
            if kind.isupper():
                array[:] = values

    return run


def _madd(
    start: IntRow, rows: IntRow, path_start: IntRow, path_link: IntRow, remaining_bytes: FloatRow, spent_Bps: FloatRow,
    residual_Bps: Written, rates_Bps: Written, volume: Written, touched: Written,
) -> None:  # fmt: skip
    """Every stage in order takes its MADD rates out of `residual_Bps`; they are set in `rates_Bps`.

    A stage with a flow on a spent link takes nothing. Scratch: `volume`, `touched` by link (the latter of any content).
    """
    for stage in range(len(start) - 1):
        blocked = False
        used = 0
        for i in range(start[stage], start[stage + 1]):
            row = rows[i]
            for hop in range(path_start[row], path_start[row + 1]):
                link = path_link[hop]
                if residual_Bps[link] <= spent_Bps[link]:
                    blocked = True
                    break
                if volume[link] == 0.0:
                    touched[used] = link
                    used += 1
                volume[link] += remaining_bytes[row]
            if blocked:
                break
        speed = math.inf
        for t in range(used):
            link = touched[t]
            if not blocked:
                share = residual_Bps[link] / volume[link]
                if share < speed:
                    speed = share
        for t in range(used):
            link = touched[t]
            if not blocked:
                left_Bps = residual_Bps[link] - volume[link] * speed
                residual_Bps[link] = left_Bps if left_Bps > 0.0 else 0.0
            volume[link] = 0.0
        if not blocked:
            for i in range(start[stage], start[stage + 1]):
                rates_Bps[rows[i]] = remaining_bytes[rows[i]] * speed


def _fill(
    start: IntRow, rows: IntRow, path_start: IntRow, path_link: IntRow, weights: FloatRow, spent_Bps: FloatRow,
    residual_Bps: Written, rates_Bps: Written, pull: Written, crowd: Written, changed: Written, whole_pull: Written,
    full_at: Written, spent_at: Written, begin: Written, end: Written, links: Written, place_of: Written,
    picked: Written, touched: Written, growing: Written, flows_on: Written,
) -> None:  # fmt: skip
    """Every stage in order shares, max-min fairly by weight, what is left; adds to `rates_Bps`.

    All rates of a stage are weight times one level, which rises until a link is full; its flows stop there, the
    others go on. A link is full at level `residual / pull`, with what stopped flows take already off both. So every
    flow is touched twice, a link only when flows on it start or stop. Scratch by link: `pull` and `crowd` (weight and
    number of growing flows), `changed`; the others of any content, as are `growing` by row and `flows_on` by hop.
    """
    for stage in range(len(start) - 1):
        used = 0
        for i in range(start[stage], start[stage + 1]):
            row = rows[i]
            growing[row] = 1
            for hop in range(path_start[row], path_start[row + 1]):
                if residual_Bps[path_link[hop]] <= spent_Bps[path_link[hop]]:
                    growing[row] = 0
                    break
            if growing[row] == 1:
                for hop in range(path_start[row], path_start[row + 1]):
                    link = path_link[hop]
                    if crowd[link] == 0:
                        links[used] = link
                        used += 1
                    crowd[link] += 1
                    pull[link] += weights[row]
        place = 0
        for t in range(used):
            link = links[t]
            place_of[link] = t
            begin[link] = place
            end[link] = place
            place += crowd[link]
            whole_pull[link] = pull[link]
            full_at[t] = math.inf
            spent_at[t] = math.inf
            if pull[link] > 0.0:
                full_at[t] = residual_Bps[link] / pull[link]
                spent_at[t] = (residual_Bps[link] - spent_Bps[link]) / pull[link]
        if used > 0:
            for i in range(start[stage], start[stage + 1]):
                row = rows[i]
                if growing[row] == 1:
                    for hop in range(path_start[row], path_start[row + 1]):
                        link = path_link[hop]
                        flows_on[end[link]] = row
                        end[link] += 1
        level = 0.0
        while used > 0:
            lowest = math.inf
            for t in range(used):
                if full_at[t] < lowest:
                    lowest = full_at[t]
            if lowest > level:
                level = lowest
            filled = 0
            for t in range(used):
                if spent_at[t] <= level:
                    picked[filled] = links[t]
                    filled += 1
            if filled == 0:  # weights that are no numbers: rates become none either, and nobody waits for ever
                for t in range(used):
                    picked[t] = links[t]
                filled = used
            touches = 0
            for t in range(filled):
                for place in range(begin[picked[t]], end[picked[t]]):
                    row = flows_on[place]
                    if growing[row] == 1:
                        growing[row] = 0
                        rate_Bps = weights[row] * level
                        rates_Bps[row] += rate_Bps
                        for hop in range(path_start[row], path_start[row + 1]):
                            link = path_link[hop]
                            residual_Bps[link] -= rate_Bps
                            pull[link] -= weights[row]
                            crowd[link] -= 1
                            if changed[link] == 0:
                                changed[link] = 1
                                touched[touches] = link
                                touches += 1
            for f in range(touches):
                link = touched[f]
                changed[link] = 0
                t = place_of[link]
                if crowd[link] == 0:
                    pull[link] = 0.0
                    if residual_Bps[link] < 0.0:
                        residual_Bps[link] = 0.0
                    used -= 1
                    links[t] = links[used]
                    full_at[t] = full_at[used]
                    spent_at[t] = spent_at[used]
                    place_of[links[t]] = t
                    continue
                if pull[link] < whole_pull[link] * _STALE:
                    pull[link] = 0.0
                    for place in range(begin[link], end[link]):
                        if growing[flows_on[place]] == 1:
                            pull[link] += weights[flows_on[place]]
                    whole_pull[link] = pull[link]
                if pull[link] > 0.0:
                    full_at[t] = residual_Bps[link] / pull[link]
                    spent_at[t] = (residual_Bps[link] - spent_Bps[link]) / pull[link]


def _lateness(
    start: IntRow, rows: IntRow, path_start: IntRow, path_link: IntRow, remaining_bytes: FloatRow, slack_s: FloatRow,
    capacity_Bps: FloatRow, worst_s: Written, volume: Written, touched: Written,
) -> None:  # fmt: skip
    """Raise `worst_s` of each set of rows to the largest V_k / c - slack_k over its links and rows k in order.

    V_k are the bytes of the set on that link up to row k. Scratch as in `madd`.
    """
    for group in range(len(start) - 1):
        used = 0
        worst = worst_s[group]
        for i in range(start[group], start[group + 1]):
            row = rows[i]
            for hop in range(path_start[row], path_start[row + 1]):
                link = path_link[hop]
                if volume[link] == 0.0:
                    touched[used] = link
                    used += 1
                volume[link] += remaining_bytes[row]
                late_s = volume[link] / capacity_Bps[link] - slack_s[row]
                if late_s > worst:
                    worst = late_s
        worst_s[group] = worst
        for t in range(used):
            volume[touched[t]] = 0.0


def _needed(
    start: IntRow, rows: IntRow, path_start: IntRow, path_link: IntRow, remaining_bytes: FloatRow,
    capacity_Bps: FloatRow, needed_s: Written, volume: Written, touched: Written,
) -> None:  # fmt: skip
    """Set `needed_s[k]`, k a place in `rows`, to the largest V / c over links, V the set's bytes there up to place k.

    So it never falls within a set. Scratch as in `madd`.
    """
    for group in range(len(start) - 1):
        used = 0
        longest = 0.0
        for i in range(start[group], start[group + 1]):
            row = rows[i]
            for hop in range(path_start[row], path_start[row + 1]):
                link = path_link[hop]
                if volume[link] == 0.0:
                    touched[used] = link
                    used += 1
                volume[link] += remaining_bytes[row]
                time_s = volume[link] / capacity_Bps[link]
                if time_s > longest:
                    longest = time_s
            needed_s[i] = longest
        for t in range(used):
            volume[touched[t]] = 0.0


madd = Kernel(_madd, "iiiiffFFFI")
fill = Kernel(_fill, "iiiiffFFFIIFFFIIIIIIII")
lateness = Kernel(_lateness, "iiiifffFFI")
needed = Kernel(_needed, "iiiiffFFI")
KERNELS = (madd, fill, lateness, needed)

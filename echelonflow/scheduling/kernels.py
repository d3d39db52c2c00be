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
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

PLAIN_VARIABLE = "ECHELON_PLAIN"

Loop = Callable[..., None]
FloatRow = Sequence[float]
IntRow = Sequence[int]
Written = Any
"""A sequence whose elements are set."""

_STALE = 1 / 64
"""A sum that has shrunk to this share by subtraction is added up anew: what is left of it may be rounding."""


_QUANTUM_S = 1e-6
"""As in `echelonflow.scheduling.fill`, which imports this module."""
_SAME_PRICE = 1e-9
"""Relative difference below which the prices of two Coflows are equal: the rest is rounding."""
_CROWDED = 7 / 8
"""Those placed are struck off a link's list once fewer than this share of it wait."""

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
        kept = njit(cache=True)(function)
        renewed_with(kept, Path(function.__code__.co_filename).parent)
        if signature:
            kept.compile(signature[0])
            kept.disable_compile()
        return kept
    return njit(*signature)(function)


def renewed_with(kept: Any, folder: Path) -> None:
    """Have what is kept on disk of a function made anew where any file in `folder` has changed, too, or it cannot be read.

    numba looks at a function's own file alone, though what it compiles has the functions of other files in it.
    """
    file = getattr(kept._cache, "_cache_file", None)  # noqa: SLF001  numba offers no other way, and a test holds it to this one
    if file is None:  # it is not kept
        return
    file._source_stamp = (file._source_stamp, _sources(folder))  # noqa: SLF001
    try:
        file._load_index()  # noqa: SLF001
    except Exception:  # noqa: BLE001  it names types that have another name since, or none; unpickling raises anything
        Path(file._index_path).unlink(missing_ok=True)  # noqa: SLF001


@functools.cache
def _sources(folder: Path) -> Hashable:
    """The state of the files in `folder` and of this one."""
    files = sorted({*folder.glob("*.py"), Path(__file__)})
    return tuple((file.name, status.st_mtime_ns, status.st_size) for file in files for status in (file.stat(),))


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
    spent_at: Written, begin: Written, end: Written, links: Written, picked: Written, touched: Written,
    growing: Written, flows_on: Written,
) -> None:  # fmt: skip
    """Every stage in order shares, max-min fairly by weight, what is left; adds to `rates_Bps`.

    All rates of a stage are weight times one level, which rises until a link is full; its flows stop there, the
    others go on. A link is full at level `residual / pull`, with what stopped flows take already off both. So every
    flow is touched twice, a link only when flows on it start or stop. Links are in a heap by the level at which nothing
    is left on them; that only rises, so it is looked at again only for the one on top. Scratch by link: `pull` and
    `crowd` (weight and number of growing flows), `changed`; the others of any content, as are `growing` by row and
    `flows_on` by hop.
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
            begin[link] = place
            end[link] = place
            place += crowd[link]
            whole_pull[link] = pull[link]
            spent_at[link] = math.inf
            if pull[link] > 0.0:
                spent_at[link] = (residual_Bps[link] - spent_Bps[link]) / pull[link]
        if used > 0:
            for i in range(start[stage], start[stage + 1]):
                row = rows[i]
                if growing[row] == 1:
                    for hop in range(path_start[row], path_start[row + 1]):
                        link = path_link[hop]
                        flows_on[end[link]] = row
                        end[link] += 1
        level = 0.0
        sinking = used // 2
        filled = 0
        lowest = math.inf
        while used > 0 or filled > 0:
            # Bring the heap in order: from `sinking` on at first, then below its top whenever that has changed.
            if sinking > 0:
                sinking -= 1
            if used > 0:
                top = sinking
                moved = links[top]
                while True:
                    child = 2 * top + 1
                    if child >= used:
                        break
                    if child + 1 < used and spent_at[links[child + 1]] < spent_at[links[child]]:
                        child += 1
                    if not spent_at[links[child]] < spent_at[moved]:
                        break
                    links[top] = links[child]
                    top = child
                links[top] = moved
                if sinking > 0:
                    continue
                link = links[0]
                fresh = math.inf
                if pull[link] > 0.0:
                    fresh = (residual_Bps[link] - spent_Bps[link]) / pull[link]
                if crowd[link] > 0 and fresh > spent_at[link]:
                    spent_at[link] = fresh
                    continue
                if crowd[link] == 0 or not spent_at[link] > lowest:
                    if crowd[link] > 0:
                        if pull[link] > 0.0 and residual_Bps[link] / pull[link] < lowest:
                            lowest = residual_Bps[link] / pull[link]
                        picked[filled] = link
                        filled += 1
                    used -= 1
                    links[0] = links[used]
                    continue
            # The next links to be full are picked: all that have nothing left at the level of the first of them.
            if lowest > level:
                level = lowest
            lowest = math.inf
            full = 0
            for t in range(filled):
                link = picked[t]
                if not spent_at[link] > level:  # so a weight that is no number is picked, and nobody waits for ever
                    picked[full] = link
                    full += 1
                    continue
                place = used
                used += 1
                while place > 0 and spent_at[link] < spent_at[links[(place - 1) // 2]]:
                    links[place] = links[(place - 1) // 2]
                    place = (place - 1) // 2
                links[place] = link
            filled = full
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
            filled = 0
            for f in range(touches):
                link = touched[f]
                changed[link] = 0
                if crowd[link] == 0:
                    pull[link] = 0.0
                    if residual_Bps[link] < 0.0:
                        residual_Bps[link] = 0.0
                elif pull[link] < whole_pull[link] * _STALE:
                    pull[link] = 0.0
                    for place in range(begin[link], end[link]):
                        if growing[flows_on[place]] == 1:
                            pull[link] += weights[flows_on[place]]
                    whole_pull[link] = pull[link]


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


def _paced(
    rows: IntRow, path_start: IntRow, path_link: IntRow, wanted_Bps: FloatRow, residual_Bps: Written, rates_Bps: Written,
) -> None:  # fmt: skip
    """Every row in order takes what it wants, or what is left on its path if that is less."""
    for row in rows:
        rate_Bps = wanted_Bps[row]
        for hop in range(path_start[row], path_start[row + 1]):
            if residual_Bps[path_link[hop]] < rate_Bps:
                rate_Bps = residual_Bps[path_link[hop]]
        rates_Bps[row] = rate_Bps
        for hop in range(path_start[row], path_start[row + 1]):
            residual_Bps[path_link[hop]] -= rate_Bps


def _demands(
    start: IntRow, rows: IntRow, path_start: IntRow, path_link: IntRow, remaining_bytes: FloatRow,
    capacity_Bps: FloatRow, cell_start: Written, cell_link: Written, need_s: Written, volume: Written,
) -> None:  # fmt: skip
    """The links of each set of rows and the seconds that it needs of them, alone, in compressed rows.

    `cell_link` and `need_s` have room for every hop. Scratch: `volume` by link.
    """
    room = 0
    cell_start[0] = 0
    for each in range(len(start) - 1):
        begin = room
        for i in range(start[each], start[each + 1]):
            row = rows[i]
            for hop in range(path_start[row], path_start[row + 1]):
                link = path_link[hop]
                if volume[link] == 0.0:
                    cell_link[room] = link
                    room += 1
                volume[link] += remaining_bytes[row]
        for cell in range(begin, room):
            need_s[cell] = volume[cell_link[cell]] / capacity_Bps[cell_link[cell]]
            volume[cell_link[cell]] = 0.0
        cell_start[each + 1] = room


def _bssi(
    start: IntRow, link_of: IntRow, need_s: FloatRow, weight: FloatRow, place: Written, left: Written, load_s: Written,
    key: Written, heap: Written, begin: Written, end: Written, waiting: Written, needed_s: Written,
) -> None:  # fmt: skip
    """Set the `place` of each Coflow in Sincronia's order (`echelonflow.scheduling.policies.sincronia`).

    Coflow i (in order of ids) has the cells from `start[i]`: a link each, and the seconds that it needs there. Scratch,
    of any content: `left` by Coflow, `load_s`, `key`, `heap`, `begin`, `end` by link, `waiting` and `needed_s` by cell. The
    weight that a Coflow has `left` is not a number once it is placed: so it stays, whatever is taken from it.
    """
    coflows = len(start) - 1
    links = len(load_s)
    for link in range(links):
        load_s[link] = 0.0
        end[link] = 0
    for coflow in range(coflows):
        left[coflow] = weight[coflow]
        for cell in range(start[coflow], start[coflow + 1]):
            load_s[link_of[cell]] += need_s[cell]
            end[link_of[cell]] += 1
    room = 0
    for link in range(links):
        begin[link] = room
        room += end[link]
        end[link] = begin[link]
        key[link] = -round(load_s[link] / _QUANTUM_S)
        heap[link] = link
    for coflow in range(coflows):
        for cell in range(start[coflow], start[coflow + 1]):
            waiting[end[link_of[cell]]] = coflow
            needed_s[end[link_of[cell]]] = need_s[cell]
            end[link_of[cell]] += 1
    rounding = 0.0
    for coflow in range(coflows):
        rounding = max(rounding, _SAME_PRICE * weight[coflow])
    length = links
    sift = links // 2
    last = coflows - 1
    while last >= 0:
        # Bring the heap in order: below `sift` at first, then below its top whenever that has changed.
        if sift > 0:
            sift -= 1
        top = sift
        moved = heap[top]
        while True:
            child = 2 * top + 1
            if child >= length:
                break
            if child + 1 < length and (
                key[heap[child + 1]] < key[heap[child]]
                or (key[heap[child + 1]] == key[heap[child]] and heap[child + 1] < heap[child])
            ):
                child += 1
            if key[heap[child]] > key[moved] or (key[heap[child]] == key[moved] and heap[child] > moved):
                break
            heap[top] = heap[child]
            top = child
        heap[top] = moved
        if sift > 0:
            continue
        link = heap[0]
        now_key = -round(load_s[link] / _QUANTUM_S)
        if now_key != key[link]:  # loads only shrink, so what is on top may be stale, but never too low
            key[link] = now_key
            continue
        flows, needs = waiting[begin[link] : end[link]], needed_s[begin[link] : end[link]]
        kept = cheapest = 0
        paid = least = dear = math.inf
        for at in range(len(flows)):
            have = left[flows[at]]
            if have >= 0.0:
                kept += 1
                if have <= dear * needs[at] + rounding:  # which spares most of them the division
                    each = have / needs[at] if have > _SAME_PRICE * weight[flows[at]] else 0.0
                    if each <= least * (1 + _SAME_PRICE):  # of equals the largest id goes last
                        cheapest, paid = at, each
                    if each < least:
                        least, dear = each, each * (1 + 2 * _SAME_PRICE)
        if kept == 0:
            length -= 1
            heap[0] = heap[length]
            continue
        chosen = flows[cheapest]
        if paid > 0.0:
            for at in range(len(flows)):
                scaled = left[flows[at]] - paid * needs[at]
                left[flows[at]] = 0.0 if scaled < 0.0 else scaled
        if kept < _CROWDED * len(flows):
            kept = begin[link]
            for at in range(begin[link], end[link]):
                if left[waiting[at]] >= 0.0:
                    waiting[kept] = waiting[at]
                    needed_s[kept] = needed_s[at]
                    kept += 1
            end[link] = kept
        place[chosen] = last
        left[chosen] = math.nan
        for cell in range(start[chosen], start[chosen + 1]):
            load_s[link_of[cell]] -= need_s[cell]
        last -= 1


madd = Kernel(_madd, "iiiiffFFFI")
fill = Kernel(_fill, "iiiiffFFFIIFFIIIIIII")
lateness = Kernel(_lateness, "iiiifffFFI")
needed = Kernel(_needed, "iiiiffFFI")
bssi = Kernel(_bssi, "iiffIFFIIIIIF")
paced = Kernel(_paced, "iiifFF")
demands = Kernel(_demands, "iiiiffIIFF")
KERNELS = (madd, fill, lateness, needed, bssi, paced, demands)

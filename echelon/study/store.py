"""What was measured of each case, one JSON object a line: a study may be stopped, and goes on where it was."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import echelonflow
import simulator
from echelon import cases
from echelon.study.section import Scores, Section
from echelonflow.child_process import pool
from echelonflow.digests import code_digest
from echelonflow.errors import InputError

Say = Callable[[str], None]
_CASES_AT_ONCE = 2
_SAY_EVERY_S = 5.0
_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Measured:
    """One case: what it is in words, and its scores by policy."""

    section: str
    number: int
    words: str
    code: str
    """Digest of the code that measured it."""
    scores: Scores

    def to_dict(self) -> dict[str, Any]:
        """For JSON, where an order of flows cannot be a key."""
        by_policy = {name: values for name, values in self.scores.items() if isinstance(name, str)}
        orders = [[order, values] for order, values in self.scores.items() if not isinstance(order, str)]
        return {**vars(self), "scores": by_policy, "orders": orders}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Measured:
        """What `to_dict` gave (TypeError, ValueError or KeyError where it is something else)."""
        orders = {tuple((job, flow) for job, flow in order): values for order, values in data.pop("orders")}
        return Measured(**{**data, "scores": {**data["scores"], **orders}})


def measuring_code() -> str:
    """Digest of policies, simulator and random cases: what a case measured with other code does not go with."""
    return code_digest((echelonflow, simulator, cases))


def load(path: Path) -> dict[tuple[str, int], Measured]:
    """All cases in the file, the last of each (none if there is no file); InputError naming a line that is not one."""
    found: dict[tuple[str, int], Measured] = {}
    if not path.exists():
        return found
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            case = Measured.from_dict(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}, line {number}: is not a measured case ({error!r}); remove the line") from None
        found[case.section, case.number] = case
    return found


def collect(
    path: Path, sections: Sequence[Section], limit_s: float, say: Say, *, keep: bool = False, workers: int = 1
) -> int:
    """Measure every case that `path` lacks, for at most about `limit_s` seconds; returns how many are still missing.

    All sections advance together, `workers` cases at a time. Those measured by other code are measured again
    unless `keep`.
    """
    digest, known = measuring_code(), load(path)
    wanted = [
        (section, number)
        for section, number in _in_turns(sections)
        if (before := known.get((section.name, number))) is None or not (keep or before.code == digest)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    begun_s = said_s = time.monotonic()
    done = 0
    with path.open("a", encoding="utf-8") as file, _workers(workers) as several:
        todo = itertools.takewhile(lambda _: time.monotonic() - begun_s < limit_s, wanted)
        running = {several.submit(_measure, task) for task in itertools.islice(todo, max(workers, 1) * _CASES_AT_ONCE)}
        while running:
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for section, number, words, scores in (future.result() for future in ended):
                file.write(json.dumps(Measured(section, number, words, digest, scores).to_dict()) + "\n")
            file.flush()
            done += len(ended)
            running |= {several.submit(_measure, task) for task in itertools.islice(todo, len(ended))}
            now_s = time.monotonic()
            if now_s - said_s >= _SAY_EVERY_S:
                said_s = now_s
                say(f"{done} of {len(wanted)} cases, {now_s - begun_s:.0f} s")
    return len(wanted) - done


def _measure(task: tuple[Section, int]) -> tuple[str, int, str, Scores]:
    section, number = task
    case = section.draw(number)
    return section.name, number, case.words, section.measure(case)


class _Inline:
    """A pool of nobody: work is done where it is asked for."""

    def submit(self, function: Callable[[_Task], _Result], task: _Task) -> Future[_Result]:
        future: Future[_Result] = Future()
        future.set_result(function(task))
        return future


@contextmanager
def _workers(number: int) -> Iterator[ProcessPoolExecutor | _Inline]:
    if number <= 1:
        yield _Inline()
        return
    with pool(number, start=None) as several:
        yield several


def _in_turns(sections: Sequence[Section]) -> list[tuple[Section, int]]:
    """All cases, so that at any moment about the same share of every section is done."""
    tasks = [(section, number) for section in sections for number in range(section.cases)]
    return sorted(tasks, key=lambda task: task[1] / task[0].cases)

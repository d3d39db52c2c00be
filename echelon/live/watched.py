"""What is known of the experiment that is watched: progress in, what a browser is told out. No sockets here."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from echelon.experiment.schema import Experiment
from echelon.live.bodies import Drawing, JobDrawn, LinkDrawn, LinkLoads, RunNow, State
from echelon.live.layout import layout
from echelon.running.progress_words import in_words
from echelonflow.records.folder import RunFolder
from echelonflow.records.progress import (
    Failed,
    Invalid,
    IterationBegun,
    LinksCarried,
    Progress,
    Repeating,
    RunFailed,
    Running,
    Warned,
)
from echelonflow.wire.live import Live

MOST_WARNINGS = 5
"""The last ones are shown."""
BEFORE_ANY = "the experiment is being read"
BITS_OF_BYTE = 8


class Watched:
    """One experiment after the other; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._drawing: Drawing | None = None
        self._folder: RunFolder | None = None
        self._forget()

    def _forget(self) -> None:
        self._stage = BEFORE_ANY
        self._running: Running | None = None
        self._carried: LinksCarried | None = None
        self._loads: LinkLoads | None = None
        self._warnings: deque[str] = deque(maxlen=MOST_WARNINGS)
        self._ended = ""

    def begin(self, experiment: Experiment, root: Path) -> None:
        """From now on `experiment` is watched, which runs in the folder `root`."""
        nodes, folder = layout(experiment.network), RunFolder(root)
        with self._lock:
            self._forget()
            self._number += 1
            self._folder = folder
            self._drawing = Drawing(
                number=self._number,
                experiment=experiment.name,
                title=experiment.title,
                policies=experiment.policies,
                nodes=nodes,
                links=tuple(
                    LinkDrawn(link.name, link.src, link.dst, link.rate_bps) for link in experiment.network.links
                ),
                jobs=tuple(JobDrawn(job.name, job.placement, job.iterations) for job in experiment.jobs),
                report=str((root / "report.html").absolute()),
            )

    def hear(self, progress: Progress) -> None:
        """Progress of that experiment."""
        with self._lock:
            if isinstance(progress, LinksCarried):
                self._loads = _loads(self._carried, progress) or self._loads
                self._carried = progress
                return
            if isinstance(progress, Warned | RunFailed | Repeating | Invalid | Failed):
                self._warnings.append(in_words(progress, self._running))
            if isinstance(progress, Warned):
                return
            if isinstance(progress, Running):
                self._running = progress
            if not isinstance(progress, IterationBegun):  # what links carried before says nothing of them now
                self._carried = self._loads = None
            self._stage = in_words(progress, self._running)

    def end(self, words: str) -> None:
        """The experiment has ended, and how."""
        with self._lock:
            self._ended = words
            self._carried = self._loads = None

    @property
    def drawing(self) -> Drawing | None:
        """What stays the same in the experiment; None before the first one."""
        with self._lock:
            return self._drawing

    @property
    def folder(self) -> RunFolder | None:
        """Where the experiment runs; None before the first one."""
        with self._lock:
            return self._folder

    @property
    def ended(self) -> bool:
        """Whether the experiment has ended."""
        with self._lock:
            return bool(self._ended)

    def state(self, controller: Live | None, silence: str) -> State:
        """What goes on now, with what the controller says of it, or why it says nothing."""
        with self._lock:
            running = self._running
            return State(
                number=self._number,
                stage=self._stage,
                run=None
                if running is None
                else RunNow(number=running.run + 1, of=running.of, policy=running.policy, repeat=running.repeat),
                links=self._loads,
                controller=controller,
                silence=silence,
                warnings=tuple(self._warnings),
                ended=self._ended,
            )

    def carried(self) -> Sequence[tuple[LinkDrawn, tuple[int, ...]]]:
        """Of each link what it has carried by class, in bytes; empty where no run is under way."""
        with self._lock:
            if self._carried is None or self._drawing is None:
                return ()
            return list(zip(self._drawing.links, self._carried.carried_bytes, strict=True))


def _loads(before: LinksCarried | None, now: LinksCarried) -> LinkLoads | None:
    """What links carried between two readings; None where there is only one, or counters began anew between them."""
    if before is None or now.time_s <= before.time_s:
        return None
    over_s = now.time_s - before.time_s
    grown = [
        [after - earlier for after, earlier in zip(link, was, strict=True)]
        for link, was in zip(now.carried_bytes, before.carried_bytes, strict=True)
    ]
    if any(least < 0 for link in grown for least in link):
        return None
    return LinkLoads(
        over_s=over_s,
        by_class_bps=tuple(tuple(round(grew * BITS_OF_BYTE / over_s) for grew in link) for link in grown),
    )

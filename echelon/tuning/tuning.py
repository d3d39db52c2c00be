"""The tuner: asks a method for points, tries them, keeps what came of each, and goes on where it was stopped.

First the options that the file has are tried, then the job scheduler is left off, then come the points. On emulation a trial is several runs, and its value the median of
those that count. What is tried first of all there, the file's options once more, is thrown away, as ByteScheduler
does with its first point. What runs first on a machine is unlike what follows.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from echelon.tuning import methods
from echelon.tuning.history import Asked, History, Role, Sample, Settings
from echelon.tuning.space import Point
from echelon.tuning.trials import Trials, value_s
from echelonflow.errors import RunError

MOST_FAILURES = 3
"""Trials in a row that come to nothing: what is wrong then is not the points."""


@dataclass(frozen=True)
class Best:
    """What was found for one target."""

    jobs: tuple[str, ...]
    default: Sample
    off: Sample
    """With the job scheduler left off."""
    samples: tuple[Sample, ...]

    @property
    def best(self) -> Sample:
        """The fastest of all that was tried, the file's options and none at all included; of equals the first."""
        tried = [sample for sample in (self.default, self.off, *self.samples) if sample.value_s is not None]
        return min(tried, key=lambda sample: sample.value_s or 0.0)

    @property
    def gain(self) -> float:
        """How much longer iterations take with the file's options than with the best ones, as a share."""
        assert self.default.value_s is not None and self.best.value_s is not None  # noqa: PT018 -- both are measured
        return self.default.value_s / self.best.value_s - 1


Hear = Callable[[str, Sample | None], None]
"""Told what is tried now, in words, and then what came of it."""


@dataclass(frozen=True)
class Tuner:
    """A tuning under way in a folder."""

    asked: Asked
    history: History
    trials: Trials
    hear: Hear

    def tune(self) -> list[Best]:
        """Tune one target after the other; what was found for one is in force for the next.

        Raises RunError where trial after trial comes to nothing, and KeyboardInterrupt where it was ended; the samples taken
        are in the history then.
        """
        settings: dict[str, Point | None] = {}
        found = []
        for target in range(len(self.asked.targets)):
            best = self._tune(target, settings)
            found.append(best)
            if best.best.role != "default":
                settings |= dict.fromkeys(best.jobs, best.best.point)
        return found

    def _tune(self, target: int, settings: Settings) -> Best:
        jobs = self.asked.targets[target]
        if self.asked.backend == "emulation" and target == 0:
            self._sample(target, "warm-up", 0, None, settings)
        default = self._sample(target, "default", 0, None, settings)
        if default.value_s is None:
            raise RunError(f"with the options that the file has, no run counts: {default.why}")
        off = self._sample(target, "off", 0, None, settings)
        search = methods.begin(self.asked.method, self.asked.space, samples=self.asked.samples, seed=self.asked.seed)
        samples: list[Sample] = []
        for number in range(self.asked.samples):
            earlier = self.history.of(target, "sample")
            point = earlier[number].point if number < len(earlier) else None
            sample = self._sample(target, "sample", number, point or search.ask(), settings)
            assert sample.point is not None
            search.tell(sample.point, sample.value_s)
            samples.append(sample)
            failed = samples[-MOST_FAILURES:]
            if len(failed) == MOST_FAILURES and all(each.value_s is None for each in failed):
                raise RunError(f"{MOST_FAILURES} trials in a row came to nothing, the last because: {sample.why}")
        return Best(jobs, default, off, tuple(samples))

    def _sample(self, target: int, role: Role, number: int, point: Point | None, settings: Settings) -> Sample:
        """A sample of the history, or a new one."""
        earlier = self.history.of(target, role)
        if role == "default":  # nothing can be told without it, so it is tried again where it came to nothing
            earlier = [sample for sample in earlier if sample.value_s is not None]
        if number < len(earlier):
            return earlier[number]
        words = _WORDS.get(role)
        self.hear(words or f"sample {number + 1} of {self.asked.samples}: {point}", None)
        jobs = self.asked.targets[target]
        own = role in ("off", "sample")
        tried = {**settings, **dict.fromkeys(jobs, point)} if own else dict(settings)
        begun_s = time.monotonic()
        found = self.trials(tried, label_of(target, role, number, tried), self.asked.repeats, self.asked.backend)
        sample = Sample(
            target, role, number, point, tried, value_s(found, jobs),
            {job: tuple(values) for job, values in found.runs_s.items()},
            found.why, round(time.monotonic() - begun_s, 3), found.unexplained,
        )  # fmt: skip
        self.history.add(sample)
        self.hear("", sample)
        return sample


_WORDS: dict[Role, str] = {
    "warm-up": "a first try, which does not count",
    "default": "the options of the file",
    "off": "the job scheduler left off",
}


def label_of(target: int, role: Role, number: int, settings: Settings) -> str:
    """The name of a trial's folder. It stands for the settings, too: with others it is another trial."""
    said = msgspec.json.encode(sorted(settings.items()))
    return f"{target}-{role}-{number}-{hashlib.sha256(said).hexdigest()[:8]}"

"""Searches of known surfaces, kept: a benchmark that is stopped goes on with those that are left."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from echelon import tuning
from echelon.benchmarks._tuner_regret import Curve, Regrets, Surface, regrets
from echelonflow.codec import Document
from echelonflow.digests import code_digest

SAMPLES = 15


class _Kept(msgspec.Struct, frozen=True):
    code: str
    """Digest of the code that searched."""
    curves: dict[str, tuple[Curve, ...]]
    """By method and surface, a curve for each seed from 0 on."""


_KEPT = Document("echelon-tuner-searches", 1, _Kept)


class Searches:
    """Regrets of methods on surfaces: those in a file, or new ones, which are added to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._code = code_digest((tuning,))
        kept = _KEPT.read(path) if path.exists() else None
        self._curves = {} if kept is None or kept.code != self._code else dict(kept.curves)

    def regrets(self, method: str, known: Sequence[Surface], seeds: int) -> Regrets:
        """A method's regrets on these surfaces, for seeds from 0 on."""
        return Regrets(method, {surface.name: self._on(method, surface, seeds) for surface in known})

    def _on(self, method: str, surface: Surface, seeds: int) -> Sequence[Curve]:
        digest = hashlib.sha256(msgspec.json.encode(surface)).hexdigest()[:12]
        key = f"{method} on {surface.name} {digest}"
        there = self._curves.get(key, ())
        if len(there) < seeds:
            there += tuple(regrets(surface, method, SAMPLES, seed) for seed in range(len(there), seeds))
            self._curves[key] = there
            _KEPT.write(self._path, _Kept(self._code, self._curves))
        return there[:seeds]

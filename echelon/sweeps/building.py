"""The experiment of one point of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.experiment.settings import with_settings
from echelonflow.errors import InputError
from echelonflow.records.cells import settings_words


def built(
    data: Mapping[str, Any], path: Path, settings: Mapping[str, Any], seed: int, policies: Sequence[str]
) -> Experiment:
    """The experiment of a point with one seed, to be run once; InputError, which names the point, where it is none.

    `data` is that of the experiment file at `path`, `settings` are the point's values by their paths.
    """
    try:
        changed, _ = with_settings(dict(data), settings, "swept over")
        whole = {**changed, "policies": list(policies), "seed": seed, "repeats": 1, "against": None}
        return schema.check(whole, path)
    except InputError as error:
        words = f" (with {settings_words(settings)})" if settings else ""
        raise InputError(f"{error}{words}") from None

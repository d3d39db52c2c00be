"""Paradigms by name; each module has `build(**options) -> JobDag` with keyword-only options.

A module that can also build from a measured profile has `from_profile(profile, **options) -> JobDag`.
"""

from __future__ import annotations

import sys
from typing import Any

from echelonflow import plugins
from echelonflow.model.dag import JobDag


def names() -> list[str]:
    """Every paradigm that can be named in an experiment."""
    return plugins.names(sys.modules[__name__])


def build(name: str, options: dict[str, Any]) -> JobDag:
    """Build paradigm `name` with `options` (InputError for an unknown name, option or bad value)."""
    dag: JobDag = plugins.build(sys.modules[__name__], name, options, "paradigm")
    return dag

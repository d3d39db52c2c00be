"""Paradigms by name, one module each, found by its file's name.

A paradigm module has:

- a docstring, which becomes its section in docs/workloads.md: one line, then Markdown paragraphs that begin with
  "**Dependencies.**" (what waits for what) and "**Arrangement.**" (the offsets of its EchelonFlows);
- `build(**options) -> JobDag` with keyword-only options. It tells its `DagBuilder` first how many steps to `expect` at least,
  so that what is too much is refused before it is made;
- `EXAMPLE`: options of a small job, as they stand in an experiment file. It is drawn, and tests try it and its variations.

And if it can be so:

- `from_profile(profile, **options) -> JobDag`: the same from a measured profile;
- `sent_bytes`: takes what `from_profile` takes (or `build`, if there is no `from_profile`), all of it, and returns the
  bytes that each rank sends in an iteration, by formula; None where there is no formula for these options;
- `scheduled(scheduler, rate_Bps, **options) -> (JobDag, Discipline)`, and `scheduled_from_profile(profile, ...)`: the same
  with a job scheduler (`traffic.workloads.job_schedulers`), which decides how tensors go to the network;
- `FAMILY`, one of `_families`: where it stands on the page;
- `DRAWS_FIRST = True`: the first iteration is drawn, not the second, much of which lies before the end of the first;
- `COMPUTES_BESIDE = True`: some computations take no turn on their rank's GPU;
- `SENDS_AHEAD = True`: much of what an iteration needs is sent in the one before.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from echelonflow import plugins
from echelonflow.model.dag import JobDag


def names() -> list[str]:
    """Every paradigm that can be named in an experiment."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> ModuleType:
    """The module of paradigm `name`; InputError listing what there is otherwise."""
    return plugins.load(sys.modules[__name__], name, "paradigm")


def taking_schedulers() -> list[str]:
    """Every paradigm whose jobs can have a job scheduler."""
    return [name for name in names() if hasattr(load(name), "scheduled")]


def build(name: str, options: dict[str, Any]) -> JobDag:
    """Build paradigm `name` with `options` (InputError for an unknown name, option or bad value)."""
    dag: JobDag = plugins.build(sys.modules[__name__], name, options, "paradigm")
    return dag

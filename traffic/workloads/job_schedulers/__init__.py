"""Job schedulers by name, one file each: which of a job's own tensors goes to the network next.

A job scheduler's module has

- `plan(model, setting, *, option=default, ...) -> TensorPlan` (`traffic.workloads.tensors`). It is pure: units, their
  order and the window follow from the model and the options alone. A parameter `partition_bytes` is written
  `partition=4 MB`. Raises InputError, beginning with the option's name, for values that do not fit the model;
- a docstring, which is its section in docs/schedulers.md: one line, then paragraphs. Say in "**Differs.**" where it
  departs from the original;
- `SOURCE`: the paper or code that it follows.

And if it is so:

- `ARCHITECTURES`: those that it takes (left out: all);
- what it promises, held by tests (left out: no promise, see `Promises`): `WHOLE_TENSORS = True`, `KEEPS_ORDER = True`,
  `WAITS_BY_LAYER = True`.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, get_args

from echelonflow import plugins
from echelonflow.errors import InputError, about
from echelonflow.model.dag import JobDag
from echelonflow.model.discipline import Discipline
from echelonflow.options import Option, bind_text, options_of
from traffic.workloads.in_job import build_job_dag
from traffic.workloads.tensors import COLLECTIVES, Architecture, Setting, TensorModel, TensorPlan

EXAMPLE = "bytescheduler(partition=4 MB)"
_NOT_OPTIONS = ("model", "setting")


@dataclass(frozen=True)
class Promises:
    """What a job scheduler says of itself, whatever its options. Tests hold every one to it."""

    whole_tensors: bool = False
    """No tensor is cut."""
    keeps_order: bool = False
    """Units go in the order in which they become ready; nothing overtakes."""
    waits_by_layer: bool = False
    """A layer's forward pass waits for what carries that layer, never for everything."""


@dataclass(frozen=True)
class JobScheduler:
    """A job scheduler with its options bound. `name` is the text that the user gave."""

    name: str
    summary: str
    source: str
    architectures: tuple[Architecture, ...]
    promises: Promises
    _plan: Callable[[TensorModel, Setting], TensorPlan]

    def plan(self, model: TensorModel, setting: Setting) -> TensorPlan:
        """Its units for a model (InputError, naming the scheduler, where options or architecture do not fit)."""
        return about(self.name, lambda: self._checked(model, setting))

    def job(self, model: TensorModel, setting: Setting, parameters: Mapping[str, Any]) -> tuple[JobDag, Discipline]:
        """The job that comes of its plan (InputError as `plan`); `parameters` are kept with it."""
        return build_job_dag(model, self.plan(model, setting), setting, self.name, parameters)

    def _checked(self, model: TensorModel, setting: Setting) -> TensorPlan:
        if setting.architecture not in self.architectures:
            raise InputError(
                f"does not go with {setting.architecture}; it is for {', '.join(self.architectures)}, "
                f"and {setting.architecture} takes {', '.join(_taking(setting.architecture))}"
            )
        found = self._plan(model, setting)
        found.check(model)
        return found


def names() -> list[str]:
    """Every job scheduler that can be named."""
    return plugins.names(sys.modules[__name__])


def module(name: str) -> ModuleType:
    """The module of the job scheduler called `name`; InputError listing what there is otherwise."""
    return plugins.load(sys.modules[__name__], name, "job scheduler")


def load(text: str) -> JobScheduler:
    """The job scheduler named by `text`, such as "bytescheduler(partition=4 MB)" (InputError if it makes no sense)."""
    name, written = plugins.parse_call(text, EXAMPLE)
    found = module(name)
    values = about(text, lambda: bind_text(found.plan, written, given=_NOT_OPTIONS))

    def bound(model: TensorModel, setting: Setting) -> TensorPlan:
        made: TensorPlan = found.plan(model, setting, **values)
        return made

    summary = (inspect.getdoc(found) or "").partition("\n")[0]
    return JobScheduler(text, summary, found.SOURCE, architectures(name), promises(name), bound)


def architectures(name: str) -> tuple[Architecture, ...]:
    """What the job scheduler called `name` can be used on."""
    found: tuple[Architecture, ...] = getattr(module(name), "ARCHITECTURES", get_args(Architecture))
    return found


def architectures_in_words(found: Collection[Architecture]) -> str:
    """Architectures as a list; all forms of an all-reduce are one where none is missing."""
    forms = [each for each in found if each not in COLLECTIVES or not set(COLLECTIVES) <= set(found)]
    return ", ".join([*forms, *(["all-reduce"] if set(COLLECTIVES) <= set(found) else [])])


def promises(name: str) -> Promises:
    """What the job scheduler called `name` promises."""
    found = module(name)
    return Promises(**{field.name: getattr(found, field.name.upper(), False) for field in dataclasses.fields(Promises)})


def options(name: str) -> list[Option]:
    """The options of the job scheduler called `name`."""
    plan: Any = module(name).plan
    return options_of(plan, given=_NOT_OPTIONS)


def _taking(architecture: Architecture) -> list[str]:
    return [name for name in names() if architecture in architectures(name)]

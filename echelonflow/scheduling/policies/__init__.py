"""Scheduling policies by name, one file each.

A policy module has a function `allocate(snapshot, *, option=default, ...) -> Allocation`, pure: it reads
nothing but the snapshot. Each option's annotation is a `Literal` of the words it accepts, or `float`, or
`int`. `ENFORCER` says what expresses it on real packets unless an experiment says otherwise: "priority"
(its order), "rate" (its rates) or "weighted" (its rates, as weights of classes).

What a policy promises, it says in module constants (left out: no promise, see `Promises`): `KNOWS_SIZES = False`,
`WORK_CONSERVING = True`, `STARVATION_FREE = True`, `READS_CLOCK = True`, `READS_CONNECTIONS = True`,
`HOLDS_BACK = True`. The first is enforced: such a policy
gets snapshots without sizes.
A function `validate(**options)` may refuse options whose values make no sense (InputError).
A function `memory(**options)` may make what one loaded policy keeps from decision to decision (None: nothing), which
`allocate` then gets as `memory=`; its `counters()` are shown with a run. Nothing else outlives a decision.
A function `form(**options)` may say what `allocate` does as data (`echelonflow.scheduling.forms`; None: not with these
options), so that simulations need not ask it at every decision. Users' files in a process of their own have none.

`SERVES` says what it puts in order ("flows", "jobs", "Coflows" or "EchelonFlows"): where it stands in docs/policies.md. Its
docstring is its section there; say in it what the policy knows and, as "**Cost.**", what a decision costs.

A user's own policy is such a module in a file anywhere, named by its path: "./mine.py(option=value)". It is code of
somebody's: it runs in a process of its own (`echelonflow.scheduling.own_policy`), as nobody, within limits.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from echelonflow import plugins
from echelonflow.errors import EchelonError, InputError, PolicyError
from echelonflow.options import Option, bind_text
from echelonflow.options import options_of as option_list
from echelonflow.scheduling import user_file
from echelonflow.scheduling.allocation import Allocation, check
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.snapshot import Snapshot

if TYPE_CHECKING:
    from echelonflow.model.slots import Slots
    from echelonflow.scheduling.own_policy.child import Wait
    from echelonflow.scheduling.time_shifts import Profile

ENFORCERS = ("priority", "rate", "weighted")


def _nothing_held() -> None:
    """What most policies give back."""


def _nothing_counted() -> Mapping[str, int]:
    """What policies without memory count."""
    return {}


def _no_form() -> Form | None:
    """What policies offer that only `allocate` can say."""
    return None


@dataclass(frozen=True)
class Promises:
    """What a policy says of itself. Contract tests hold every policy to it."""

    knows_sizes: bool = True
    """False: it is never shown a size (remaining, pending, alone), so nothing it decides can depend on one."""
    work_conserving: bool = False
    """No link idles that a flow could use."""
    starvation_free: bool = False
    """A flow finishes in bounded time, whatever comes after it."""
    reads_clock: bool = False
    """It goes by the clocks of the jobs (`snapshot.clock`). Simulations leave them out otherwise, as they take time to make."""
    reads_connections: bool = False
    """It goes by what jobs send from host to host in an iteration (`snapshot.connections`); simulations may leave it out otherwise."""
    holds_back: bool = False
    """It says when iterations of jobs may begin: a function `slots(profiles, **options)` of its module does, when jobs come or go."""
    plans: bool = False
    """Its memory is told by a planner which candidate is to decide (`simulator.columns.planner`, `controller.planning`)."""


@dataclass(frozen=True)
class Policy:
    """A policy with its options bound. `name` is the text that the user gave.

    One that is `isolated` runs in a process of its own, which takes time: call it where waiting does no harm.
    `close` gives back what it holds. `counters` says what its memory counted so far (empty: it has none).
    `form` says what it decides as data, None where only asking it will do.
    """

    name: str
    enforcer: str
    summary: str
    _allocate: Callable[[Snapshot], Allocation]
    isolated: bool = False
    close: Callable[[], None] = _nothing_held
    promises: Promises = Promises()
    counters: Callable[[], Mapping[str, int]] = _nothing_counted
    memory: Any = None
    """What it remembers; None if nothing."""
    slots: Callable[[Sequence[Profile]], Mapping[str, Slots]] | None = None
    """When iterations of the jobs under way may begin; None where nobody is held back."""
    form: Callable[[], Form | None] = _no_form
    is_asked: bool = False
    """Nothing stands in for it, not even what it has chosen itself."""

    def deciding(self, allocate: Callable[[Snapshot], Allocation]) -> Policy:
        """The same policy, but `allocate` decides: it is always asked, since what was offered as data is not its own."""
        return dataclasses.replace(self, _allocate=allocate, form=_no_form, is_asked=True)

    def __call__(self, snapshot: Snapshot) -> Allocation:
        """Decide; raises PolicyError, naming the policy, if it raises or its answer cannot be carried."""
        try:
            allocation = self._allocate(snapshot)
        except EchelonError:
            raise
        except Exception as error:
            raise PolicyError(f"policy {self.name} raised {type(error).__name__}: {error}") from error
        if not isinstance(allocation, Allocation):
            raise PolicyError(f"policy {self.name} returned {type(allocation).__name__}, not an Allocation")
        check(allocation, snapshot, self.name)
        return allocation


def names() -> list[str]:
    """Every policy that can be named."""
    return plugins.names(sys.modules[__name__])


def deciding_alone() -> list[str]:
    """Those of them that decide by what they are shown: nobody has to look ahead for them."""
    return [name for name in names() if not _says(name, "PLANS")]


def _says(name: str, what: str) -> bool:
    return bool(getattr(module(name), what, False))


def module(name: str) -> ModuleType:
    """The module of the policy called `name` here; InputError listing what there is otherwise."""
    return plugins.load(sys.modules[__name__], name, "policy")


def load(text: str, wait: Wait | None = None) -> Policy:
    """The policy named by `text`, such as "coflow(grouping=group)" or "./mine.py" (InputError if it makes no sense).

    A user's file is run in a process of its own, and nowhere else, until the policy is closed; `wait` waits for it.
    """
    if user_file.is_named(text):
        from echelonflow.scheduling.own_policy import child, process

        return process.load(text, wait or child.wait_here)
    name, options = plugins.parse_call(text)
    return bind(module(name), text, options)


def enforcer_of(text: str) -> str:
    """What enforces the policy named by `text` unless an experiment says otherwise; raises as `load` does."""
    if user_file.is_named(text):
        from echelonflow.scheduling.own_policy import process

        return process.enforcer_of(text)
    return load(text).enforcer


def bind(module: ModuleType, text: str, options: dict[str, str]) -> Policy:
    """A Policy from a module that has `allocate`, with options given as text; numbers may be any, `validate` judges them."""
    allocate: Any = getattr(module, "allocate", None)
    if not callable(allocate):
        where = module.__file__ if user_file.is_named(text) else module.__name__
        raise InputError(f"policy {text}: {where} has no function allocate(snapshot)")
    enforcer = getattr(module, "ENFORCER", "priority")
    if enforcer not in ENFORCERS:
        raise InputError(f"policy {text}: ENFORCER is {enforcer!r}; it must be one of {', '.join(ENFORCERS)}")
    try:
        values = bind_text(allocate, options, given=_not_options(allocate), units=False)
    except InputError as error:
        raise InputError("\n".join(f"policy {text}: {line}" for line in str(error).split("\n"))) from None
    _validate(module, text, values)
    summary = (inspect.getdoc(module) or "").partition("\n")[0]
    promises = _promises(module, text)
    counters, memory = _nothing_counted, None
    form = getattr(module, "form", None)
    offer = functools.partial(form, **values) if callable(form) else _no_form
    remember = getattr(module, "memory", None)
    if callable(remember) and (memory := remember(**values)) is not None:
        values["memory"] = memory
        counters = memory.counters

    def freely(snapshot: Snapshot) -> Allocation:
        answer: Allocation = allocate(snapshot, **values)
        return answer

    def blindly(snapshot: Snapshot) -> Allocation:
        # A size that is read all the same is not a number: an order made of it is refused here, a rate by `check`.
        with np.errstate(invalid="raise"):
            answer: Allocation = allocate(snapshot.without_sizes(), **values)
            return answer

    decide = freely if promises.knows_sizes else blindly
    holds = functools.partial(module.slots, **values) if promises.holds_back else None
    return Policy(
        text, enforcer, summary, decide, promises=promises, counters=counters, memory=memory, form=offer, slots=holds
    )


def _promises(module: ModuleType, text: str) -> Promises:
    fields = dataclasses.fields(Promises)
    said: dict[str, Any] = {field.name: getattr(module, field.name.upper(), field.default) for field in fields}
    for name, value in said.items():
        if not isinstance(value, bool):
            raise InputError(f"policy {text}: {name.upper()} is {value!r}; it must be True or False")
    return Promises(**said)


def _validate(module: ModuleType, text: str, values: dict[str, Any]) -> None:
    validate = getattr(module, "validate", None)
    if validate is None:
        return
    try:
        validate(**values)
    except InputError as error:
        raise InputError(f"policy {text}: {error}") from None


def options(name: str) -> list[Option]:
    """The options of the policy called `name` here."""
    allocate = module(name).allocate
    return option_list(allocate, given=_not_options(allocate), units=False)


def options_of(name: str) -> dict[str, str]:
    """The same in words: name to a description of its values and default."""
    return {option.key: f"{_values(option)} (default {option.default})" for option in options(name)}


def _not_options(allocate: Callable[..., Any]) -> list[str]:
    """The parameters of a policy that are not a user's to give: the snapshot and what is remembered."""
    return [*list(inspect.signature(allocate).parameters)[:1], "memory"]


def _values(option: Option) -> str:
    return "|".join(map(str, option.words)) or option.in_words()

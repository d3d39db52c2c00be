"""Faults of an experiment's structure in the words of its own keys, and the parts of it that can be checked in spite of them.

pydantic finds the faults; what it says of them is replaced. A message repeats the value and says what would be right,
from the `description` and the example of the field. A fault of one part must not hide those of the others. So what is
at fault is replaced by something that is right, and the caller is told what not to judge.
"""

from __future__ import annotations

import copy
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from echelon.experiment.specs import ExperimentSpec
from echelonflow.spelling import did_you_mean, in_one_line, shown, unknown

Place = tuple[str | int, ...]

_NETWORK = {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"}
_DECIDES_A_JOB = ("paradigm", "trace", "job_trace", "import", "profile")
_MOST_ROUNDS = 8


@dataclass(frozen=True)
class Structure:
    """An experiment as far as it could be read."""

    spec: ExperimentSpec | None
    """Stand-ins in the places of `at_fault`; None where too little is right to go on."""
    at_fault: frozenset[Place]
    """Parts that are not to be judged any further: ("network",), ("jobs", 1), ("policies", 0)."""
    faults: tuple[str, ...]


def structure(data: dict[str, Any]) -> Structure:
    """The experiment that `data` (a file's mapping) describes, and every fault of its structure as "path: words"."""
    faults: list[str] = []
    at_fault: set[Place] = set()
    for round_ in range(_MOST_ROUNDS):
        try:
            return Structure(ExperimentSpec.model_validate(data), frozenset(at_fault), tuple(faults))
        except ValidationError as error:
            found = error.errors(include_url=False)
        if round_ == 0:
            faults = [_in_words(each) for each in found]
            data = copy.deepcopy(data)
        for each in found:
            _replace(data, each["loc"], each["type"], at_fault)
    return Structure(None, frozenset(at_fault), tuple(faults))


def _replace(data: dict[str, Any], place: Place, kind: str, at_fault: set[Place]) -> None:
    """Put something right in the place of a fault, or remove it, and note what cannot be judged then."""
    top, *rest = place
    if kind == "extra_forbidden":
        _remove(data, place)
    elif top == "name" and not rest:
        data["name"] = "at-fault"
    elif top == "network":
        data["network"] = dict(_NETWORK)
        at_fault.add(("network",))
    elif top == "policies":
        _replace_item(data, "policies", rest, "fair", at_fault)
    elif top == "jobs":
        _replace_in_jobs(data, rest, at_fault)
    else:
        data.pop(str(top), None)


def _replace_in_jobs(data: dict[str, Any], rest: Sequence[str | int], at_fault: set[Place]) -> None:
    stand_in = {"name": f"at-fault-{rest[0] if rest else 0}", "paradigm": "pipeline"}
    if len(rest) < 2 or not isinstance(rest[0], int) or rest[1] in _DECIDES_A_JOB:
        _replace_item(data, "jobs", rest, stand_in, at_fault)
    elif rest[1] == "name":
        data["jobs"][rest[0]]["name"] = stand_in["name"]
    else:
        data["jobs"][rest[0]].pop(rest[1], None)


def _replace_item(
    data: dict[str, Any], key: str, rest: Sequence[str | int], stand_in: Any, at_fault: set[Place]
) -> None:
    """Replace one item of the list at `key`, or all of it where it is none."""
    if rest and isinstance(rest[0], int):
        data[key][rest[0]] = stand_in
        at_fault.add((key, rest[0]))
    else:
        data[key] = [stand_in]
        at_fault.update({(key,), (key, 0)})


def _remove(data: Any, place: Place) -> None:
    *way, last = place
    for part in way:
        if isinstance(data, dict) and part not in data:  # removed with another fault in it
            return
        data = data[part]
    data.pop(last, None)


def _in_words(error: Any) -> str:
    place: Place = error["loc"]
    where = ".".join(str(part)[:80] for part in place) or "file"
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}"
    model, field, kind = _described(place)
    if error["type"] == "extra_forbidden":
        keys = [found.alias or name for name, found in model.model_fields.items()]
        return f"{where}: unknown key{unknown(place[-1], keys)}"
    example = f"; write such as `{_entry(place[-1], field.examples[0])}`" if field and field.examples else ""
    if error["type"] == "missing":
        return f"{where}: missing{example}"
    value = error["input"]
    option = _split_option(value) if place[0] == "policies" else None
    if option is not None:
        return f"{where}: YAML reads a colon as a mapping; write {option!r}"
    if field is None:  # an item of a list of mappings
        example = in_one_line(
            {name: found.examples[0] for name, found in kind.model_fields.items() if found.is_required()}
        )
        return f"{where}: {_value(value)} is not a mapping; write such as `{example}`"
    words = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    return f"{where}: {_value(value)} is not {field.description}{did_you_mean(value, words) or example}"


def _described(place: Place) -> tuple[type[BaseModel], FieldInfo | None, Any]:
    """The model that a place lies in; its field or item, if it says what it is; and the type that is wanted there."""
    model: type[BaseModel] = ExperimentSpec
    field: FieldInfo | None = None
    kind: Any = ExperimentSpec
    for part in place:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            model = kind
            by_key = {found.alias or name: found for name, found in model.model_fields.items()}
            field = by_key.get(str(part))
            kind = _plain_kind(field.annotation if field else None)
        else:  # a list or a mapping, whose last argument says what is in it
            item = typing.get_args(kind)[-1] if typing.get_args(kind) else None
            metadata = typing.get_args(item)[1:] if typing.get_origin(item) is typing.Annotated else ()
            field = next((each for each in metadata if isinstance(each, FieldInfo)), None)
            kind = typing.get_args(item)[0] if metadata else item
    return model, field, kind


def _plain_kind(annotation: Any) -> Any:
    """An annotation without its "or None"."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return next(each for each in typing.get_args(annotation) if each is not type(None))
    return annotation


def _split_option(value: Any) -> str | None:
    """The policy that was meant by one with a colon between an option and its value, which is a mapping in YAML."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    ((key, rest),) = value.items()
    return f"{key}={rest}" if "(" in key and isinstance(rest, str | int | float) else None


def _value(value: Any) -> str:
    if isinstance(value, dict | list):
        return ("a " if value else "an empty ") + ("mapping" if isinstance(value, dict) else "list")
    return shown(value)


def _entry(key: str | int, value: Any) -> str:
    """How a value is written under its key; that of a list by itself."""
    return f"{key}: {in_one_line(value)}" if isinstance(key, str) else in_one_line(value)

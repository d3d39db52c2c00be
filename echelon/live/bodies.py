"""What the live view tells a browser: what stays the same during an experiment, and what changes."""

from __future__ import annotations

import msgspec

from echelon.live.layout import Node
from echelonflow.wire.live import Live


class LinkDrawn(msgspec.Struct, frozen=True):
    """A directed link, by the names of its ends."""

    name: str
    src: str
    dst: str
    rate_bps: float


class JobDrawn(msgspec.Struct, frozen=True):
    """A job of the experiment and where its ranks are."""

    name: str
    hosts: tuple[str, ...]
    iterations: int


class Drawing(msgspec.Struct, frozen=True, kw_only=True):
    """network.json: what stays the same. `number` counts experiments; another one has another drawing."""

    number: int
    experiment: str
    title: str
    policies: tuple[str, ...]
    nodes: tuple[Node, ...]
    links: tuple[LinkDrawn, ...]
    jobs: tuple[JobDrawn, ...]
    report: str
    """Path of the report that there will be."""


class RunNow(msgspec.Struct, frozen=True, kw_only=True):
    """The run under way, as the experiment has it: run `number` (from 1) of `of`."""

    number: int
    of: int
    policy: str
    repeat: int


class LinkLoads(msgspec.Struct, frozen=True, kw_only=True):
    """Bits per second by link, in the order of the drawing, and by class, over the last `over_s`."""

    over_s: float
    by_class_bps: tuple[tuple[float, ...], ...]


class State(msgspec.Struct, frozen=True, kw_only=True):
    """state.json: what goes on now. `controller` is None where none answers, and `silence` says why."""

    number: int
    stage: str
    run: RunNow | None = None
    links: LinkLoads | None = None
    controller: Live | None = None
    silence: str = ""
    warnings: tuple[str, ...] = ()
    ended: str = ""
    """How the experiment ended; empty while it goes on."""


class Option(msgspec.Struct, frozen=True):
    """An option of a policy, and what it may be."""

    name: str
    values: str


class PolicyShown(msgspec.Struct, frozen=True):
    """A policy that may be ordered."""

    name: str
    summary: str
    options: tuple[Option, ...]

"""Progress of an experiment in words: the same on a terminal and in the live view."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from echelonflow.records.progress import (
    Analysing,
    Broke,
    Building,
    Calibrating,
    Done,
    Failed,
    Interrupted,
    Invalid,
    IterationBegun,
    Learning,
    LinksCarried,
    Looking,
    Predicting,
    Progress,
    Repeating,
    RunFailed,
    Running,
    Simulating,
    Waiting,
    Warned,
)

_WORDS: Mapping[type[Progress], str] = MappingProxyType(
    {
        Predicting: "predicting by fluid simulation",
        Simulating: "simulating {policy}: {now_s:.0f} s; the last Coflow arrives at {last_s:.0f} s",
        Looking: "looking at the machine",
        Waiting: "waiting for a quieter spell, {left_s:.0f} s at most: {error:.1%} now, {asked:.1%} asked for ({seen})",
        Building: "building {hosts} hosts, {switches} switches",
        Learning: "learning what {programs} programs do",
        Calibrating: "calibrating links ({datapath} datapath)",
        Running: "run {number} of {of}: {policy}, repeat {repeat}",
        IterationBegun: "run {number} of {of}: {policy}, repeat {repeat}, iteration {iteration}",
        LinksCarried: "run {number} of {of}: {policy}, repeat {repeat}",
        RunFailed: "run {number} of {of} failed ({policy}, repeat {repeat}): {reason}",
        Repeating: "{reason}",
        Broke: "{reason}; what is left goes on in a fresh world",
        Analysing: "making tables and pictures",
        Failed: "failed: {reason}",
        Invalid: "invalid: {reason}",
        Warned: "warning: {reason}",
        Interrupted: "interrupted; keeping what there is",
        Done: "all runs done",
    }
)


def in_words(report: Progress, now: Running | None) -> str:
    """A report in words; `now` is the run under way, which some of them speak of."""
    known = {} if now is None else {"number": now.run + 1, **msgspec.structs.asdict(now)}
    return _WORDS[type(report)].format(**{**known, **msgspec.structs.asdict(report)})

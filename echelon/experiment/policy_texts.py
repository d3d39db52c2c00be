"""The policies of an experiment file: every text a policy, and none that YAML cut in two."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from echelon.experiment.fault_lines import collect
from echelonflow.scheduling import policies


def enforcers_of(texts: Sequence[str], left_out: Collection[int], faults: list[str]) -> dict[str, str]:
    """How each of `texts` wants to be enforced; what is wrong with any is added to `faults`.

    Those at places `left_out` are not judged.
    """
    cut = _cut(texts)
    for first, last in cut.items():
        whole = ", ".join(texts[first : last + 1])
        faults.append(
            f"policies.{first}: YAML ends a text at a comma between brackets; put this one in quotes: '{whole}'"
        )
    within = {place for first, last in cut.items() for place in range(first, last + 1)}
    judged = [place for place in range(len(texts)) if place not in within and place not in left_out]
    found: dict[str, str] = {}
    seen: dict[str, int] = {}
    for place in judged:
        text = texts[place]
        if text in seen:
            faults.append(f"policies.{place}: {text!r} is listed twice; remove one")
            continue
        seen[text] = place
        enforcer = collect(faults, f"policies.{place}", partial(policies.enforcer_of, text))
        if enforcer is not None:
            found[text] = enforcer
    return found


def _cut(texts: Sequence[str]) -> dict[int, int]:
    """Places of the first and last part of every policy whose brackets are closed in a later text."""
    found: dict[int, int] = {}
    place = 0
    while place < len(texts):
        depth, last = _depth(texts[place]), place
        while depth > 0 and last + 1 < len(texts):
            last += 1
            depth += _depth(texts[last])
        if last > place and depth == 0:
            found[place] = last
            place = last
        place += 1
    return found


def _depth(text: str) -> int:
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))

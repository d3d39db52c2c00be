"""The policies that a study compares, by name. Both forms of EchelonFlow that bear the name stand under their full names."""

from __future__ import annotations

import itertools

from echelonflow import plugins
from echelonflow.options import Option
from echelonflow.scheduling import policies

FAIR = "fair"
COLLECTIVE = "coflow(grouping=collective)"
GROUP = "coflow(grouping=group)"
ECHELON = "echelonflow"
LITERAL = "echelonflow(order=tardiness,within=strict)"
"""The paper's own order, literally."""
BY_DUE = "echelonflow(order=due,within=strict)"
BY_JOB = "echelonflow(order=job,within=strict)"
"""The two orders that may be what `echelonflow` does if nothing is said; both are in every comparison that decides it."""
SAME_WITHOUT_WEIGHTS = ("weighted", "job-priority", "random-order")
"""Policies that need weights to mean anything, and one without meaning: not run on whole jobs."""


def forms() -> list[str]:
    """Every form of EchelonFlow, by all words of its options `order` and `within`: named in full, for defaults change."""
    options = _options(ECHELON)
    words = itertools.product(options["order"].words, options["within"].words)
    return [f"{ECHELON}(order={order},within={within})" for order, within in words]


def default_form() -> str:
    """The form that `echelonflow` without options is, named in full."""
    options = _options(ECHELON)
    return f"{ECHELON}(order={options['order'].default},within={options['within'].default})"


def _options(policy: str) -> dict[str, Option]:
    return {option.key: option for option in policies.options(policy)}


def is_form(policy: str) -> bool:
    """Whether a policy is a form of EchelonFlow."""
    return plugins.parse_call(policy)[0] == ECHELON


def roster() -> list[str]:
    """Every policy with its defaults, found by name; Coflow-like ones in both groupings; all forms of EchelonFlow."""
    found = [FAIR]
    for name in policies.names():
        if name in (FAIR, ECHELON):
            continue
        grouping = _options(name).get("grouping")
        found += [name] if grouping is None else [f"{name}(grouping={word})" for word in grouping.words]
    return [*found, *forms()]


def compared() -> list[str]:
    """What whole jobs are run under: the roster without the paced forms, and without what equal weights make the same.

    Shares by job need no weights to mean something, and come in. What looks ahead has nothing to see in two iterations. Paced forms are compared on random groups, where bounds
    are tighter, and by `echelon bench forms`.
    """
    whole = [
        name
        for name in roster()
        if plugins.parse_call(name)[1].get("within") != "paced" and name not in (*SAME_WITHOUT_WEIGHTS, "lookahead")
    ]
    return [*whole, "weighted(per=job)"]

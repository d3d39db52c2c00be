"""The command `echelon`, and the same for notebooks: what ties the parts together. No part imports it.

In Python, `import echelon` and its functions are enough (docs/python.md):

    experiment = echelon.load("experiments/pipeline.yaml")
    results = echelon.simulate(experiment)
    results.medians.frame()

They are loaded when they are first used, so that the command line starts without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from echelon.notebook import (
        Comparison,
        Experiment,
        Results,
        SweepResults,
        Table,
        build,
        compare,
        emulate,
        load,
        read,
        simulate,
        sweep,
        with_changes,
    )

__all__ = [
    "Comparison",
    "Experiment",
    "Results",
    "SweepResults",
    "Table",
    "build",
    "compare",
    "emulate",
    "load",
    "read",
    "simulate",
    "sweep",
    "with_changes",
]


def __getattr__(name: str) -> Any:
    """What is asked for by name, loaded now (AttributeError for what there is not)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; there is: {', '.join(__all__)}")
    from echelon import notebook

    return getattr(notebook, name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]

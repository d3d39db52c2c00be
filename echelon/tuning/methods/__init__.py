"""Ways to search a space, one file each, found by name; all are asked for a point and told what came of it.

A method has `build(space, *, samples, seed, option=default) -> Search` and a line `SUMMARY`. What is asked next depends on
the seed and on what was told, and on nothing else. So a search that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Protocol

from echelon.tuning.space import Point, Space
from echelonflow import plugins
from echelonflow.errors import InputError, about
from echelonflow.options import bind_text

_GIVEN = ("space", "samples", "seed")
"""What every method is given, and a user writes elsewhere."""


class Search(Protocol):
    """A search under way."""

    def ask(self) -> Point:
        """The point to try next; the same one until something is told."""
        ...

    def tell(self, point: Point, value_s: float | None) -> None:
        """What `point` took, seconds: the less the better; None where that could not be found out."""
        ...


def names() -> list[str]:
    """All methods."""
    return plugins.names(sys.modules[__name__])


def summary(name: str) -> str:
    """What a method does, in a line."""
    return str(plugins.load(sys.modules[__name__], name, "method").SUMMARY)


def begin(text: str, space: Space, *, samples: int, seed: int) -> Search:
    """A search by the method that is written as such as "gp" or "gp(first=10)"; `samples` points will be tried.

    InputError for an unknown method or option, and where a library that it needs is not installed.
    """
    name, options = plugins.parse_call(text)
    module = plugins.load(sys.modules[__name__], name, "method")
    build: Callable[..., Search] = module.build
    bound: dict[str, Any] = about(f"method {name}", lambda: bind_text(build, options, given=_GIVEN))
    return build(space, samples=samples, seed=seed, **bound)


def require(name: str) -> Any:
    """The module `name`, of the extra "tune" (InputError with the remedy where it is not installed)."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(
            f"this method needs {name} ({error}); install it with: scripts/setup.sh --tune, or use --method random or grid"
        ) from None

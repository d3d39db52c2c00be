"""Topologies by name; each module has `build(**options) -> Network` with keyword-only options."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from echelonflow import plugins
from echelonflow.errors import InputError
from echelonflow.network import Network


def names() -> list[str]:
    """Every topology that can be named in an experiment."""
    return plugins.names(sys.modules[__name__])


def build(name: str, options: dict[str, Any]) -> Network:
    """Build topology `name` with `options` (InputError for an unknown name, option or bad value)."""
    module = plugins.load(sys.modules[__name__], name, "topology")
    accepted = inspect.signature(module.build).parameters
    unknown = sorted(set(options) - set(accepted))
    if unknown:
        raise InputError(f"topology {name}: unknown option {', '.join(unknown)}; there is: {', '.join(accepted)}")
    missing = [p.name for p in accepted.values() if p.default is p.empty and p.name not in options]
    if missing:
        raise InputError(f"topology {name}: missing option {', '.join(missing)}")
    network: Network = module.build(**options)
    return network

"""Topologies by name; each module has `build(**options) -> Network` with keyword-only options."""

from __future__ import annotations

import sys
from typing import Any

from echelonflow import plugins
from echelonflow.model.network import Network


def names() -> list[str]:
    """Every topology that can be named in an experiment."""
    return plugins.names(sys.modules[__name__])


def build(name: str, options: dict[str, Any]) -> Network:
    """Build topology `name` with `options` (InputError for an unknown name, option or bad value)."""
    network: Network = plugins.build(sys.modules[__name__], name, options, "topology")
    return network

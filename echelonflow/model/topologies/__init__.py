"""Topologies by name, one module each, found by its file's name.

A topology module has a docstring and `build(**options) -> Network` with keyword-only options and a docstring of its own;
both stand in docs/topologies.md. `EXAMPLE` has the options of a small network, as they stand in an experiment file: it is
drawn there, and tests try it and a large one. A file that an option `file` names is relative to the experiment file.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from echelonflow import plugins
from echelonflow.model.network import Network
from echelonflow.options import bind


def names() -> list[str]:
    """Every topology that can be named in an experiment."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> ModuleType:
    """The module of topology `name`; InputError listing what there is otherwise."""
    return plugins.load(sys.modules[__name__], name, "topology")


def build(name: str, options: dict[str, Any]) -> Network:
    """Build topology `name` with `options` (InputError for an unknown name, option or bad value)."""
    network: Network = plugins.build(sys.modules[__name__], name, options, "topology")
    return network


def example(name: str) -> Network:
    """The network that the `EXAMPLE` of topology `name` describes."""
    return build(name, example_options(name))


def example_options(name: str) -> dict[str, Any]:
    """The `EXAMPLE` of topology `name` as its `build` takes it; a file that it names lies beside the module."""
    module = load(name)
    options = dict(module.EXAMPLE)
    if "file" in options:
        options["file"] = str(Path(__file__).parent / options["file"])
    return bind(module.build, options)

"""From the `network` entry of an experiment file to the network: its topology, and what any topology may have beside it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from echelon.experiment.files import find_file
from echelon.experiment.specs import MOST_SEED, NetworkSpec
from echelonflow import plugins
from echelonflow.errors import InputError, about
from echelonflow.model import topologies
from echelonflow.model.cable_rates import with_rates
from echelonflow.model.network import Network
from echelonflow.model.units import parse_rate_bps
from echelonflow.options import bind, bind_text
from echelonflow.spelling import unknown

Made = TypeVar("Made")

BESIDE = ("topology", "gpus_per_host", "rates", "routing")
"""Keys of every network, beside the options of its topology."""


def build_network(spec: NetworkSpec, folder: Path) -> Network:
    """The network of `spec`, names of files being relative to `folder` (InputError, one line per fault)."""
    options = dict(spec.model_extra or {})
    builder = about("topology", lambda: topologies.load(spec.topology)).build
    if "file" in inspect.signature(builder).parameters and isinstance(options.get("file"), str):
        options["file"] = str(find_file(options["file"], folder))
    faults: list[str] = []
    plain = _tried(faults, lambda: topologies.build(spec.topology, bind(builder, options, beside=BESIDE)))
    seed = _tried(faults, lambda: about("routing", lambda: _ecmp_seed(spec.routing)))
    rates_bps = {key: _tried(faults, partial(_rate_bps, key, text)) for key, text in spec.rates.items()}
    known = {key: rate_bps for key, rate_bps in rates_bps.items() if rate_bps is not None}
    network = None if plain is None else _tried(faults, lambda: with_rates(plain, known))
    if faults or network is None:
        raise InputError("\n".join(faults))
    return dataclasses.replace(network, gpus_per_host=spec.gpus_per_host or 1, ecmp_seed=seed)


def _tried(faults: list[str], action: Callable[[], Made]) -> Made | None:
    """What `action` returns, or None after adding its InputError to `faults`."""
    try:
        return action()
    except InputError as error:
        faults += str(error).split("\n")
        return None


def _rate_bps(key: str, text: str) -> float:
    rate_bps = about(f"rates.{key}", lambda: parse_rate_bps(text))
    if not rate_bps > 0:
        raise InputError(f"rates.{key}: {text!r} must be greater than 0")
    return rate_bps


def _ecmp_seed(text: str) -> int | None:
    """The seed of `routing: ecmp` or `ecmp(seed=3)`; None of `destination` (InputError for anything else)."""
    name, options = plugins.parse_call(text, example="ecmp(seed=3)")
    if name not in _ROUTINGS:
        raise InputError(f"unknown routing {name!r}{unknown(name, _ROUTINGS)}")
    routing = _ROUTINGS[name]
    return routing(**about(name, lambda: bind_text(routing, options, units=False)))


def _destination() -> None:
    return None


def _ecmp(seed: int = 0) -> int:
    if not 0 <= seed <= MOST_SEED:
        raise InputError(f"ecmp: seed: {seed} is not a whole number from 0 on, of 63 bits at most")
    return seed


_ROUTINGS: Mapping[str, Callable[..., int | None]] = MappingProxyType({"destination": _destination, "ecmp": _ecmp})

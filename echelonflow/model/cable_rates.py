"""Cables of a network whose rates differ from those that its topology gives them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from echelonflow.errors import InputError
from echelonflow.model.network import Network
from echelonflow.spelling import shown, unknown


def with_rates(network: Network, rates_bps: Mapping[str, float]) -> Network:
    """`network` with other rates (bit/s) for the cables that the keys name; InputError, one line per fault ("rates.h9: ...").

    "h1" is the cable of a host, "l1" all cables from a switch to its hosts, "l1-p2" all cables between two nodes. Where several keys
    name a cable, that of fewer cables holds: so one host may differ from those beside it.
    """
    faults: list[str] = []
    named: list[tuple[int, list[int], float]] = []
    for key, rate_bps in rates_bps.items():
        try:
            found = _cables(network, key)
        except InputError as error:
            faults.append(f"rates.{key}: {error}")
            continue
        named.append((len(found), found, rate_bps))
    if faults:
        raise InputError("\n".join(faults))
    cables = list(network.cables)
    for _, found, rate_bps in sorted(named, key=lambda each: -each[0]):
        for place in found:
            cables[place] = dataclasses.replace(cables[place], rate_bps=rate_bps)
    return dataclasses.replace(network, cables=tuple(cables))


def _cables(network: Network, key: str) -> list[int]:
    """The places of the cables that `key` names (InputError where there are none)."""
    ends = [frozenset((cable.a, cable.b)) for cable in network.cables]
    if key in network.edge_switch:
        return [place for place, both in enumerate(ends) if key in both]
    if key in network.switches:
        found = [place for place, both in enumerate(ends) if key in both and both & network.edge_switch.keys()]
        if not found:
            raise InputError(f"switch {key} has no hosts; name both ends of a cable, such as {_example(network)}")
        return found
    nodes = {*network.hosts, *network.switches}
    for pair in _pairs(key):
        if nodes.issuperset(pair):
            found = [place for place, both in enumerate(ends) if both == set(pair)]
            if found:
                return found
            raise InputError(f"no cable joins {pair[0]} and {pair[1]}; one joins {_example(network)}")
    other = next((part for part in key.split("-") if part not in nodes), key)
    raise InputError(
        f"{shown(key)} names no cable: write a host, a switch with hosts, or both ends, such as {_example(network)}"
        + unknown(other, [*network.hosts, *network.switches])
    )


def _pairs(key: str) -> Iterator[tuple[str, str]]:
    """All ways to read a key as two names: names may hold a dash themselves."""
    for place, letter in enumerate(key):
        if letter == "-":
            yield key[:place], key[place + 1 :]


def _example(network: Network) -> str:
    return f"{network.cables[-1].a}-{network.cables[-1].b}"

"""How busy each link was in a run: the mean, and the busiest of some equal parts of the time.

Where rates of flows are known, as in simulations, both are exact. Of other runs only the mean is told: a flow's bytes are
then spread evenly from its first to its last, and a peak of that would say nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.network import Network
from echelonflow.records.link_load import LinkLoad
from echelonflow.records.rates import RateLog
from echelonflow.records.run_columns import FlowColumns
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.analysis.connection_paths import paths_of

PARTS = 50
"""Equal parts of the time, over each of which the load of a link is averaged."""
_AT_ONCE_S = 1e-9
"""No flow takes less time: some pass at once what links let pass after an idle spell."""


@dataclass(frozen=True, eq=False)
class _Sent:
    """What was sent at an even rate: n pieces, and the paths that they take."""

    paths: Sequence[tuple[int, ...]]
    path: Ints
    begin_s: Floats
    end_s: Floats
    rate_Bps: Floats


def loads_by_rates(
    record: RunRecord, network: Network, rates: RateLog, begin_s: float, end_s: float, parts: int = PARTS
) -> list[LinkLoad]:
    """The load of every link that carried anything between two moments of a simulation, the busiest first.

    Peaks are of one of so many `parts` of that time. None where no time passes, or `rates` are not complete.
    """
    if rates.is_full:
        return []
    flows = FlowColumns.of(record.flows)
    row, *pieces = rates.pieces(flows.finish_s)
    of_step, paths = paths_of(flows.steps, network)
    return _loads(_Sent(paths, of_step[flows.step[row]], *pieces), network, begin_s, end_s, parts)


def loads_by_records(flows: Sequence[FlowRecord], network: Network, begin_s: float, end_s: float) -> list[LinkLoad]:
    """The same by the records of flows alone: without peaks."""
    ended = [f for f in flows if not math.isnan(f.finish_s)]
    path, paths = paths_of(ended, network)
    times = np.array([(f.start_s, f.finish_s, f.size_bytes) for f in ended], np.float64).reshape(-1, 3)
    finish_s = times[:, 1]
    start_s = np.minimum(times[:, 0], finish_s - _AT_ONCE_S)
    sent = _Sent(paths, path, start_s, finish_s, times[:, 2] / (finish_s - start_s))
    found = _loads(sent, network, begin_s, end_s, parts=1)  # of means alone
    return [msgspec.structs.replace(each, peak_share=None) for each in found]


def _loads(sent: _Sent, network: Network, begin_s: float, end_s: float, parts: int) -> list[LinkLoad]:
    if not 0 < end_s - begin_s < math.inf:
        return []
    part_s = (end_s - begin_s) / parts
    carried = np.zeros((len(sent.paths), parts))
    for part in range(parts):
        low_s, high_s = begin_s + part * part_s, begin_s + (part + 1) * part_s
        there = np.flatnonzero((sent.begin_s < high_s) & (sent.end_s > low_s))
        inside_s = np.minimum(sent.end_s[there], high_s) - np.maximum(sent.begin_s[there], low_s)
        weights = sent.rate_Bps[there] * inside_s
        carried[:, part] = np.bincount(sent.path[there], weights=weights, minlength=len(sent.paths))
    of_links = np.zeros((len(network.links), parts))
    for path, its in zip(sent.paths, carried, strict=True):
        of_links[list(path)] += its
    shares = of_links / part_s / np.array(network.capacity_Bps)[:, None]
    found = [
        LinkLoad(
            network.links[place].name, network.links[place].kind,
            float(of_links[place].sum()), float(shares[place].mean()), float(shares[place].max()),
        )
        for place in np.flatnonzero(of_links.any(axis=1)).tolist()
    ]  # fmt: skip
    return sorted(found, key=lambda each: (-each.mean_share, each.link))

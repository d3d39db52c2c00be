"""How much of acknowledgements goes back for what goes forth, by what hosts' own queues counted in a run."""

from __future__ import annotations

from collections.abc import Iterable

from echelonflow.records.outcome import RunOutcome
from echelonflow.wire.classes import CONTROL_CLASS, DATA_CLASSES

MOST_SHARE = 0.1
"""An acknowledgement of 54 bytes for each packet of 1,460 is 0.04. Counters that say more do not count acknowledgements."""


def acknowledgement_share(run: RunOutcome, hosts: Iterable[str]) -> float:
    """Bytes of acknowledgements over those of data that `hosts` sent, headers included in both; 0 where nothing tells."""
    queues = [run.classes[name] for name in (f"{host}-eth0" for host in hosts) if name in run.classes]
    acknowledgements = sum(classes[CONTROL_CLASS].bytes for classes in queues if CONTROL_CLASS in classes)
    data = sum(counters.bytes for classes in queues for number, counters in classes.items() if number in DATA_CLASSES)
    share = acknowledgements / data if data > 0 else 0.0
    return share if 0 <= share <= MOST_SHARE else 0.0

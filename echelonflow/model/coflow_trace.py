"""A trace of Coflows as columns: when each arrives, and the flows between ports that belong to it.

Columns, not objects, because public traces have 700,000 flows. Readers of trace formats
(`traffic/workloads/traces/`) make it, the simulator runs it; neither knows the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints


@dataclass(frozen=True, eq=False)
class CoflowTrace:
    """c Coflows with n flows in all; rows are in any order.

    Raises InputError, naming the Coflow by its id, for ids used twice, arrivals before 0 and a Coflow without flows. It
    also does for sizes and weights that are not positive, and for columns whose lengths differ.
    """

    coflow_id: Ints
    """c ids as the trace gives them; unique."""
    arrival_s: Floats
    """c; all flows of a Coflow are released when it arrives."""
    coflow: Ints
    """n rows of `coflow_id`."""
    src: Ints
    """n; position of the sending host in `Network.hosts`."""
    dst: Ints
    """n; the receiving one. The same as `src` is allowed: published simulators let such a flow use both directions."""
    size_bytes: Floats
    """n, positive; payload, and not always whole: traces share out bytes by division."""
    weight: Floats = field(default_factory=lambda: np.ones(0))
    """c, positive; empty where all Coflows weigh 1."""
    name: str = "trace"
    """What messages and records call it."""

    def __post_init__(self) -> None:
        if not len(self.weight):
            object.__setattr__(self, "weight", np.ones(len(self.coflow_id)))
        self._check_lengths()
        self._check_coflows()
        self._check_flows()

    @property
    def coflows(self) -> int:
        return len(self.coflow_id)

    @property
    def flows(self) -> int:
        return len(self.coflow)

    def _check_lengths(self) -> None:
        for names in (("coflow_id", "arrival_s", "weight"), ("coflow", "src", "dst", "size_bytes")):
            lengths = {name: len(getattr(self, name)) for name in names}
            if len(set(lengths.values())) != 1:
                raise InputError(f"{self.name}: columns of different lengths: {lengths}")

    def _check_coflows(self) -> None:
        ids, times = np.unique(self.coflow_id, return_counts=True)
        if np.any(times > 1):
            raise InputError(f"{self.name}: Coflow {ids[times > 1][0]} occurs twice; ids are unique")
        self._refuse(
            ~(np.isfinite(self.arrival_s) & (self.arrival_s >= 0)), "arrives at {} s, before 0", self.arrival_s
        )
        self._refuse(~(np.isfinite(self.weight) & (self.weight > 0)), "has weight {}, not positive", self.weight)
        if np.any((self.coflow < 0) | (self.coflow >= self.coflows)):
            raise InputError(f"{self.name}: a flow names row {self.coflow.max()} of {self.coflows} Coflows")
        width = np.bincount(self.coflow, minlength=self.coflows)
        self._refuse(width == 0, "has {} flows; at least one is needed", width)

    def _check_flows(self) -> None:
        bad = ~(np.isfinite(self.size_bytes) & (self.size_bytes > 0))
        self._refuse(bad, "has a flow of {} bytes; a size is positive", self.size_bytes, self.coflow)
        port = np.minimum(self.src, self.dst)
        self._refuse(port < 0, "has a flow at port {}, below 0", port, self.coflow)

    def _refuse(self, bad: np.ndarray, words: str, values: np.ndarray, coflow: Ints | None = None) -> None:
        """Raise InputError about the first row of `bad`, if any; `coflow` says whose it is."""
        for row in np.flatnonzero(bad)[:1]:
            owner = self.coflow_id[row if coflow is None else coflow[row]]
            raise InputError(f"{self.name}: Coflow {owner} " + words.format(values[row]))


@dataclass(frozen=True, eq=False)
class TraceRecord:
    """What a policy made of a trace; rows as in the trace, seconds from the trace's zero."""

    policy: str
    repeat: int
    arrival_s: Floats
    """c."""
    finish_s: Floats
    """c; when the last flow of each Coflow ended."""
    flow_finish_s: Floats
    """n."""
    events: int
    """Moments at which anything happened."""

    @property
    def completion_s(self) -> Floats:
        """Coflow completion times: c."""
        return self.finish_s - self.arrival_s

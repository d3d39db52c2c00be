"""Small disturbances: how far a run's course hangs on what no emulation controls is seen by disturbing a simulation of it.

Under strict orders the smallest delay may decide which of two flows goes first, and what follows differs from then on. Two
runs are then two draws of the same experiment. Members of an ensemble of simulations are such draws: they differ in nothing
but disturbances that are too small to matter by themselves.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

from echelonflow.errors import InputError
from echelonflow.model.flow_key import FlowKey

DISTURBED_S = 1e-4
"""Far less than emulation controls: sleeps end by 0.1 to 2 ms late, on a machine that does nothing else."""
_DRAW_BYTES = 8


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Every computation is longer or shorter by a draw, uniform within `most_s` either way; no draw is longer than the computation.

    So the mean of all draws is 0, and none takes less than no time. A draw depends on the `member` of the ensemble, the job, the iteration and the step, and on
    nothing else. Members of the same number are disturbed alike, whatever else is simulated. What jobs draw themselves, by
    the repeat of a run, stays as it is. Raises InputError for values out of range.
    """

    member: int
    most_s: float = DISTURBED_S

    def __post_init__(self) -> None:
        if self.member < 0:
            raise InputError(f"member {self.member} of an ensemble: they are counted from 0")
        if not (self.most_s >= 0 and math.isfinite(self.most_s)):
            raise InputError(f"disturbances of {self.most_s} s: they are finite and not negative")

    def of(self, key: FlowKey, duration_s: float) -> float:
        """How long the computation `key`, as (job, iteration, step), takes, which would take `duration_s`."""
        job, iteration, step = key
        drawn = hashlib.blake2b(f"{self.member}/{iteration}/{job}/{step}".encode(), digest_size=_DRAW_BYTES).digest()
        place = (int.from_bytes(drawn, "big") // 2048 + 0.5) / (1 << 8 * _DRAW_BYTES - 11)
        return duration_s + (2 * place - 1) * min(self.most_s, duration_s)

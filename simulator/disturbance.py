"""Small disturbances: how far a run's course hangs on what no emulation controls is seen by disturbing a simulation of it.

Under strict orders the smallest delay may decide which of two flows goes first, and what follows differs from then on. Two
runs are then two draws of the same experiment. Members of an ensemble of simulations are such draws: they differ in nothing
but disturbances that are too small to matter by themselves.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from echelonflow.errors import InputError
from echelonflow.model.flow_key import FlowKey

DISTURBED_SHARE = 0.005
"""Of runs on packets nobody tells less from nothing: so much of an iteration is unexplained in the median of valid ones. Twice
as much scatters iterations no further. 0.1 ms of each computation is too little: all members then take one course, which links
that are 1 % slower change for all of them. That difference is chance, and would count as an effect of links."""
_DRAW_BYTES = 8


@dataclass(frozen=True, slots=True)
class Disturbance:
    """Every computation and every transfer over the network takes more or less by a draw, uniform within a `share` of it.

    So the mean of all draws is 0. A draw depends on the `member` of the ensemble, the job, the iteration and the step, and
    on nothing else. Members of the same number are disturbed alike, whatever else is simulated. What jobs draw themselves,
    by the repeat of a run, stays as it is. Raises InputError for values out of range.
    """

    member: int
    share: float = DISTURBED_SHARE

    def __post_init__(self) -> None:
        if self.member < 0:
            raise InputError(f"member {self.member} of an ensemble: they are counted from 0")
        if not 0 <= self.share < 1:
            raise InputError(f"disturbances by {self.share}: a share of what is disturbed lies in 0 to 1")

    def of(self, key: FlowKey, amount: float) -> float:
        """What becomes of the seconds of a computation, or the bytes of a transfer, called (job, iteration, step)."""
        job, iteration, step = key
        drawn = hashlib.blake2b(f"{self.member}/{iteration}/{job}/{step}".encode(), digest_size=_DRAW_BYTES).digest()
        place = (int.from_bytes(drawn, "big") // 2048 + 0.5) / (1 << 8 * _DRAW_BYTES - 11)
        return amount * (1 + (2 * place - 1) * self.share)

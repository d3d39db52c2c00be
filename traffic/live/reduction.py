"""How values of several ranks become one: torch's arithmetic, in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.distributed import ReduceOp

from echelonflow.errors import InputError

_IN_PLACE: dict[Any, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    ReduceOp.SUM: lambda ours, theirs: torch.add(ours, theirs, out=ours),
    ReduceOp.AVG: lambda ours, theirs: torch.add(ours, theirs, out=ours),
    ReduceOp.PRODUCT: lambda ours, theirs: torch.mul(ours, theirs, out=ours),
    ReduceOp.MAX: lambda ours, theirs: torch.maximum(ours, theirs, out=ours),
    ReduceOp.MIN: lambda ours, theirs: torch.minimum(ours, theirs, out=ours),
    ReduceOp.BAND: lambda ours, theirs: torch.bitwise_and(ours, theirs, out=ours),
    ReduceOp.BOR: lambda ours, theirs: torch.bitwise_or(ours, theirs, out=ours),
    ReduceOp.BXOR: lambda ours, theirs: torch.bitwise_xor(ours, theirs, out=ours),
}
_OF_WHOLE_NUMBERS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


class Reduction:
    """One of torch's reductions over tensors of `dtype` (InputError for one that such numbers do not have)."""

    def __init__(self, operation: Any, dtype: torch.dtype) -> None:
        kind = getattr(operation, "op", operation)
        kind = next((known for known in _IN_PLACE if known == kind), None)
        if kind is None:
            raise InputError(
                f"the backend echelon has no reduction {operation}; there is: SUM, AVG, PRODUCT, MAX, MIN, BAND, BOR, BXOR"
            )
        whole = not (dtype.is_floating_point or dtype.is_complex)
        if kind in _OF_WHOLE_NUMBERS and not whole:
            raise InputError(f"{kind} is for whole numbers; these are {dtype}")
        if kind == ReduceOp.AVG and whole:
            raise InputError(f"an average of {dtype} is no whole number; use SUM, or convert to floating point")
        if dtype.is_complex and kind in (ReduceOp.MAX, ReduceOp.MIN):
            raise InputError(f"complex numbers have no {kind}")
        self._in_place = _IN_PLACE[kind]
        self._is_average = kind == ReduceOp.AVG

    def combine(self, ours: torch.Tensor, theirs: torch.Tensor) -> None:
        """Put what another rank has into `ours`, element by element."""
        self._in_place(ours, theirs)

    def finish(self, ours: torch.Tensor, ranks: int) -> None:
        """`ours` has what all `ranks` have: what is left to be done with it."""
        if self._is_average:
            ours.div_(ranks)

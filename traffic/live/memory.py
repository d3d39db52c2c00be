"""A tensor's memory as bytes, without a copy; and what stands in for tensors whose elements do not lie side by side."""

from __future__ import annotations

import torch


def is_flat(tensor: torch.Tensor) -> bool:
    """Whether the elements lie side by side, in order: its memory can be sent and filled as it is."""
    return bool(tensor.is_contiguous())


def flat(tensor: torch.Tensor) -> torch.Tensor:
    """One dimension over the same memory, or over a copy where elements do not lie side by side."""
    return tensor.detach().reshape(-1)


def as_bytes(tensor: torch.Tensor) -> memoryview:
    """The memory of a flat tensor of one dimension, to be read and written."""
    if not tensor.numel():
        return memoryview(b"")
    view: memoryview = tensor.view(torch.uint8).numpy().data
    return view


def split(elements: int, parts: int) -> list[tuple[int, int]]:
    """`elements` in `parts` that differ by at most one: where each begins and ends."""
    return [(elements * part // parts, elements * (part + 1) // parts) for part in range(parts)]

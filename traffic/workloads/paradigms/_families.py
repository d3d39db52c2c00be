"""Families of paradigms, by which docs/workloads.md sorts them, and what is common to each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """A chapter of the page: its heading and what all its paradigms have in common (may be empty)."""

    heading: str
    words: str = ""


PIPELINES = Family(
    "Pipelines",
    "A stage is a contiguous part of the model on one rank. Each micro-batch's activations go to the next stage; in training "
    "each one's gradient comes back. A transfer starts when the stage has computed the micro-batch, and is needed when the "
    "neighbour turns to it.",
)
REPLICAS = Family(
    "Replicas",
    "Every rank holds the model and computes its own samples. What differs is who holds gradients, weights and the "
    "optimiser's state.",
)
SPLIT_LAYERS = Family("Split layers")
COMBINED = Family("All three")
OTHERS = Family("Others")
"""Of a paradigm that names none."""
IN_ORDER = (PIPELINES, REPLICAS, SPLIT_LAYERS, COMBINED, OTHERS)

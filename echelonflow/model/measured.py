"""What one run measured of all that keeps it from being ideal, cause by cause: what a simulation repeats it with.

Pure data, in seconds and payload bytes per second. Steps are named by (job, iteration, step). What is not in a mapping
was on time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from echelonflow.model.flow_key import FlowKey


class Decided(NamedTuple):
    """What held for all flows in flight from a decision on."""

    time_s: float
    flows: Mapping[FlowKey, tuple[int | None, float]]
    """Class, counted from 0, the first one that carries data, or None for a flow that was to wait; and rate in bytes/s, infinite where it was not paced."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How long it took from an event to what was decided on it, and from one end of a flow to the other's next step."""

    first_s: Mapping[FlowKey, float] = field(default_factory=dict)
    """From a flow's release until its first setting was in force."""
    change_s: Mapping[FlowKey, float] = field(default_factory=dict)
    """From what changes a flow's setting in mid-flight until the change was in force."""
    usual_first_s: float = 0.0
    """For flows that are not in `first_s`, and `usual_change_s` for those that are not in `change_s`."""
    usual_change_s: float = 0.0
    arrival_s: Mapping[FlowKey, float] = field(default_factory=dict)
    """From a flow's last byte on the wire until its receiver went on."""
    acknowledged_s: Mapping[FlowKey, float] = field(default_factory=dict)
    """From a flow's last byte on the wire until its sender went on."""
    decided: Mapping[frozenset[FlowKey], Sequence[Decided]] = field(default_factory=dict)
    """What was decided while just these flows were in flight, in order. An order may hang on milliseconds, which no
    simulation repeats: where one comes to the same flows, or to some of them, it goes by what was decided (`simulator/decided.py`). It asks the policy elsewhere."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Causes, each of which may be left out."""

    late_s: Mapping[FlowKey, float] = field(default_factory=dict)
    """How much later than it was due a computation ended. What its host computes next does not begin later for that."""
    release_s: Mapping[FlowKey, float] = field(default_factory=dict)
    """How much later than what it waits for had ended a flow was released: its host had not noticed yet."""
    settings: Settings | None = None
    """None where every setting is in force at once."""
    carried_Bps: tuple[float, ...] | None = None
    """What each link carried, in the order of the network's links; None for what they declare."""
    acknowledgement_share: float = 0.0
    """Bytes of acknowledgements that went back for each byte of data: links carry them before the data of others."""
    took_s: Mapping[FlowKey, float] = field(default_factory=dict)
    """How long computations took where that is what they take, and no lateness: those of training programs whose computation is measured."""
    held_s: Mapping[FlowKey, float] | None = None
    """By job, iteration and host: when iterations began there that were held back; others were not. None where the policy is to say so."""

    @property
    def ideal(self) -> Measured:
        """The same run without any cause: computations still take what they take in it."""
        return Measured(took_s=self.took_s)

    @property
    def on_time(self) -> Measured:
        """The same run, had no computation been late."""
        return dataclasses.replace(self, late_s={}, release_s={})

    @property
    def obeys_at_once(self) -> bool:
        """Whether decided rates are simply in force: nothing is late but computations, and data has links for itself."""
        return self.settings is None and self.carried_Bps is None and self.acknowledgement_share == 0

    def without(self, *, settings: bool = False, acknowledgements: bool = False, links: bool = False) -> Measured:
        """The same, with some causes left out."""
        return dataclasses.replace(
            self,
            settings=None if settings else self.settings,
            carried_Bps=None if links else self.carried_Bps,
            acknowledgement_share=0.0 if acknowledgements else self.acknowledgement_share,
        )

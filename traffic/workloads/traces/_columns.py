"""Collects Coflows, line by line, into the columns of a trace."""

from __future__ import annotations

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.coflow_trace import CoflowTrace
from traffic.workloads.traces._lines import Line, Lines

MAX_PORTS = 1_000_000
MAX_FLOWS = 20_000_000
"""More would not fit into the memory of an ordinary machine (36 bytes each, twice)."""
MAX_MB = 1e12
"""Of a flow, or a reducer: more would take a link of 1 Tbit/s three months."""
MEGABYTE_BYTES = 1 << 20
"""What both formats mean by MB: CoflowSim computes so."""


class Columns:
    """The trace under construction. Methods raise InputError naming the line that is at fault."""

    def __init__(self, lines: Lines) -> None:
        head = lines.first("the number of ports and the number of Coflows")
        self.ports = head.whole("the number of ports", least=1, most=MAX_PORTS)
        self._promised = head.whole("the number of Coflows", least=1)
        head.end("the number of Coflows")
        self._lines = lines
        self._head = head.number
        self._line_of: dict[int, int] = {}
        """Where each id stands."""
        self._arrival_s: list[float] = []
        self._src: list[Ints] = []
        self._dst: list[Ints] = []
        self._size_bytes: list[Floats] = []
        self._flows = 0

    def begin(self, line: Line) -> None:
        """Take a Coflow's id and arrival in milliseconds from the left of its line."""
        if len(self._line_of) == self._promised:
            raise line.fault(f"is one Coflow more than the {self._promised} that line {self._head} announces")
        coflow_id = line.whole("the id of a Coflow")
        if coflow_id in self._line_of:
            raise line.fault(f"Coflow {coflow_id} stands on line {self._line_of[coflow_id]} already; ids are unique")
        arrival_ms = line.number_of("the arrival in milliseconds")
        if arrival_ms < 0:
            raise line.fault(f"Coflow {coflow_id} arrives at {arrival_ms:g} ms; expected 0 or later")
        self._line_of[coflow_id] = line.number
        self._arrival_s.append(arrival_ms / 1e3)

    def port(self, line: Line, text: str, what: str) -> int:
        """`text`, part of `line`, as a port of this trace."""
        return line.as_whole(text, what, 0, self.ports - 1)

    def size_MB(self, line: Line, text: str, what: str) -> float:
        """`text`, part of `line`, as a positive number of megabytes."""
        size = line.as_number(text, what)
        if not size > 0:
            raise line.fault(f"{what} is {size:g} MB; expected more than 0")
        if size > MAX_MB:
            raise line.fault(f"{what} is {size:g} MB; expected at most {MAX_MB:g}")
        return size

    def expect_flows(self, line: Line, flows: int) -> None:
        """Refuse a line that will bring too many flows, before anything is made of it."""
        if self._flows + flows > MAX_FLOWS:
            raise line.fault(f"brings the trace to {self._flows + flows} flows; at most {MAX_FLOWS} are read")

    def flows(self, src: Ints, dst: Ints, size_bytes: Floats) -> None:
        """The flows of the Coflow that was begun last."""
        self._flows += len(src)
        self._src.append(src)
        self._dst.append(dst)
        self._size_bytes.append(size_bytes)

    def trace(self) -> CoflowTrace:
        """What was collected; InputError if there are fewer Coflows than announced."""
        found = len(self._line_of)
        if found != self._promised:
            raise self._lines.fault(
                f"the file ends after {found} Coflows; line {self._head} announces {self._promised}"
            )
        width = [len(src) for src in self._src]
        return CoflowTrace(
            coflow_id=np.fromiter(self._line_of, np.int64, found),
            arrival_s=np.array(self._arrival_s, np.float64),
            coflow=np.repeat(np.arange(found), width),
            src=np.concatenate(self._src),
            dst=np.concatenate(self._dst),
            size_bytes=np.concatenate(self._size_bytes),
            name=str(self._lines.path),
        )

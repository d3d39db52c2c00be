"""The format of Sincronia's implementation: every flow of a Coflow with its own size.

    <ports> <Coflows>
    <id> <arrival ms> <flows> <sources> <destinations> (<source> <destination> <MB>)...

Ports count from 0. Source: the README of the sincronia-coflow/implementation repository. Its generator moves flows from
a port to itself to another destination after having counted. So in a quarter of the lines of its own traces the sources
and destinations are not as many as the line says. These two counts are read and not relied on.
"""

from __future__ import annotations

import numpy as np

from echelonflow.model.coflow_trace import CoflowTrace
from traffic.workloads.traces._columns import MEGABYTE_BYTES, Columns
from traffic.workloads.traces._lines import Lines


def read(lines: Lines, *, megabyte_bytes: int = MEGABYTE_BYTES) -> CoflowTrace:
    """The trace in `lines`, sizes in bytes (`megabyte_bytes` to the MB), arrivals in seconds.

    Raises InputError naming the line at fault: a number that is none, a port out of range, an arrival before 0. Also a
    size that is not positive, a Coflow without flows, a number of flows that does not match.
    """
    columns = Columns(lines)
    for line in lines:
        columns.begin(line)
        count = line.whole("the number of flows", least=1)
        line.whole("the number of sources", least=1)
        line.whole("the number of destinations", least=1)
        columns.expect_flows(line, count)
        src, dst, size_MB = [], [], []
        for i in range(count):
            what = f"of flow {i + 1} of {count}"
            src.append(columns.port(line, line.text(f"the source {what}"), f"the source {what}"))
            dst.append(columns.port(line, line.text(f"the destination {what}"), f"the destination {what}"))
            size_MB.append(columns.size_MB(line, line.text(f"the size {what}"), f"the size {what}"))
        line.end(f"{count} flows")
        columns.flows(np.array(src, np.int64), np.array(dst, np.int64), np.array(size_MB) * megabyte_bytes)
    return columns.trace()

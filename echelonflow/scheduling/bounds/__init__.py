"""Yardsticks: what no scheduler can beat, so that a policy's result can be read as a distance.

`FlowSet` holds flows whose releases are known, `one_group` the exact optimum of one group. `several` bounds the
weighted sum of tardiness of several groups, `iterations` the iteration times of whole jobs, and `pace` those of jobs that
go on together for long. Linear programs are solved by HiGHS through scipy, which is loaded when the first one is.
"""

from __future__ import annotations

from echelonflow.scheduling.bounds.flow_set import FlowSet, of_jobs, of_snapshot
from echelonflow.scheduling.bounds.iterations import IterationBound, iteration_bound
from echelonflow.scheduling.bounds.one_group import exact_tardiness_s
from echelonflow.scheduling.bounds.pace import PaceBound, pace_bound
from echelonflow.scheduling.bounds.several import SumBound, sum_of_tardiness

__all__ = [
    "FlowSet",
    "IterationBound",
    "PaceBound",
    "SumBound",
    "exact_tardiness_s",
    "iteration_bound",
    "of_jobs",
    "of_snapshot",
    "pace_bound",
    "sum_of_tardiness",
]

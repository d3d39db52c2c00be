"""The columns that readers of trace formats make; they live in the core, because the simulator runs them."""

from echelonflow.coflow_trace import CoflowTrace

__all__ = ["CoflowTrace"]

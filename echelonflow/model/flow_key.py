"""What names one iteration of a flow, everywhere."""

from __future__ import annotations

FlowKey = tuple[str, int, str]
"""(job, iteration, flow)."""

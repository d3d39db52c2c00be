"""Traffic classes and the DSCP of each.

Class 0 is the top class and carries acknowledgements and control alone (they starve in any other);
classes 1 .. 7 carry data, 1 first. DSCPs are the class selectors of RFC 2474, so that any switch that honours them
agrees with ours. Class c is CS(7 - c), and unmarked traffic (DSCP 0) is class 7.
"""

from __future__ import annotations

CLASSES = 8
CONTROL_CLASS = 0
DATA_CLASSES = tuple(range(1, CLASSES))
DEFAULT_CLASS = CLASSES - 1
FLOW_QUEUES = 32
"""Queues of a data class, which take turns; a power of two. Flows whose source ports are equal modulo this share one."""


def dscp_of_class(traffic_class: int) -> int:
    """The six-bit DSCP that marks `traffic_class` (0 .. 7)."""
    return (CLASSES - 1 - traffic_class) << 3


def class_of_dscp(dscp: int) -> int:
    """The class of a packet marked `dscp`: its class selector, lower bits ignored."""
    return CLASSES - 1 - (dscp >> 3)

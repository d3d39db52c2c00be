"""Ways to fold an order of flows into few classes, one file each (`echelonflow.scheduling.folding` names and loads them).

A module has a docstring, which is its section in docs/few-queues.md, and

- `fold(snapshot, allocation, in_force, classes, *, option=default, ...) -> Folding`. `in_force` are the n classes that
  flows have now (UNDECIDED: none). `classes` are those that there are, the first one served first. It is pure.

`HOLDS_BACK = True` where it may hold flows back at their senders. All others only mark, and tests hold them to two promises. In no
queue is a flow of a higher rank in a class before one of a lower rank. Where classes suffice, each rank has its own.
"""

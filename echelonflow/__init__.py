"""The pure core: what a job, a flow, an EchelonFlow and an allocation are, and how policies decide.

Nothing here imports another package of this project. What models and decides does no input or output. Files are for `records` and
`files`, sockets for `wire`, and `own_policy` gives a user's policy file a process of its own.
The package itself imports nothing, so that agents (which start once per emulated host) can use
`dag`, `messages` and `classes` without paying for numpy.
"""

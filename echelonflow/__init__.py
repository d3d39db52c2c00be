"""The pure core: what a job, a flow, an EchelonFlow and an allocation are, and how policies decide.

Nothing here does input or output, and nothing here imports another package of this project.
The package itself imports nothing, so that agents (which start once per emulated host) can use
`dag`, `messages` and `classes` without paying for numpy.
"""

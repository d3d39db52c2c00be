"""A paradigm, a policy, a topology, a placement and a format that are not shipped: what a user would add.

`tests/unit/test_adding_one_file.py` adds each to a copy of the tree and runs the tests that find it.
"""

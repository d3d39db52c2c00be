"""Generators of what `docs/` shows: pictures of policies and workloads."""

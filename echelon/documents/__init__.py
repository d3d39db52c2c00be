"""Makers of what `docs/` shows of the code: sections, tables and pictures; `python -m echelon.documents` runs them all."""

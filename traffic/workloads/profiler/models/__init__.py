"""Families of models, one file each, found by name: `MODELS` maps the names that `echelon profile` takes to models."""

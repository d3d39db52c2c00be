"""Experiment files, the runner that carries them out, and the command line."""

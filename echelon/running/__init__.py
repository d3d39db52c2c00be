"""Carries out an experiment: prediction, emulation in a private world, analysis."""

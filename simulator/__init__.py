"""Fluid (flow-level) simulation of training jobs on a network, driven by the same policies as the controller."""

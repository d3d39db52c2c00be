"""Measures a model's layers with PyTorch: forward, backward and optimiser time, parameters, gradients, activations.

Models are built from their configuration with random weights; nothing is downloaded. To add a family of models, add a
file to `models/`. Layers are run in sequence as one training step (`step.py`), cut at every boundary as pipeline
stages are. PyTorch is behind one seam (`torch_device.py`), so that everything else can be tested without it.
"""

from __future__ import annotations

from traffic.workloads.profiler.measuring import measure, measure_on, model_names
from traffic.workloads.profiler.quiet import DISTURBED_SHARE

__all__ = ["DISTURBED_SHARE", "measure", "measure_on", "model_names"]

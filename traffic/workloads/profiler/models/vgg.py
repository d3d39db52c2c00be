"""VGG-16 (Simonyan and Zisserman 2015, configuration D): 13 convolutions and 3 full layers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from traffic.workloads.profiler.built import BuiltModel, Model, Wanted
from traffic.workloads.profiler.models._vision import CLASSES, classifier, draw_images, layer
from traffic.workloads.profiler.torch_device import require

STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""Convolutions and their width; each stage ends with max pooling by two."""

FULL = 4096
POOLED = 7


def _build(wanted: Wanted) -> BuiltModel:
    nn = require("torch").nn
    inside, layers = 3, []
    for stage, (convolutions, width) in enumerate(STAGES, start=1):
        for index in range(1, convolutions + 1):
            pool = [nn.MaxPool2d(2)] if index == convolutions else []
            modules = [nn.Conv2d(inside, width, 3, padding=1), nn.ReLU(), *pool]
            layers.append(layer(wanted, f"conv{stage}_{index}", "convolution", *modules))
            inside = width
    # Pooled to 7 x 7, so that images of any size meet full layers of the published one.
    first = [nn.AdaptiveAvgPool2d(POOLED), nn.Flatten(), nn.Linear(inside * POOLED**2, FULL)]
    layers.append(layer(wanted, "full6", "full", *first, nn.ReLU(), nn.Dropout()))
    layers.append(layer(wanted, "full7", "full", nn.Linear(FULL, FULL), nn.ReLU(), nn.Dropout()))
    layers.append(classifier(wanted, "full8", nn.Linear(FULL, CLASSES)))
    return BuiltModel(layers, draw_images(wanted))


MODELS: Mapping[str, Model] = MappingProxyType(
    {"vgg16": Model("VGG-16", "pixels", usual=224, least=32, most=None, optimizer="SGD", build=_build)}
)

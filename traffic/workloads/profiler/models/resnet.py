"""ResNet-50 (He et al. 2016, table 1), with the stride in the 3 × 3 convolution, as it is trained today ("v1.5")."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from traffic.workloads.profiler.built import BuiltModel, Model, ModelLayer, Wanted
from traffic.workloads.profiler.models._vision import CLASSES, classifier, draw_images, layer
from traffic.workloads.profiler.torch_device import require

STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""Blocks and inner width of the four stages; a block's output is four times as wide."""

EXPANSION = 4


def _convolution(inside: int, outside: int, kernel: int, stride: int = 1) -> list[Any]:
    """A convolution and its batch normalisation."""
    nn = require("torch").nn
    return [
        nn.Conv2d(inside, outside, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(outside),
    ]


def _bottleneck(wanted: Wanted, name: str, inside: int, width: int, stride: int) -> ModelLayer:
    torch = require("torch")
    relu = torch.nn.ReLU
    outside = EXPANSION * width
    branch = layer(
        wanted, name, "bottleneck",
        *_convolution(inside, width, 1), relu(),
        *_convolution(width, width, 3, stride), relu(),
        *_convolution(width, outside, 1),
    )  # fmt: skip
    same = inside == outside and stride == 1
    shortcut = None if same else layer(wanted, name, "shortcut", *_convolution(inside, outside, 1, stride))

    def run(images: Any, labels: Any) -> Any:
        past = images if shortcut is None else shortcut.run(images, labels)
        return torch.nn.functional.relu(branch.run(images, labels) + past)

    return ModelLayer(name, "bottleneck", [*branch.parameters, *(shortcut.parameters if shortcut else ())], run)


def _build(wanted: Wanted) -> BuiltModel:
    nn = require("torch").nn
    inside = 64
    layers = [
        layer(wanted, "stem", "stem", *_convolution(3, inside, 7, 2), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1))
    ]
    for stage, (blocks, width) in enumerate(STAGES, start=2):  # the paper calls the stem conv1, the stages conv2_x ...
        for index in range(blocks):
            stride = 2 if stage > 2 and index == 0 else 1
            layers.append(_bottleneck(wanted, f"conv{stage}_{index + 1}", inside, width, stride))
            inside = EXPANSION * width
    layers.append(classifier(wanted, "head", nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inside, CLASSES)))
    return BuiltModel(layers, draw_images(wanted))


MODELS: Mapping[str, Model] = MappingProxyType(
    {"resnet50": Model("ResNet-50", "pixels", usual=224, least=33, most=None, optimizer="SGD", build=_build)}
)

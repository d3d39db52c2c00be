"""What every rank of a job sends in an iteration by textbook formula, without making the job.

From the job's entry in an experiment file and its profile alone: the second source for the bytes of `traffic/workloads/paradigms`.
Formulas are those of Thakur et al. (2005) for collectives and of the papers that the paradigms name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from echelon.experiment.jobs import find_profile
from echelonflow.errors import InputError
from traffic.workloads import profile as profiles
from traffic.workloads.profile import Layer, Profile

EXPERT_SHARE = 2 / 3


@dataclass(frozen=True)
class _Model:
    """What the formulas need of a profile: a sequence of blocks between an embedding and a head."""

    profile: Profile

    @property
    def parameter_bytes(self) -> int:
        return sum(layer.parameter_bytes for layer in self.profile.layers)

    @property
    def blocks(self) -> list[Layer]:
        return [layer for layer in self.profile.layers if layer.kind == "block"]

    @property
    def hidden_bytes(self) -> int:
        """What every layer but the last hands on."""
        sizes = {layer.activation_bytes for layer in self.profile.layers[:-1]}
        if len(sizes) != 1:
            raise InputError(f"{self.profile.model}: outputs of layers differ; the formulas are of equal ones")
        return sizes.pop()


def sent_bytes(spec: Mapping[str, Any]) -> list[float]:
    """Payload bytes that each rank sends per iteration, for a job's entry in an experiment file (scaling included).

    Raises InputError for a paradigm without a formula here, and a model whose layers' outputs differ in size.
    """
    formula = _FORMULAS.get(spec["paradigm"])
    if formula is None:
        raise InputError(f"paradigm {spec['paradigm']}: no closed form; there is one for {', '.join(_FORMULAS)}")
    model = _Model(profiles.read(find_profile(spec["profile"])))
    scaling = spec.get("scaling", {"time": 1.0, "bandwidth": 1.0})
    return [size * scaling["time"] / scaling["bandwidth"] for size in formula(model, spec)]


def _data_parallel(model: _Model, spec: Mapping[str, Any]) -> Sequence[float]:
    """Ring all-reduce: 2 (n - 1) / n of all gradients."""
    n = spec["ranks"]
    return [2 * (n - 1) / n * model.parameter_bytes] * n


def _fsdp(model: _Model, spec: Mapping[str, Any]) -> Sequence[float]:
    """Weights gathered twice, gradients scattered once: 3 (n - 1) / n of the model."""
    n = spec["ranks"]
    return [3 * (n - 1) / n * model.parameter_bytes] * n


def _tensor_parallel(model: _Model, spec: Mapping[str, Any]) -> Sequence[float]:
    """All-reduces of the hidden state: so many a block in either direction, one of the embedding, one of the head."""
    n, a_block = spec["ranks"], spec.get("all_reduces", 2)
    reduces = 2 * a_block * len(model.blocks) + 2
    return [reduces * spec.get("micro_batches", 1) * 2 * (n - 1) / n * model.hidden_bytes] * n


def _parameter_server(model: _Model, spec: Mapping[str, Any]) -> Sequence[float]:
    """Workers push the model to the servers, servers their shard of it to every worker; not to themselves."""
    workers, servers, size_bytes = spec["workers"], spec.get("servers", 1), model.parameter_bytes
    if spec.get("colocated"):
        serves = [1 if rank < servers else 0 for rank in range(workers)]
        return [size_bytes * (1 - s / servers) + s * (workers - 1) * size_bytes / servers for s in serves]
    return [float(size_bytes)] * workers + [workers * size_bytes / servers] * servers


def _pipeline(model: _Model, spec: Mapping[str, Any]) -> Sequence[float]:
    """The hidden state of every micro-batch on from each part but the last, its gradient back from each but the first."""
    ranks, parts = spec["stages"], spec.get("chunks", 1)
    sends = [parts - (rank == ranks - 1) + parts - (rank == 0) for rank in range(ranks)]
    return [float(count * spec["micro_batches"] * model.hidden_bytes) for count in sends]


def _expert_parallel(model: _Model, spec: Mapping[str, Any]) -> Sequence[float]:
    """Four all-to-alls a block with experts, (n - 1) / n of the tokens each; gradients of what is no expert by ring."""
    n, every = spec["ranks"], spec.get("expert_every", 2)
    experts = model.blocks[every - 1 :: every]
    tokens = 4 * len(experts) * model.hidden_bytes * spec.get("top_k", 1) * (n - 1) / n
    share = spec.get("expert_share", EXPERT_SHARE)
    dense = model.parameter_bytes - share * sum(block.parameter_bytes for block in experts)
    return [tokens + (2 * (n - 1) / n * dense if spec.get("gradients", True) else 0.0)] * n


def _hybrid(model: _Model, spec: Mapping[str, Any]) -> Sequence[float]:
    """Tensor groups inside a stage, hidden states between stages, gradients of a stage's share between replicas."""
    tensor, data, stages = spec["tensor"], spec["data"], spec["pipeline"]
    if spec.get("chunks", 1) != 1:
        raise InputError("hybrid with chunks: no closed form")
    cut = profiles.split_into_stages(model.profile, stages)
    kinds = {layer.name: layer.kind for layer in model.profile.layers}
    found: list[float] = []
    for stage, layers in enumerate(cut.layers):
        a_block = 2 * spec.get("all_reduces", 2)
        reduces = sum(a_block if kinds[layer] == "block" else 1 for layer in layers)
        inside = reduces * 2 * (tensor - 1) / tensor * model.hidden_bytes
        between = ((stage < stages - 1) + (stage > 0)) * model.hidden_bytes
        outside = 2 * (data - 1) / data * cut.parameter_bytes[stage] / tensor
        found += [spec["micro_batches"] * (inside + between) + outside] * (tensor * data)
    return found


_FORMULAS: Mapping[str, Callable[[_Model, Mapping[str, Any]], Sequence[float]]] = MappingProxyType(
    {
        "data-parallel": _data_parallel,
        "zero": _data_parallel,  # a reduce-scatter and an all-gather instead of the all-reduce that they make up
        "fsdp": _fsdp,
        "tensor-parallel": _tensor_parallel,
        "parameter-server": _parameter_server,
        "gpipe": _pipeline,
        "pipeline-1f1b": _pipeline,
        "interleaved-1f1b": _pipeline,
        "pipedream": _pipeline,
        "expert-parallel": _expert_parallel,
        "hybrid": _hybrid,
    }
)

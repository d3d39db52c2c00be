"""Jobs of every paradigm to try: its example, the same with each option changed, and some made by hand.

A new paradigm needs no entry here: its `EXAMPLE` and its signature are enough.
"""

from __future__ import annotations

import typing
from collections import Counter, deque
from collections.abc import Iterator

from echelon.experiment.jobs import find_profile
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Job, JobDag
from echelonflow.model.progress import JobProgress
from echelonflow.options import Option, bind, options_of
from traffic.workloads import paradigms, profile

LINK_Bps = topologies.build("single-switch", {"hosts": 2, "rate_bps": 80e3}).capacity_Bps[0]
"""What "of link" means in examples; slow, so that sizes are small and quickly simulated."""
LAYERS = {"layers": 5, "forward_s": 1.0, "backward_s": 2.0, "update_s": 0.5}
STAGES = {
    "stages": 4,
    "micro_batches": 8,
    "forward_s": 1.0,
    "backward_s": 2.0,
    "activation_bytes": 1000,
    "update_s": 0.5,
}
UNEQUAL = {
    "forward_s": [1.0, 0.5, 2.0, 1.5, 0.25],
    "backward_s": [2.0, 1.5, 3.0, 0.5, 1.0],
    "update_s": 0.3,
    "layers": 5,
}
HAND_MADE = {
    "data-parallel": {"ranks": 4, "parameter_bytes": 1000, "bucket_bytes": 1500, **LAYERS},
    "data-parallel, tree": {"ranks": 5, "parameter_bytes": 900, "micro_batches": 2, "algorithm": "tree", **UNEQUAL},
    "data-parallel, serial": {"ranks": 3, "parameter_bytes": 900, "bucket_bytes": 1, "serial": True, **UNEQUAL},
    "parameter-server": {"workers": 3, "parameter_bytes": 1000, "bucket_bytes": 1500, **LAYERS},
    "parameter-server, sharded": {"workers": 3, "servers": 2, "parameter_bytes": 1000, "bucket_bytes": 1500, **UNEQUAL},
    "parameter-server, beside": {
        "workers": 3, "servers": 2, "colocated": True, "parameter_bytes": [0, 7, 1000, 0, 9], "bucket_bytes": 1, **LAYERS,
    },
    "gpipe": STAGES,
    "pipeline": {"stages": 3, "micro_batches": 4, "forward_s": 1.0, "activation_bytes": 1000},
    "pipeline-1f1b": STAGES,
    "interleaved-1f1b": {"chunks": 2, **STAGES},
    "interleaved-1f1b, one bunch": {"chunks": 3, **STAGES, "micro_batches": 4},
    "pipedream": STAGES,
    "pipedream, 2bw": {**STAGES, "updates": "iteration", "micro_batches": 2},
    "tensor-parallel": {"ranks": 4, "activation_bytes": 1000, **LAYERS},
    "tensor-parallel, halving": {
        "ranks": 4, "activation_bytes": 1000, "all_reduces": 1, "micro_batches": 2, "algorithm": "halving-doubling", **UNEQUAL,
    },
    "fsdp": {"ranks": 4, "parameter_bytes": 1000, **LAYERS},
    "fsdp, eq7": {"ranks": 3, "parameter_bytes": [9, 8, 7, 0, 5], "arrangement": "eq7", "window": 4, **UNEQUAL},
    "zero": {"ranks": 4, "parameter_bytes": 1000, "bucket_bytes": 1500, **LAYERS},
    "zero, 1": {"ranks": 4, "parameter_bytes": 1000, "bucket_bytes": 1500, "stage": 1, **UNEQUAL},
    "expert-parallel": {"ranks": 4, "dispatch_bytes": 1000, "parameter_bytes": 1000, "expert_every": 2, **LAYERS},
    "expert-parallel, all": {"ranks": 3, "dispatch_bytes": 900, **UNEQUAL},
    "hybrid": {
        "tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 4, "activation_bytes": 1000, "parameter_bytes": 5000,
        "bucket_bytes": 6000, **UNEQUAL,
    },
    "hybrid, interleaved": {
        "tensor": 1, "pipeline": 2, "data": 3, "micro_batches": 4, "activation_bytes": 1000, "parameter_bytes": 5000,
        "schedule": "interleaved", "chunks": 2, **LAYERS,
    },
}  # fmt: skip
"""What an example does not show: values that differ from layer to layer, and options that only go together."""
MEASURED = profile.read(find_profile("gpt2-small-cpu"))
_MOST_VALUES = 12


def example(name: str) -> dict[str, typing.Any]:
    """The example of a paradigm, as its `build` takes it."""
    module = paradigms.load(name)
    return bind(module.build, module.EXAMPLE, link_Bps=LINK_Bps)


CASES = {**{f"{name}, example": example(name) for name in paradigms.names()}, **HAND_MADE}


def built(case: str) -> JobDag:
    return paradigms.build(case.partition(",")[0], CASES[case])


def variations(name: str) -> Iterator[tuple[str, dict[str, typing.Any], JobDag | None]]:
    """The example with one option changed at a time; no DAG where the paradigm refuses that."""
    given = example(name)
    for option in options_of(paradigms.load(name).build):
        for value in _other_values(option, given.get(option.parameter, option.default)):
            options = {**given, option.parameter: value}
            try:
                yield option.key, options, paradigms.build(name, options)
            except InputError:
                yield option.key, options, None


def _other_values(option: Option, usual: typing.Any) -> list[typing.Any]:
    if option.words:
        return [word for word in option.words if word != usual]
    if bool in option.kinds:
        return [not usual]
    if any(typing.get_origin(kind) is list for kind in option.kinds):
        return [[k + 1 for k in range(count)] for count in range(1, _MOST_VALUES + 1)]
    if isinstance(usual, (int, float)):
        return [usual + 1, usual * 2] if int in option.kinds else [usual / 2]
    return []


def measured_entry(name: str) -> dict[str, typing.Any]:
    """What of the example goes with a profile, as it is written."""
    module = paradigms.load(name)
    there = {option.key for option in options_of(module.from_profile, given=("profile",))}
    return {"profile": "gpt2-small-cpu", **{key: value for key, value in module.EXAMPLE.items() if key in there}}


def placed(dag: JobDag, iterations=3) -> Job:
    """One rank per host."""
    return Job("j", dag, tuple(f"h{rank + 1}" for rank in range(dag.ranks)), iterations)


def sent_bytes(dag: JobDag, kind: str = "") -> Counter:
    """By rank, what it sends in flows whose group is of a kind that begins so."""
    sent = Counter()
    for t in dag.transfers:
        if dag.group_of[t.name].kind.startswith(kind):
            sent[t.src_rank] += t.size_bytes
    return sent


def in_all_iterations(job: Job) -> Counter:
    """How often each step ends if everything takes no time: fewer times than there are iterations, if it is stuck."""
    progress, ended = JobProgress(job), Counter()
    ready = deque(progress.start())
    while ready:
        iteration, name = ready.popleft()
        ended[name] += 1
        ready.extend(progress.finish(iteration, name))
    return ended

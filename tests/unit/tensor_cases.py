"""Small models and settings for tests of job schedulers, and every scheduler with options that fit them."""

from __future__ import annotations

from hypothesis import strategies as st

from traffic.workloads import job_schedulers
from traffic.workloads.tensors import Architecture, Setting, Tensor, TensorModel

RATE_Bps = 1e6
CUT = (
    "bytescheduler(partition=64 B, credit=100 B)",
    "bytescheduler(partition=50 B, credit=60 B, overdraw=false, barrier=true)",
    "bytescheduler(form=faithful)",
    "p3(slice=32 B)",
)
WHOLE = (
    "ddp(bucket=100 B, first=20 B)",
    "ddp(order=registered, bucket=100 B, first=20 B)",
    "dear(bucket=100 B)",
    "dear(layers=2)",
    "fifo(framework=mxnet)",
    "fifo(framework=pytorch)",
    "fifo(framework=tensorflow)",
    "random(seed=7, crosses=true)",
    "tac(form=faithful)",
    "tic(form=faithful)",
)
TEXTS = (*job_schedulers.names(), *CUT, *WHOLE)
"""Every job scheduler as it is, and others of its forms."""
CASES = [(text, architecture) for text in TEXTS for architecture in job_schedulers.load(text).architectures]


def model_of(*sizes: int, forward_s: float = 0.1, backward_s: float = 0.2, update_s: float = 0.05) -> TensorModel:
    """Tensors of `sizes` bytes that take equally long."""
    return TensorModel(tuple(Tensor(f"l{i}", size, forward_s, backward_s, update_s) for i, size in enumerate(sizes)))


def setting_of(architecture: Architecture, workers: int = 4, servers: int = 2, *, colocated: bool = False) -> Setting:
    """`workers` workers, and servers where the architecture has any."""
    if architecture != "parameter-server":
        return Setting(architecture, workers, rate_Bps=RATE_Bps)
    return Setting(architecture, workers, servers, RATE_Bps, colocated)


@st.composite
def models(draw: st.DrawFn) -> TensorModel:
    """One to six tensors; the largest has 100 bytes at least, and none fewer than there are ranks."""
    sizes = draw(st.lists(st.integers(8, 400), min_size=0, max_size=5))
    sizes.insert(draw(st.integers(0, len(sizes))), draw(st.integers(100, 400)))
    seconds = st.floats(0, 1, allow_subnormal=False)
    return TensorModel(
        tuple(Tensor(f"l{i}", size, draw(seconds), draw(seconds), draw(seconds)) for i, size in enumerate(sizes))
    )


@st.composite
def settings_of(draw: st.DrawFn, architecture: Architecture) -> Setting:
    """Up to four workers (a power of two, for halving-doubling), servers of their own or co-located."""
    workers = draw(st.sampled_from([1, 2, 4]))
    colocated = workers > 1 and draw(st.booleans())
    servers = draw(st.integers(1, workers if colocated else 3))
    return setting_of(architecture, workers, servers, colocated=colocated)
